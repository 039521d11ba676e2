//! A generation that a reader is sending: it cannot be evicted. It must cost a reader nothing where no task
//! waits for memory.

use std::ops::Deref;
use std::sync::Arc;

use crate::generation::Generation;

/// Keeps a generation from being evicted. Dropped, it wakes a task that waits for memory: what was read can
/// be evicted now.
#[derive(Debug)]
pub struct InUse(Option<Arc<Generation>>);

impl InUse {
    /// From now on.
    pub fn new(generation: Arc<Generation>) -> InUse {
        InUse(Some(generation))
    }
}

impl Deref for InUse {
    type Target = Arc<Generation>;

    fn deref(&self) -> &Arc<Generation> {
        match &self.0 {
            Some(generation) => generation,
            None => unreachable!("it is taken out only while it is dropped"),
        }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let Some(generation) = self.0.take() else { return };
        // A waiter that comes between the look and the drop looks again after a while.
        if let Some(budget) = generation.budget_if_waited_for() {
            drop(generation);
            budget.wake();
        }
    }
}
