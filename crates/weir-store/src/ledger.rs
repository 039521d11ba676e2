//! The numbered list of purges and invalidations (RFC 9111 §4.4), and what each of them does to what is held.
//!
//! Stamps are numbers, not times: a generation carries the ledger's number at the moment its origin request
//! was sent. It is dead if that is smaller than the largest hard mark that concerns it, and stale if it is
//! smaller than the largest soft one, unless a newer retention says until when it is fresh.
//! Running transfers need no marking. The look-ups that find what concerns a generation do not grow with
//! what is held: its site, its URL, each of its tags, each length of prefix that has marks.
//!
//! Rooms: `scope` what a mark may concern, `asked` the requests under way, `tables` what is found by scope,
//! `marks` the purges and their limits, `retentions` the lifetimes, `record` the file's form
//! (`docs/format/ledger.md`), `book` the thread that makes marks durable, `scribe` the writing of the file.

mod asked;
mod book;
mod error;
mod marks;
pub(crate) mod record;
mod retentions;
mod scope;
mod scribe;
mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_disk::Disk;
use weir_policy::{CacheKey, Now, Tags};

use crate::volume::random;

pub use asked::Asking;
use asked::UnderWay;
use book::Book;
pub(crate) use book::on_thread;
pub use book::{Acknowledge, Successor, Unwritten};
pub use error::OpenError;
use marks::Marks;
pub(crate) use marks::Reach;
pub use marks::{MARKS_MAX, PREFIX_LENGTHS_MAX};
pub use record::Unreadable;
pub use retentions::{LIFETIME_MAX, TooMany};
pub use scope::{Change, Force, Judged, Made, Mark, PREFIX_BYTES_MAX, Scope, Stamp};
use scribe::Nature;
pub use scribe::Past;

/// The ledger: a counter, the marks made with it, and their file. A ledger that was not opened has no file.
#[derive(Debug)]
pub struct Ledger {
    marks: Arc<Marks>,
    book: Option<Book>,
    nature: Nature,
    past: Past,
    under_way: Arc<UnderWay>,
    /// Held while retentions are given.
    retaining: Mutex<()>,
    /// Another process has the file.
    is_away: AtomicBool,
}

/// The state of the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerState {
    /// Its number: that of the newest mark, or that of the start.
    pub number: u64,
    /// All marks up to this number are on disk.
    pub durable: u64,
    /// How many marks are kept.
    pub marks: u64,
    /// Why the last write failed, until one succeeds.
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
        let nature = Nature { id: random::identity(), suspect_before: 0, is_adopted: false, found: u64::MAX };
        Ledger::of(Arc::new(Marks::new(marks_max)), None, nature, Past::Whole)
    }

    /// Opens the ledger of a state folder (`disk`): its marks and its number come back, and new marks are
    /// written. `least` is a number that it is known to have reached. If it cannot be written its marks are
    /// in force all the same ([`LedgerState::failure`]). Blocks for writes and syncs.
    ///
    /// # Errors
    /// A file that cannot be read, is no ledger, or of a newer version.
    pub fn open(marks_max: usize, disk: Arc<dyn Disk>, least: u64, now: Now) -> Result<Ledger, OpenError> {
        let marks = Arc::new(Marks::new(marks_max));
        let (book, nature, past) = Book::open(marks.clone(), disk, least, now)?;
        Ok(Ledger::of(marks, Some(book), nature, past))
    }

    fn of(marks: Arc<Marks>, book: Option<Book>, nature: Nature, past: Past) -> Ledger {
        Ledger {
            marks,
            book,
            nature,
            past,
            under_way: Arc::default(),
            retaining: Mutex::default(),
            is_away: AtomicBool::new(false),
        }
    }

    /// What was found when it was opened.
    pub fn past(&self) -> Past {
        self.past
    }

    /// Its identity, which volumes are used with.
    pub(crate) fn id(&self) -> u128 {
        self.nature.id
    }

    /// The number it had when it was opened.
    pub(crate) fn found(&self) -> u64 {
        self.nature.found
    }

    /// Its identity, and the number up to which its file is durable, for as long as this process writes it.
    pub(crate) fn durable(&self) -> (u128, Arc<AtomicU64>) {
        (self.id(), self.book.as_ref().map(Book::durable).unwrap_or_default())
    }

    /// True if it had no identity until some version of Weir gave it one.
    pub(crate) fn is_adopted(&self) -> bool {
        self.nature.is_adopted
    }

    /// What was asked for before this number is revalidated before it is used: marks may have been lost.
    pub(crate) fn suspect_before(&self) -> Stamp {
        Stamp(self.nature.suspect_before)
    }

    /// Raises the number to at least this one, so that what is stamped with it is older than all later marks.
    /// If it grows, it is durable when this returns, unless that takes more than some seconds. Blocks.
    pub(crate) fn raise(&self, number: u64) {
        if self.marks.raise(number)
            && let Some(book) = self.book.as_ref().filter(|_| !self.is_away())
        {
            // What cannot be written is in force, and written later.
            let _ = book.write_number();
        }
    }

    /// Writes the whole file, to find out whether its drive answers. Blocks, for a bounded time.
    ///
    /// # Errors
    /// It cannot be written, or the drive does not answer.
    pub fn prove(&self) -> Result<(), Unwritten> {
        self.book.as_ref().map_or(Ok(()), Book::write_number)
    }

    /// The current number. Take it before the origin request is sent.
    pub fn current(&self) -> Stamp {
        self.marks.current()
    }

    /// The current number, for a request to an origin. Marks that concern it are kept for as long as it is
    /// under way, unless they become too many.
    pub fn ask(&self) -> Asking {
        self.under_way.hold(|| self.current())
    }

    /// The same for a stamp that was taken before.
    pub fn hold(&self, stamp: Stamp) -> Asking {
        self.under_way.hold(|| stamp)
    }

    /// The largest number, at most `most`, up to which marks concern nothing under way.
    pub(crate) fn settled(&self, most: Stamp) -> Stamp {
        self.under_way.smallest(most)
    }

    /// Whether another process has the file, or is about to have it.
    pub(crate) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Acquire)
    }

    /// Takes a further number that is no mark's: it tells what is asked for from here on from what was
    /// before.
    pub(crate) fn step(&self) -> Stamp {
        self.marks.step()
    }

    /// Makes marks, in force at once. Returns the largest. They are written with the next batch, without
    /// waiting.
    pub fn mark(&self, wanted: &[Mark], now: Now) -> Stamp {
        let Made { stamp, .. } = self.enter(wanted, now, None);
        if let Some(book) = &self.book {
            book.pass(stamp);
        }
        stamp
    }

    /// Makes marks, in force at once. The ledger's thread calls `acknowledge` when they are durable, after
    /// one sync for all that came meanwhile. If that fails they are in force until the process ends.
    pub fn purge(&self, wanted: &[Mark], now: Now, acknowledge: Acknowledge) -> Made {
        self.enter(wanted, now, Some(acknowledge))
    }

    /// As [`Ledger::purge`], for retentions.
    ///
    /// # Errors
    /// [`TooMany`]: then none is in force.
    pub fn retain(&self, wanted: &[Mark], now: Now, acknowledge: Acknowledge) -> Result<Stamp, TooMany> {
        let _retaining = self.retaining.lock();
        self.marks.check_room(wanted)?;
        Ok(self.enter(wanted, now, Some(acknowledge)).stamp)
    }

    fn enter(&self, wanted: &[Mark], now: Now, acknowledge: Option<Acknowledge>) -> Made {
        match &self.book {
            Some(book) => book.enter(&self.marks, wanted, now, acknowledge),
            None => {
                let made = self.marks.make(wanted, now, |_, _| {});
                if let Some(acknowledge) = acknowledge {
                    acknowledge(Ok(made.clone()));
                }
                made
            }
        }
    }

    /// What the marks say of a response with this key and these tags whose origin request was sent at
    /// `stamp`. One atomic compare where no mark is newer than the stamp.
    pub fn judge(&self, key: &CacheKey, tags: &Tags, stamp: Stamp) -> Judged {
        if self.is_settled(stamp) { Judged::Alive } else { self.marks.judge(key, tags, stamp) }
    }

    /// True when no mark is newer than the stamp: nothing has to be looked up.
    pub(crate) fn is_settled(&self, stamp: Stamp) -> bool {
        stamp >= self.marks.newest()
    }

    /// The largest mark of any kind.
    pub(crate) fn newest(&self) -> Stamp {
        self.marks.newest()
    }

    /// True when half of the room for marks is taken: time to sweep and drop marks.
    pub(crate) fn is_crowded(&self) -> bool {
        self.marks.is_crowded()
    }

    /// Where to look for what the marks newer than `since` concern.
    pub(crate) fn reach(&self, since: Stamp) -> Reach {
        self.marks.reach(since)
    }

    /// Drops the marks up to a number, which becomes a mark of everything. What they concerned must be gone,
    /// and what is to live must have that stamp at least.
    pub(crate) fn retire_marks(&self, until: Stamp) {
        self.marks.retire(until);
        if let Some(book) = &self.book {
            book.shorten();
        }
    }

    /// Gives the file away, once all marks so far are in it: then another process may open it. Later marks
    /// are in force here, and wait to become durable. Blocks, for a bounded time.
    ///
    /// # Errors
    /// The marks cannot be written, or the drive does not answer. Then [`Ledger::resume`] keeps the file.
    pub fn release(&self) -> Result<(), Unwritten> {
        self.is_away.store(true, Ordering::Release);
        self.book.as_ref().map_or(Ok(()), Book::release)
    }

    /// Takes the file back after [`Ledger::release`], when no other process writes it. All is written again.
    pub fn resume(&self) {
        if let Some(book) = &self.book {
            book.resume();
        }
        self.is_away.store(false, Ordering::Release);
    }

    /// Passes the marks made since [`Ledger::release`], and all later ones, to the process that writes the
    /// file now. From now on [`Ledger::mark`] waits for it, for a second at most, so that an invalidation
    /// through this process is in force in the other one too.
    pub fn hand_over(&self, successor: Box<dyn Successor>) {
        if let Some(book) = &self.book {
            book.hand_over(successor);
        }
    }

    /// Whether there are so many marks that those which concern nothing any more should be dropped.
    pub(crate) fn is_filling_up(&self) -> bool {
        self.marks.is_filling_up()
    }

    /// How many marks are kept.
    pub fn marks(&self) -> usize {
        self.marks.count()
    }

    /// The state of the ledger.
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
