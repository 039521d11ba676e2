//! The queue in front of a volume's writer: bounded in bytes. Sending never waits.
//!
//! A writer that has something to do looks every 50 ms. It is not woken for each command of a small object,
//! only for many: otherwise a fill of 1 KB is mostly switching between threads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::Sender;
use parking_lot::{Condvar, Mutex};

use crate::format::record::Place;
use crate::freed::{Freed, FreedWait};
use crate::index::segment::Seen;
use crate::index::{KeyHash, Location};
use crate::write::put::PutStatus;
use crate::write::storing::{End, Put};

/// What a command takes of the queue beside its bytes.
const COMMAND_BYTES: u64 = 512;
/// What ends and removals may take beyond the ceiling, in bytes: they make room rather than take it.
const RESERVE_BYTES: u64 = 4 << 20;

/// How long a writer that has something to do naps between two looks.
pub(crate) const NAP: Duration = Duration::from_millis(50);
/// So many commands end its nap.
const NAP_COMMANDS_MAX: usize = 64;
/// A piece of a body that ends its nap: readers may wait for it.
const NAP_PIECE_BYTES_MAX: usize = 16 << 10;

/// What the writer is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Begin {
        object: u64,
        put: Box<Put>,
    },
    Resume {
        object: u64,
        digest: u128,
        status: Arc<PutStatus>,
    },
    Body {
        object: u64,
        offset: u64,
        bytes: Bytes,
    },
    End {
        object: u64,
        digest: u128,
        end: End,
    },
    Refresh {
        object: u64,
        digest: u128,
        head: Bytes,
        stamp: u64,
        /// Only where the object still has this head.
        instead_of: Option<Bytes>,
    },
    Remove {
        object: u64,
        digest: u128,
    },
    Damaged {
        hash: KeyHash,
        location: Location,
        place: Place,
    },
    /// Nothing in a segment was of use any more when it was `seen`. `has_gone` says whether it has records of
    /// removals.
    Free {
        segment: u64,
        seen: Seen,
        has_gone: bool,
    },
    /// Makes durable what came before, then sends the durable epoch, if that succeeded.
    Sync(Sender<Option<u64>>),
    /// Counts again what is held of each owner, then sends the number of owners whose count was wrong. Sends
    /// nothing if the volume does not write.
    Recount(Sender<u64>),
    /// The last one.
    Stop,
}

impl Command {
    /// Whether it can wait until the writer's nap is over.
    fn can_wait(&self) -> bool {
        match self {
            Command::Begin { .. } | Command::End { end: End::Whole(_), .. } => true,
            Command::Body { bytes, .. } => bytes.len() <= NAP_PIECE_BYTES_MAX,
            _ => false,
        }
    }
}

/// How many bytes wait, and the tasks that wait until they are fewer.
#[derive(Debug, Default)]
struct Total {
    bytes: AtomicU64,
    freed: Arc<Freed>,
}

impl Total {
    fn free(&self, bytes: u64) {
        if bytes > 0 {
            self.bytes.fetch_sub(bytes, Ordering::SeqCst);
            self.freed.wake();
        }
    }
}

/// A share of the queue's bytes. Dropping it gives the share back.
#[derive(Debug)]
pub(crate) struct Waiting {
    total: Arc<Total>,
    bytes: u64,
}

impl Waiting {
    pub(crate) fn merge(&mut self, mut other: Waiting) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        self.total.free(less);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.total.free(self.bytes);
    }
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Intake {
    most_bytes: u64,
    total: Arc<Total>,
    queue: Mutex<Queue>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    commands: VecDeque<(Command, Waiting)>,
    is_closed: bool,
    /// The writer looks again in [`NAP`] or less.
    is_napping: bool,
}

/// The queue is full, or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

impl Intake {
    pub(crate) fn new(most_bytes: u64) -> Intake {
        Intake { most_bytes, total: Arc::default(), queue: Mutex::default(), bell: Condvar::new() }
    }

    /// Reserves `bytes` of the queue, if there is room below `most`.
    pub(crate) fn wait_for(&self, bytes: u64, most: u64) -> Result<Waiting, Refused> {
        let before = self.total.bytes.fetch_add(bytes, Ordering::SeqCst);
        let waiting = Waiting { total: Arc::clone(&self.total), bytes };
        if before + bytes > most { Err(Refused) } else { Ok(waiting) }
    }

    /// Whether a body of `bytes` would find room now, with some left for bodies that come at the same time.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.waiting_bytes() + bytes + COMMAND_BYTES <= self.most_bytes / 8 * 7
    }

    /// Joins the tasks that wait until less waits in the queue.
    pub(crate) fn wait_for_room(&self) -> FreedWait {
        self.total.freed.wait()
    }

    /// Sends a command. Ends and removals may use the reserve.
    pub(crate) fn send(&self, command: Command) -> Result<(), Refused> {
        let (bytes, most) = match &command {
            Command::Begin { put, .. } => (put.described_bytes(), self.most_bytes),
            Command::Body { bytes, .. } => (bytes.len() as u64, self.most_bytes),
            Command::Refresh { head, .. } => (head.len() as u64, self.most_bytes),
            Command::Resume { .. } | Command::Damaged { .. } | Command::Free { .. } => (0, self.most_bytes),
            Command::Remove { .. } | Command::End { .. } => (0, self.most_bytes + RESERVE_BYTES),
            Command::Sync(_) | Command::Recount(_) | Command::Stop => (0, u64::MAX),
        };
        let waiting = self.wait_for(bytes + COMMAND_BYTES, most)?;
        let can_wait = command.can_wait();
        let mut queue = self.queue.lock();
        if queue.is_closed {
            return Err(Refused);
        }
        queue.is_closed = matches!(command, Command::Stop);
        queue.commands.push_back((command, waiting));
        let may_nap_on = can_wait && queue.is_napping && queue.commands.len() < NAP_COMMANDS_MAX;
        drop(queue);
        if !may_nap_on {
            self.bell.notify_one();
        }
        Ok(())
    }

    /// The next command; `None` if none comes in time.
    pub(crate) fn next(&self, patience: Duration) -> Option<(Command, Waiting)> {
        let mut queue = self.queue.lock();
        if queue.commands.is_empty() {
            queue.is_napping = patience <= NAP;
            self.bell.wait_for(&mut queue, patience);
            queue.is_napping = false;
        }
        queue.commands.pop_front()
    }

    /// Closes the queue: nothing reads it any more.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.is_closed = true;
        let left = std::mem::take(&mut queue.commands);
        drop(queue);
        drop(left);
    }

    /// The bytes that wait, bodies included that wait to be written with more.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.total.bytes.load(Ordering::SeqCst)
    }

    /// Whether so much waits that it should be written early.
    pub(crate) fn is_pressed(&self) -> bool {
        self.waiting_bytes() > self.most_bytes / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn small(object: u64) -> Command {
        Command::Body { object, offset: 0, bytes: Bytes::from_static(b"small") }
    }

    fn object_of(command: Option<(Command, Waiting)>) -> Option<u64> {
        match command?.0 {
            Command::Body { object, .. } => Some(object),
            _ => None,
        }
    }

    #[test]
    fn a_writer_that_sleeps_long_is_woken_for_anything() {
        let intake = Intake::new(1 << 20);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| object_of(intake.next(LONG)));
            // Until it sleeps.
            std::thread::sleep(NAP);
            intake.send(small(7)).unwrap();
            assert_eq!(sleeper.join().unwrap(), Some(7));
        });
    }

    #[test]
    fn what_came_during_a_nap_is_found_after_it_in_order() {
        let intake = Intake::new(1 << 20);
        intake.queue.lock().is_napping = true;
        (1..=3).for_each(|object| intake.send(small(object)).unwrap());
        let found: Vec<_> = (0..3).map(|_| object_of(intake.next(NAP))).collect();
        assert_eq!(found, [Some(1), Some(2), Some(3)]);
        assert!(intake.next(Duration::ZERO).is_none());
    }

    #[test]
    fn only_what_a_small_object_consists_of_can_wait() {
        let long = Bytes::from(vec![0; NAP_PIECE_BYTES_MAX + 1]);
        assert!(small(1).can_wait());
        assert!(!Command::Body { object: 1, offset: 0, bytes: long }.can_wait());
        assert!(Command::End { object: 1, digest: 1, end: End::Whole(5) }.can_wait());
        assert!(!Command::End { object: 1, digest: 1, end: End::Abandon }.can_wait());
        assert!(!Command::Remove { object: 1, digest: 1 }.can_wait() && !Command::Stop.can_wait());
    }
}
