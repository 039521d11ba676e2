//! What a bucket lets out, on a clock of the test's own.

use proptest::prelude::*;

use super::*;
use weir_clock as clock;

/// A writer that obeys the bucket and is late every other time: the times and sizes of its writes.
fn write(rate: u64, burst: u64, time: Duration, piece: u64, late: &[Duration]) -> Vec<(Duration, u64)> {
    let begun = clock::mono();
    let mut bucket = Bucket::new(rate, burst, begun);
    let mut late = late.iter().cycle();
    let (mut now, mut written) = (begun, Vec::new());
    while now - begun < time {
        match bucket.turn(now, piece) {
            Turn::Go(bytes) => {
                assert!(bytes > 0 && bytes <= piece);
                bucket.take(bytes);
                written.push((now - begun, bytes));
            }
            Turn::Wait(until) => {
                assert!(until > now, "it would spin");
                now = until + *late.next().unwrap();
            }
        }
    }
    written
}

fn share(rate: u64, time: Duration) -> f64 {
    rate as f64 * time.as_secs_f64()
}

proptest! {
    /// From the start, never more than the burst and the rate's share; in any window, never more than 100 ms
    /// of the rate beyond that.
    #[test]
    fn never_more_than_the_cap(
        rate in prop_oneof![1u64..2000, 1000u64..50_000_000],
        burst in prop_oneof![Just(0), 0u64..10_000_000],
        piece in 1u64..300_000,
        late in prop::collection::vec(0u64..3_000, 1..8),
    ) {
        let late: Vec<_> = late.into_iter().map(Duration::from_millis).collect();
        let piece = piece.max(rate / 500).max(burst / 500);
        let mut written = write(rate, burst, Duration::from_secs(3), piece, &late);
        // Writes at the same moment count as one.
        written.dedup_by(|next, first| {
            next.0 == first.0 && {
                first.1 = first.1.saturating_add(next.1);
                true
            }
        });
        let one_piece = (rate / 10).max(1);
        let mut total = 0u128;
        for (at, bytes) in &written {
            total += u128::from(*bytes);
            let most = (burst as f64 + share(rate, *at)) * (1.0 + 1e-9);
            prop_assert!(total as f64 <= most, "{total} after {at:?}");
        }
        for (from, (begin, _)) in written.iter().enumerate().step_by(7) {
            let mut within = 0f64;
            for (end, bytes) in &written[from..] {
                within += *bytes as f64;
                let bound = burst as f64 + one_piece as f64 + share(rate, *end - *begin);
                prop_assert!(within <= bound * (1.0 + 1e-9), "{within} from {begin:?} to {end:?}");
            }
        }
    }

    /// After the burst at least 95 % of the rate, although the writer is up to 40 ms late each time.
    #[test]
    fn nearly_what_was_asked_for(
        rate in 1000u64..100_000_000,
        burst in prop_oneof![Just(0), 0u64..10_000_000],
        late in prop::collection::vec(0u64..40, 1..8),
    ) {
        let late: Vec<_> = late.into_iter().map(Duration::from_millis).collect();
        let time = Duration::from_secs(10);
        let written = write(rate, burst, time, 256 << 10, &late);
        let total: u64 = written.iter().map(|(_, bytes)| bytes).sum();
        let least = burst as f64 + 0.95 * share(rate, time);
        prop_assert!(total as f64 >= least, "{total} of {least}");
    }
}

#[test]
fn a_slow_rate_is_smooth() {
    for rate in [100, 10_000, 1_000_000, 4_000_000] {
        let written = write(rate, 0, Duration::from_secs(5), u64::MAX >> 1, &[Duration::ZERO]);
        for pair in written.windows(2) {
            assert!(pair[1].1 <= rate / 10, "{rate}: {} bytes at once", pair[1].1);
            assert!(pair[1].0 - pair[0].0 <= Duration::from_millis(100), "{rate}");
        }
    }
}

#[test]
fn the_end_is_not_waited_for_longer_than_it_takes() {
    let now = clock::mono();
    let mut bucket = Bucket::new(1_000, 0, now);
    assert_eq!(bucket.turn(now, 3), Turn::Wait(now + Duration::from_millis(3)));
    assert_eq!(bucket.turn(now + Duration::from_millis(3), 3), Turn::Go(3));
}

#[test]
fn the_ends_of_the_range_hold() {
    let now = clock::mono();
    let far = now + Duration::from_secs(1 << 32);
    for (rate, burst) in [(0, 0), (1, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX, 0)] {
        let mut bucket = Bucket::new(rate, burst, now);
        bucket.turn(far, u64::MAX);
        bucket.take(u64::MAX);
        bucket.turn(far, 1);
        // A clock that goes back adds nothing.
        bucket.turn(now, 1);
    }
}
