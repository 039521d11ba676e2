//! Range, as it is sent and as it should not be.

use super::{Wanted, wanted};
use crate::Interval;
use crate::tests::given::fields;
use proptest::prelude::*;

fn check(range: &str, length: u64, expect: Wanted) {
    assert_eq!(wanted(&fields(&format!("range: {range}")), length), expect, "{range} of {length}");
}

fn part(start: u64, end: u64) -> Wanted {
    Wanted::Part(Interval::new(start, end))
}

#[test]
fn reads_one_range() {
    for (range, length, expect) in [
        ("bytes=0-4", 10, part(0, 5)),
        ("bytes=5-", 10, part(5, 10)),
        ("bytes=-3", 10, part(7, 10)),
        ("bytes=-30", 10, part(0, 10)),
        ("bytes=0-99", 10, part(0, 10)),
        ("bytes=9-9", 10, part(9, 10)),
        ("Bytes= 0-4 ", 10, part(0, 5)),
        ("bytes=,0-4,", 10, part(0, 5)),
        ("bytes=0-99999999999999999999999", 10, part(0, 10)),
        ("bytes=10-", 10, Wanted::Nothing),
        ("bytes=-0", 10, Wanted::Nothing),
        ("bytes=0-", 0, Wanted::Nothing),
        ("bytes=-1", 0, Wanted::Nothing),
        ("bytes=99999999999999999999999-", 10, Wanted::Nothing),
    ] {
        check(range, length, expect);
    }
}

#[test]
fn ignores_the_rest() {
    for range in [
        "bytes=0-1, 4-5",
        "items=0-4",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=5-4",
        "bytes=+1-4",
        "bytes=0x1-4",
        "bytes=1 - 4",
        "bytes=1-4-5",
        "bytes:0-4",
        "=0-4",
    ] {
        check(range, 10, Wanted::All);
    }
    assert_eq!(wanted(&fields(""), 10), Wanted::All);
    assert_eq!(wanted(&fields("range: bytes=0-4\nrange: bytes=0-4"), 10), Wanted::All);
}

proptest! {
    #[test]
    fn stays_within(range in "(bytes=)?[0-9,\\- ]{0,24}", length in 0_u64..50) {
        if let Wanted::Part(part) = wanted(&fields(&format!("range: {range}")), length) {
            prop_assert!(!part.is_empty() && part.end <= length);
        }
    }
}
