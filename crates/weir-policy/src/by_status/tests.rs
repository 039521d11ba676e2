//! Which entry counts for a status.

use super::{Lifetimes, Statuses, is_never_stored};
use http::StatusCode;
use std::time::Duration;

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).expect("a status")
}

fn seconds(lifetimes: &Lifetimes, code: u16) -> Option<u64> {
    lifetimes.of(status(code)).map(|lifetime| lifetime.as_secs())
}

fn table(entries: &[(Statuses, u64)]) -> Lifetimes {
    Lifetimes(entries.iter().map(|(statuses, s)| (*statuses, Duration::from_secs(*s))).collect())
}

#[test]
fn a_lifetime_without_statuses_is_for_content_and_lasting_redirects() {
    let plain = Lifetimes::plain(Duration::from_secs(9));
    for code in 200..600 {
        let expect = matches!(code, 200 | 203 | 206 | 301 | 308).then_some(9);
        assert_eq!(seconds(&plain, code), expect, "{code}");
    }
    assert_eq!(seconds(&Lifetimes::default(), 200), None);
}

#[test]
fn a_status_beats_its_class_and_a_class_beats_any_in_whatever_order() {
    let mut entries = vec![
        (Statuses::Any, 1),
        (Statuses::Class(4), 4),
        (Statuses::Class(5), 5),
        (Statuses::One(status(404)), 44),
        (Statuses::One(status(200)), 2),
    ];
    for _ in 0..entries.len() {
        entries.rotate_left(1);
        let all = table(&entries);
        for (code, expect) in [(200, 2), (204, 1), (302, 1), (404, 44), (410, 4), (500, 5), (599, 5)] {
            assert_eq!(seconds(&all, code), Some(expect), "{code} {entries:?}");
        }
    }
}

#[test]
fn what_one_request_causes_must_be_named() {
    let wide = table(&[(Statuses::Class(4), 4), (Statuses::Class(5), 5), (Statuses::Any, 1)]);
    for code in [
        400, 401, 403, 405, 406, 407, 408, 414, 429, 430, 431, 494, 495, 496, 497, 498, 499, 501, 505, 506,
        510,
    ] {
        assert_eq!(seconds(&wide, code), None, "{code}");
        assert_eq!(seconds(&table(&[(Statuses::One(status(code)), 7), (Statuses::Any, 1)]), code), Some(7));
    }
    for code in [402, 404, 409, 410, 418, 451, 500, 502, 503, 504, 507, 520] {
        assert!(seconds(&wide, code).is_some(), "{code}");
    }
}

#[test]
fn some_statuses_are_never_stored() {
    for code in [100, 103, 206, 304, 408, 412, 416, 429, 511] {
        assert!(is_never_stored(status(code)), "{code}");
    }
    for code in [200, 301, 302, 400, 401, 403, 404, 414, 500, 501, 503] {
        assert!(!is_never_stored(status(code)), "{code}");
    }
}
