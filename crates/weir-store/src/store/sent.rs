//! What the store hears of the responses that send its bodies.

use std::sync::Arc;

use super::Store;
use crate::generation::{Generation, Way};

impl Store {
    /// Notes that a response sends `sent_bytes` of a whole body. A large one that the kernel could send often
    /// is moved to a file in memory, in the background: see [`Generation::file`].
    pub fn note_sent(&self, generation: &Arc<Generation>, sent_bytes: u64, way: impl FnOnce() -> Way) {
        self.inside.note_sent(generation, sent_bytes, way);
    }
}
