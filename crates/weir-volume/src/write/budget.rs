//! How much may be written to a volume in a day, since drives wear. Days are those of UTC, so that one number
//! each says what is allowed, what was used and when the budget is renewed.
//!
//! Everything that is written counts: bodies, heads, journal, checkpoints, and what others write beside (the
//! catalogue). Once the budget is used up, no body is stored. Whatever keeps the volume true (removals,
//! purges, journals) goes on, and the last part of the budget is reserved for it. The budget reads no clock;
//! its owner tells it the time.
//!
//! The count is written to a file ahead of the writes themselves, a step at a time (*granted*). So after a
//! kill at any moment the file never says less than was written. An orderly end writes the exact count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::write::spent::{Spent, SpentFile};

/// The length of a day in seconds.
const DAY_S: u64 = 86_400;
/// This part of a budget is not for bodies. The journal, checkpoints, removals and the catalogue have it.
const KEPT_BACK_PART: u64 = 32;
/// A budget is spread over this many parts of the day. One part may be spent ahead of time.
const PARTS_A_DAY: u64 = 24;
/// A budget is granted in steps of this part of it: the most that a kill may count too much.
const STEPS_A_DAY: u64 = 64;
/// The longest step in bytes.
const STEP_BYTES_MAX: u64 = 64 << 20;
/// No budget.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// The budget of a volume and how much of it is used.
#[derive(Debug)]
pub(crate) struct WriteBudget {
    pub(crate) limit_bytes: AtomicU64,
    /// The bytes that others write to the volume.
    pub(crate) beside_bytes: AtomicU64,
    /// Added to all bytes that were written, it gives the bytes of today. Wraps.
    pub(crate) offset: AtomicU64,
    pub(crate) day: AtomicU64,
    pub(crate) second: AtomicU64,
    /// Bodies that were not stored, or not to their end, because the budget was used up.
    pub(crate) refused: AtomicU64,
    /// The bytes that may be used today before the file must be written again. Counts only where there is a
    /// budget.
    pub(crate) granted: AtomicU64,
    /// The file with the count. Only the volume's writer locks it, never a request.
    pub(crate) count: Mutex<Option<SpentFile>>,
}

/// What a volume may still write today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayBudget {
    /// The budget of a day in bytes, if there is one.
    pub limit_bytes: Option<u64>,
    /// What was written since the day began, in bytes.
    pub used_bytes: u64,
    /// The budget is used up: no body is stored before midnight, UTC.
    pub is_used_up: bool,
    /// Bodies that were not stored, or not to their end, for that reason since the volume was opened.
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

    /// The bytes of today. `written` is all that the volume has written since it was opened.
    pub(crate) fn used_bytes(&self, written: u64) -> u64 {
        let all = written + self.beside_bytes.load(Ordering::Relaxed);
        all.wrapping_add(self.offset.load(Ordering::Relaxed))
    }

    /// Whether `bytes` more of bodies may be written, beside `waiting` bytes that are queued already.
    pub(crate) fn allows(&self, written: u64, waiting: u64, bytes: u64) -> bool {
        let limit = self.limit_bytes();
        limit == UNLIMITED
            || self.used_bytes(written).saturating_add(waiting).saturating_add(bytes) <= for_bodies(limit)
    }

    /// How many parts of the day's budget were spent ahead of time; 0 if none.
    pub(crate) fn ahead(&self, written: u64, waiting: u64) -> u64 {
        let limit = self.limit_bytes();
        if limit == UNLIMITED {
            return 0;
        }
        (self.used_bytes(written) + waiting).saturating_sub(self.allowed(limit)).div_ceil(part(limit))
    }

    /// Whether more than half of what may be written by now has been written.
    pub(crate) fn is_half_spent(&self, written: u64, waiting: u64) -> bool {
        let limit = self.limit_bytes();
        limit != UNLIMITED && (self.used_bytes(written) + waiting) * 2 > self.allowed(limit)
    }

    /// How much of a limit may be written by now, if it is spread over the day. Includes the part that may be
    /// spent ahead of time.
    pub(crate) fn allowed(&self, limit: u64) -> u64 {
        let second = self.second.load(Ordering::Relaxed);
        let due = u128::from(for_bodies(limit)) * u128::from(second) / u128::from(DAY_S);
        due as u64 + part(limit)
    }

    /// Sets the time. A new day begins with nothing used. A clock that is set back begins no day.
    pub(crate) fn tick(&self, wall: SystemTime, written: u64) {
        let since = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        let day = since / DAY_S;
        self.second.store(since % DAY_S, Ordering::Relaxed);
        let before = self.day.load(Ordering::Relaxed);
        if day > before {
            self.day.store(day, Ordering::Relaxed);
        }
        // The bytes that opening wrote belong to the first day.
        if day > before && before > 0 {
            // The grant was for the day before.
            self.granted.store(0, Ordering::Relaxed);
            let all = written + self.beside_bytes.load(Ordering::Relaxed);
            self.offset.store(0u64.wrapping_sub(all), Ordering::Relaxed);
        }
    }

    /// Adds what was written before the volume was opened, if that was on the same day. A day that lies
    /// ahead, because the clock was set back, counts as today.
    pub(crate) fn carry(&self, spent: Spent) {
        if spent.day >= self.day.load(Ordering::Relaxed) {
            self.offset.fetch_add(spent.bytes, Ordering::Relaxed);
        }
    }

    /// Grants more, if needed, before `used` bytes of today are exceeded.
    pub(crate) fn grant(&self, used: u64) {
        let limit = self.limit_bytes();
        if limit != UNLIMITED && used > self.granted.load(Ordering::Relaxed) {
            self.note(used.saturating_add(step(limit)));
        }
    }

    /// Writes the count that a restart is to find. `used` is today's. With a budget it writes what is
    /// granted, and only after half a step was used.
    pub(crate) fn renew(&self, used: u64) {
        let limit = self.limit_bytes();
        if limit == UNLIMITED {
            return self.note(used);
        }
        let left = self.granted.load(Ordering::Relaxed).checked_sub(used);
        // A count that is far too large was granted under another budget.
        if left.is_none_or(|left| left < step(limit) / 2 || left > 2 * step(limit)) {
            self.note(used.saturating_add(step(limit)));
        }
    }

    /// Writes what counts as used today. If that fails, a restart forgets it.
    pub(crate) fn note(&self, bytes: u64) {
        let mut count = self.count.lock();
        if let Some(file) = count.as_mut() {
            let _ = file.write(Spent { day: self.day.load(Ordering::Relaxed), bytes });
        }
        self.granted.store(bytes, Ordering::Relaxed);
    }
}

/// The length of a step, in bytes.
fn step(limit_bytes: u64) -> u64 {
    (limit_bytes / STEPS_A_DAY).min(STEP_BYTES_MAX)
}

/// The length of a part of the day's budget, in bytes.
fn part(limit_bytes: u64) -> u64 {
    (for_bodies(limit_bytes) / PARTS_A_DAY).max(1)
}

/// The part of a budget that bodies may use.
fn for_bodies(limit_bytes: u64) -> u64 {
    limit_bytes - limit_bytes / KEPT_BACK_PART
}

#[cfg(test)]
mod tests;
