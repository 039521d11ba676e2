//! All volumes as the tier below memory: which of them gets what arrives, what is removed from all of them,
//! and which marks they still need.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::VolumeWrite;
use super::layout::Tiers;
use super::parts::Parts;
use crate::admission::{Admission, Room, Task};
use crate::generation::Generation;
use crate::ledger::{Ledger, Stamp};
use crate::memory::LowerTier;
use crate::register::Register;
use crate::tier::{PendingVolumes, SharedPut, VolumeTier};
use crate::volume::{VolumeState, key};

/// The volumes, and what decides what they get.
#[derive(Debug)]
pub(crate) struct Volumes {
    pub(crate) tiers: Tiers,
    /// What may be written to the volumes.
    pub(crate) admission: Admission,
    /// How many bytes of a site all volumes together may hold.
    pub(crate) quotas: Mutex<HashMap<u64, u64>>,
    /// The list of what volumes missed; set where there can be volumes.
    pub(crate) register: OnceLock<Arc<Register>>,
    /// The volumes that another process still has, and what was begun meanwhile.
    pub(crate) pending: PendingVolumes,
    /// The bodies that arrive in parts and go to volumes alone.
    pub(crate) parts: Parts,
    /// Marks were dropped up to this number. Held while they are.
    pub(super) dropped: Mutex<Stamp>,
}

/// The decision about a body that arrives.
enum Verdict {
    /// It is written to this volume.
    Admitted(Arc<VolumeTier>),
    /// It stays in memory.
    Stays,
}

impl Volumes {
    pub(super) fn new(admission: Admission) -> Volumes {
        Volumes {
            tiers: Tiers::default(),
            admission,
            quotas: Mutex::default(),
            register: OnceLock::new(),
            pending: PendingVolumes::default(),
            parts: Parts::default(),
            dropped: Mutex::new(Stamp::of(0)),
        }
    }

    /// Begins to write a generation that begins to arrive. `None` where it is not admitted, or no volume
    /// takes it.
    pub(crate) fn begin(&self, generation: &Generation) -> Option<VolumeWrite> {
        match self.admit(generation) {
            Verdict::Admitted(tier) => tier.begin(generation),
            Verdict::Stays => None,
        }
    }

    /// As [`Volumes::begin`], for a generation that arrives in parts: see [`VolumeTier::begin_part`].
    pub(crate) fn begin_part(&self, generation: &Generation) -> Option<SharedPut> {
        match self.admit(generation) {
            Verdict::Admitted(tier) => tier.begin_part(generation),
            Verdict::Stays => None,
        }
    }

    /// Decides about a body that begins to arrive. If a volume has an older object of its key, that was
    /// admitted, and so is its replacement.
    fn admit(&self, generation: &Generation) -> Verdict {
        if !self.has_volumes() {
            return Verdict::Stays;
        }
        let digest = digest_of(generation);
        self.admission.note(digest);
        let Some(tier) = self.tiers.home(digest) else { return Verdict::Stays };
        if self.earns(generation, &tier) || self.has_older(digest) {
            tier.count_admitted();
            return Verdict::Admitted(tier);
        }
        self.admission.count_refused();
        Verdict::Stays
    }

    /// Whether there are volumes, or will be: requests count meanwhile.
    fn has_volumes(&self) -> bool {
        !self.tiers.all().is_empty() || self.pending.is_on()
    }

    /// As [`Store::waiting_bytes`](crate::Store::waiting_bytes).
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let layout = self.tiers.all();
        let up = layout.iter().filter(|tier| tier.state() == VolumeState::Up);
        up.map(|tier| tier.volume().waiting_bytes()).sum()
    }

    fn has_older(&self, digest: u128) -> bool {
        self.tiers.all().iter().any(|tier| tier.count_of(digest) > 0)
    }

    /// Notes a use of a generation in memory. The background thread writes it later if it has earned that.
    pub(crate) fn note_use(&self, generation: &Arc<Generation>) {
        if !self.has_volumes() {
            return;
        }
        self.admission.note(digest_of(generation));
        if generation.object() == 0
            && generation.body.is_whole()
            && self.is_admitted(generation) == Some(true)
        {
            self.admission.ask(Task::WriteLater(Arc::downgrade(generation)));
        }
    }

    /// Whether a generation is admitted, after its request was noted; `None` where no volume takes anything
    /// now.
    pub(crate) fn is_admitted(&self, generation: &Generation) -> Option<bool> {
        self.tiers.all().home(digest_of(generation)).map(|tier| self.earns(generation, tier))
    }

    /// Whether a generation has been asked for often enough, by its route and by the admission.
    fn earns(&self, generation: &Generation, tier: &VolumeTier) -> bool {
        let (digest, least) = (digest_of(generation), u32::from(generation.volume_uses_min()));
        (least < 2 || self.admission.frequency(digest) >= least) && self.admission.judge(digest, tier.room())
    }
}

impl LowerTier for Volumes {
    /// The older one may have been written after the newer one got its number there: the volumes would take
    /// it for newer.
    fn note_newer(&self, newer: &Generation, older: &Generation) {
        if older.object() > newer.object() {
            self.tiers.remove(older);
        }
    }

    fn remove(&self, generation: &Generation) {
        self.tiers.remove(generation);
    }

    /// Older versions are removed from all volumes except its own.
    fn note_settled(&self, generation: &Arc<Generation>, ledger: &Ledger) {
        // It was begun before there was a volume for it, or when none took it.
        if generation.object() == 0 && self.is_admitted(generation) == Some(true) {
            self.admission.ask(Task::WriteLater(Arc::downgrade(generation)));
        }
        let (digest, object, home) = (digest_of(generation), generation.object(), generation.home());
        let is_home = |tier: &Arc<VolumeTier>| home.as_ref().is_some_and(|home| Arc::ptr_eq(home, tier));
        for tier in self.tiers.all().iter().filter(|tier| tier.count_of(digest) > 0) {
            if object > 0 && is_home(tier) {
                continue;
            }
            let (own, key) = (Arc::clone(tier), generation.key().clone());
            let before = if object > 0 { object } else { tier.volume.next_number() };
            let variant = generation.head().stored.variant.clone();
            // On a thread of that volume, so that a slow one delays nobody else.
            let job = move || own.remove_replaced(&key, &variant, before);
            if tier.volume.on_reader(job).is_err() {
                tier.note_failed_removal(ledger.step());
            }
        }
    }

    fn note_freshened(&self, generation: &Generation, ledger: &Ledger) {
        if let Some(tier) = generation.home() {
            tier.refresh(generation, ledger);
        }
    }

    fn drops_marks(&self) -> bool {
        self.tiers.all().iter().any(|tier| tier.can_sweep())
    }

    /// What lies on an unswept volume is dead from then on.
    fn drop_marks(&self, until: Stamp, ledger: &Ledger) -> bool {
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
            tier.set_dead_before(until);
        }
        ledger.retire_marks(until);
        true
    }
}

impl VolumeTier {
    fn room(&self) -> Room {
        let (ahead, is_half_spent) = (self.volume.budget_ahead(), self.volume.is_budget_half_spent());
        Room { is_left: self.volume.has_room(), ahead, is_half_spent }
    }
}

/// The digest of a generation's key that volumes and the sketch use.
fn digest_of(generation: &Generation) -> u128 {
    let key = generation.key();
    key::digest(&key.full, key.site)
}
