//! The volumes below a store: attached, weighed, emptied and let go while it runs.

use std::io;
use std::sync::Arc;

use weir_policy::Now;

use crate::admission::thread::Task;
use crate::admission::{self, AdmissionMode, AdmissionUsage};
use crate::catalogue::{Catalogue, CatalogueUsage, Rows};
use crate::ledger::Stamp;
use crate::register::Register;
use crate::stocks::{is_unswept, share_quotas};
use crate::store::Store;
use crate::tier::{Emptied, Emptying, Outdone, Seating, SweepUsage, Tier, Twice, start};
use crate::volume::VolumeState;
use crate::volume::{DayBudget, ReadError, Verified, Volume, VolumeUsage};

/// Why a volume is not attached; it is closed.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// One of that identity is there.
    #[error(transparent)]
    Twice(#[from] Twice),
    /// The thread that sweeps cannot be started.
    #[error("the thread that sweeps cannot be started: {0}")]
    Thread(io::Error),
}

/// The state of a volume, and what it holds.
#[derive(Debug, Clone)]
pub struct VolumeReport {
    /// Which one it is.
    pub id: u128,
    /// What people call it.
    pub name: Arc<str>,
    /// Its share of the keys, beside the others' weights.
    pub weight: u64,
    /// The state it is in.
    pub state: VolumeState,
    /// Whether it is being emptied.
    pub is_draining: bool,
    /// What was asked for before this number is asked about before it is used.
    pub trusted_from: Stamp,
    /// What was asked for before this number is gone from there.
    pub dead_below: Stamp,
    /// Removals could not be written: after a restart something may be back.
    pub owes: bool,
    /// What it holds, and what was done with it.
    pub usage: VolumeUsage,
    /// What may still be written to it today.
    pub budget: DayBudget,
    /// Bodies that went down to it while they arrived, since it was attached.
    pub admitted: u64,
    /// Bodies that went down to it from memory later.
    pub promoted: u64,
    /// What its sweeper has done.
    pub sweeps: SweepUsage,
    /// What its catalogue takes, where there is one.
    pub catalogue: Option<CatalogueUsage>,
}

impl Tier {
    /// The state it is in, and what it holds.
    pub(crate) fn report(&self) -> VolumeReport {
        VolumeReport {
            id: self.volume().id(),
            name: Arc::clone(self.name()),
            weight: self.weight(),
            state: self.state(),
            is_draining: self.is_draining(),
            trusted_from: self.trusted_from(),
            dead_below: self.dead_below(),
            owes: self.owes(),
            usage: self.usage(),
            budget: self.volume().budget(),
            admitted: self.admitted(),
            promoted: self.promoted(),
            sweeps: self.sweep_usage(),
            catalogue: self.catalogue.as_ref().map(Catalogue::usage),
        }
    }
}

impl Store {
    /// Puts a volume below the memory: what it holds is found from now on, and its share of what comes is
    /// stored there. What is searched on it is found by `rows`, where there are some, else by walking over
    /// it; they were opened with [`catalogue::wanted`](crate::catalogue::wanted) of that volume.
    ///
    /// # Errors
    /// [`AttachError`].
    pub(crate) fn attach(
        &self,
        volume: Volume,
        rows: Option<Arc<dyn Rows>>,
        seating: Seating,
        clock: fn() -> Now,
    ) -> Result<Arc<Tier>, AttachError> {
        let memory_bytes = seating.memory_bytes;
        let mut seating = seating;
        let outdone = match self.shelf.expecting.outdone(volume.next_number()) {
            Some(outdone) => outdone,
            None => {
                seating.trusted_from = self.shelf.ledger.step();
                Outdone::default()
            }
        };
        let (ledger, durable) = self.shelf.ledger.durable();
        volume.follow(ledger, durable);
        seating.settle(&volume);
        let tier = Tier::new(volume, rows, seating, outdone, clock);
        tier.set_aside(self.shelf.charge(memory_bytes));
        // Before anything is stored there: what of the day's budget is left.
        tier.open_budget(self.shelf.settings.admission.disk.as_deref());
        admission::thread::start(&self.shelf, clock).map_err(AttachError::Thread)?;
        self.shelf.tiers.attach(&tier)?;
        let own = Arc::clone(&tier);
        if tier.volume().on_reader(move || own.drop_outdone()).is_err() {
            tier.doubt(self.shelf.ledger.step());
        }
        if let Err(error) = start(&self.shelf, &tier) {
            self.shelf.tiers.detach(&tier);
            return Err(AttachError::Thread(error));
        }
        share_quotas(&self.shelf);
        self.shelf.admission.ask(Task::Offer);
        Ok(tier)
    }

    /// All that the volumes hold by now and was asked for before that number is asked about before it is
    /// used: marks are lost that may concern it ([`Distrust::Ahead`](crate::register::Distrust::Ahead)).
    pub(crate) fn distrust(&self, from: Stamp) {
        self.shelf.tiers.all().iter().for_each(|tier| tier.trust_from(from));
    }

    /// Says that volumes will come that another process still has: what is begun from here on outdoes what
    /// they hold.
    pub(crate) fn expect_volumes(&self) {
        self.shelf.expecting.begin();
    }

    /// Whether volumes are expected.
    pub(crate) fn expects_volumes(&self) -> bool {
        self.shelf.expecting.is_on()
    }

    /// All that were expected are there, or will be treated as having been away.
    pub(crate) fn end_expecting(&self) {
        self.shelf.expecting.end();
    }

    /// Whether what is purged may still be among the [`Store::stocks`] of a volume: it is until it is swept.
    pub fn is_unswept(&self) -> bool {
        is_unswept(&self.shelf)
    }

    /// Says where it is written down what volumes miss while they are away; once, before the first is
    /// attached.
    pub(crate) fn set_register(&self, register: Arc<Register>) {
        let _ = self.shelf.register.set(register);
    }

    /// As [`Store::attach`], without rows and without threads: tests drive the sweeper.
    #[cfg(test)]
    pub(crate) fn attach_without_sweeper(
        &self,
        volume: Volume,
        seating: Seating,
        clock: fn() -> Now,
    ) -> Arc<Tier> {
        let (ledger, durable) = self.shelf.ledger.durable();
        volume.follow(ledger, durable);
        seating.settle(&volume);
        let tier = Tier::new(volume, None, seating, Outdone::default(), clock);
        self.shelf.tiers.attach(&tier).unwrap();
        tier
    }

    /// Lets a volume go: nothing more is asked of it or stored there. What memory has of it stays, but for
    /// what has its bytes there alone. Its files are closed by [`Tier::close`], which may block.
    pub(crate) fn detach(&self, tier: &Arc<Tier>) {
        self.shelf.tiers.detach(tier);
        self.shelf.let_go(tier);
        share_quotas(&self.shelf);
    }

    /// Changes a volume's share of what comes; what is there stays where it is.
    pub(crate) fn weigh(&self, tier: &Tier, weight: u64) {
        tier.set_weight(weight);
        self.shelf.tiers.weigh();
        share_quotas(&self.shelf);
    }

    /// Moves what a volume that is being emptied holds to those that have room for it, in one pass. Blocks
    /// for as long as that takes.
    ///
    /// # Errors
    /// The drive fails.
    pub(crate) fn empty(&self, tier: &Arc<Tier>) -> Result<Emptied, ReadError> {
        Emptying::new(&self.shelf, tier).run()
    }

    /// The volumes that are attached.
    pub fn volumes(&self) -> Vec<VolumeReport> {
        self.shelf.tiers.all().iter().map(|tier| tier.report()).collect()
    }

    /// The longest body that is kept, in bytes: half of the memory, or of the largest volume.
    pub fn object_bytes_max(&self) -> u64 {
        let layout = self.shelf.tiers.all();
        let below = layout.iter().map(|tier| tier.volume().size_bytes() / 2).max();
        self.shelf.settings.object_bytes_max().max(below.unwrap_or(0))
    }

    /// Goes through all that the volumes hold, checks every byte, and drops what is wrong. Blocks for as long
    /// as reading them takes. By name: what was found, or that the drive fails.
    pub fn verify(&self) -> Vec<(Arc<str>, Result<Verified, ReadError>)> {
        let layout = self.shelf.tiers.all();
        layout.iter().map(|tier| (Arc::clone(tier.name()), tier.verify())).collect()
    }

    /// What may go down to the volumes from now on.
    pub fn set_admission(&self, mode: AdmissionMode) {
        self.shelf.admission.set_mode(mode);
    }

    /// What was let down, and what was not.
    pub fn admission_usage(&self) -> AdmissionUsage {
        self.shelf.admission.usage()
    }

    /// Writes down what was asked for and what was written today, and lets nothing more down from memory:
    /// before the volumes are closed. Blocks.
    pub fn finish_admission(&self) {
        self.shelf.admission.stop();
    }

    /// Makes durable what was stored so far and takes nothing more: before the process ends. Blocks.
    pub fn close(&self) {
        self.shelf.admission.stop();
        for tier in self.shelf.tiers.all().iter() {
            tier.close();
        }
    }
}
