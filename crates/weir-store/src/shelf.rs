//! The shelf: what is kept at the moment. It joins the index, the queues and the budget, and makes every
//! change of a generation's residence.
//!
//! One mutex guards the queues, all changes of the index, and residence; it is taken when something is begun,
//! published, retired or evicted, never on a hit, and no body is freed under it. Lock order: the shelf's lock
//! first, then a body's.

mod below;
mod share;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use smallvec::SmallVec;
use weir_policy::StoredFlags;

use crate::admission::Admission;
use crate::budget::{BLOCK_OVERHEAD_BYTES, Budget, Charge, block};
use crate::generation::{Generation, Label, NO_PLACE, Residence, Retirement};
use crate::head::{Head, head_bytes};
use crate::index::{Index, VARIANTS_MAX};
use crate::ledger::{Judged, Ledger, Stamp};
use crate::queues::{Queues, Victims};
use crate::register::Register;
use crate::store::Settings;
use crate::tier::{Expecting, Stowing, Tiers};
use crate::watch::Watched;

pub use share::Lag;
pub(crate) use share::Window;

/// How many generations one step of the sweeper looks at.
const SWEEP_STEP: usize = 256;
/// What begins to fill has a larger number than all that comes up from a volume, which keeps its object's
/// number there.
const SEQUENCE_MIN: u64 = 1 << 48;

/// What a step of the sweeper has found.
type SweptUp = SmallVec<[Arc<Generation>; 8]>;

/// What the store's handles share.
#[derive(Debug)]
pub(crate) struct Shelf {
    pub(crate) settings: Settings,
    pub(crate) budget: Arc<Budget>,
    pub(crate) ledger: Ledger,
    pub(crate) index: Index,
    pub(crate) counts: Counts,
    pub(crate) watched: Watched,
    /// What may go down to the volumes.
    pub(crate) admission: Admission,
    /// The volumes below.
    pub(crate) tiers: Tiers,
    /// How many bytes the volumes together may hold of a site.
    pub(crate) quotas: Mutex<HashMap<u64, u64>>,
    /// Where it is written down what volumes missed, where there can be volumes.
    pub(crate) register: OnceLock<Arc<Register>>,
    /// What was begun while volumes are expected that may hold older ones.
    pub(crate) expecting: Expecting,
    sequence: AtomicU64,
    /// How many windows there are.
    windows: AtomicU64,
    /// What [`Lag`]s come to.
    lagging_bytes: AtomicU64,
    state: Mutex<State>,
    /// Up to which number marks were dropped; held while they are.
    retiring: Mutex<Stamp>,
}

/// What the lock guards.
#[derive(Debug)]
struct State {
    queues: Queues,
    sweep: Option<Sweep>,
    /// What was there has been stamped anew up to this number.
    swept: Stamp,
    /// Marks were dropped up to this number.
    dropped: Stamp,
}

/// A pass of the sweeper: where it is, and the marks that it will have made superfluous.
#[derive(Debug, Clone, Copy)]
struct Sweep {
    cursor: usize,
    until: Stamp,
}

/// What has happened since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) evicted: AtomicU64,
    pub(crate) evicted_bytes: AtomicU64,
    pub(crate) outgrown: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Shelf {
    pub(crate) fn new(settings: Settings, ledger: Ledger) -> Shelf {
        let swept = ledger.current();
        let state =
            State { queues: Queues::new(settings.memory_bytes), sweep: None, swept, dropped: Stamp::of(0) };
        Shelf {
            budget: Budget::new(settings.memory_bytes),
            ledger,
            index: Index::new(),
            counts: Counts::default(),
            watched: Watched::default(),
            admission: Admission::new(&settings.admission, settings.memory_bytes),
            tiers: Tiers::default(),
            quotas: Mutex::default(),
            register: OnceLock::new(),
            expecting: Expecting::default(),
            retiring: Mutex::new(Stamp::of(0)),
            sequence: AtomicU64::new(SEQUENCE_MIN),
            windows: AtomicU64::new(0),
            lagging_bytes: AtomicU64::new(0),
            state: Mutex::new(state),
            settings,
        }
    }

    /// A number larger than all before.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// What the ledger's marks say of a generation: one atomic compare where none is newer than its stamp.
    pub(crate) fn judge(&self, label: &Label) -> Judged {
        let stamp = label.stamp();
        if self.ledger.is_settled(stamp) {
            return Judged::Alive;
        }
        self.ledger.judge(&label.key, &label.head.load().stored.tags, stamp)
    }

    /// Whether a soft mark concerns a generation, or has done so since its head came.
    pub(crate) fn is_soft(&self, label: &Label) -> bool {
        label.head.load().stored.facts.flags.has(StoredFlags::PURGED)
            || matches!(self.judge(label), Judged::Stale(_))
    }

    /// Makes a generation stale that a soft mark concerns, and stamps it anew. False when it is dead by now:
    /// because of a hard mark, or because there is no memory for the head that says so.
    pub(crate) fn soften(&self, generation: &Arc<Generation>) -> bool {
        let label = &generation.label;
        loop {
            let until = self.ledger.current();
            let old = label.head.load_full();
            let mut stored = old.stored.clone();
            let charge = self.charge(head_bytes(&stored));
            let mut retired = Victims::new();
            let mut state = self.state.lock();
            let judged = self.judge(label);
            match (judged, charge) {
                (Judged::Alive, _) => return true,
                (Judged::Stale(since), Some(charge)) => {
                    // Another head came meanwhile: that one is to be made stale.
                    if !Arc::ptr_eq(&old, &label.head.load()) {
                        continue;
                    }
                    stored.outdate(since);
                    label.head.store(Arc::new(Head::new(stored, charge)));
                    label.raise_stamp(until);
                    return true;
                }
                (Judged::Dead, _) | (_, None) => {
                    self.withdraw(&mut state, generation, Retirement::Invalidated, &mut retired);
                    drop(state);
                    drop(retired);
                    return false;
                }
            }
        }
    }

    /// Takes bytes of the budget, evicting as needed. `None` when nothing more can go.
    pub(crate) fn charge(&self, bytes: u64) -> Option<Charge> {
        loop {
            if let Some(charge) = self.budget.charge(bytes) {
                return Some(charge);
            }
            if bytes > self.budget.limit_bytes() || !self.evict(bytes) {
                return None;
            }
        }
    }

    /// Evicts what weighs `need_bytes` together; false when there was nothing.
    fn evict(&self, need_bytes: u64) -> bool {
        let victims = {
            let mut state = self.state.lock();
            let victims = state.queues.pick(need_bytes);
            for victim in &victims {
                victim.set_residence(Residence::Retired(Retirement::Evicted));
                self.index.remove(&victim.label);
            }
            victims
        };
        victims.iter().for_each(|victim| self.tell(victim, Retirement::Evicted));
        self.counts.evicted.fetch_add(victims.len() as u64, Ordering::Relaxed);
        let bytes: u64 = victims.iter().map(|victim| victim.held_bytes()).sum();
        self.counts.evicted_bytes.fetch_add(bytes, Ordering::Relaxed);
        !victims.is_empty()
    }

    /// Tells who wants to know that a generation has left.
    fn tell(&self, generation: &Generation, why: Retirement) {
        if let Some(watcher) = self.watched.get().filter(|watcher| watcher.wants()) {
            watcher.left(generation, why);
        }
    }

    /// Puts a generation that begins to fill into the index, unless a mark has made it dead already.
    pub(crate) fn begin(&self, generation: &Arc<Generation>) {
        let mut retired = Victims::new();
        let mut state = self.state.lock();
        if self.judge(&generation.label) == Judged::Dead {
            generation.set_residence(Residence::Retired(Retirement::Invalidated));
            return;
        }
        self.index.insert(generation);
        self.recall_promoted(generation);
        self.bound_variants(&mut state, generation, &mut retired);
        drop(state);
        drop(retired);
    }

    /// Takes older ones of a variant out of the volumes that were brought down after this one was given its
    /// number there: the volumes would take them for newer.
    fn recall_promoted(&self, newest: &Generation) {
        let object = newest.object();
        if object == 0 {
            return;
        }
        for other in self.index.all(newest.label.key.digest) {
            if other.object() > object && takes_place_of(&newest.label, &other.label) {
                self.drop_below(&other);
            }
        }
    }

    /// Begins to bring down what is whole and at rest in memory alone; `None` where it is not, where
    /// something newer is on its way, or where nothing is taken.
    pub(crate) fn promote(&self, generation: &Arc<Generation>) -> Option<Stowing> {
        let label = &generation.label;
        let all = self.index.all(label.key.digest);
        // Under the lock, so that what is withdrawn afterwards is taken out of the volume as well.
        let _state = self.state.lock();
        let is_at_rest = generation.residence() == Residence::Resident && generation.object() == 0;
        let is_newest = |other: &Arc<Generation>| {
            other.label.sequence <= label.sequence || !takes_place_of(&other.label, label)
        };
        let may = is_at_rest
            && !generation.is_unvalidated_part()
            && generation.body.is_whole()
            && self.judge(label) == Judged::Alive
            && all.iter().all(is_newest);
        if may { self.tiers.begin(generation) } else { None }
    }

    /// Retires the least used of a key's generations while there are too many.
    fn bound_variants(&self, state: &mut State, newest: &Generation, retired: &mut Victims) {
        let all = self.index.all(newest.label.key.digest);
        if all.len() <= VARIANTS_MAX {
            return;
        }
        let rank = |generation: &&Arc<Generation>| {
            let is_filling = generation.residence() == Residence::Filling;
            (is_filling, generation.label.uses(), generation.label.sequence)
        };
        let others = all.iter().filter(|other| other.label.sequence != newest.label.sequence);
        if let Some(least) = others.min_by_key(rank) {
            self.withdraw(state, least, Retirement::Replaced, retired);
        }
        retired.extend(all);
    }

    /// Makes a generation whose last writer has left a resident. Older ones of its variant are replaced.
    pub(crate) fn publish(&self, generation: &Arc<Generation>) {
        let mut retired = Victims::new();
        let mut state = self.state.lock();
        if generation.residence() == Residence::Filling {
            self.settle(&mut state, generation, &mut retired);
        }
        drop(state);
        drop(retired);
    }

    /// Under the lock: queues a generation that is not queued and not dead, and sees to its variant's others.
    fn settle(&self, state: &mut State, generation: &Arc<Generation>, retired: &mut Victims) {
        let label = &generation.label;
        let judged = self.judge(label);
        if judged == Judged::Dead {
            self.withdraw(state, generation, Retirement::Invalidated, retired);
            return;
        }
        let all = self.index.all(label.key.digest);
        // What was purged softly does not take the place of what was not, nor a part that of a whole; else
        // the newer one stays.
        let rank = |one: &Generation| (!self.is_soft(&one.label), one.is_whole(), one.label.sequence);
        for other in all.iter().filter(|other| other.label.sequence != label.sequence) {
            if rank(other) < rank(generation) {
                if takes_place_of(label, &other.label) {
                    self.withdraw(state, other, Retirement::Replaced, retired);
                }
            } else if other.residence() == Residence::Resident && takes_place_of(&other.label, label) {
                self.withdraw(state, generation, Retirement::Replaced, retired);
                retired.extend(all);
                return;
            }
        }
        // What is yet to be made stale keeps its stamp until that is done.
        if let Some(sweep) = state.sweep
            && judged == Judged::Alive
        {
            label.raise_stamp(sweep.until);
        }
        self.index.insert(generation);
        generation.set_residence(Residence::Resident);
        state.queues.link(Arc::clone(generation), self.weight_bytes(generation));
        self.note_settled(generation);
        retired.extend(all);
    }

    /// What a resting generation weighs.
    fn weight_bytes(&self, generation: &Generation) -> u64 {
        generation.label.overhead_bytes() + generation.held_bytes()
    }

    /// Under the lock: takes a generation out of index and queues. What is to be freed goes to `retired`.
    fn withdraw(
        &self,
        state: &mut State,
        generation: &Arc<Generation>,
        why: Retirement,
        retired: &mut Victims,
    ) {
        let is_final = matches!(why, Retirement::Outgrown | Retirement::Abandoned);
        if let Residence::Retired(_) = generation.residence() {
            // These two say something of the bytes, and outdo what was said of the place.
            if is_final {
                generation.set_residence(Residence::Retired(why));
            }
            return;
        }
        generation.set_residence(Residence::Retired(why));
        self.index.remove(&generation.label);
        self.tell(generation, why);
        retired.extend(state.queues.unlink(generation));
        if matches!(why, Retirement::Replaced | Retirement::Invalidated) {
            self.drop_below(generation);
        }
    }

    /// Takes a generation out of the volume, too.
    fn drop_below(&self, generation: &Generation) {
        self.tiers.remove(generation);
    }

    /// Gives a generation that came up from the volume its body of one block, where memory can be had.
    pub(crate) fn lift(&self, generation: &Arc<Generation>, bytes: &[u8]) {
        let Some(charge) = self.charge(bytes.len() as u64 + BLOCK_OVERHEAD_BYTES) else { return };
        let mut state = self.state.lock();
        if generation.residence() != Residence::Resident || !generation.body.lift(block(bytes.into(), charge))
        {
            return;
        }
        let owner = state.queues.unlink(generation);
        state.queues.link(Arc::clone(generation), self.weight_bytes(generation));
        drop(state);
        drop(owner);
    }

    /// Takes older generations of a variant out whose newest one lies on the volume alone.
    pub(crate) fn outdo(&self, newest: &Generation) {
        let mut retired = Victims::new();
        let mut state = self.state.lock();
        let all = self.index.all(newest.label.key.digest);
        let label = &newest.label;
        let is_older = |other: &Label| other.sequence < label.sequence && takes_place_of(label, other);
        // A part of it that came up meanwhile is the very same.
        for other in all.iter().filter(|other| is_older(&other.label) && !other.is_same(newest)) {
            self.withdraw(&mut state, other, Retirement::Replaced, &mut retired);
        }
        drop(state);
        drop((retired, all));
    }

    /// Settles a generation that came up from the volume, unless it is there already: it is older than all
    /// that began here.
    pub(crate) fn adopt(&self, generation: &Arc<Generation>) {
        let mut retired = Victims::new();
        let mut state = self.state.lock();
        let all = self.index.all(generation.label.key.digest);
        let is_known = |other: &Arc<Generation>| {
            other.label.key.full == generation.label.key.full && other.object() == generation.object()
        };
        if !all.iter().any(is_known) {
            self.settle(&mut state, generation, &mut retired);
            self.bound_variants(&mut state, generation, &mut retired);
        }
        drop(state);
        drop((retired, all));
    }

    /// Takes a generation out of the store; who holds it may go on reading.
    pub(crate) fn retire(&self, generation: &Arc<Generation>, why: Retirement) {
        let mut retired = Victims::new();
        let mut state = self.state.lock();
        self.withdraw(&mut state, generation, why, &mut retired);
        drop(state);
        drop(retired);
    }

    /// Takes the dead generations of a digest out.
    pub(crate) fn retire_dead(&self, digest: u128) {
        let mut retired = Victims::new();
        let mut state = self.state.lock();
        let all = self.index.all(digest);
        for generation in all.iter().filter(|generation| self.judge(&generation.label) == Judged::Dead) {
            self.withdraw(&mut state, generation, Retirement::Invalidated, &mut retired);
        }
        drop(state);
        drop((retired, all));
    }

    /// Turns a resting generation into a filling one, for a further writer. While it is one no sweep stamps
    /// it anew, so it is stamped now.
    pub(crate) fn refill(&self, generation: &Arc<Generation>) {
        let until = self.ledger.current();
        let mut state = self.state.lock();
        if generation.residence() == Residence::Resident {
            if self.judge(&generation.label) == Judged::Alive {
                generation.label.raise_stamp(until);
            }
            generation.set_residence(Residence::Filling);
            let owner = state.queues.unlink(generation);
            drop(state);
            drop(owner);
        }
    }

    /// Gives a generation a new head and stamp; one that was evicted or invalidated meanwhile comes back, if
    /// it is whole and not dead. What was asked before a mark that concerns it changes nothing of what has
    /// been stamped since, and is stale or dead by the mark otherwise. True when it is in the store.
    pub(crate) fn freshen(&self, generation: &Arc<Generation>, mut head: Head, stamp: Stamp) -> bool {
        let label = &generation.label;
        let mut retired = Victims::new();
        let mut state = self.state.lock();
        let judged = self.ledger.judge(&label.key, &head.stored.tags, stamp);
        if judged != Judged::Alive && stamp < label.stamp() {
            let is_kept = !generation.is_retired();
            drop(state);
            drop(head);
            return is_kept;
        }
        if let Judged::Stale(since) = judged {
            head.stored.outdate(since);
        }
        label.raise_stamp(stamp);
        let old = label.head.swap(Arc::new(head));
        let can_return =
            matches!(generation.retirement(), Some(Retirement::Evicted | Retirement::Invalidated));
        if judged == Judged::Dead {
            self.withdraw(&mut state, generation, Retirement::Invalidated, &mut retired);
        } else if can_return && generation.is_whole() && generation.place() == NO_PLACE {
            generation.set_residence(Residence::Filling);
            self.settle(&mut state, generation, &mut retired);
        }
        let is_kept = !generation.is_retired();
        drop(state);
        drop((retired, old));
        if let Some(tier) = generation.home().filter(|_| is_kept) {
            tier.refresh(generation, &self.ledger);
        }
        is_kept
    }

    /// Looks at some more generations: the dead are retired, those that soft marks concern are made stale,
    /// all others are stamped anew, so that at the end of a pass the marks made before it can be dropped
    /// where there are many. True while the pass is under way.
    pub(crate) fn sweep(&self) -> bool {
        let mut retired = Victims::new();
        let (mut dead, mut soft) = (SweptUp::new(), SweptUp::new());
        let mut state = self.state.lock();
        if state.sweep.is_none() && self.ledger.newest() <= state.swept {
            return false;
        }
        let current = self.ledger.current();
        let sweep = *state.sweep.get_or_insert(Sweep { cursor: 0, until: current });
        let next =
            state.queues.visit(sweep.cursor, SWEEP_STEP, |generation| match self.judge(&generation.label) {
                Judged::Dead => dead.push(Arc::clone(generation)),
                Judged::Stale(_) => soft.push(Arc::clone(generation)),
                Judged::Alive => generation.label.raise_stamp(sweep.until),
            });
        for generation in &dead {
            self.withdraw(&mut state, generation, Retirement::Invalidated, &mut retired);
        }
        if let Some(cursor) = next {
            state.sweep = Some(Sweep { cursor, ..sweep });
        }
        drop(state);
        for generation in &soft {
            self.soften(generation);
        }
        if next.is_none() {
            self.end_sweep(sweep.until);
        }
        next.is_some()
    }

    /// Looks at all generations at rest anew: what lives is stamped with `until` at least afterwards.
    pub(crate) fn sweep_all(&self) {
        // Begun here: without a mark none would begin by itself, and the ledger makes dead what is older all
        // the same.
        self.state.lock().sweep = Some(Sweep { cursor: 0, until: self.ledger.current() });
        while self.sweep() {}
    }

    fn end_sweep(&self, until: Stamp) {
        let mut state = self.state.lock();
        state.sweep = None;
        state.swept = state.swept.max(until);
        // Where there is a volume, its sweeper drops marks.
        let is_alone = !self.tiers.all().iter().any(|tier| tier.can_sweep());
        if !is_alone || !self.ledger.is_filling_up() {
            return;
        }
        let settled = self.ledger.settled(until);
        if settled > state.dropped {
            state.dropped = settled;
            self.drop_marks(settled);
        }
        // Dropping those that concern what is in flight makes it dead: only under need.
        if self.ledger.is_crowded() {
            state.dropped = until;
            self.drop_marks(until);
        }
    }

    /// What is in the queues: count and bytes.
    pub(crate) fn load(&self) -> crate::queues::Load {
        self.state.lock().queues.load()
    }
}

/// Whether a newer generation takes the place of another of its key: it answers all requests that the other
/// answers.
pub(crate) fn takes_place_of(newer: &Label, other: &Label) -> bool {
    newer.sequence != other.sequence
        && newer.key.full == other.key.full
        && newer.head.load().stored.variant.covers(&other.head.load().stored.variant)
}

#[cfg(test)]
mod tests;
