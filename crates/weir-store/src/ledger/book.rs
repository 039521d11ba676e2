//! The thread that makes marks durable: it takes all that came meanwhile, writes it, syncs once, and
//! acknowledges all. Marks that nobody waits for are collected for a while, so that a flood of unsafe
//! requests does not keep the drive syncing.
//!
//! States of the file: *good* → *broken* after any failure, at the start too, since what failed to be written
//! or synced may be missing though a later sync succeeds → *good* again once the whole ledger stands in a new
//! file. While it is broken nothing is acknowledged, and every batch tries a new file.
//!
//! States of the book in an upgrade: *writing* → *released* (the file is left alone; new marks are in force
//! and wait) → *handed over* (marks go to the process that writes the file now), or back to *writing*,
//! beginning with the whole ledger, where there is no new process after all.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use weir_disk::Disk;
use weir_policy::Now;

use super::error::OpenError;
use super::marks::Marks;
use super::record::Record;
use super::scope::{Force, Made, Mark, Scope, Stamp};
use super::scribe::{Nature, Past, Scribe};

/// The most marks that wait to be written. Beyond it the whole ledger is written again.
const QUEUED_MAX: usize = 65_536;
/// The time after a failure until the file is tried again, where nobody asks for it.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How long marks are collected that nobody waits for.
const COLLECT_PAUSE: Duration = Duration::from_millis(200);

/// Called once a purge is durable, with what was made, or has failed to become so. It must not block, nor
/// own a handle of the ledger or its store: dropping the last handle waits for the calling thread.
pub type Acknowledge = Box<dyn FnOnce(Result<Made, Unwritten>) + Send>;

/// The ledger's file could not be written. Its marks are in force, and are forgotten when the process ends.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the ledger cannot be written: {source}")]
pub struct Unwritten {
    /// Why.
    #[source]
    pub source: Arc<io::Error>,
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Unwritten {
        Unwritten { source: Arc::new(error) }
    }
}

/// Takes the marks that are made here while another process writes the ledger.
pub trait Successor: Send {
    /// Returns when the marks are in force and durable in the other process. Blocks.
    ///
    /// # Errors
    /// They may not be in force there.
    fn take(&mut self, marks: &[Mark]) -> io::Result<()>;
}

/// A turn of the book.
enum Turn {
    /// Write no more. Reports when all marks so far are durable, or cannot become so.
    Release(Sender<Result<(), Unwritten>>),
    /// Write again.
    Resume,
    /// Pass all to another process.
    HandOver(Box<dyn Successor>),
}

/// Where marks go.
enum Place {
    File(Scribe),
    Nowhere(Scribe),
    Successor(Box<dyn Successor>),
}

/// What the thread waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Marks.
    Collecting,
    /// Marks, or time to try again.
    Trying,
    /// Only a turn.
    Resting,
    /// Marks that must not wait.
    Passing,
}

/// How long a caller waits until a number is written.
const NUMBER_TIME_MAX: Duration = Duration::from_secs(10);

/// How long the file may take to be given away. No request begins meanwhile.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a caller that marks waits for the other process.
const PASS_TIME_MAX: Duration = Duration::from_secs(1);

/// The ledger's side of its thread. Dropping it waits until all marks are written.
#[derive(Debug)]
pub(super) struct Book {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

/// The queue to the thread.
#[derive(Debug, Default)]
struct Desk {
    queue: Mutex<Queue>,
    entered: Condvar,
    /// The file is durable up to this number.
    in_file: Arc<AtomicU64>,
    /// Rung whenever something has become durable.
    settled: Condvar,
}

#[derive(Default)]
struct Queue {
    records: Vec<Record>,
    waiting: Vec<(Made, Acknowledge)>,
    /// More marks came than are queued.
    is_overfull: bool,
    /// The ledger keeps fewer marks than the file holds, or its number is far beyond it.
    is_shorter: bool,
    is_closed: bool,
    turn: Option<Turn>,
    /// Another process writes the ledger.
    is_handed_over: bool,
    durable: u64,
    failure: Option<String>,
}

impl Queue {
    /// Notes up to which number all is durable, or why it is not.
    fn note(&mut self, written: &Result<u64, Unwritten>) {
        match written {
            Ok(number) => (self.durable, self.failure) = (self.durable.max(*number), None),
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    fn take(&mut self) -> Batch {
        Batch {
            records: std::mem::take(&mut self.records),
            waiting: std::mem::take(&mut self.waiting),
            is_overfull: std::mem::take(&mut self.is_overfull),
            is_shorter: std::mem::take(&mut self.is_shorter),
            turn: self.turn.take(),
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Queue({} records, {} waiting)", self.records.len(), self.waiting.len())
    }
}

/// What is written at once.
#[derive(Default)]
struct Batch {
    records: Vec<Record>,
    waiting: Vec<(Made, Acknowledge)>,
    is_overfull: bool,
    is_shorter: bool,
    /// The state of the book after a turn.
    turn: Option<Turn>,
}

impl Book {
    /// As [`super::Ledger::open`]; returns what was found as well.
    pub(super) fn open(
        marks: Arc<Marks>,
        disk: Arc<dyn Disk>,
        least: u64,
        now: Now,
    ) -> Result<(Book, Nature, Past), OpenError> {
        let (scribe, past, written) = Scribe::open(marks, disk, least, now)?;
        let nature = scribe.nature();
        let desk = Arc::new(Desk::default());
        desk.in_file.store(*written.as_ref().unwrap_or(&0), Ordering::Release);
        desk.queue.lock().note(&written.map_err(Unwritten::from));
        let at_thread = desk.clone();
        let thread = std::thread::Builder::new()
            .name("weir-ledger".to_owned())
            .spawn(move || run(&at_thread, scribe))
            .map_err(OpenError::Thread)?;
        Ok((Book { desk, thread: Some(thread) }, nature, past))
    }

    /// Makes marks and passes them to the thread, in the order of their numbers.
    pub(super) fn enter(
        &self,
        marks: &Marks,
        wanted: &[Mark],
        now: Now,
        acknowledge: Option<Acknowledge>,
    ) -> Made {
        let desk = &self.desk;
        let mut acknowledge = acknowledge;
        let mut is_awaited = acknowledge.is_some();
        let mut left = wanted.len();
        let made = marks.make(wanted, now, |record, wider| {
            let mut queue = desk.queue.lock();
            if queue.records.len() < QUEUED_MAX {
                // The first mark begins the thread's pause; later ones must not begin it again.
                is_awaited |= queue.records.is_empty();
                queue.records.push(record);
            } else {
                is_awaited |= !queue.is_overfull;
                queue.is_overfull = true;
            }
            left -= 1;
            if left == 0
                && let Some(acknowledge) = acknowledge.take()
            {
                let made = Made { stamp: Stamp(record.number), wider: wider.clone() };
                queue.waiting.push((made, acknowledge));
            }
        });
        if let Some(acknowledge) = acknowledge {
            desk.queue.lock().waiting.push((made.clone(), acknowledge));
        }
        if is_awaited {
            desk.entered.notify_one();
        }
        made
    }

    /// Has the shorter ledger written. Until that is done the old marks may come back.
    pub(super) fn shorten(&self) {
        self.desk.queue.lock().is_shorter = true;
        self.desk.entered.notify_one();
    }

    /// Writes the ledger with its current number, and waits for that, for a bounded time.
    ///
    /// # Errors
    /// It cannot be written, or the drive does not answer; then it is written later.
    pub(super) fn write_number(&self) -> Result<(), Unwritten> {
        let (tell, told) = std::sync::mpsc::channel();
        {
            let mut queue = self.desk.queue.lock();
            queue.is_shorter = true;
            let acknowledge = move |written: Result<Made, Unwritten>| {
                let _ = tell.send(written.map(drop));
            };
            let made = Made { stamp: Stamp(0), wider: BTreeSet::new() };
            queue.waiting.push((made, Box::new(acknowledge)));
        }
        self.desk.entered.notify_one();
        told.recv_timeout(NUMBER_TIME_MAX).unwrap_or_else(|_| Err(silent()))
    }

    /// Stops writing, once all marks so far are durable. Blocks, for a bounded time.
    ///
    /// # Errors
    /// The marks cannot be written, or the drive does not answer. Then [`Book::resume`] must follow.
    pub(super) fn release(&self) -> Result<(), Unwritten> {
        let (tell, told) = std::sync::mpsc::channel();
        self.turn(Turn::Release(tell));
        told.recv_timeout(RELEASE_TIME_MAX).unwrap_or_else(|_| Err(silent()))
    }

    /// Writes again.
    pub(super) fn resume(&self) {
        self.turn(Turn::Resume);
    }

    /// Passes waiting and later marks to another process.
    pub(super) fn hand_over(&self, successor: Box<dyn Successor>) {
        // At once: callers wait for marks that are made before the thread has turned.
        self.desk.queue.lock().is_handed_over = true;
        self.turn(Turn::HandOver(successor));
    }

    fn turn(&self, turn: Turn) {
        self.desk.queue.lock().turn = Some(turn);
        self.desk.entered.notify_one();
    }

    /// Where another process writes the ledger: returns once it has the marks up to that number, or after a
    /// bounded time.
    pub(super) fn pass(&self, stamp: Stamp) {
        let mut queue = self.desk.queue.lock();
        if !queue.is_handed_over {
            return;
        }
        self.desk.entered.notify_one();
        let is_waiting = |queue: &mut Queue| queue.durable < stamp.number() && queue.failure.is_none();
        self.desk.settled.wait_while_for(&mut queue, is_waiting, PASS_TIME_MAX);
    }

    /// The number up to which the file is durable, from now on.
    pub(super) fn durable(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.desk.in_file)
    }

    /// The number up to which all is durable, and why the last write failed.
    pub(super) fn state(&self) -> (u64, Option<String>) {
        let queue = self.desk.queue.lock();
        (queue.durable, queue.failure.clone())
    }
}

/// Does what may wait for a drive on a thread of its own, which ends with it.
///
/// # Errors
/// There is no thread.
pub(crate) fn on_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// A drive that does not answer.
fn silent() -> Unwritten {
    io::Error::new(io::ErrorKind::TimedOut, "the drive of the state folder does not answer").into()
}

impl Drop for Book {
    fn drop(&mut self) {
        self.desk.queue.lock().is_closed = true;
        self.desk.entered.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing more to write.
            let _ = thread.join();
        }
    }
}

impl Desk {
    /// Waits for the next batch; `None` when no more can come.
    fn next(&self, pace: Pace) -> Option<Batch> {
        let mut queue = self.queue.lock();
        loop {
            let is_urgent = !queue.waiting.is_empty() || queue.is_overfull || queue.is_shorter;
            if queue.turn.is_some() || (is_urgent && pace != Pace::Resting) {
                return Some(queue.take());
            }
            let pause = match (queue.records.is_empty(), pace) {
                (_, Pace::Resting) if queue.is_closed => return None,
                (_, _) if queue.is_closed => return (!queue.records.is_empty()).then(|| queue.take()),
                (false, Pace::Passing) => return Some(queue.take()),
                (_, Pace::Resting) | (true, Pace::Collecting | Pace::Passing) => {
                    self.entered.wait(&mut queue);
                    continue;
                }
                (false, Pace::Collecting) => COLLECT_PAUSE,
                (_, Pace::Trying) => RETRY_PAUSE,
            };
            if self.entered.wait_for(&mut queue, pause).timed_out() {
                return Some(queue.take());
            }
        }
    }
}

fn run(desk: &Desk, scribe: Scribe) {
    let mut place = Place::File(scribe);
    while let Some(mut batch) = desk.next(place.pace()) {
        let turn = batch.turn.take();
        if let Place::Nowhere(scribe) = place {
            // Waiting marks go where the turn leads, and the batch with them.
            place = Place::Nowhere(scribe).turned(turn, Ok(()));
            // The answer to the callers that wait.
            let _ = place.settle(desk, batch);
        } else {
            let written = place.settle(desk, batch);
            place = place.turned(turn, written);
        }
    }
}

impl Place {
    fn pace(&self) -> Pace {
        match self {
            Place::File(scribe) if scribe.is_broken() => Pace::Trying,
            Place::File(_) => Pace::Collecting,
            Place::Nowhere(_) => Pace::Resting,
            Place::Successor(_) => Pace::Passing,
        }
    }

    /// Writes a batch, and answers all callers.
    fn settle(&mut self, desk: &Desk, batch: Batch) -> Result<(), Unwritten> {
        let written = match self {
            Place::File(scribe) => scribe.write(&batch.records, batch.is_overfull || batch.is_shorter),
            Place::Nowhere(_) => {
                // Invariant: only a turn wakes a book that rests, and each turn leads elsewhere.
                Err(io::Error::other("the ledger is with another process"))
            }
            Place::Successor(successor) => pass(successor.as_mut(), &batch),
        };
        let written = written.map_err(Unwritten::from);
        if let (Place::File(_), Ok(number)) = (&*self, &written) {
            desk.in_file.fetch_max(*number, Ordering::AcqRel);
        }
        desk.queue.lock().note(&written);
        desk.settled.notify_all();
        for (made, acknowledge) in batch.waiting {
            acknowledge(written.clone().map(|_| made));
        }
        written.map(|_| ())
    }

    /// The state after a turn.
    fn turned(self, turn: Option<Turn>, written: Result<(), Unwritten>) -> Place {
        match (self, turn) {
            (Place::File(scribe), Some(Turn::Release(tell))) => {
                let is_released = written.is_ok() && !scribe.is_broken();
                // A caller that no longer listens has its turn all the same.
                let _ = tell.send(written);
                if is_released { Place::Nowhere(scribe) } else { Place::File(scribe) }
            }
            (Place::Nowhere(mut scribe), Some(Turn::Resume)) => {
                // The other process may have changed the file: write all again.
                scribe.mistrust();
                Place::File(scribe)
            }
            (Place::Nowhere(_), Some(Turn::HandOver(successor))) => Place::Successor(successor),
            (place, _) => place,
        }
    }
}

/// Passes a batch to the process that writes the ledger. Returns the number up to which all is durable then.
fn pass(successor: &mut dyn Successor, batch: &Batch) -> io::Result<u64> {
    let all = [Mark { scope: Scope::All, force: Force::Hard }];
    let marks: Vec<Mark> = match batch.is_overfull {
        true => all.to_vec(),
        false => batch.records.iter().map(|record| record.mark).collect(),
    };
    if !marks.is_empty() {
        successor.take(&marks)?;
    }
    Ok(batch.records.last().map_or(0, |record| record.number))
}
