//! The volumes below a store: attached, weighed, emptied and let go while it runs.

use std::io;
use std::sync::Arc;

use weir_policy::Now;

use crate::admission::{AdmissionMode, AdmissionUsage, Task};
use crate::catalogue::{Catalogue, CatalogueUsage, Rows};
use crate::inside::{Emptied, Emptying, Twice, is_unswept, share_quotas, start_background, start_sweeper};
use crate::ledger::Stamp;
use crate::register::Register;
use crate::store::Store;
use crate::tier::{Seating, Superseded, SweepUsage, VolumeTier};
use crate::volume::{DayBudget, EachDone, ReadError, Verified, Volume, VolumeState, VolumeUsage};

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
    pub suspect_before: Stamp,
    /// What was asked for before this number is gone from there.
    pub dead_before: Stamp,
    /// Removals could not be written: after a restart something may be back.
    pub has_failed_removals: bool,
    /// What it holds, and what was done with it.
    pub usage: VolumeUsage,
    /// What may still be written to it today.
    pub budget: DayBudget,
    /// Bodies that went down to it while they arrived, since it was attached.
    pub admitted: u64,
    /// Bodies that went down to it from memory later.
    pub written_later: u64,
    /// What its sweeper has done.
    pub sweeps: SweepUsage,
    /// What its catalogue takes, where there is one.
    pub catalogue: Option<CatalogueUsage>,
}

impl VolumeTier {
    /// The state it is in, and what it holds.
    pub(crate) fn report(&self) -> VolumeReport {
        VolumeReport {
            id: self.volume().id(),
            name: Arc::clone(self.name()),
            weight: self.weight(),
            state: self.state(),
            is_draining: self.is_draining(),
            suspect_before: self.suspect_before(),
            dead_before: self.dead_before(),
            has_failed_removals: self.has_failed_removals(),
            usage: self.usage(),
            budget: self.volume().budget(),
            admitted: self.admitted(),
            written_later: self.written_later(),
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
    ) -> Result<Arc<VolumeTier>, AttachError> {
        let memory_bytes = seating.memory_bytes;
        let mut seating = seating;
        let superseded = match self.inside.volumes.pending.superseded(volume.next_number()) {
            Some(superseded) => superseded,
            None => {
                seating.suspect_before = self.inside.memory.ledger.step();
                Superseded::default()
            }
        };
        let (ledger, durable) = self.inside.memory.ledger.durable();
        volume.follow(ledger, durable);
        seating.settle(&volume);
        let tier = VolumeTier::new(volume, rows, seating, superseded, clock);
        tier.set_aside(self.inside.memory.charge(memory_bytes));
        // Before anything is stored there: what of the day's budget is left.
        tier.open_budget(self.inside.volumes.admission.disk());
        start_background(&self.inside, clock).map_err(AttachError::Thread)?;
        self.inside.volumes.tiers.attach(&tier)?;
        let own = Arc::clone(&tier);
        if tier.volume().on_reader(move || own.drop_superseded()).is_err() {
            tier.note_failed_removal(self.inside.memory.ledger.step());
        }
        if let Err(error) = start_sweeper(&self.inside, &tier) {
            self.inside.volumes.tiers.detach(&tier);
            return Err(AttachError::Thread(error));
        }
        share_quotas(&self.inside);
        self.inside.volumes.admission.ask(Task::Offer);
        Ok(tier)
    }

    /// All that the volumes hold by now and was asked for before that number is asked about before it is
    /// used: marks are lost that may concern it ([`Distrust::Ahead`](crate::register::Distrust::Ahead)).
    pub(crate) fn distrust(&self, from: Stamp) {
        self.inside.volumes.tiers.all().iter().for_each(|tier| tier.suspect(from));
    }

    /// Says that volumes will come that another process still has: what is begun from here on outdoes what
    /// they hold.
    pub(crate) fn expect_volumes(&self) {
        self.inside.volumes.pending.begin();
    }

    /// Whether volumes are expected.
    pub(crate) fn expects_volumes(&self) -> bool {
        self.inside.volumes.pending.is_on()
    }

    /// All that were expected are there, or will be treated as having been away.
    pub(crate) fn end_expecting(&self) {
        self.inside.volumes.pending.end();
    }

    /// Whether what is purged may still be among the [`Store::stocks`] of a volume: it is until it is swept.
    pub fn is_unswept(&self) -> bool {
        is_unswept(&self.inside)
    }

    /// Says where it is written down what volumes miss while they are away; once, before the first is
    /// attached.
    pub(crate) fn set_register(&self, register: Arc<Register>) {
        let _ = self.inside.volumes.register.set(register);
    }

    /// As [`Store::attach`], without rows and without threads: tests drive the sweeper.
    #[cfg(test)]
    pub(crate) fn attach_without_sweeper(
        &self,
        volume: Volume,
        seating: Seating,
        clock: fn() -> Now,
    ) -> Arc<VolumeTier> {
        let (ledger, durable) = self.inside.memory.ledger.durable();
        volume.follow(ledger, durable);
        seating.settle(&volume);
        let tier = VolumeTier::new(volume, None, seating, Superseded::default(), clock);
        self.inside.volumes.tiers.attach(&tier).unwrap();
        tier
    }

    /// Lets a volume go: nothing more is asked of it or stored there. What memory has of it stays, but for
    /// what has its bytes there alone. Its files are closed by [`VolumeTier::close`], which may block.
    pub(crate) fn detach(&self, tier: &Arc<VolumeTier>) {
        self.inside.volumes.tiers.detach(tier);
        self.inside.forget_volume(tier);
        share_quotas(&self.inside);
    }

    /// Changes a volume's share of what comes; what is there stays where it is.
    pub(crate) fn weigh(&self, tier: &VolumeTier, weight: u64) {
        tier.set_weight(weight);
        self.inside.volumes.tiers.weigh();
        share_quotas(&self.inside);
    }

    /// Moves what a volume that is being emptied holds to those that have room for it, in one pass. Blocks
    /// for as long as that takes.
    ///
    /// # Errors
    /// The drive fails.
    pub(crate) fn empty(&self, tier: &Arc<VolumeTier>) -> Result<Emptied, ReadError> {
        Emptying::new(&self.inside, tier).run()
    }

    /// The volumes that are attached.
    pub fn volumes(&self) -> Vec<VolumeReport> {
        self.inside.volumes.tiers.all().iter().map(|tier| tier.report()).collect()
    }

    /// The longest body that is kept, in bytes: half of the memory, or of the largest volume.
    pub fn object_bytes_max(&self) -> u64 {
        let layout = self.inside.volumes.tiers.all();
        let on_disk = layout.iter().map(|tier| tier.volume().size_bytes() / 2).max();
        self.inside.memory.limits.object_bytes_max().max(on_disk.unwrap_or(0))
    }

    /// Whether a volume that keeps up has bodies to write: soon they can leave memory.
    pub fn is_writing(&self) -> bool {
        self.waiting_bytes() > 0
    }

    /// How many bytes wait for the volumes that keep up.
    pub fn waiting_bytes(&self) -> u64 {
        self.inside.volumes.waiting_bytes()
    }

    /// How many bytes the volumes have written since they were opened: whether they make progress.
    pub fn written_bytes(&self) -> u64 {
        self.inside.volumes.tiers.all().iter().map(|tier| tier.volume().written_bytes()).sum()
    }

    /// Goes through all that the volumes hold, checks every byte, and drops what is wrong. Blocks for as long
    /// as reading them takes; a break of `each` ends it early. By name: what was found, or that the drive
    /// fails.
    pub fn verify(&self, each: EachDone<'_>) -> Vec<(Arc<str>, Result<Verified, ReadError>)> {
        let layout = self.inside.volumes.tiers.all();
        layout.iter().map(|tier| (Arc::clone(tier.name()), tier.verify(each))).collect()
    }

    /// The objects on all volumes.
    pub fn objects_on_volumes(&self) -> u64 {
        self.inside.volumes.tiers.all().iter().map(|tier| tier.volume().usage().objects).sum()
    }

    /// What may go down to the volumes from now on.
    pub fn set_admission(&self, mode: AdmissionMode) {
        self.inside.volumes.admission.set_mode(mode);
    }

    /// What was admitted to the volumes, and what was not.
    pub fn admission_usage(&self) -> AdmissionUsage {
        self.inside.volumes.admission.usage()
    }

    /// Writes the sketch of requests and the day's count of written bytes, and admits nothing more from
    /// memory: call it before the volumes are closed. Blocks.
    pub fn finish_admission(&self) {
        self.inside.volumes.admission.stop();
    }

    /// Makes durable what was stored so far and takes nothing more: before the process ends. Blocks.
    pub fn close(&self) {
        self.inside.volumes.admission.stop();
        for tier in self.inside.volumes.tiers.all().iter() {
            tier.close();
        }
    }
}
