//! Bodies that have arrived and wait for room in the volume's queue.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

/// The most bodies that wait for room.
const LATE_MAX: usize = 4096;
/// How long the job pauses before it offers a rest again.
pub(crate) const LATE_PAUSE: Duration = Duration::from_millis(1);
/// So many offers in a row after which the drive has written nothing end the waiting: a minute or more.
const STALLED_OFFERS_MAX: u32 = 60_000;

/// How often in a row something was offered to a drive that wrote nothing meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    written_bytes: u64,
    offers: u32,
}

impl Stall {
    /// Counts an offer that was not taken. Whether enough were made in vain; so are then all further ones,
    /// until the drive writes again.
    pub(crate) fn is_over(&mut self, written_bytes: u64) -> bool {
        let is_moving = written_bytes != self.written_bytes;
        self.offers = if is_moving { 0 } else { self.offers.saturating_add(1) };
        self.written_bytes = written_bytes;
        self.offers >= STALLED_OFFERS_MAX
    }
}

/// A body whose rest waits for room.
pub(crate) trait LateWrite: Send {
    /// How many bytes stay in memory because it waits.
    fn holding_bytes(&self) -> u64;

    /// Leaves the body to memory, which may evict it. False where memory does not keep it.
    fn release(&mut self) -> bool;

    /// Hands the rest to the volume. Blocks until the volume has taken it, or it is given up.
    fn hand_over(self: Box<Self>, stall: &mut Stall);
}

/// Bodies whose rest waits for room, in the order of arrival. One job on the volume's threads hands them
/// over.
#[derive(Default)]
pub(crate) struct LateWrites {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// With how many bytes stay in memory because of each.
    waiting: VecDeque<(Box<dyn LateWrite>, u64)>,
    /// How many bytes stay in memory because they wait, that of the one that is being handed over included.
    holding_bytes: u64,
    /// Those of the one that is being handed over.
    served_bytes: u64,
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

    /// How many bytes stay in memory because they wait.
    pub(crate) fn holding_bytes(&self) -> u64 {
        self.queue.lock().holding_bytes
    }

    /// Adds a body; `None` where enough wait already. Together they keep `most_bytes` in memory at most, or
    /// one body.
    pub(crate) fn enter(&self, mut write: Box<dyn LateWrite>, most_bytes: u64) -> Option<Entered> {
        let mut queue = self.queue.lock();
        let is_crowded = queue.holding_bytes > 0 && queue.holding_bytes + write.holding_bytes() > most_bytes;
        if queue.waiting.len() == LATE_MAX || is_crowded && !write.release() {
            return None;
        }
        let bytes = write.holding_bytes();
        queue.holding_bytes += bytes;
        queue.waiting.push_back((write, bytes));
        let was_served = std::mem::replace(&mut queue.is_served, true);
        Some(if was_served { Entered::Behind } else { Entered::First })
    }

    /// Takes the next body out; the one before it is handed over, or given up. Where there is none, no job
    /// serves the queue any more.
    pub(crate) fn next(&self) -> Option<Box<dyn LateWrite>> {
        let mut queue = self.queue.lock();
        queue.holding_bytes -= std::mem::take(&mut queue.served_bytes);
        let next = queue.waiting.pop_front();
        queue.is_served = next.is_some();
        let (write, bytes) = next?;
        queue.served_bytes = bytes;
        Some(write)
    }
}

/// Where a body was added.
pub(crate) enum Entered {
    /// Behind others: a job serves the queue already.
    Behind,
    /// First: no job serves the queue yet.
    First,
}
