//! An upgrade, as the edge tells the store of it.

use super::Store;

impl Store {
    /// Gives back all that no reader holds, and keeps nothing from now on: another process has taken over.
    /// Blocks for a moment.
    pub fn give_back(&self) {
        self.inside.memory.give_back();
    }

    /// Lowers the ceiling of memory to what readers and transfers hold by now, with a little room. Returns
    /// it, in bytes. For a store that has given back.
    pub fn lower_ceiling(&self) -> u64 {
        self.inside.memory.lower_ceiling()
    }

    /// Leaves so many bytes of the ceiling to other processes. Returns how many could be freed for them:
    /// readers may hold the rest, so ask again later.
    pub fn leave_to_others(&self, bytes: u64) -> u64 {
        self.inside.memory.leave_to_others(bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::samples::{body, find, key, proof, put, read_from};
    use crate::{Read, Store};

    const MEMORY: u64 = 4 << 20;
    /// Of what has left the index, heads and keys may be freed later.
    const LEFT_OVER: u64 = 100_000;

    #[test]
    fn what_is_given_back_is_what_no_reader_holds() {
        let store = Store::new(MEMORY);
        (0..20).for_each(|number| drop(put(&store, number, 100_000)));
        let read = put(&store, 20, 300_000);
        let stamp = store.ledger().current();
        let (filling, mut writer) = store.begin(proof(&[], &[]), key(21), stamp, Some(200_000)).unwrap();
        writer.push(body(21, 0, 90_000)).unwrap();
        store.give_back();
        assert!((0..21).all(|number| find(&store, number).is_none()));
        let held = store.usage().used_bytes;
        assert!((390_000..1_000_000).contains(&held), "{held}");
        let ceiling = store.lower_ceiling();
        assert!(ceiling >= held && ceiling < held + MEMORY / 2, "{ceiling} for {held}");
        // Both go on, whole.
        writer.push(body(21, 90_000, 110_000)).unwrap();
        writer.seal().unwrap();
        for (generation, number, length) in [(&filling, 21, 200_000), (&read, 20, 300_000)] {
            let (bytes, end) = read_from(generation, 0, usize::MAX);
            assert!(bytes == body(number, 0, length) && matches!(end, Read::End), "{number}: {end:?}");
        }
        // What was whole later is not kept either.
        assert!(find(&store, 21).is_none());
        drop(put(&store, 22, 1000));
        assert!(find(&store, 22).is_none() && store.usage().generations == 0);
        drop((read, filling));
        assert!(store.usage().used_bytes < LEFT_OVER, "{:?}", store.usage());
        let after = store.lower_ceiling();
        assert!(after < ceiling && store.usage().limit_bytes == after);
        assert!(store.lower_ceiling() <= after, "it never rises");
    }

    #[test]
    fn what_others_hold_is_left_free_and_comes_back() {
        let store = Store::new(MEMORY);
        let read = put(&store, 40, 1_500_000);
        (0..30).for_each(|number| drop(put(&store, number, 100_000)));
        assert_eq!(store.leave_to_others(MEMORY / 2), MEMORY / 2);
        let held = (0..30).filter(|number| find(&store, *number).is_some()).count();
        assert!((1..6).contains(&held), "{held} fit beside it");
        assert!(store.usage().used_bytes <= MEMORY);
        // What a reader holds does not give way.
        let left = store.leave_to_others(MEMORY);
        assert!((MEMORY / 2..MEMORY - 1_500_000).contains(&left), "{left}");
        assert!(find(&store, 40).is_some());
        drop(read);
        assert!(store.leave_to_others(MEMORY - LEFT_OVER) > left);
        assert_eq!(store.leave_to_others(0), 0);
        assert!(store.usage().used_bytes < LEFT_OVER && find(&store, 40).is_none());
    }
}
