//! Range, as it is sent and as it should not be.

use super::{Asked, PART_BYTES, Wanted, range_from_front, wanted, wanted_cold};
use crate::tests::given::fields;
use crate::{Interval, Intervals};
use proptest::prelude::*;

fn check(range: &str, length: u64, expect: Wanted) {
    assert_eq!(wanted(&fields(&format!("range: {range}")), length), expect, "{range} of {length}");
}

fn part(start: u64, end: u64) -> Wanted {
    Wanted::Part(Interval::new(start, end))
}

fn parts(parts: &[(u64, u64)]) -> Wanted {
    Wanted::Parts(parts.iter().map(|(start, end)| Interval::new(*start, *end)).collect())
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
        ("bytes=00009-000009", 10, part(9, 10)),
        ("Bytes= 0-4 ", 10, part(0, 5)),
        ("bytes=,0-4,", 10, part(0, 5)),
        ("bytes=0-18446744073709551614", 10, part(0, 10)),
        ("bytes=0-18446744073709551615", 10, part(0, 10)),
        ("bytes=0-99999999999999999999999", 10, part(0, 10)),
        ("bytes=-99999999999999999999999", 10, part(0, 10)),
        ("bytes=0-", u64::MAX, part(0, u64::MAX)),
        ("bytes=10-", 10, Wanted::Nothing),
        ("bytes=-0", 10, Wanted::Nothing),
        ("bytes=0-", 0, Wanted::Nothing),
        ("bytes=-1", 0, Wanted::Nothing),
        ("bytes=18446744073709551615-", u64::MAX, Wanted::Nothing),
        ("bytes=99999999999999999999999-", 10, Wanted::Nothing),
    ] {
        check(range, length, expect);
    }
}

#[test]
fn ignores_the_rest() {
    for range in [
        "items=0-4",
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=--1",
        "bytes=a-b",
        "bytes=5-4",
        "bytes=99999999999999999999999-4",
        "bytes=+1-4",
        "bytes=0x1-4",
        "bytes=1 - 4",
        "bytes=1-4-5",
        "bytes=1.0-4",
        "bytes:0-4",
        "=0-4",
        "bytes=0-1;4-5",
        "bytes=0-1,5-4",
        "bytes=0-1,x",
        "bytes=0-1,items=4-5",
    ] {
        check(range, 10, Wanted::All);
        assert_eq!(wanted_cold(&fields(&format!("range: {range}"))), None, "{range}");
    }
    for lines in ["", "range: bytes=0-4\nrange: bytes=0-4"] {
        assert_eq!((wanted(&fields(lines), 10), wanted_cold(&fields(lines))), (Wanted::All, None), "{lines}");
    }
}

#[test]
fn reads_several_ranges_in_their_order() {
    for (range, length, expect) in [
        ("bytes=0-0,-1", 1000, parts(&[(0, 1), (999, 1000)])),
        ("bytes=-1 ,\t0-0", 1000, parts(&[(999, 1000), (0, 1)])),
        ("bytes=0-9,,500-509,", 1000, parts(&[(0, 10), (500, 510)])),
        ("bytes=500-,0-9", 1000, parts(&[(500, 1000), (0, 10)])),
        ("bytes=0-9,2000-,500-599", 1000, parts(&[(0, 10), (500, 600)])),
        ("bytes=-0,500-599,0-9,1000-", 1000, parts(&[(500, 600), (0, 10)])),
        // One range of the set may be left, or none.
        ("bytes=0-9,2000-", 1000, part(0, 10)),
        ("bytes=2000-,-5", 1000, part(995, 1000)),
        ("bytes=1000-,-0", 1000, Wanted::Nothing),
        ("bytes=0-,-1", 0, Wanted::Nothing),
    ] {
        check(range, length, expect);
    }
}

#[test]
fn joins_ranges_that_overlap_or_lie_near() {
    for (range, expect) in [
        ("bytes=0-99,50-149", part(0, 150)),
        ("bytes=50-149,0-99", part(0, 150)),
        ("bytes=0-99,20-29", part(0, 100)),
        ("bytes=0-99,100-199", part(0, 200)),
        ("bytes=0-99,179-199", part(0, 200)),
        ("bytes=0-99,180-199", parts(&[(0, 100), (180, 200)])),
        ("bytes=180-199,0-99", parts(&[(180, 200), (0, 100)])),
        // The joined part stands where the first of them stood; the range that joins them may come last.
        ("bytes=400-449,0-9,300-399", parts(&[(300, 450), (0, 10)])),
        ("bytes=200-299,600-609,400-499,300-399", parts(&[(200, 500), (600, 610)])),
        ("bytes=0-,-1", part(0, 1000)),
    ] {
        check(range, 1000, expect);
    }
}

#[test]
fn answers_an_excessive_set_with_the_whole() {
    let many = |count: u64| {
        let ranges: Vec<String> = (0..count).map(|at| format!("{}-{}", at * 1000, at * 1000 + 9)).collect();
        format!("bytes={}", ranges.join(","))
    };
    let all = (0..32).map(|at| (at * 1000, at * 1000 + 10)).collect::<Vec<_>>();
    check(&many(32), 100_000, parts(&all));
    check(&many(33), 100_000, Wanted::All);
    check(&format!("bytes={}", "5-4,".repeat(40)), 100_000, Wanted::All);
    check(&format!("bytes={}", "0-,".repeat(3)), 1000, Wanted::All);
    check("bytes=0-9,5-14,10-19", 100_000, Wanted::All);
    // With the costs of its parts it would be as long as the whole.
    check("bytes=0-829,910-919", 1000, Wanted::All);
    check("bytes=0-828,910-919", 1000, parts(&[(0, 829), (910, 920)]));
    // Many short ranges are answered if they are in ascending order.
    let backwards: Vec<String> = (1..=9).rev().map(|at| format!("{0}-{0}", at * 1000)).collect();
    check(&format!("bytes={}", backwards.join(",")), 100_000, Wanted::All);
    let eight: Vec<(u64, u64)> = (2..=9).rev().map(|at| (at * 1000, at * 1000 + 1)).collect();
    check(&format!("bytes={}", backwards[..8].join(",")), 100_000, parts(&eight));
}

#[test]
fn first_range_of_an_unknown_body() {
    let from = |start, end| Some(Asked::From(Interval::new(start, end)));
    for (range, expect) in [
        ("bytes=5-9", from(5, 10)),
        ("bytes=5-", from(5, u64::MAX)),
        ("bytes=0-", from(0, u64::MAX)),
        ("bytes=-9", Some(Asked::Suffix(9))),
        ("bytes=5-9,0-0", from(5, 10)),
        ("bytes=500-599,-9", from(500, 600)),
        ("bytes=-9,500-599", Some(Asked::Suffix(9))),
        ("bytes=-0,5-9", from(5, 10)),
        ("bytes=99999999999999999999999-,5-9", from(5, 10)),
        ("bytes=-0", None),
        ("bytes=99999999999999999999999-", None),
        ("bytes=0-,0-,0-", None),
    ] {
        let headers = fields(&format!("range: {range}"));
        assert_eq!(wanted_cold(&headers), expect, "{range}");
        let front = match expect {
            Some(Asked::From(interval)) => Some(interval),
            _ => None,
        };
        assert_eq!(range_from_front(&headers), front, "{range}");
    }
}

const LENGTH: u64 = 2000;

/// The bytes that a set asks for, one by one, as a reader of RFC 9110 §14.1.2 would count them.
fn asked_for(set: &[(u64, u64)]) -> Vec<bool> {
    let mut asked = vec![false; LENGTH as usize];
    for (first, last) in set {
        (*first..=*last).filter(|at| *at < LENGTH).for_each(|at| asked[at as usize] = true);
    }
    asked
}

/// Up to twelve ranges, some beyond the end.
fn sets() -> impl Strategy<Value = Vec<(u64, u64)>> {
    proptest::collection::vec((0..LENGTH + 100, prop_oneof![0_u64..20, 0_u64..600]), 1..12)
        .prop_map(|set| set.into_iter().map(|(first, more)| (first, first + more)).collect())
}

proptest! {
    #[test]
    fn stays_within(range in "(bytes=)?[0-9,\\- ]{0,24}", length in 0_u64..500) {
        let headers = fields(&format!("range: {range}"));
        let parts = match wanted(&headers, length) {
            Wanted::All | Wanted::Nothing => vec![],
            Wanted::Part(part) => vec![part],
            Wanted::Parts(parts) => parts,
        };
        for part in parts {
            prop_assert!(!part.is_empty() && part.end <= length);
            prop_assert!(wanted_cold(&headers).is_some());
        }
    }

    #[test]
    fn agrees_with_a_bitmap(set in sets()) {
        let ranges: Vec<String> = set.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        let asked = asked_for(&set);
        let got = match wanted(&fields(&format!("range: bytes={}", ranges.join(","))), LENGTH) {
            // A set that overlaps or is scattered may be answered whole; no other may.
            Wanted::All => {
                let lengths = set.iter().filter(|(first, _)| *first < LENGTH);
                let length = |(first, last): &(u64, u64)| last.min(&(LENGTH - 1)) - first + 1;
                let lengths: Vec<u64> = lengths.map(length).collect();
                let sum: u64 = lengths.iter().sum();
                let overlap = sum > asked.iter().filter(|is_asked| **is_asked).count() as u64;
                let scattered = lengths.iter().filter(|length| **length < PART_BYTES).count() > 8;
                prop_assert!(overlap || scattered || sum + PART_BYTES * lengths.len() as u64 >= LENGTH);
                return Ok(());
            }
            Wanted::Nothing => vec![],
            Wanted::Part(part) => vec![part],
            Wanted::Parts(parts) => {
                prop_assert!(parts.len() > 1);
                let sent: u64 = parts.iter().map(Interval::length).sum();
                prop_assert!(sent + PART_BYTES * (parts.len() as u64) < LENGTH);
                parts
            }
        };
        // All requested bytes are sent, and only gaps that are shorter than what a part costs.
        let mut sent = Intervals::new();
        for part in &got {
            prop_assert!(!part.is_empty() && part.end <= LENGTH);
            prop_assert!(asked[part.start as usize] && asked[part.end as usize - 1]);
            let within = &asked[part.start as usize..part.end as usize];
            let longest_gap = within.split(|is_asked| *is_asked).map(<[bool]>::len).max().unwrap_or(0);
            prop_assert!((longest_gap as u64) < PART_BYTES);
            prop_assert_eq!(sent.gaps(*part).map(|gap| gap.length()).sum::<u64>(), part.length());
            sent.insert(*part);
        }
        for (at, is_asked) in asked.iter().enumerate() {
            prop_assert!(!is_asked || sent.contains(Interval::new(at as u64, at as u64 + 1)));
        }
        for (a, b) in sent.iter().zip(sent.iter().skip(1)) {
            prop_assert!(b.start - a.end >= PART_BYTES);
        }
        // In the order in which each part was first requested.
        let first_asked = |part: &Interval| {
                    set.iter().position(|(first, _)| (part.start..part.end).contains(first))
                };
        let order: Vec<_> = got.iter().map(first_asked).collect();
        prop_assert!(order.is_sorted() && order.iter().all(Option::is_some));
    }
}
