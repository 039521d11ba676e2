//! What a reader asks of the volume about a body that is still being written there. It must not wait for a
//! volume that does not keep up.

use std::sync::Arc;

use super::Store;
use crate::body::Piece;
use crate::generation::Generation;
use crate::tier::{Gone, Place, Tier};
use crate::volume::VolumeState;
use crate::volume::Writing;

impl Store {
    /// Whether a generation is still being written to the volume: what is not found of it may be in a moment.
    pub fn is_going_down(&self, generation: &Generation) -> bool {
        self.home_that_keeps_up(generation).is_some_and(|tier| tier.is_going_down(generation))
    }

    /// A wait for more of a generation that is still being written to the volume; none where nothing is.
    pub fn writing(&self, generation: &Generation) -> Option<Writing> {
        self.home_that_keeps_up(generation)?.writing(generation)
    }

    /// What does not keep up is not waited for.
    fn home_that_keeps_up(&self, generation: &Generation) -> Option<Arc<Tier>> {
        let keeps_up = |tier: &Arc<Tier>| !matches!(tier.state(), VolumeState::Slow | VolumeState::Ejected);
        generation.home().filter(keeps_up)
    }

    /// What the volume has by now at `offset` of a body that memory keeps only a window of, as
    /// [`Generation::fetch`].
    ///
    /// # Errors
    /// [`Gone`] where it has nothing there, or not yet.
    ///
    /// # Cancel safety
    /// Safe: nothing was taken.
    pub async fn fetch_below(
        &self,
        generation: &Generation,
        place: &mut Place,
        offset: u64,
        max: usize,
    ) -> Result<Option<Piece>, Gone> {
        if let Some(tier) = generation.home() {
            tier.attach(generation);
        }
        generation.fetch(place, offset, max).await
    }
}
