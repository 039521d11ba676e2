//! What the volume holds of a generation that is in memory as well; and that it is used.

use weir_policy::Intervals;

use super::Tier;
use super::below::{NotResident, Wait};
use crate::generation::Generation;
use crate::volume::key;

impl Tier {
    /// A generation was used that lies on the volume, or came from there.
    pub(crate) fn note_use(&self, generation: &Generation) {
        let key = generation.key();
        self.volume.note_use(key::digest(&key.full, key.site));
    }

    /// The intervals of a generation's body that are held on the volume; `None` where it is not there. Never
    /// waits for the drive: of what does not lie in the page cache all that memory has is taken to be below
    /// as well.
    pub(crate) fn held_below(&self, generation: &Generation) -> Option<Intervals> {
        let object = generation.object();
        if object == 0 {
            return None;
        }
        match self.newest(generation.key(), object, Wait::Never) {
            Ok(record) => record.map(|record| self.volume.held(&record)),
            Err(NotResident) => Some(generation.held()),
        }
    }
}
