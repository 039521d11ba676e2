//! What may be written to a volume in a day, since drives wear: counted in days of UTC, so that what is
//! allowed, what was used and when it is given again can be said in one number each.
//!
//! All that is written counts: bodies, heads, journal, checkpoints, and what others write beside (the
//! catalogue). Once it is used up no body is stored any more; whatever keeps the volume true (removals,
//! purges, journals) goes on, and for that the last part of a budget is kept back. It reads no clock: it is
//! told the time.
//!
//! The count is written down ahead of what is written to the volume, a step at a time (*granted*): whoever
//! kills the process, a count that is found is never less than what was written. An orderly end writes down
//! what it was.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::write::spent::{Spent, SpentFile};

/// The length of a day in seconds.
const DAY_S: u64 = 86_400;
/// This part of a budget is no body's: the journal, checkpoints, removals and the catalogue have it.
const KEPT_BACK_PART: u64 = 32;
/// A budget that is spread lasts for so many parts of the day; one part may be spent before its time.
const PARTS_A_DAY: u64 = 24;
/// A budget is granted in steps of this part of it: what a kill may count that was not written.
const STEPS_A_DAY: u64 = 64;
/// The longest step.
const STEP_BYTES_MAX: u64 = 64 << 20;
/// No budget.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// The budget of a volume and what is used of it.
#[derive(Debug)]
pub(crate) struct WriteBudget {
    pub(crate) limit_bytes: AtomicU64,
    /// What others write to the volume.
    pub(crate) beside_bytes: AtomicU64,
    /// Added to all that was written it makes what was written today; wraps.
    pub(crate) offset: AtomicU64,
    pub(crate) day: AtomicU64,
    pub(crate) second: AtomicU64,
    /// Bodies that were not stored, or not to their end, since the budget was used up.
    pub(crate) refused: AtomicU64,
    /// What may be used today before more is written down; with a budget alone.
    pub(crate) granted: AtomicU64,
    /// Where it is written down. The volume's writer takes it, and no request does.
    pub(crate) count: Mutex<Option<SpentFile>>,
}

/// What a volume may still write today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayBudget {
    /// The budget of a day in bytes, where there is one.
    pub limit_bytes: Option<u64>,
    /// What was written since the day began, in bytes.
    pub used_bytes: u64,
    /// It is used up: no body is stored before midnight, UTC.
    pub is_used_up: bool,
    /// Bodies that were not stored for that, or not to their end, since the volume was opened.
    pub refused: u64,
}

impl WriteBudget {
    pub(crate) fn new(limit_bytes: Option<u64>) -> WriteBudget {
        WriteBudget {
            limit_bytes: AtomicU64::new(limit_bytes.unwrap_or(UNLIMITED)),
            beside_bytes: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            day: AtomicU64::new(0),
            second: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            granted: AtomicU64::new(0),
            count: Mutex::default(),
        }
    }

    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// What was written since the day began, `written` being all that the volume has written since it was
    /// opened.
    pub(crate) fn used_bytes(&self, written: u64) -> u64 {
        let all = written + self.beside_bytes.load(Ordering::Relaxed);
        all.wrapping_add(self.offset.load(Ordering::Relaxed))
    }

    /// Whether `bytes` more of bodies may be written, `waiting` being what is to be written already.
    pub(crate) fn allows(&self, written: u64, waiting: u64, bytes: u64) -> bool {
        let limit = self.limit_bytes();
        limit == UNLIMITED
            || self.used_bytes(written).saturating_add(waiting).saturating_add(bytes) <= for_bodies(limit)
    }

    /// How many parts of the day's budget are used before their time: 0 where it is on time.
    pub(crate) fn ahead(&self, written: u64, waiting: u64) -> u64 {
        let limit = self.limit_bytes();
        if limit == UNLIMITED {
            return 0;
        }
        (self.used_bytes(written) + waiting).saturating_sub(self.allowed(limit)).div_ceil(part(limit))
    }

    /// Whether more than half of what may be written by now is.
    pub(crate) fn is_half_spent(&self, written: u64, waiting: u64) -> bool {
        let limit = self.limit_bytes();
        limit != UNLIMITED && (self.used_bytes(written) + waiting) * 2 > self.allowed(limit)
    }

    /// What of a limit may be written by now where it is spread over the day, the part that may be spent
    /// before its time included.
    pub(crate) fn allowed(&self, limit: u64) -> u64 {
        let second = self.second.load(Ordering::Relaxed);
        let due = u128::from(for_bodies(limit)) * u128::from(second) / u128::from(DAY_S);
        due as u64 + part(limit)
    }

    /// Says what time it is. A new day begins with nothing used; a clock that is set back begins none.
    pub(crate) fn tick(&self, wall: SystemTime, written: u64) {
        let since = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        let day = since / DAY_S;
        self.second.store(since % DAY_S, Ordering::Relaxed);
        let before = self.day.load(Ordering::Relaxed);
        if day > before {
            self.day.store(day, Ordering::Relaxed);
        }
        // What opening wrote belongs to the first day.
        if day > before && before > 0 {
            // What is granted is of the day before: nothing more is written under it.
            self.granted.store(0, Ordering::Relaxed);
            let all = written + self.beside_bytes.load(Ordering::Relaxed);
            self.offset.store(0u64.wrapping_sub(all), Ordering::Relaxed);
        }
    }

    /// What was written on the day before the volume was opened, where that is the same day. One that lies
    /// ahead, since the clock was set back, counts as this one.
    pub(crate) fn carry(&self, spent: Spent) {
        if spent.day >= self.day.load(Ordering::Relaxed) {
            self.offset.fetch_add(spent.bytes, Ordering::Relaxed);
        }
    }

    /// Writes more down, where that is needed, before so much is used today.
    pub(crate) fn grant(&self, used: u64) {
        let limit = self.limit_bytes();
        if limit != UNLIMITED && used > self.granted.load(Ordering::Relaxed) {
            self.note(used.saturating_add(step(limit)));
        }
    }

    /// Writes down what is to be carried over, `used` being what is used today: with a budget as much as is
    /// granted, and no more often than half a step is used.
    pub(crate) fn renew(&self, used: u64) {
        let limit = self.limit_bytes();
        if limit == UNLIMITED {
            return self.note(used);
        }
        let left = self.granted.load(Ordering::Relaxed).checked_sub(used);
        // What is far too much was granted under another budget.
        if left.is_none_or(|left| left < step(limit) / 2 || left > 2 * step(limit)) {
            self.note(used.saturating_add(step(limit)));
        }
    }

    /// Writes down what counts as used today. Where that cannot be written a restart forgets it.
    pub(crate) fn note(&self, bytes: u64) {
        let mut count = self.count.lock();
        if let Some(file) = count.as_mut() {
            let _ = file.write(Spent { day: self.day.load(Ordering::Relaxed), bytes });
        }
        self.granted.store(bytes, Ordering::Relaxed);
    }
}

/// A step of what is granted.
fn step(limit_bytes: u64) -> u64 {
    (limit_bytes / STEPS_A_DAY).min(STEP_BYTES_MAX)
}

/// One of the parts that a limit is spread in.
fn part(limit_bytes: u64) -> u64 {
    (for_bodies(limit_bytes) / PARTS_A_DAY).max(1)
}

/// What bodies may take of a budget.
fn for_bodies(limit_bytes: u64) -> u64 {
    limit_bytes - limit_bytes / KEPT_BACK_PART
}

#[cfg(test)]
mod tests;
