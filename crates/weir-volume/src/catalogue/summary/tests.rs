//! What a row says of an object is what its head says.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use smallvec::smallvec;
use weir_policy::{LifetimeSource, Now, Stored, StoredFlags, Tags};

use super::{Freshness, Held, MORE_TAGS, ROW_SEGMENTS_MAX, ROW_TAGS_MAX, Summary};
use crate::Place;
use crate::format::record::ExtentRef;
use crate::testing::samples::now;

fn at_ms(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

/// A summary without anything that may be missing.
pub(crate) fn plain() -> Summary {
    let source = LifetimeSource::MaxAge;
    Summary {
        status: 200,
        length: Some(5),
        held: Held::Whole,
        media_type: None,
        tags: Some(Tags::default()),
        received: at_ms(1_700_000_000_000),
        freshness: Freshness {
            written_ms: 1_700_000_001_000,
            age_ms: 1000,
            lifetime_ms: 600_000,
            source,
            flags: StoredFlags::default(),
        },
    }
}

/// One with everything.
pub(crate) fn full() -> Summary {
    Summary {
        status: 206,
        length: None,
        held: Held::In(smallvec![(3, 65_536), (1 << 40, 1)]),
        media_type: Some("text/html".into()),
        tags: Some(Tags::of_hashes(vec![u64::MAX, 7], true)),
        freshness: Freshness {
            source: LifetimeSource::Heuristic,
            flags: StoredFlags::MUST_REVALIDATE,
            ..plain().freshness
        },
        ..plain()
    }
}

fn check(summary: &Summary) {
    let mut bytes = Vec::new();
    summary.put(&mut bytes);
    let mut cursor: &[u8] = &bytes;
    assert_eq!(Summary::read(&mut cursor).as_ref(), Some(summary));
    assert!(cursor.is_empty());
    for length in 0..bytes.len() {
        assert_eq!(Summary::read(&mut &bytes[..length]), None, "{length} of {}", bytes.len());
    }
}

#[test]
fn what_is_written_is_read() {
    check(&plain());
    check(&full());
    check(&Summary { tags: None, held: Held::Elsewhere, ..full() });
    let most = (0..ROW_SEGMENTS_MAX as u64).map(|segment| (segment, 1)).collect();
    check(&Summary { held: Held::In(most), ..plain() });
}

#[test]
fn more_than_a_row_has_is_not_read() {
    let mut bytes = Vec::new();
    Summary { tags: None, ..plain() }.put(&mut bytes);
    let end = bytes.len() - 2;
    for count in [ROW_TAGS_MAX as u16 + 1, MORE_TAGS | 1] {
        bytes[end..].copy_from_slice(&count.to_le_bytes());
        assert_eq!(Summary::read(&mut &[&bytes[..], &[0; 9000]].concat()[..]), None, "{count}");
    }
    let mut bytes = Vec::new();
    plain().put(&mut bytes);
    bytes[34] = ROW_SEGMENTS_MAX as u8 + 1;
    assert_eq!(Summary::read(&mut &[&bytes[..], &[0; 9000]].concat()[..]), None);
}

fn stored(fields: &[(&str, &str)], now: Now) -> Stored {
    let headers: HeaderMap = fields
        .iter()
        .map(|(name, value)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        })
        .collect();
    let tags = Tags::read(&headers);
    let mut stored = Stored::of_own(StatusCode::OK, headers, now);
    (stored.facts.lifetime, stored.facts.initial_age) = (Duration::from_secs(60), Duration::from_secs(7));
    stored.tags = tags;
    stored
}

fn later(now: Now, by: Duration) -> Now {
    Now { mono: now.mono + by, wall: now.wall + by }
}

#[test]
fn a_row_ages_as_its_head_does() {
    let came = now();
    let head = stored(&[("content-type", "Image/PNG"), ("cache-tag", "a, b")], came);
    let written = later(came, Duration::from_secs(20));
    let summary = Summary::of(&head, Some(10), Held::Whole, written);
    assert_eq!(summary.media_type.as_deref(), Some("image/png"));
    assert_eq!(summary.tags.as_ref(), Some(&head.tags));
    let read = later(came, Duration::from_secs(30));
    let age = |now: Now| {
        let facts = summary.facts(now);
        assert_eq!(facts.lifetime, Duration::from_secs(60));
        (facts.initial_age + now.since(facts.received_mono)).as_secs_f64().round()
    };
    assert_eq!(age(read), 37.0);
    // A clock that was set back a little makes nothing younger than it was, and by much makes it stale.
    assert_eq!(age(Now { wall: came.wall, ..read }), 27.0);
    let far_back = Now { wall: written.wall - Duration::from_secs(3600), ..read };
    assert!(age(far_back) > 60.0);
}

#[test]
fn of_more_tags_than_a_row_has_it_says_so() {
    let many = |count: usize| (0..count).map(|tag| format!("t{tag}")).collect::<Vec<_>>().join(",");
    let of = |count| Summary::of(&stored(&[("cache-tag", &many(count))], now()), None, Held::Whole, now());
    assert_eq!(of(ROW_TAGS_MAX).tags.map(|tags| tags.hashes().len()), Some(ROW_TAGS_MAX));
    assert_eq!(of(ROW_TAGS_MAX + 1).tags, None);
}

#[test]
fn what_is_held_is_counted_by_segment() {
    let extent = |segment, offset, length| ExtentRef { offset, length, place: Place { segment, unit: 0 } };
    let of = |extents: &[ExtentRef], length| Held::of(extents, 7, length);
    assert_eq!(of(&[], Some(0)), Held::Whole);
    assert_eq!(of(&[extent(7, 0, 10), extent(7, 10, 5)], Some(15)), Held::Whole);
    assert_eq!(of(&[extent(7, 0, 10)], None), Held::In(smallvec![(7, 10)]));
    assert_eq!(of(&[extent(7, 0, 10)], Some(15)), Held::In(smallvec![(7, 10)]));
    assert_eq!(of(&[extent(6, 0, 10)], Some(10)), Held::In(smallvec![(6, 10)]));
    let split = [extent(6, 0, 10), extent(7, 10, 5), extent(6, 15, 1)];
    assert_eq!(of(&split, Some(16)), Held::In(smallvec![(6, 11), (7, 5)]));
    let many: Vec<_> = (0..=ROW_SEGMENTS_MAX as u64).map(|at| extent(at, at, 1)).collect();
    assert_eq!(of(&many, None), Held::Elsewhere);
}
