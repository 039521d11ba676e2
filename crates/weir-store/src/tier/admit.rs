//! Where it is asked what may go down, and said what was asked for; and a volume's budget, from day to day.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_disk::Disk;
use weir_policy::{CacheKey, Variant};

use super::{SharedPut, Stowing, Tier};
use crate::admission::Room;
use crate::admission::thread::Task;
use crate::generation::Generation;
use crate::shelf::{Shelf, takes_place_of};
use crate::volume::{Named, SpentFile, codec, key};

/// What went down to a volume.
#[derive(Debug, Default)]
pub(super) struct Counts {
    admitted: AtomicU64,
    promoted: AtomicU64,
}

/// What is decided of something that arrives.
enum Verdict {
    Down(Arc<Tier>),
    Stays,
}

impl Shelf {
    /// Begins to write a generation down that begins to arrive; `None` where it is not let down, or nothing
    /// is taken.
    pub(crate) fn begin_below(&self, generation: &Generation) -> Option<Stowing> {
        match self.admit(generation) {
            Verdict::Down(tier) => tier.begin(generation),
            Verdict::Stays => None,
        }
    }

    /// As [`Shelf::begin_below`], for what comes in parts from the start: see [`Tier::begin_part`].
    pub(crate) fn begin_part_below(&self, generation: &Generation) -> Option<Arc<SharedPut>> {
        match self.admit(generation) {
            Verdict::Down(tier) => tier.begin_part(generation),
            Verdict::Stays => None,
        }
    }

    /// Whether a whole is in the index whose place a generation will take, and which as a part it does not
    /// take.
    pub(crate) fn has_whole_of_variant(&self, generation: &Generation) -> bool {
        let label = &generation.label;
        let all = self.index.all(label.key.digest);
        all.iter().any(|other| other.is_whole() && takes_place_of(label, &other.label))
    }

    /// Notes what begins to arrive. What a volume has under its key was let down before: what replaces it is
    /// as well.
    fn admit(&self, generation: &Generation) -> Verdict {
        if !self.has_volumes() {
            return Verdict::Stays;
        }
        let digest = digest_of(generation);
        self.admission.note(digest);
        let Some(tier) = self.tiers.home(digest) else { return Verdict::Stays };
        if self.admission.judge(digest, tier.room()) || self.has_older_below(digest) {
            tier.letting.admitted.fetch_add(1, Ordering::Relaxed);
            return Verdict::Down(tier);
        }
        self.admission.count_refused();
        Verdict::Stays
    }

    /// Whether there are volumes, or will be: what is asked for meanwhile counts.
    fn has_volumes(&self) -> bool {
        !self.tiers.all().is_empty() || self.expecting.is_on()
    }

    fn has_older_below(&self, digest: u128) -> bool {
        self.tiers.all().iter().any(|tier| tier.count_of(digest) > 0)
    }

    /// Notes a use of what is in memory; the thread looks whether it has earned its place below.
    pub(crate) fn note_use(&self, generation: &Arc<Generation>) {
        if !self.has_volumes() {
            return;
        }
        self.admission.note(digest_of(generation));
        if generation.object() == 0
            && generation.body.is_whole()
            && self.may_go_down(generation) == Some(true)
        {
            self.admission.ask(Task::Promote(Arc::downgrade(generation)));
        }
    }

    /// Whether something that was asked for and noted may go down; `None` where nobody takes anything just
    /// now.
    pub(crate) fn may_go_down(&self, generation: &Generation) -> Option<bool> {
        let digest = digest_of(generation);
        self.tiers.all().home(digest).map(|tier| self.admission.judge(digest, tier.room()))
    }

    /// A generation has become resident: what older ones another volume may have than the one that it is on
    /// go; where it stays in memory, those of all.
    pub(crate) fn note_settled(&self, generation: &Arc<Generation>) {
        // What is doubted outdoes nothing.
        if !generation.is_whole() || self.is_soft(&generation.label) {
            return;
        }
        // It was begun before there was a volume for it, or none took it then.
        if generation.object() == 0 && self.may_go_down(generation) == Some(true) {
            self.admission.ask(Task::Promote(Arc::downgrade(generation)));
        }
        let (digest, object, home) = (digest_of(generation), generation.object(), generation.home());
        let is_home = |tier: &Arc<Tier>| home.as_ref().is_some_and(|home| Arc::ptr_eq(home, tier));
        for tier in self.tiers.all().iter().filter(|tier| tier.count_of(digest) > 0) {
            if object > 0 && is_home(tier) {
                continue;
            }
            let (own, key) = (Arc::clone(tier), generation.key().clone());
            let below = if object > 0 { object } else { tier.volume.next_number() };
            let variant = generation.head().stored.variant.clone();
            // On a thread of that volume: one that does not keep up holds up nobody else.
            let job = move || own.outdo_below(&key, &variant, below);
            if tier.volume.on_reader(job).is_err() {
                tier.doubt(self.ledger.step());
            }
        }
    }
}

impl Tier {
    fn room(&self) -> Room {
        let (ahead, is_half_spent) = (self.volume.budget_ahead(), self.volume.is_budget_half_spent());
        Room { is_left: self.volume.has_room(), ahead, is_half_spent }
    }

    pub(crate) fn count_promoted(&self) {
        self.letting.promoted.fetch_add(1, Ordering::Relaxed);
    }

    /// Bodies that went down while they arrived.
    pub(crate) fn admitted(&self) -> u64 {
        self.letting.admitted.load(Ordering::Relaxed)
    }

    /// Bodies that went down from memory later.
    pub(crate) fn promoted(&self) -> u64 {
        self.letting.promoted.load(Ordering::Relaxed)
    }

    /// Takes up the day's budget where it was left before.
    pub(crate) fn open_budget(&self, disk: Option<&dyn Disk>) {
        self.tick_budget();
        let opened = disk.and_then(|disk| SpentFile::open(disk, self.volume.id()).ok());
        if let Some((file, found)) = opened {
            self.volume.carry_budget(file, found);
        }
    }

    /// Tells the volume the time, and what its catalogue has written.
    pub(crate) fn tick_budget(&self) {
        let beside = self.catalogue.as_ref().map_or(0, |catalogue| catalogue.usage().written_bytes);
        self.volume.tick_budget(self.now().wall, beside);
    }

    /// Writes down what counts as written today; what is granted of a budget is made durable as well. Where
    /// it cannot be, a restart forgets it.
    pub(crate) fn write_budget(&self) {
        self.volume.renew_budget();
        if self.volume.budget().limit_bytes.is_some() {
            self.sync_budget();
        }
    }

    /// Makes durable what was written down.
    pub(crate) fn sync_budget(&self) {
        if let Some(file) = self.volume.unsynced_budget() {
            let _ = file.sync_data();
        }
    }

    /// Takes what a generation in memory has replaced out of the volume: of its key and what its variant
    /// covers, with a number below that. May wait for the drive.
    fn outdo_below(&self, key: &CacheKey, variant: &Variant, number_below: u64) {
        let key = key::on_volume(key);
        for candidate in self.volume.find(key.digest) {
            let Ok(Some(record)) = self.volume.record(candidate, &key) else { continue };
            let Ok(stored) = codec::decode(&record.head, self.now()) else { continue };
            if record.number < number_below && variant.covers(&stored.variant) {
                self.remove(Named { digest: key.digest, object: record.number });
            }
        }
    }
}

/// The digest under which the volumes, and the sketch, know a generation's key.
fn digest_of(generation: &Generation) -> u128 {
    let key = generation.key();
    key::digest(&key.full, key.site)
}
