//! What was begun while another process still had the volumes. Their objects under the same keys are older,
//! but nobody could remove them there.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// More keys than this are not remembered; then all that the volumes hold is suspect.
const KEYS_MAX: usize = 1 << 16;

/// The volumes that are expected, and the keys begun meanwhile, by the digests that volumes use.
#[derive(Debug, Default)]
pub(crate) struct PendingVolumes {
    is_on: AtomicBool,
    keys: Mutex<Keys>,
}

#[derive(Debug, Default)]
struct Keys {
    begun: HashSet<u128>,
    are_too_many: bool,
}

/// What an arriving volume is told: its objects under these keys are superseded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Superseded {
    keys: Arc<HashSet<u128>>,
    /// Objects below this number were on the volume already.
    below: u64,
}

impl Superseded {
    /// The keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u128> + '_ {
        self.keys.iter().copied()
    }

    /// Whether memory has had a newer version of an object.
    pub(crate) fn has(&self, digest: u128, number: u64) -> bool {
        number < self.below && self.keys.contains(&digest)
    }
}

impl PendingVolumes {
    /// Remembers keys from here on.
    pub(crate) fn begin(&self) {
        self.is_on.store(true, Ordering::Release);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Remembers a key. Costs one relaxed load where no volume is expected.
    pub(crate) fn note(&self, digest: impl FnOnce() -> u128) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let mut keys = self.keys.lock();
        if keys.begun.len() >= KEYS_MAX {
            keys.are_too_many = true;
        } else {
            keys.begun.insert(digest());
        }
    }

    /// What to tell a volume whose objects have numbers below this one; `None` where there were too many keys
    /// to remember.
    pub(crate) fn superseded(&self, below: u64) -> Option<Superseded> {
        let keys = self.keys.lock();
        (!keys.are_too_many).then(|| Superseded { keys: Arc::new(keys.begun.clone()), below })
    }

    /// All volumes have arrived.
    pub(crate) fn end(&self) {
        self.is_on.store(false, Ordering::Release);
        *self.keys.lock() = Keys::default();
    }
}

#[cfg(test)]
mod tests {
    use super::{KEYS_MAX, PendingVolumes};

    #[test]
    fn what_was_begun_meanwhile_supersedes_what_was_there() {
        let pending = PendingVolumes::default();
        pending.note(|| 1);
        pending.begin();
        pending.note(|| 2);
        let superseded = pending.superseded(10).unwrap();
        assert_eq!(
            [(1, 9), (2, 9), (2, 10)].map(|(key, number)| superseded.has(key, number)),
            [false, true, false]
        );
        pending.end();
        assert!(!pending.is_on() && !pending.superseded(10).unwrap().has(2, 9));
    }

    #[test]
    fn too_much_to_remember_is_said() {
        let pending = PendingVolumes::default();
        pending.begin();
        (0..=KEYS_MAX as u128).for_each(|key| pending.note(|| key));
        assert!(pending.superseded(1).is_none());
    }
}
