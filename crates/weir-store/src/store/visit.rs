//! What a volume had for one request, and memory does not keep.

use std::sync::Arc;

use super::Store;
use crate::generation::{Generation, Retirement};
use crate::inside::Visitor;
use crate::ledger::Judged;

impl Store {
    /// Whether a request may have what was loaded for it: no mark concerns it, and nothing else is known
    /// under its key. Counts as a use. Where it is false, hand it to [`Store::keep`] and look again.
    pub fn visit(&self, visitor: &Visitor) -> bool {
        let generation = visitor.generation();
        let memory = &self.inside.memory;
        let is_alone = memory.index.all(generation.label.key.digest).is_empty();
        let is_received = is_alone && memory.judge(&generation.label) == Judged::Alive;
        if is_received {
            self.note_use(generation);
        }
        is_received
    }

    /// Adds a generation to memory that was loaded for one request, or was evicted since: others are to find
    /// it as well. Where they find the same version by now, returns that, to be used in its place.
    pub fn keep(&self, generation: &Arc<Generation>) -> Option<Arc<Generation>> {
        match generation.retirement() == Some(Retirement::Evicted) && generation.is_whole() {
            true => self.inside.memory.add_loaded(generation),
            false => None,
        }
    }

    /// Counts a use of what was found.
    pub(super) fn note_use(&self, generation: &Arc<Generation>) {
        if !generation.label.note_use() {
            return;
        }
        self.inside.volumes.note_use(generation);
        // The volume hears of a use as rarely as the label does.
        if let Some(home) = generation.home() {
            home.note_use(generation);
        }
    }
}
