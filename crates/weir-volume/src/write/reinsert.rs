//! What of a segment that is about to be dropped is written again at the end of the log: a decision over
//! numbers, without a volume.
//!
//! The log is a queue: without this what is asked for every minute would leave with what was asked for once.
//! An object is wanted if it was used since it was written. Of those that are, the ones worth most go first,
//! by uses for each byte that writing them again costs; and they may take no more than a part of the segment
//! that goes, so that dropping always makes room.

/// At most this part of a segment's bytes is written again for each that is dropped: a quarter.
pub const REINSERTED_PART: u64 = 4;
/// A count of uses goes no further.
pub const USES_MAX: u8 = 15;

/// An object of the segment that is about to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// How often it was used since it was written, as far as that was counted ([`USES_MAX`]).
    pub uses: u8,
    /// What writing it again costs, in bytes.
    pub bytes: u64,
}

/// How many bytes may be written again for a segment of that length.
pub fn allowance_bytes(segment_bytes: u64) -> u64 {
    segment_bytes / REINSERTED_PART
}

/// Which of these are written again, by their places in the list: the one that is worth most first. What has
/// no use is not, and what does not fit any more leaves its room to the next.
pub fn choose(wanted: &[Wanted], allowance_bytes: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..wanted.len()).filter(|at| wanted[*at].uses > 0).collect();
    // By uses a byte, without a division; of two that are worth the same the earlier one.
    let worth = |left: &Wanted, right: &Wanted| {
        let of = |own: &Wanted, other: &Wanted| u128::from(own.uses) * u128::from(other.bytes.max(1));
        of(right, left).cmp(&of(left, right))
    };
    order.sort_by(|left, right| worth(&wanted[*left], &wanted[*right]));
    let mut left = allowance_bytes;
    order.retain(|at| {
        let is_taken = wanted[*at].bytes <= left;
        if is_taken {
            left -= wanted[*at].bytes;
        }
        is_taken
    });
    order
}

/// What a count of uses becomes when the object is written again: it must be used again to stay for good.
pub fn uses_after(uses: u8) -> u8 {
    uses / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(uses: u8, bytes: u64) -> Wanted {
        Wanted { uses, bytes }
    }

    #[test]
    fn the_most_uses_a_byte_come_first() {
        let all = [wanted(1, 100), wanted(0, 1), wanted(3, 100), wanted(1, 10), wanted(2, 20)];
        assert_eq!(choose(&all, 1000), [3, 4, 2, 0]);
        assert!(choose(&[], 1000).is_empty());
    }

    #[test]
    fn an_object_that_does_not_fit_leaves_its_room_to_the_next() {
        let all = [wanted(15, 600), wanted(9, 500), wanted(1, 400), wanted(1, 401)];
        assert_eq!(choose(&all, 1000), [0, 2]);
        assert!(choose(&all, 399).is_empty());
        assert!(choose(&all, 0).is_empty());
        for allowance in 0..2000 {
            let taken: u64 = choose(&all, allowance).iter().map(|at| all[*at].bytes).sum();
            assert!(taken <= allowance);
        }
    }

    #[test]
    fn extreme_numbers_do_no_harm() {
        let all = [wanted(USES_MAX, u64::MAX), wanted(1, 0), wanted(USES_MAX, 1)];
        assert_eq!(choose(&all, u64::MAX), [2, 1], "what does not fit any more is left out");
        assert_eq!(choose(&all[..1], u64::MAX), [0]);
    }

    #[test]
    fn an_unused_object_is_dropped_after_some_rounds() {
        let mut uses = USES_MAX;
        let mut rounds = 0;
        while uses > 0 {
            uses = uses_after(uses);
            rounds += 1;
        }
        assert_eq!(rounds, 4);
        assert_eq!(allowance_bytes(1 << 30), 256 << 20);
    }
}
