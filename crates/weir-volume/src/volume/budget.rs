//! Asking the write budget, and telling it what was written.

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
    fn written_bytes(&self) -> u64 {
        let Counters { body_bytes, head_bytes, journal_bytes, checkpoint_bytes, .. } = &self.counters;
        let all = [body_bytes, head_bytes, journal_bytes, checkpoint_bytes];
        all.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Whether `bytes` of bodies may be written today, beside `waiting` that are to be written already.
    pub(crate) fn may_spend(&self, waiting: u64, bytes: u64) -> bool {
        let may = self.write_budget.allows(self.written_bytes(), waiting, bytes);
        if !may {
            Counters::add(&self.write_budget.refused, 1);
        }
        may
    }

    /// Says that `bytes` are about to be written. May block.
    pub(crate) fn grant(&self, bytes: u64) {
        self.write_budget.grant(self.used_bytes().saturating_add(bytes));
    }

    fn used_bytes(&self) -> u64 {
        self.write_budget.used_bytes(self.written_bytes())
    }

    /// Whether `bytes` may be written today of what is held already.
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

    /// Changes what may be written in a day, in bytes; what was written today counts.
    pub fn set_budget(&self, limit_bytes: Option<u64>) {
        self.shared.write_budget.limit_bytes.store(limit_bytes.unwrap_or(UNLIMITED), Ordering::Relaxed);
    }

    /// Says what time it is, and what others have written beside since the volume was opened.
    pub fn tick_budget(&self, wall: SystemTime, beside_bytes: u64) {
        self.shared.write_budget.beside_bytes.store(beside_bytes, Ordering::Relaxed);
        self.shared.write_budget.tick(wall, self.shared.written_bytes());
    }

    /// Where the count is written down, and what was found there of the days before the volume was opened: to
    /// be said once, after the first tick.
    pub fn carry_budget(&self, file: SpentFile, found: Option<Spent>) {
        if let Some(spent) = found {
            self.shared.write_budget.carry(spent);
        }
        *self.shared.write_budget.count.lock() = Some(file);
        self.shared.write_budget.renew(self.shared.used_bytes());
    }

    /// Writes down what is to be carried over a restart.
    pub fn renew_budget(&self) {
        self.shared.write_budget.renew(self.shared.used_bytes());
    }

    /// Where that is written down, if it is not durable yet: to be synced by who asks, while others may write
    /// there.
    pub fn unsynced_budget(&self) -> Option<Arc<dyn DiskFile>> {
        self.shared.write_budget.count.lock().as_mut().and_then(SpentFile::unsynced)
    }

    /// Writes down what was written today, and no more: nothing more is written from here on.
    pub(crate) fn settle_budget(&self) {
        self.shared.write_budget.note(self.shared.used_bytes());
    }

    /// Whether `bytes` of a body may be begun today.
    pub(crate) fn may_spend(&self, bytes: u64) -> bool {
        self.shared.may_spend(self.waiting_bytes(), bytes)
    }

    /// Whether more than half of what may be written by now is.
    pub fn is_budget_half_spent(&self) -> bool {
        self.shared.write_budget.is_half_spent(self.shared.written_bytes(), self.waiting_bytes())
    }

    /// How many twenty-fourths of the day's budget are used before their time.
    pub fn budget_ahead(&self) -> u64 {
        self.shared.write_budget.ahead(self.shared.written_bytes(), self.waiting_bytes())
    }
}
