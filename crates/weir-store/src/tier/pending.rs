//! What was begun while another process still had the volumes: what they hold under the same keys is older,
//! though nobody could say so to them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// More keys than this are not remembered: then all that the volumes hold is asked about before it is used.
const KEYS_MAX: usize = 1 << 16;

/// Keys that were begun in the meantime, by their digests as volumes have them.
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

/// What a volume that comes is told: nothing of these keys that is there already is of use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Superseded {
    keys: Arc<HashSet<u128>>,
    /// Objects below this number were there already.
    below: u64,
}

impl Superseded {
    /// The keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u128> + '_ {
        self.keys.iter().copied()
    }

    /// Whether an object is older than what memory has had since.
    pub(crate) fn has(&self, digest: u128, number: u64) -> bool {
        number < self.below && self.keys.contains(&digest)
    }
}

impl PendingVolumes {
    /// From here on keys are remembered.
    pub(crate) fn begin(&self) {
        self.is_on.store(true, Ordering::Release);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Remembers a key; one relaxed look where nothing is expected.
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

    /// What to tell a volume whose objects have numbers below that one; `None` where there was too much to
    /// remember.
    pub(crate) fn superseded(&self, below: u64) -> Option<Superseded> {
        let keys = self.keys.lock();
        (!keys.are_too_many).then(|| Superseded { keys: Arc::new(keys.begun.clone()), below })
    }

    /// All have come.
    pub(crate) fn end(&self) {
        self.is_on.store(false, Ordering::Release);
        *self.keys.lock() = Keys::default();
    }
}

#[cfg(test)]
mod tests {
    use super::{KEYS_MAX, PendingVolumes};

    #[test]
    fn what_was_begun_meanwhile_outdoes_what_was_there() {
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
