//! The index of the RAM tier: key digest → the generations under it, newest first.
//!
//! Reading takes no lock and touches one reference count: that of the generation found. The index holds
//! generations weakly (the queues and the writers own them), so that the memory of an evicted body does not
//! wait for the map's deferred reclamation; what it reads meanwhile is the [`Label`]. It is changed under
//! memory's lock only.

use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use crate::digest::{DigestMap, digest_map};
use crate::generation::{Generation, Label};

/// The most generations under one key.
pub const VARIANTS_MAX: usize = 32;

/// One generation as the index sees it.
#[derive(Debug, Clone)]
struct Entry {
    label: Arc<Label>,
    generation: Weak<Generation>,
}

/// All generations under one digest, newest first.
type Entries = SmallVec<[Entry; 1]>;

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    objects: DigestMap<Entries>,
}

impl Index {
    pub(crate) fn new() -> Index {
        Index { objects: digest_map() }
    }

    /// The newest generation under that digest whose label is `wanted`.
    pub(crate) fn find(&self, digest: u128, wanted: impl Fn(&Label) -> bool) -> Option<Arc<Generation>> {
        let objects = self.objects.pin();
        let entries = objects.get(&digest)?;
        entries.iter().filter(|entry| wanted(&entry.label)).find_map(|entry| entry.generation.upgrade())
    }

    /// All generations under that digest, newest first.
    pub(crate) fn all(&self, digest: u128) -> SmallVec<[Arc<Generation>; 2]> {
        let objects = self.objects.pin();
        let entries = objects.get(&digest).map(|entries| entries.as_slice()).unwrap_or_default();
        entries.iter().filter_map(|entry| entry.generation.upgrade()).collect()
    }

    /// Hands all generations to `visit`, in no order.
    pub(crate) fn each(&self, mut visit: impl FnMut(&Arc<Generation>)) {
        for entries in self.objects.pin().values() {
            entries.iter().filter_map(|entry| entry.generation.upgrade()).for_each(|one| visit(&one));
        }
    }

    /// How many digests are in it.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Adds a generation at the place of its sequence number. Under memory's lock.
    pub(crate) fn insert(&self, generation: &Arc<Generation>) {
        let digest = generation.label.key.digest;
        let objects = self.objects.pin();
        let mut entries: Entries = objects.get(&digest).cloned().unwrap_or_default();
        entries.retain(|entry| entry.generation.strong_count() > 0);
        let sequence = generation.label.sequence;
        let place = entries.partition_point(|entry| entry.label.sequence > sequence);
        if entries.get(place).is_some_and(|entry| entry.label.sequence == sequence) {
            return;
        }
        let label = Arc::clone(&generation.label);
        entries.insert(place, Entry { label, generation: Arc::downgrade(generation) });
        objects.insert(digest, entries);
    }

    /// Takes a generation out. Under memory's lock.
    pub(crate) fn remove(&self, label: &Label) {
        let objects = self.objects.pin();
        let Some(entries) = objects.get(&label.key.digest) else { return };
        let mut left = entries.clone();
        left.retain(|entry| !std::ptr::eq(&*entry.label, label) && entry.generation.strong_count() > 0);
        if left.is_empty() {
            objects.remove(&label.key.digest);
        } else {
            objects.insert(label.key.digest, left);
        }
    }
}

#[cfg(test)]
mod tests;
