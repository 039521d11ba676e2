//! What a reader asks about a body that is still being written to a volume. It never waits for a volume that
//! does not keep up.

use std::sync::Arc;

use bytes::Bytes;

use super::Store;
use crate::generation::Generation;
use crate::tier::{Gone, Place, VolumeTier};
use crate::volume::VolumeState;
use crate::volume::Writing;

impl Store {
    /// Whether a generation is still being written to a volume: missing bytes may be there in a moment.
    pub fn is_being_written(&self, generation: &Generation) -> bool {
        self.home_that_keeps_up(generation).is_some_and(|tier| tier.is_being_written(generation))
    }

    /// A wait for more of a generation that is being written to a volume; `None` where it is not.
    pub fn writing(&self, generation: &Generation) -> Option<Writing> {
        self.home_that_keeps_up(generation)?.writing(generation)
    }

    /// The volume of a generation, unless it does not keep up.
    fn home_that_keeps_up(&self, generation: &Generation) -> Option<Arc<VolumeTier>> {
        let keeps_up =
            |tier: &Arc<VolumeTier>| !matches!(tier.state(), VolumeState::Slow | VolumeState::Ejected);
        generation.home().filter(keeps_up)
    }

    /// Reads at `offset` what a volume has by now of a body of which memory keeps only a window. As
    /// [`Generation::fetch`].
    ///
    /// # Errors
    /// [`Gone`] where the volume has nothing there, or not yet.
    ///
    /// # Cancel safety
    /// Safe: nothing was consumed.
    pub async fn fetch_on_disk(
        &self,
        generation: &Generation,
        place: &mut Place,
        offset: u64,
        max: usize,
    ) -> Result<Option<Bytes>, Gone> {
        if let Some(tier) = generation.home() {
            tier.attach(generation);
        }
        generation.fetch(place, offset, max).await
    }
}
