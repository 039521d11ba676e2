//! Memory that others keep beside what is stored, such as a client that takes nothing of its response: it is
//! charged like all else, so that the ceiling holds for both. What is stored gives way to it.

use super::Store;
use crate::budget::Charge;

/// Bytes that are kept beside what is stored; given back on drop.
#[derive(Debug)]
pub struct Beside {
    charge: Charge,
}

impl Beside {
    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.charge.bytes()
    }
}

impl Store {
    /// Charges `bytes` that the caller keeps. `None` where nothing more can leave memory for them.
    pub fn charge_beside(&self, bytes: u64) -> Option<Beside> {
        self.inside.memory.charge(bytes).map(|charge| Beside { charge })
    }
}

#[cfg(test)]
mod tests {
    use crate::Store;
    use crate::samples::{find, put};

    const MEMORY: u64 = 1 << 20;

    #[test]
    fn what_is_stored_gives_way_to_what_is_kept_beside_it() {
        let store = Store::new(MEMORY);
        (0..9).for_each(|number| drop(put(&store, number, 100_000)));
        let before = store.usage().used_bytes;
        assert!(before > MEMORY - 200_000, "{before}");
        let beside: Vec<_> = (0..50).filter_map(|_| store.charge_beside(10_000)).collect();
        assert_eq!(beside.iter().map(super::Beside::bytes).sum::<u64>(), 500_000);
        let held = (0..9).filter(|&number| find(&store, number).is_some()).count();
        assert!(held < 6 && store.usage().used_bytes <= MEMORY, "{held} are held");
        assert!(store.charge_beside(MEMORY).is_none());
        let used = store.usage().used_bytes;
        drop(beside);
        assert_eq!(store.usage().used_bytes, used - 500_000);
    }
}
