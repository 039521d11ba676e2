//! The numbered list of purges and invalidations (RFC 9111 §4.4), and what each of them does to what is held.
//!
//! Stamps are numbers, not times: a generation carries the ledger's number at the moment its origin request
//! was sent. It is dead iff that is smaller than the largest hard mark that concerns it, and stale at once
//! iff it is smaller than the largest soft one. Responses in flight need no marking. What concerns a
//! generation is found by look-ups whose number does not depend on how much is held: its site, its URL, each
//! of its tags, each length of prefix that is marked.
//!
//! Rooms: `scope` what a mark may concern, `asked` what is under way, `marks` the tables and their limits,
//! `record` the file's form (`docs/format/ledger.md`), `book` the thread that makes marks durable, `scribe`
//! who writes the file.

mod asked;
mod book;
mod marks;
pub(crate) mod record;
mod scope;
mod scribe;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_disk::Disk;
use weir_policy::{CacheKey, Now, Tags};

use crate::volume::random;

pub use asked::Asking;
use asked::UnderWay;
use book::Book;
pub use book::{Acknowledge, Successor, Unwritten};
use marks::Marks;
pub(crate) use marks::Reach;
pub use marks::{MARKS_MAX, PREFIX_LENGTHS_MAX};
pub use record::Unreadable;
pub use scope::{Force, Judged, Mark, PREFIX_BYTES_MAX, Scope, Stamp};
use scribe::Nature;
pub use scribe::Past;

/// The ledger: a counter, the marks made with it, and the file that they are in. What is not opened with
/// files lives in memory alone.
#[derive(Debug)]
pub struct Ledger {
    marks: Arc<Marks>,
    book: Option<Book>,
    nature: Nature,
    past: Past,
    under_way: Arc<UnderWay>,
    /// Another process has the file: what it holds is not known here.
    is_away: AtomicBool,
}

/// The ledger cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its file cannot be read as one.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Its file cannot be read.
    #[error("the file `ledger` in the state folder cannot be read: {0}")]
    Unread(#[source] std::io::Error),
    /// Its thread cannot be started.
    #[error("cannot start the ledger's thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// Where the ledger stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerState {
    /// Its number: that of the newest mark, or of the start.
    pub number: u64,
    /// All marks up to this number are on disk.
    pub durable: u64,
    /// How many marks are kept.
    pub marks: u64,
    /// Why it could not be written the last time, until it can be.
    pub failure: Option<String>,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger::new(MARKS_MAX)
    }
}

impl Ledger {
    /// An empty ledger in memory that keeps at most `marks_max` marks of each kind.
    pub fn new(marks_max: usize) -> Ledger {
        let nature = Nature { id: random::identity(), doubted: 0, is_adopted: false, found: u64::MAX };
        Ledger::of(Arc::new(Marks::new(marks_max)), None, nature, Past::Whole)
    }

    /// The ledger of a state folder (`disk`): its marks and its number come back, and what is marked from now
    /// on is written. `least` is a number that it is known to have reached. Where it cannot be written it is
    /// in force all the same, as after any write that fails ([`LedgerState::failure`]). Blocks for writes and
    /// syncs.
    ///
    /// # Errors
    /// A file that cannot be read, is no ledger, or of a newer version.
    pub fn open(marks_max: usize, disk: Arc<dyn Disk>, least: u64, now: Now) -> Result<Ledger, OpenError> {
        let marks = Arc::new(Marks::new(marks_max));
        let (book, nature, past) = Book::open(marks.clone(), disk, least, now)?;
        Ok(Ledger::of(marks, Some(book), nature, past))
    }

    fn of(marks: Arc<Marks>, book: Option<Book>, nature: Nature, past: Past) -> Ledger {
        Ledger { marks, book, nature, past, under_way: Arc::default(), is_away: AtomicBool::new(false) }
    }

    /// What was found of it when it was opened.
    pub fn past(&self) -> Past {
        self.past
    }

    /// Which ledger it is: what volumes are used with.
    pub(crate) fn id(&self) -> u128 {
        self.nature.id
    }

    /// How far it had come when it was opened.
    pub(crate) fn found(&self) -> u64 {
        self.nature.found
    }

    /// Up to which number its file is durable, from now on: for as long as this process writes it.
    pub(crate) fn durable(&self) -> (u128, Arc<AtomicU64>) {
        (self.id(), self.book.as_ref().map(Book::durable).unwrap_or_default())
    }

    /// Whether it had no id before this Weir, or one before, gave it one.
    pub(crate) fn is_adopted(&self) -> bool {
        self.nature.is_adopted
    }

    /// What was asked for before this number is asked about before it is used: marks may have been lost.
    pub(crate) fn doubted(&self) -> Stamp {
        Stamp(self.nature.doubted)
    }

    /// Goes on from that number at least, so that what is stamped with it is older than all that is marked
    /// from now on. Where that is a leap it is durable when this returns, or cannot be made so within some
    /// seconds. Blocks.
    pub(crate) fn raise(&self, number: u64) {
        if self.marks.raise(number)
            && let Some(book) = self.book.as_ref().filter(|_| !self.is_away())
        {
            book.write_number();
        }
    }

    /// The number now. Take it before the origin request is sent.
    pub fn current(&self) -> Stamp {
        self.marks.current()
    }

    /// The number now, for what is asked of an origin from here on: marks that concern it are kept for as
    /// long as it is under way, unless they are too many.
    pub fn ask(&self) -> Asking {
        self.under_way.hold(|| self.current())
    }

    /// The same for what has that number already.
    pub(crate) fn hold(&self, stamp: Stamp) -> Asking {
        self.under_way.hold(|| stamp)
    }

    /// Up to where marks concern nothing that is under way, and not beyond `most`.
    pub(crate) fn settled(&self, most: Stamp) -> Stamp {
        self.under_way.smallest(most)
    }

    /// Whether another process has the file, or is about to.
    pub(crate) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Acquire)
    }

    /// A number beyond the one now, which is no mark's: what is asked for from here on can be told from what
    /// was before.
    pub(crate) fn step(&self) -> Stamp {
        self.marks.step()
    }

    /// Makes marks, at once and for all who look from now on; returns the largest. They are written with the
    /// next batch, and nobody waits for it.
    pub fn mark(&self, wanted: &[Mark], now: Now) -> Stamp {
        let stamp = self.enter(wanted, now, None);
        if let Some(book) = &self.book {
            book.pass(stamp);
        }
        stamp
    }

    /// Makes marks, at once, and says when they are durable: `acknowledge` is called by the ledger's thread
    /// after one sync for all who came meanwhile. Where it fails the marks are in force all the same, until
    /// the process ends.
    pub fn purge(&self, wanted: &[Mark], now: Now, acknowledge: Acknowledge) -> Stamp {
        self.enter(wanted, now, Some(acknowledge))
    }

    fn enter(&self, wanted: &[Mark], now: Now, acknowledge: Option<Acknowledge>) -> Stamp {
        match &self.book {
            Some(book) => book.enter(&self.marks, wanted, now, acknowledge),
            None => {
                let stamp = self.marks.make(wanted, now, |_| {});
                if let Some(acknowledge) = acknowledge {
                    acknowledge(Ok(stamp));
                }
                stamp
            }
        }
    }

    /// What the marks say of a response with that key and those tags whose origin request was sent at
    /// `stamp`. One atomic compare where no mark is newer than the stamp.
    pub fn judge(&self, key: &CacheKey, tags: &Tags, stamp: Stamp) -> Judged {
        if self.is_settled(stamp) { Judged::Alive } else { self.marks.judge(key, tags, stamp) }
    }

    /// True when no mark is newer than the stamp: nothing needs to be looked up.
    pub(crate) fn is_settled(&self, stamp: Stamp) -> bool {
        stamp >= self.marks.newest()
    }

    /// The largest mark of any kind.
    pub(crate) fn newest(&self) -> Stamp {
        self.marks.newest()
    }

    /// True when half of the room for marks is taken: time to go through what is kept and drop marks.
    pub(crate) fn is_crowded(&self) -> bool {
        self.marks.is_crowded()
    }

    /// Where to look for what marks concern that are newer than `since`.
    pub(crate) fn reach(&self, since: Stamp) -> Reach {
        self.marks.reach(since)
    }

    /// Drops the marks up to a number. Whatever they concerned must have been seen to, and what shall live on
    /// must bear that number at least: it becomes a mark of everything.
    pub(crate) fn retire_marks(&self, until: Stamp) {
        self.marks.retire(until);
        if let Some(book) = &self.book {
            book.shorten();
        }
    }

    /// Gives the file away, once all that was marked so far is in it: from then on another process may open
    /// it. What is marked meanwhile is in force here, and waits to become durable. Blocks.
    ///
    /// # Errors
    /// What was marked cannot be written; then the file is kept.
    pub fn release(&self) -> Result<(), Unwritten> {
        self.is_away.store(true, Ordering::Release);
        self.book.as_ref().map_or(Ok(()), Book::release)
    }

    /// Takes the file back after [`Ledger::release`], when no other process writes it: all is written anew.
    pub fn resume(&self) {
        if let Some(book) = &self.book {
            book.resume();
        }
        self.is_away.store(false, Ordering::Release);
    }

    /// Gives what was marked since [`Ledger::release`], and what will be, to the process that writes the file
    /// now. [`Ledger::mark`] waits for it from now on, for a second at most, so that who invalidates through
    /// this process finds it done in the other.
    pub fn hand_over(&self, successor: Box<dyn Successor>) {
        if let Some(book) = &self.book {
            book.hand_over(successor);
        }
    }

    /// Whether there are so many marks that those are worth dropping that concern nothing any more.
    pub(crate) fn is_filling_up(&self) -> bool {
        self.marks.is_filling_up()
    }

    /// How many marks are kept.
    pub fn marks(&self) -> usize {
        self.marks.count()
    }

    /// Where it stands.
    pub fn state(&self) -> LedgerState {
        let number = self.current().number();
        let (durable, failure) = match &self.book {
            Some(book) => book.state(),
            None => (number, None),
        };
        LedgerState { number, durable: durable.min(number), marks: self.marks() as u64, failure }
    }
}

#[cfg(test)]
pub(crate) mod tests;
