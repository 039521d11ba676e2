//! Which limits apply to a request, and which of two wins.

use std::time::Duration;

use weir_front::{Pace as _, Turn};

use super::*;

fn rate(limit: Option<u64>, query_max: Option<u64>) -> ResolvedRate {
    let limit = limit.map(ResolvedLimit::Fixed);
    ResolvedRate { limit, burst_bytes: 0, query: Some("rate".into()), query_max, media: None }
}

fn bytes_per_second(rate: &ResolvedRate, target: &str) -> Option<u64> {
    let limit = limit_of(rate, || panic!("a fixed limit asks for nothing"));
    rate_of(rate, limit, target).map(|(Rate::Said(bytes) | Rate::Asked(bytes, _))| bytes)
}

#[test]
fn who_asks_gets_it_up_to_the_cap() {
    let capped = rate(Some(1_000), Some(5_000));
    for (target, expected) in [
        ("/x", 1_000),
        ("/x?a=b", 1_000),
        ("/x?rate=300", 300),
        ("/x?a=b&rate=2k&c", 2_000),
        ("/x?rate=9M", 5_000),
        ("/x?rate=300&rate=400", 300),
        ("/x?rate", 1_000),
        ("/x?rate=", 1_000),
        ("/x?rate=0", 1_000),
        ("/x?rate=fast&rate=300", 1_000),
        ("/x?Rate=300", 1_000),
        ("/x?xrate=300", 1_000),
        ("/x?rate=99999999999999999999999", 1_000),
    ] {
        assert_eq!(bytes_per_second(&capped, target), Some(expected), "{target}");
    }
    let free = rate(None, None);
    assert_eq!(bytes_per_second(&free, "/x?rate=9G"), Some(9_000_000_000));
    assert_eq!(bytes_per_second(&free, "/x?rate=x"), None);
    let unnamed = ResolvedRate { query: None, ..capped };
    assert_eq!(bytes_per_second(&unnamed, "/x?rate=300"), Some(1_000));
}

#[tokio::test(start_paused = true)]
async fn nothing_to_bound_is_no_pace() {
    assert!(Pace::new(None, None, clock::mono()).is_none());
}

/// The burst goes at once, then what the rate allows.
#[tokio::test(start_paused = true)]
async fn a_pace_counts_what_went_out() {
    let begun = clock::mono();
    let mut pace = Pace::new(Some((Rate::Said(1_000), 500)), None, begun).unwrap();
    pace.look().await;
    assert_eq!(pace.turn(begun, 800, 0), Turn::Go(500));
    pace.took(500);
    let Turn::Wait(until) = pace.turn(begun, 300, 0) else { panic!("it goes on at once") };
    assert_eq!(until - begun, Duration::from_millis(50));
    assert_eq!(pace.turn(until, 300, 0), Turn::Go(50));
}

/// How much goes out in a minute where the least rate is `least` bytes a second.
fn in_a_minute(rate: Rate, least: u64) -> u64 {
    let begun = clock::mono();
    let mut pace = Pace::new(Some((rate, 0)), None, begun).unwrap();
    let (mut now, mut sent) = (begun, 0);
    while now < begun + Duration::from_secs(60) {
        match pace.turn(now, 64 << 10, least) {
            Turn::Go(bytes) => {
                sent += bytes;
                pace.took(bytes);
            }
            Turn::Wait(until) => now = until,
        }
    }
    sent
}

#[test]
fn no_client_chooses_to_hold_an_origin_for_days() {
    for (rate, least, expected) in [
        // Nothing is held.
        (Rate::Asked(1, None), 0, 60),
        (Rate::Asked(1, None), 256, 60 * 256),
        (Rate::Asked(1, Some(100_000)), 256, 60 * 256),
        // It asks for more than the least.
        (Rate::Asked(1_000, None), 256, 60_000),
        // The operator says less.
        (Rate::Asked(1, Some(100)), 256, 6_000),
        (Rate::Said(100), 256, 6_000),
    ] {
        let sent = in_a_minute(rate, least);
        assert!((expected * 9 / 10..=expected).contains(&sent), "{rate:?}, {least}: {sent}");
    }
}
