//! A wall clock that jumps never makes an object immortal, negative or expired before its time.

use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use proptest::prelude::*;
use tokio::net::UnixStream;
use weir_policy::{CacheRules, Now, RequestView, ResponseView, Stored, freshness, storable};

use crate::wire::{BodyReader, Framing, Wire};
use crate::world::Climate;
use crate::{Folder, begin, on_virtual_time};

const HOUR_S: i64 = 3600;
const CENTURY_S: i64 = 100 * 365 * 24 * HOUR_S;

/// Where wall clocks jump to: nowhere, by hours, by decades, before the epoch.
fn walls() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0), -12 * HOUR_S..12 * HOUR_S, -CENTURY_S / 2..CENTURY_S]
}

fn at(begun: Instant, passed: Duration, wall_s: i64) -> Now {
    let right = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000) + passed;
    let off = Duration::from_secs(wall_s.unsigned_abs());
    Now { mono: begun + passed, wall: if wall_s < 0 { right - off } else { right + off } }
}

fn stored(max_age_s: u64, date: Option<SystemTime>, requested: Now, received: Now) -> Option<Stored> {
    let empty = HeaderMap::new();
    let request = RequestView {
        method: &Method::GET,
        scheme: "http",
        host: "a",
        path_and_query: "/",
        headers: &empty,
        has_body: false,
        is_trusted: false,
    };
    let mut headers = HeaderMap::new();
    let control = format!("max-age={max_age_s}");
    headers.insert(header::CACHE_CONTROL, HeaderValue::try_from(control).unwrap());
    headers.insert(header::ETAG, HeaderValue::from_static("\"1\""));
    if let Some(date) = date {
        headers.insert(header::DATE, HeaderValue::try_from(httpdate::fmt_http_date(date)).unwrap());
    }
    let rules = CacheRules::default();
    storable(&request, &ResponseView::new(StatusCode::OK, &headers, requested, received), &rules)
        .ok()
        .map(|storable| storable.into_stored())
}

proptest! {
    #[test]
    fn jumps_make_nothing_immortal_negative_or_expired(
        max_age_s in 1_u64..100_000,
        has_date in any::<bool>(),
        under_way_ms in 0_u64..5_000,
        received_wall_s in walls(),
        looks in prop::collection::vec((0_u64..200_000, walls()), 1..20),
    ) {
        let begun = Instant::now();
        let requested = at(begun, Duration::ZERO, 0);
        let under_way = Duration::from_millis(under_way_ms);
        let received = at(begun, under_way, received_wall_s);
        let date = has_date.then_some(requested.wall);
        let Some(stored) = stored(max_age_s, date, requested, received) else {
            // Only a response dated by a clock far behind this one is taken for old.
            prop_assert!(has_date && received_wall_s > 0);
            return Ok(());
        };
        let mut passed: Vec<_> = looks;
        passed.sort_unstable();
        let lifetime = Duration::from_secs(max_age_s);
        let mut age_before = Duration::ZERO;
        for (after_s, wall_s) in passed {
            let after = Duration::from_secs(after_s);
            let now = at(begun, under_way + after, wall_s);
            let fresh = freshness(&stored, now);
            prop_assert_eq!(fresh.lifetime, lifetime);
            prop_assert!(fresh.age >= after && fresh.age >= age_before, "age goes with time alone");
            age_before = fresh.age;
            prop_assert!(after < lifetime || !fresh.is_fresh(), "immortal");
            if !has_date || received_wall_s <= 0 {
                prop_assert!(fresh.age <= after + under_way + Duration::from_secs(1), "older than it is");
                prop_assert_eq!(fresh.is_fresh(), fresh.age < lifetime);
            }
        }
    }
}

/// Sends one request on a connection of its own; returns how it was answered, and its age.
async fn get(folder: &Folder, path: &str) -> (String, Option<u64>) {
    let mut wire = Wire::new(UnixStream::connect(folder.0.join("door.sock")).await.unwrap());
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\naccept-language: de\r\n\r\n");
    wire.send(request.as_bytes()).await.unwrap();
    let head = loop {
        let head = wire.head().await.unwrap().unwrap();
        if head.status() >= 200 {
            break head;
        }
    };
    let length = head.field("content-length").map(|length| length.parse().unwrap());
    let mut body = BodyReader::new(length.map_or(Framing::Chunked, Framing::Length));
    while body.next(&mut wire, 1 << 20).await.unwrap().is_some() {}
    let age = head.field("age").map(|age| age.parse().unwrap());
    (head.field("cache-status").unwrap().to_owned(), age)
}

#[test]
fn what_is_held_lives_as_long_as_it_should_while_the_wall_clock_jumps() {
    let climate = Climate {
        memory_kib: 64 << 10,
        faults_percent: 0,
        jump_hours: 0,
        clients: 0,
        steps: 0,
        sabotage: None,
    };
    on_virtual_time(async {
        let folder = Folder::new();
        let (world, _house) = begin(1, climate, &folder.0);
        // Its lifetime is a minute, and it has no Date.
        let path = "/lang/1";
        let mut fetched = tokio::time::Instant::now();
        let mut asked = 0;
        for round in 0..120 {
            let ahead_s = world.below(2 * CENTURY_S as u64) as i64 - CENTURY_S / 2;
            world.set_wall(if round % 2 == 0 { ahead_s } else { -12 * HOUR_S + ahead_s % (24 * HOUR_S) });
            let (how, age) = get(&folder, path).await;
            if how.contains("; hit") {
                let since = fetched.elapsed().as_secs();
                let age = age.unwrap();
                assert!(age <= since + 1 && since < 63, "round {round}: age {age} after {since} s: {how}");
                assert!(age + 2 >= since, "round {round}: age {age} after {since} s: {how}");
            } else {
                assert!(asked == 0 || fetched.elapsed() >= Duration::from_secs(57), "round {round}: {how}");
                asked += 1;
                fetched = tokio::time::Instant::now();
            }
            world.pause(5_000, 5_000).await;
        }
        assert!((8..=12).contains(&asked), "asked for {asked} times in ten minutes");
        assert_eq!(world.what_is_wrong(), None);
    });
}
