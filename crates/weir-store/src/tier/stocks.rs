//! What the volume holds of a generation that is in memory as well; and that it is used.

use weir_policy::Intervals;

use super::{Tier, digest_below};
use crate::generation::Generation;
use crate::volume::Named;

impl Tier {
    /// A generation was used that lies on the volume, or came from there.
    pub(crate) fn note_use(&self, generation: &Generation) {
        let key = generation.key();
        self.volume.note_use(digest_below(&key.full, key.site));
    }

    /// The intervals of a generation's body that are held on the volume; `None` where it is not there. May wait for the drive.
    pub(crate) fn held_below(&self, generation: &Generation) -> Option<Intervals> {
        let (key, object) = (generation.key(), generation.object());
        if object == 0 {
            return None;
        }
        let named = Named { digest: digest_below(&key.full, key.site), object };
        self.volume.records_of(named).first().map(|record| self.volume.held(record))
    }
}
