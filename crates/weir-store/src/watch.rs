//! Who is told when something leaves memory: one that is set once, outside of the store. It is called under the queues' lock, so
//! that it must not wait.

use std::fmt::Debug;

use crate::generation::{Generation, Retirement};

/// Who is told.
pub trait Watcher: Debug + Send + Sync {
    /// Whether it wants to be told at all; asked each time.
    fn wants(&self) -> bool;

    /// A generation has left, and why. Must not wait, nor call the store.
    fn left(&self, generation: &Generation, why: Retirement);
}
