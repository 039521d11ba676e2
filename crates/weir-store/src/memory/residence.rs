//! Every change of a generation's residence: begun, published, freshened, loaded, retired.

use std::sync::Arc;

use parking_lot::MutexGuard;

use super::index::VARIANTS_MAX;
use super::queues::Victims;
use super::{Memory, State};
use crate::budget::{BLOCK_OVERHEAD_BYTES, block};
use crate::generation::{Generation, Head, Label, NO_PLACE, Residence, Retirement, head_bytes};
use crate::ledger::{Judged, Stamp};

/// The most generations that leave under one lock.
pub(super) const LEAVING_AT_ONCE: usize = 256;

/// The lock, and what has left under it, which is freed after the lock.
pub(super) struct Change<'a> {
    memory: &'a Memory,
    pub(super) state: MutexGuard<'a, State>,
    pub(super) retired: Victims,
}

impl Memory {
    pub(super) fn change(&self) -> Change<'_> {
        Change { memory: self, state: self.state.lock(), retired: Victims::new() }
    }

    /// Whether a soft mark concerns a generation, or did since its head came, and no newer
    /// retention does. True for a dead one.
    pub(crate) fn is_soft(&self, label: &Label) -> bool {
        self.judge(label).is_purged(&label.head.load().stored.facts)
    }

    /// Gives a generation the head that soft marks and retentions make of its own, and stamps it
    /// again. False where it is dead by now: a hard mark concerns it, or memory has no room for that head.
    pub(crate) fn absorb(&self, generation: &Arc<Generation>) -> bool {
        let label = &generation.label;
        loop {
            let until = self.ledger.current();
            let old = label.head.load_full();
            let mut stored = old.stored.clone();
            let charge = self.charge_loaded(head_bytes(&stored));
            let mut change = self.change();
            match (self.judge(label), charge) {
                (Judged::Alive, _) => return true,
                (Judged::Changed(change_of_facts), Some(charge)) => {
                    // Another head came meanwhile: change that one.
                    if !Arc::ptr_eq(&old, &label.head.load()) {
                        continue;
                    }
                    change_of_facts.apply(&mut stored.facts);
                    label.head.store(Arc::new(Head::new(stored, charge)));
                    label.raise_stamp(until);
                    return true;
                }
                (judged, _) => {
                    let is_dead = judged == Judged::Dead;
                    // Without room for its head it leaves memory alone.
                    let why = if is_dead { Retirement::Invalidated } else { Retirement::Evicted };
                    change.withdraw(generation, why);
                    return false;
                }
            }
        }
    }

    /// Adds a generation that begins to arrive to the index, unless a mark has made it dead already.
    pub(crate) fn begin(&self, generation: &Arc<Generation>) {
        let mut change = self.change();
        if self.judge(&generation.label) == Judged::Dead {
            generation.set_residence(Residence::Retired(Retirement::Invalidated));
            return;
        }
        self.index.insert(generation);
        if generation.object() > 0 {
            let all = self.index.all(generation.label.key.digest);
            for older in all.iter().filter(|other| takes_place_of(&generation.label, &other.label)) {
                self.lower.note_newer(generation, older);
            }
            change.retired.extend(all);
        }
        change.bound_variants(generation);
    }

    /// Calls `then` under the lock where a generation is whole, alive, at rest, and the newest of its
    /// variant.
    pub(crate) fn while_at_rest<T>(
        &self,
        generation: &Arc<Generation>,
        then: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        let label = &generation.label;
        let all = self.index.all(label.key.digest);
        let _state = self.state.lock();
        let is_newest = |other: &Arc<Generation>| {
            other.label.sequence <= label.sequence || !takes_place_of(&other.label, label)
        };
        let is_at_rest = generation.residence() == Residence::Resident
            && generation.body.is_whole()
            && !self.judge(label).purges(&label.head.load().stored.facts)
            && all.iter().all(is_newest);
        if is_at_rest { then() } else { None }
    }

    /// Makes a generation resident whose last writer has left. Older ones of its variant are replaced.
    pub(crate) fn publish(&self, generation: &Arc<Generation>) {
        let mut change = self.change();
        if generation.residence() == Residence::Filling {
            change.settle(generation);
        }
    }

    /// Gives a generation that was loaded from a volume its body of one block, if memory has room.
    pub(crate) fn load_body(&self, generation: &Arc<Generation>, bytes: &[u8]) {
        let Some(charge) = self.charge_loaded(bytes.len() as u64 + BLOCK_OVERHEAD_BYTES) else { return };
        let mut change = self.change();
        if generation.residence() != Residence::Resident || !generation.body.load(block(bytes.into(), charge))
        {
            return;
        }
        let owner = change.state.queues.unlink(generation);
        change.state.queues.link(Arc::clone(generation), weight_bytes(generation));
        change.retired.extend(owner);
    }

    /// Retires the older generations of a variant whose newest one is on a volume only.
    pub(crate) fn replace_older(&self, newest: &Generation) {
        let mut change = self.change();
        let all = self.index.all(newest.label.key.digest);
        let label = &newest.label;
        let is_older = |other: &Label| other.sequence < label.sequence && takes_place_of(label, other);
        // A part of the same object that was loaded meanwhile stays.
        for other in all.iter().filter(|other| is_older(&other.label) && !other.is_same(newest)) {
            change.withdraw(other, Retirement::Replaced);
        }
        change.retired.extend(all);
    }

    /// Adds a generation that was loaded from a volume, unless the same version is there already: then
    /// returns that. It counts as older than all that began in memory.
    pub(crate) fn add_loaded(&self, generation: &Arc<Generation>) -> Option<Arc<Generation>> {
        let mut change = self.change();
        let all = self.index.all(generation.label.key.digest);
        let is_known = |other: &&Arc<Generation>| {
            let is_same = Arc::ptr_eq(other, generation) || other.is_same(generation);
            is_same && other.label.key.full == generation.label.key.full
        };
        let known = all.iter().find(is_known).cloned();
        if known.is_none() {
            // One that only visited has not left the store for good.
            generation.set_residence(Residence::Filling);
            change.settle(generation);
            change.bound_variants(generation);
        }
        change.retired.extend(all);
        known
    }

    /// Takes a generation out of the store. Its readers may go on.
    pub(crate) fn retire(&self, generation: &Arc<Generation>, why: Retirement) {
        self.change().withdraw(generation, why);
    }

    /// Retires the dead generations of a digest.
    pub(crate) fn retire_dead(&self, digest: u128) {
        let mut change = self.change();
        let all = self.index.all(digest);
        for generation in all.iter().filter(|generation| self.judge(&generation.label) == Judged::Dead) {
            change.withdraw(generation, Retirement::Invalidated);
        }
        change.retired.extend(all);
    }

    /// Evicts all generations for which `is_lost` is true.
    pub(crate) fn evict_where(&self, is_lost: impl Fn(&Generation) -> bool) {
        let mut lost: Vec<Arc<Generation>> = Vec::new();
        self.index.each(|generation| {
            if is_lost(generation) {
                lost.push(Arc::clone(generation));
            }
        });
        for some in lost.chunks(LEAVING_AT_ONCE) {
            let mut change = self.change();
            some.iter().for_each(|generation| change.withdraw(generation, Retirement::Evicted));
        }
    }

    /// Turns a resident generation into a filling one, for a further writer. A sweep stamps no filling one,
    /// so it is stamped now.
    pub(crate) fn refill(&self, generation: &Arc<Generation>) {
        let until = self.ledger.current();
        let mut change = self.change();
        if generation.residence() == Residence::Resident {
            if self.judge(&generation.label) == Judged::Alive {
                generation.label.raise_stamp(until);
            }
            generation.set_residence(Residence::Filling);
            let owner = change.state.queues.unlink(generation);
            change.retired.extend(owner);
        }
    }

    /// Gives a generation a new head and stamp. One that was evicted or invalidated meanwhile comes back if
    /// it is whole and not dead. A head that was asked for before a purge that concerns it changes nothing
    /// where the generation has been stamped since; otherwise the purge makes it stale or dead. A
    /// retention that is newer than the head's stamp changes it. True when the generation is in the store.
    pub(crate) fn freshen(&self, generation: &Arc<Generation>, mut head: Head, stamp: Stamp) -> bool {
        let label = &generation.label;
        let mut change = self.change();
        let judged = self.ledger.judge(&label.key, &head.stored.tags, stamp);
        if judged.purges(&head.stored.facts) && stamp < label.stamp() {
            return !generation.is_retired();
        }
        judged.apply(&mut head.stored.facts);
        label.raise_stamp(stamp);
        let old = label.head.swap(Arc::new(head));
        let can_return =
            matches!(generation.retirement(), Some(Retirement::Evicted | Retirement::Invalidated));
        if judged == Judged::Dead {
            change.withdraw(generation, Retirement::Invalidated);
        } else if can_return && generation.is_whole() && generation.place() == NO_PLACE {
            generation.set_residence(Residence::Filling);
            change.settle(generation);
        }
        let is_kept = !generation.is_retired();
        drop(change);
        drop(old);
        if is_kept {
            self.lower.note_freshened(generation, &self.ledger);
        }
        is_kept
    }

    /// Whether the index has a whole that a generation would replace, and that it does not replace while it
    /// is a part.
    pub(crate) fn has_whole_of_variant(&self, generation: &Generation) -> bool {
        let label = &generation.label;
        let all = self.index.all(label.key.digest);
        all.iter().any(|other| other.is_whole() && takes_place_of(label, &other.label))
    }
}

impl Change<'_> {
    /// Retires the least used generation of a key that has too many.
    fn bound_variants(&mut self, newest: &Generation) {
        let all = self.memory.index.all(newest.label.key.digest);
        if all.len() <= VARIANTS_MAX {
            return;
        }
        let rank = |generation: &&Arc<Generation>| {
            let is_filling = generation.residence() == Residence::Filling;
            (is_filling, generation.label.uses(), generation.label.sequence)
        };
        let others = all.iter().filter(|other| other.label.sequence != newest.label.sequence);
        if let Some(least) = others.min_by_key(rank) {
            self.withdraw(least, Retirement::Replaced);
        }
        self.retired.extend(all);
    }

    /// Queues a generation that is neither queued nor dead, and retires those of its variant that it
    /// replaces.
    fn settle(&mut self, generation: &Arc<Generation>) {
        let (memory, label) = (self.memory, &generation.label);
        let judged = memory.judge(label);
        if judged == Judged::Dead {
            self.withdraw(generation, Retirement::Invalidated);
            return;
        }
        if self.state.is_given_back {
            // Its readers alone have it.
            self.withdraw(generation, Retirement::Evicted);
            return;
        }
        let all = memory.index.all(label.key.digest);
        // A softly purged generation does not replace one that is not, and a part does not replace a whole.
        // Otherwise the newer one stays.
        let rank = |one: &Generation| (!memory.is_soft(&one.label), one.is_whole(), one.label.sequence);
        for other in all.iter().filter(|other| other.label.sequence != label.sequence) {
            if rank(other) < rank(generation) {
                if takes_place_of(label, &other.label) {
                    self.withdraw(other, Retirement::Replaced);
                }
            } else if other.residence() == Residence::Resident && takes_place_of(&other.label, label) {
                self.withdraw(generation, Retirement::Replaced);
                self.retired.extend(all);
                return;
            }
        }
        // The same version gives way, where it was loaded once more meanwhile.
        let is_twin = |other: &&Arc<Generation>| {
            other.label.sequence == label.sequence && !Arc::ptr_eq(other, generation)
        };
        for twin in all.iter().filter(is_twin) {
            self.withdraw(twin, Retirement::Evicted);
        }
        // A generation that is yet to be made stale keeps its stamp until then.
        if let Some(sweep) = self.state.sweep
            && judged == Judged::Alive
        {
            label.raise_stamp(sweep.until);
        }
        memory.index.insert(generation);
        generation.set_residence(Residence::Resident);
        self.state.queues.link(Arc::clone(generation), weight_bytes(generation));
        // What a soft mark concerns replaces nothing.
        if generation.is_whole() && !memory.is_soft(label) {
            memory.lower.note_settled(generation, &memory.ledger);
        }
        self.retired.extend(all);
    }

    /// Takes a generation out of index and queues.
    pub(super) fn withdraw(&mut self, generation: &Arc<Generation>, why: Retirement) {
        let is_final = matches!(why, Retirement::Outgrown | Retirement::Abandoned);
        if let Residence::Retired(_) = generation.residence() {
            // These two concern its bytes, and so replace a reason that concerns its place.
            if is_final {
                generation.set_residence(Residence::Retired(why));
            }
            return;
        }
        generation.set_residence(Residence::Retired(why));
        self.memory.index.remove(&generation.label);
        self.memory.tell(generation, why);
        self.retired.extend(self.state.queues.unlink(generation));
        if matches!(why, Retirement::Replaced | Retirement::Invalidated) {
            self.memory.lower.remove(generation);
        }
    }
}

/// What a resting generation weighs.
fn weight_bytes(generation: &Generation) -> u64 {
    generation.label.overhead_bytes() + generation.held_bytes()
}

/// Whether a newer generation takes the place of another of its key: it answers all requests that the other
/// answers.
pub(crate) fn takes_place_of(newer: &Label, other: &Label) -> bool {
    newer.sequence != other.sequence
        && newer.key.full == other.key.full
        && newer.head.load().stored.variant.covers(&other.head.load().stored.variant)
}
