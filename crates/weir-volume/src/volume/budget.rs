//! Asks the write budget, and tells it what was written.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use weir_disk::DiskFile;

use super::Volume;
use crate::shared::Shared;
use crate::usage::Counters;
use crate::write::budget::{DayBudget, UNLIMITED};
use crate::write::spent::{Spent, SpentFile};

impl Shared {
    /// The bytes of all kinds that were written since the volume was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        let Counters { body_bytes, head_bytes, journal_bytes, checkpoint_bytes, .. } = &self.counters;
        let all = [body_bytes, head_bytes, journal_bytes, checkpoint_bytes];
        all.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Whether `bytes` of bodies may be written today, beside the `waiting` bytes that are queued already.
    pub(crate) fn may_spend(&self, waiting: u64, bytes: u64) -> bool {
        let may = self.write_budget.allows(self.written_bytes(), waiting, bytes);
        if !may {
            Counters::add(&self.write_budget.refused, 1);
        }
        may
    }

    /// Announces that `bytes` are about to be written. May block.
    pub(crate) fn grant(&self, bytes: u64) {
        self.write_budget.grant(self.used_bytes().saturating_add(bytes));
    }

    fn used_bytes(&self) -> u64 {
        self.write_budget.used_bytes(self.written_bytes())
    }

    /// Whether `bytes` of objects that are held already may be written again today.
    pub(crate) fn has_left(&self, bytes: u64) -> bool {
        self.write_budget.allows(self.written_bytes(), 0, bytes)
    }

    pub(crate) fn budget(&self) -> DayBudget {
        let (limit, written) = (self.write_budget.limit_bytes(), self.written_bytes());
        DayBudget {
            limit_bytes: (limit != UNLIMITED).then_some(limit),
            used_bytes: self.write_budget.used_bytes(written),
            is_used_up: !self.write_budget.allows(written, 0, 1),
            refused: self.write_budget.refused.load(Ordering::Relaxed),
        }
    }
}

impl Volume {
    /// What may still be written today.
    pub fn budget(&self) -> DayBudget {
        self.shared.budget()
    }

    /// Changes the daily budget, in bytes. What was written today still counts.
    pub fn set_budget(&self, limit_bytes: Option<u64>) {
        self.shared.write_budget.limit_bytes.store(limit_bytes.unwrap_or(UNLIMITED), Ordering::Relaxed);
    }

    /// Tells the budget the time, and what others have written beside the volume since it was opened, in
    /// bytes.
    pub fn tick_budget(&self, wall: SystemTime, beside_bytes: u64) {
        self.shared.write_budget.beside_bytes.store(beside_bytes, Ordering::Relaxed);
        self.shared.write_budget.tick(wall, self.shared.written_bytes());
    }

    /// Sets the file that keeps the count, and what was found in it. Call this once, after the first tick.
    pub fn carry_budget(&self, file: SpentFile, found: Option<Spent>) {
        if let Some(spent) = found {
            self.shared.write_budget.carry(spent);
        }
        *self.shared.write_budget.count.lock() = Some(file);
        self.shared.write_budget.renew(self.shared.used_bytes());
    }

    /// Writes the count that a restart is to find.
    pub fn renew_budget(&self) {
        self.shared.write_budget.renew(self.shared.used_bytes());
    }

    /// The file of the count, if its last write is not durable yet. The caller syncs it, while others may
    /// write to it.
    pub fn unsynced_budget(&self) -> Option<Arc<dyn DiskFile>> {
        self.shared.write_budget.count.lock().as_mut().and_then(SpentFile::unsynced)
    }

    /// Writes the exact count of today: nothing is written to the volume after this.
    pub(crate) fn settle_budget(&self) {
        self.shared.write_budget.note(self.shared.used_bytes());
    }

    /// Whether a body of `bytes` may be begun today.
    pub(crate) fn may_spend(&self, bytes: u64) -> bool {
        self.shared.may_spend(self.waiting_bytes(), bytes)
    }

    /// Whether more than half of what may be written by now has been written.
    pub fn is_budget_half_spent(&self) -> bool {
        self.shared.write_budget.is_half_spent(self.shared.written_bytes(), self.waiting_bytes())
    }

    /// How many twenty-fourths of the day's budget were spent ahead of time.
    pub fn budget_ahead(&self) -> u64 {
        self.shared.write_budget.ahead(self.shared.written_bytes(), self.waiting_bytes())
    }
}
