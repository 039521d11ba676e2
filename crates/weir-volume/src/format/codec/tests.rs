//! Heads encoded and decoded: golden file, round trip, damage, clocks that jump.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use proptest::prelude::*;
use weir_policy::{
    ETag, Facts, LifetimeSource, Now, Selecting, Stored, StoredFlags, Tags, Validators, Variant, freshness,
};

use super::{SKEW_MAX, SOURCES, Unreadable, decode, encode, source_code, source_of};

const DAY: Duration = Duration::from_secs(86_400);

fn at(wall_s: u64) -> Now {
    Now {
        mono: crate::testing::samples::now().mono,
        wall: SystemTime::UNIX_EPOCH + Duration::from_secs(wall_s),
    }
}

fn sample(now: Now) -> Stored {
    let mut headers = HeaderMap::new();
    headers.append(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
    headers.append(header::LINK, HeaderValue::from_static("</a>; rel=x"));
    headers.append(header::LINK, HeaderValue::from_static(""));
    headers.append("cache-tag", HeaderValue::from_static("one,two"));
    headers.append("x-bytes", HeaderValue::from_bytes(&[0xff, b' ', 0x80]).unwrap());
    let mut secret = HeaderValue::from_static("s");
    secret.set_sensitive(true);
    headers.append(header::SET_COOKIE, secret);
    let mut request = HeaderMap::new();
    request.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("br, gzip"));
    let selecting = [header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE];
    let selecting = selecting.into_iter().map(|name| Selecting::read(name, &request)).collect();
    let variant = Variant::from_parts(selecting, Some(HeaderValue::from_static("de")), &mut headers);
    Stored {
        status: StatusCode::NOT_FOUND,
        tags: Tags::read(&headers),
        headers,
        validators: Validators {
            etag: ETag::read(&HeaderValue::from_static("W/\"a\"")),
            last_modified: Some(SystemTime::UNIX_EPOCH - Duration::from_millis(1500)),
            date: None,
        },
        variant,
        facts: Facts {
            lifetime: Duration::from_secs(600),
            source: LifetimeSource::SMaxage,
            initial_age: Duration::from_millis(2500),
            received_mono: now.mono,
            received_wall: now.wall,
            while_revalidate: Duration::from_secs(30),
            if_error: DAY,
            flags: StoredFlags(0x205),
        },
    }
}

/// Compares everything but the monotonic clock, which no two runs share.
fn same(left: &Stored, right: &Stored) {
    assert_eq!(left.status, right.status);
    assert_eq!(left.headers, right.headers);
    let names = |stored: &Stored| stored.headers.keys().cloned().collect::<Vec<HeaderName>>();
    assert_eq!(names(left), names(right), "the order");
    let sensitive =
        |stored: &Stored| stored.headers.values().map(HeaderValue::is_sensitive).collect::<Vec<_>>();
    assert_eq!(sensitive(left), sensitive(right));
    assert_eq!(left.validators, right.validators);
    assert_eq!(left.variant, right.variant);
    assert_eq!(left.tags, right.tags);
}

#[test]
fn the_golden_file_is_what_is_written_and_read() {
    let now = at(1_800_000_000);
    let golden = crate::testing::samples::golden("head-2.bin", &encode(&sample(now), now));
    assert_eq!(encode(&sample(now), now), golden);
    let read = decode(&Bytes::from(golden), now).unwrap();
    same(&read, &sample(now));
    assert_eq!(read.facts, sample(now).facts);
}

#[test]
fn version_1_is_read_and_its_second_byte_of_flags_says_nothing() {
    let now = at(1_800_000_000);
    let golden = crate::testing::samples::golden("head-1.bin", &[]);
    for second in [0, 0xff] {
        let mut bytes = golden[..golden.len() - 8].to_vec();
        bytes[3] = second;
        let sum = xxhash_rust::xxh3::xxh3_64(&bytes);
        bytes.extend(sum.to_le_bytes());
        let read = decode(&Bytes::from(bytes), now).unwrap();
        same(&read, &sample(now));
        let flags = StoredFlags(sample(now).facts.flags.0 & 0xff);
        assert_eq!(read.facts, Facts { flags, ..sample(now).facts });
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_an_error() {
    let now = at(1_800_000_000);
    let bytes = encode(&sample(now), now);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&flipped.into(), now).is_err(), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(decode(&Bytes::copy_from_slice(&bytes[..length]), now).is_err());
    }
    assert_eq!(decode(&[bytes.as_slice(), &[0]].concat().into(), now).unwrap_err(), Unreadable::Damaged);
}

/// Even with a correct checksum no bytes cause a panic.
#[test]
fn wrong_bytes_under_a_correct_checksum_do_no_harm() {
    let now = at(1_800_000_000);
    let bytes = encode(&sample(now), now);
    let end = bytes.len() - 8;
    let resum = |mut bytes: Vec<u8>| {
        let sum = xxhash_rust::xxh3::xxh3_64(&bytes);
        bytes.extend(sum.to_le_bytes());
        Bytes::from(bytes)
    };
    for at in 0..end {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut changed = bytes[..end].to_vec();
            changed[at] = byte;
            let _ = decode(&resum(changed), now);
        }
        assert!(decode(&resum(bytes[..at].to_vec()), now).is_err(), "cut at {at}");
    }
    let mut newer = bytes[..end].to_vec();
    for version in [0, 3] {
        newer[0] = version;
        assert_eq!(decode(&resum(newer.clone()), now).unwrap_err(), Unreadable::Version(version));
    }
}

#[test]
fn each_lifetime_source_has_its_own_code() {
    for source in SOURCES {
        assert_eq!(source_of(source_code(source)), Some(source));
    }
    assert_eq!(source_of(9), None);
}

/// Encodes a head of age `held` and decodes it after the wall clock has moved by `moved_s`. Returns its age.
fn age_after(held: Duration, moved_s: i64) -> (Duration, Duration) {
    let written = at(1_800_000_000);
    let mut stored = sample(written);
    stored.facts.received_mono = written.mono - held;
    let bytes = encode(&stored, written);
    let read = at(1_800_000_000u64.saturating_add_signed(moved_s));
    let stored = decode(&bytes.into(), read).unwrap();
    let fresh = freshness(&stored, read);
    (fresh.age, fresh.left())
}

#[test]
fn time_between_processes_counts_as_age() {
    let initial = Duration::from_millis(2500);
    let held = Duration::from_secs(10);
    assert_eq!(age_after(held, 0).0, initial + held);
    assert_eq!(age_after(held, 100).0, initial + held + Duration::from_secs(100));
    assert_eq!(age_after(held, 86_400 * 4000).0, initial + held + 4000 * DAY);
}

#[test]
fn a_clock_set_back_makes_nothing_younger_and_nothing_immortal() {
    let held = Duration::from_secs(10);
    let skew = SKEW_MAX.as_secs() as i64;
    let (age, left) = age_after(held, -skew);
    assert_eq!(age, Duration::from_millis(12_500));
    assert!(left > Duration::ZERO);
    for moved_s in [-skew - 1, -86_400, -86_400 * 9000] {
        let (age, left) = age_after(held, moved_s);
        assert_eq!(left, Duration::ZERO, "stale when the clock was {moved_s} s ahead");
        assert!(age >= Duration::from_secs(600));
    }
}

#[test]
fn ages_beyond_every_clock_end_in_a_number() {
    let now = at(1_800_000_000);
    let mut stored = sample(now);
    stored.facts.lifetime = Duration::MAX;
    stored.facts.initial_age = Duration::MAX;
    let bytes = encode(&stored, now);
    let ahead = at(1_700_000_000);
    let read = decode(&bytes.into(), ahead).unwrap();
    let _ = freshness(&read, ahead);
}

fn values() -> impl Strategy<Value = HeaderValue> {
    let bytes = proptest::collection::vec(prop_oneof![0x20u8..0x7f, 0x80u8..=0xff], 0..40);
    (bytes, any::<bool>()).prop_map(|(bytes, is_sensitive)| {
        let mut value = HeaderValue::from_bytes(&bytes).unwrap();
        value.set_sensitive(is_sensitive);
        value
    })
}

fn times() -> impl Strategy<Value = SystemTime> {
    (any::<i32>(), 0u64..1_000_000_000).prop_map(|(seconds, nanoseconds)| {
        let whole = Duration::from_secs(u64::from(seconds.unsigned_abs()));
        let epoch = SystemTime::UNIX_EPOCH;
        let at = if seconds < 0 { epoch - whole } else { epoch + whole };
        at + Duration::from_nanos(nanoseconds)
    })
}

prop_compose! {
    fn heads()(
        status in 100u16..1000,
        fields in proptest::collection::vec(("[a-z][a-z0-9-]{0,20}", values()), 0..20),
        etag in proptest::option::of(values()),
        last_modified in proptest::option::of(times()),
        date in proptest::option::of(times()),
        selecting in proptest::collection::vec(
            ("[b-z][a-z-]{0,10}", proptest::option::of(proptest::collection::vec(any::<u8>(), 0..30))), 0..4),
        language in proptest::option::of(values()),
        source in 0u8..9,
        flags in any::<u16>(),
        seconds in any::<[u32; 5]>(),
    ) -> (Stored, Now) {
        let now = at(1_800_000_000);
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
        }
        let selecting = selecting.into_iter().map(|(name, value)| {
            Selecting::from_parts(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.map(Into::into))
        });
        let duration = |at: usize| Duration::new(u64::from(seconds[at]), seconds[at] % 1_000_000_000);
        let variant = Variant::from_parts(selecting.collect(), language, &mut headers);
        let stored = Stored {
            status: StatusCode::from_u16(status).unwrap(),
            tags: Tags::read(&headers),
            headers,
            validators: Validators {
                etag: etag.as_ref().and_then(ETag::read),
                last_modified,
                date,
            },
            variant,
            facts: Facts {
                lifetime: duration(0),
                source: source_of(source).unwrap(),
                initial_age: duration(1),
                received_mono: now.mono - Duration::from_secs(u64::from(seconds[4] % 1000)),
                received_wall: now.wall,
                while_revalidate: duration(2),
                if_error: duration(3),
                flags: StoredFlags(flags),
            },
        };
        (stored, now)
    }
}

proptest! {
    #[test]
    fn what_was_written_is_read((stored, now) in heads()) {
        let read = decode(&encode(&stored, now).into(), now).unwrap();
        same(&read, &stored);
        prop_assert_eq!(read.facts, stored.facts);
    }

    #[test]
    fn damage_is_an_error(
        (stored, now) in heads(), flip: prop::sample::Index, bit in 0u32..8, cut: prop::sample::Index,
    ) {
        let bytes = encode(&stored, now);
        let mut flipped = bytes.clone();
        flipped[flip.index(bytes.len())] ^= 1 << bit;
        prop_assert!(decode(&flipped.into(), now).is_err());
        prop_assert!(decode(&Bytes::copy_from_slice(&bytes[..cut.index(bytes.len())]), now).is_err());
    }

    #[test]
    fn noise_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(decode(&bytes.into(), at(1_800_000_000)).is_err());
    }

    #[test]
    fn age_never_falls_and_never_stops((stored, now) in heads(), moved_s in -100_000_000i64..100_000_000) {
        let before = freshness(&stored, now);
        let read = at(1_800_000_000u64.saturating_add_signed(moved_s));
        let after = decode(&encode(&stored, now).into(), read).unwrap();
        let fresh = freshness(&after, read);
        prop_assert!(fresh.age >= before.age.min(super::AGE_MAX));
        if moved_s >= 0 {
            prop_assert_eq!(fresh.age, before.age + Duration::from_secs(moved_s as u64));
        } else if moved_s < -(SKEW_MAX.as_secs() as i64) {
            prop_assert!(!fresh.is_fresh());
        }
    }
}
