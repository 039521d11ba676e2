//! Which marks the volumes still need, and what may be held of a URL that is to be marked.

use std::sync::Arc;

use super::Inside;
use crate::ledger::Stamp;
use crate::memory::LowerTier;
use crate::tier::VolumeTier;
use crate::volume::VolumeState;
use crate::volume::key;

impl Inside {
    /// Whether something of a URL may be held, or is being written to a volume. The URL is given by its
    /// digest and by its text, for keys that nothing is added to. True where that is not known: of a volume
    /// that is away, or while another process has the volumes.
    pub(crate) fn may_hold(&self, digest: u128, url: &[u8], site: u64) -> bool {
        let is_in_memory = || !self.memory.index.all(digest).is_empty();
        // In the order in which bodies move: memory, volumes, and memory again for what was loaded meanwhile.
        is_in_memory()
            || self.memory.ledger.is_away()
            || self.volumes.pending.is_on()
            || self.volumes.is_somebody_away()
            || self.volumes.tiers.may_hold(key::digest(url, site))
            || is_in_memory()
    }

    /// Drops the marks that all volumes have been swept by. A volume that cannot be swept keeps them, until
    /// they are too many.
    pub(crate) fn retire_swept(&self) {
        let ledger = &self.memory.ledger;
        let mut dropped = self.volumes.dropped.lock();
        let is_crowded = ledger.is_crowded();
        if self.volumes.is_somebody_away() && !is_crowded {
            return;
        }
        let layout = self.volumes.tiers.all();
        let waited_for = layout.iter().filter(|tier| match tier.state() {
            VolumeState::Ejected => false,
            _ => tier.can_sweep() || !is_crowded,
        });
        let Some(until) = waited_for.map(|tier| Stamp::of(tier.volume().swept())).min() else { return };
        // A running transfer is made dead only under need.
        let until = if is_crowded { until } else { ledger.settled(until) };
        if until <= *dropped {
            return;
        }
        self.memory.sweep_all();
        if self.volumes.drop_marks(until, ledger) {
            *dropped = until;
        }
    }

    /// Evicts generations whose bytes lie only on a volume that is detached.
    pub(crate) fn forget_volume(&self, tier: &Arc<VolumeTier>) {
        self.memory.evict_where(|generation| {
            generation.is_on_disk() && generation.home().is_some_and(|home| Arc::ptr_eq(&home, tier))
        });
    }
}

impl super::Volumes {
    fn is_somebody_away(&self) -> bool {
        self.register.get().is_some_and(|register| register.is_somebody_away())
    }
}
