//! Bodies that have arrived and wait for room in the volume's queue.

use std::collections::VecDeque;
use std::fmt;

use parking_lot::Mutex;

/// The most bodies that wait for room.
const LATE_MAX: usize = 4096;
/// The most of them that stay in memory only because they wait.
const LATE_HOLDING_MAX: usize = 2;

/// A body whose rest waits for room.
pub(crate) trait LateWrite: Send {
    /// Whether the body stays in memory only because it waits.
    fn is_holding(&self) -> bool;

    /// Hands the rest to the volume. Blocks until the volume has taken it, or it is given up.
    fn hand_over(self: Box<Self>);
}

/// Bodies whose rest waits for room, in the order of arrival. One job on the volume's threads hands them
/// over.
#[derive(Default)]
pub(crate) struct LateWrites {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Box<dyn LateWrite>>,
    /// How many of them stay in memory only because they wait.
    holding: usize,
    /// A job is handing them over.
    is_served: bool,
}

impl fmt::Debug for LateWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LateWrites({})", self.queue.lock().waiting.len())
    }
}

impl LateWrites {
    /// Whether no body waits, and none is being handed over.
    pub(crate) fn is_empty(&self) -> bool {
        !self.queue.lock().is_served
    }

    /// Adds a body; `None` where enough wait already.
    pub(crate) fn enter(&self, write: Box<dyn LateWrite>) -> Option<Entered> {
        let mut queue = self.queue.lock();
        let is_holding = write.is_holding();
        if queue.waiting.len() == LATE_MAX || is_holding && queue.holding == LATE_HOLDING_MAX {
            return None;
        }
        queue.holding += usize::from(is_holding);
        queue.waiting.push_back(write);
        let was_served = std::mem::replace(&mut queue.is_served, true);
        Some(if was_served { Entered::Behind } else { Entered::First })
    }

    /// Takes the next body out. Where there is none, no job serves the queue any more.
    pub(crate) fn next(&self) -> Option<Box<dyn LateWrite>> {
        let mut queue = self.queue.lock();
        let next = queue.waiting.pop_front();
        queue.is_served = next.is_some();
        queue.holding -= usize::from(next.as_ref().is_some_and(|write| write.is_holding()));
        next
    }
}

/// Where a body was added.
pub(crate) enum Entered {
    /// Behind others: a job serves the queue already.
    Behind,
    /// First: no job serves the queue yet.
    First,
}
