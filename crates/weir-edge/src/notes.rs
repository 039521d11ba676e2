//! What is noted of a request, for readers of the log that want all of it and for a client that may see it.

use std::sync::Arc;
use std::time::Instant;

use weir_clock as clock;
use weir_observe::trace::{Extent, Place, STEPS_MAX, Step};
use weir_store::Generation;

use crate::core::Core;
use crate::debug::Shown;

/// What is noted of a request.
pub(crate) struct Notes {
    pub(crate) steps: Vec<(Instant, Step)>,
    pub(crate) left_out: u32,
    /// The stored response that it is answered from.
    pub(crate) generation: Option<Arc<Generation>>,
    /// Whether the response's fields show it.
    pub(crate) shown: Shown,
    /// Whether the cache was asked.
    pub(crate) is_keyed: bool,
}

impl Notes {
    /// Of a request that begins; `None` where nobody wants any.
    #[inline]
    pub(crate) fn begin(core: &Core, shown: Shown) -> Option<Box<Notes>> {
        (core.observer.wants_traces() || shown == Shown::InFields).then(|| Notes::new(shown))
    }

    #[cold]
    fn new(shown: Shown) -> Box<Notes> {
        let steps = Vec::with_capacity(16);
        Box::new(Notes { steps, left_out: 0, generation: None, shown, is_keyed: false })
    }

    /// Notes a step that happens now.
    pub(crate) fn put(&mut self, step: Step) {
        if self.steps.len() < STEPS_MAX {
            self.steps.push((clock::mono(), step));
        } else {
            self.left_out += 1;
        }
    }

    /// What was being stored broke off.
    pub(crate) fn take_back_stored(&mut self) {
        self.steps.retain(|(_, step)| !matches!(step, Step::Stored { .. }));
    }
}

/// Whether what was being stored broke off with a response that was cut for this reason. The fill of a client
/// that is too slow goes on.
pub(crate) fn breaks_fill(cut: &str) -> bool {
    !matches!(cut, "send-stall" | "memory-share" | "read-rate")
}

/// How much of a generation's body there is.
pub(crate) fn extent(generation: &Generation) -> Extent {
    if generation.is_whole() {
        Extent::Whole
    } else if generation.is_part() {
        Extent::Part
    } else {
        Extent::Arriving
    }
}

/// Where a generation's bytes are read from.
pub(crate) fn place(generation: &Generation) -> Place {
    match generation.volume().filter(|_| generation.is_on_disk()) {
        Some(volume) => Place::Volume(volume),
        None => Place::Memory,
    }
}
