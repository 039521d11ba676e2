//! What the shelf has to do with the volumes below it: what may lie there, which marks they still need, and
//! what goes with one that is let go.

use std::sync::Arc;

use super::{SWEEP_STEP, Shelf};
use crate::generation::{Generation, Retirement};
use crate::ledger::Stamp;
use crate::queues::Victims;
use crate::tier::Tier;
use crate::volume::VolumeState;
use crate::volume::key;

impl Shelf {
    /// Whether something of a URL may be held, or be on its way to a volume, by its digest and as it stands
    /// in keys that nothing is added to. True where that cannot be told: of what a volume that is away holds,
    /// or another process.
    pub(crate) fn may_hold(&self, digest: u128, url: &[u8], site: u64) -> bool {
        let is_in_memory = || !self.index.all(digest).is_empty();
        // In the order in which it goes down, and what came up meanwhile at the end.
        is_in_memory()
            || self.ledger.is_away()
            || self.expecting.is_on()
            || self.register.get().is_some_and(|register| register.is_somebody_away())
            || self.tiers.may_hold(key::digest(url, site))
            || is_in_memory()
    }

    /// Drops the marks that all volumes have been swept by. One that cannot be swept keeps them, until they
    /// are too many.
    pub(crate) fn retire_swept(&self) {
        let mut retired = self.retiring.lock();
        let is_crowded = self.ledger.is_crowded();
        let is_somebody_away = self.register.get().is_some_and(|register| register.is_somebody_away());
        if is_somebody_away && !is_crowded {
            return;
        }
        let layout = self.tiers.all();
        let waited_for = layout.iter().filter(|tier| match tier.state() {
            VolumeState::Ejected => false,
            _ => tier.can_sweep() || !is_crowded,
        });
        let Some(until) = waited_for.map(|tier| Stamp::of(tier.volume().swept())).min() else { return };
        // What is in flight is made dead only under need.
        let until = if is_crowded { until } else { self.ledger.settled(until) };
        if until <= *retired {
            return;
        }
        self.sweep_all();
        if self.drop_marks(until) {
            *retired = until;
        }
    }

    /// Drops the marks up to a number. What lies where it could not be swept is dead from then on.
    pub(super) fn drop_marks(&self, until: Stamp) -> bool {
        let layout = self.tiers.all();
        let (swept, unswept): (Vec<_>, Vec<_>) =
            layout.iter().partition(|tier| tier.volume().swept() >= until.number());
        if let Some(register) = self.register.get() {
            let unswept: Vec<u128> = unswept.iter().map(|tier| tier.volume().id()).collect();
            let reached: Vec<_> =
                swept.iter().map(|tier| (tier.volume().id(), tier.volume().reached())).collect();
            if register.lose(until, &unswept, &reached).is_err() {
                return false;
            }
        }
        for tier in unswept {
            tier.set_dead_below(until);
        }
        self.ledger.retire_marks(until);
        true
    }

    /// Takes those out of memory whose bytes lie on a volume that is let go alone.
    pub(crate) fn let_go(&self, tier: &Arc<Tier>) {
        let mut lost: Vec<Arc<Generation>> = Vec::new();
        self.index.each(|generation| {
            let is_there = generation.home().is_some_and(|home| Arc::ptr_eq(&home, tier));
            if is_there && generation.is_below() {
                lost.push(Arc::clone(generation));
            }
        });
        for some in lost.chunks(SWEEP_STEP) {
            let mut retired = Victims::new();
            let mut state = self.state.lock();
            for generation in some {
                self.withdraw(&mut state, generation, Retirement::Evicted, &mut retired);
            }
            drop(state);
            drop(retired);
        }
    }
}
