//! What is sent of a stored response.

use super::{Answer, answer};
use crate::tests::given::{ask, fields, judged, request, stored};
use crate::{CacheRules, Consult, Interval, Stored, consult, is_in_304};
use http::{HeaderName, Method};

fn answered(method: &Method, asked: &str, stored: &Stored, length: Option<u64>) -> Answer {
    let headers = fields(asked);
    let view = request(method, "/a", &headers);
    let Consult::Use(ask) = consult(&view, &CacheRules::default()) else { panic!("passed") };
    answer(&view, &ask, stored, length)
}

fn word(answer: Answer) -> String {
    match answer {
        Answer::Full => "200".to_owned(),
        Answer::NotModified => "304".to_owned(),
        Answer::PreconditionFailed => "412".to_owned(),
        Answer::Partial(part, range) => format!("206 {}-{} {range}", part.start, part.end),
        Answer::Parts(parts) => {
            assert!(parts.iter().all(|(part, range)| range.part == Some(part)));
            let ranges: Vec<String> = parts.iter().map(|(_, range)| range.to_string()).collect();
            format!("206 {}", ranges.join(", "))
        }
        Answer::Unsatisfiable(range) => format!("416 {range}"),
    }
}

#[test]
fn in_the_order_of_the_rfc() {
    let stored = stored("cache-control: max-age=9\netag: \"a\"");
    for (asked, length, expect) in [
        ("", Some(10), "200"),
        ("range: bytes=0-4", Some(10), "206 0-5 bytes 0-4/10"),
        ("range: bytes=-4", Some(10), "206 6-10 bytes 6-9/10"),
        ("range: bytes=0-4", None, "200"),
        ("range: bytes=10-", Some(10), "416 bytes */10"),
        ("range: bytes=0-1,3-4", Some(10), "206 0-5 bytes 0-4/10"),
        ("range: bytes=0-1,-2", Some(1000), "206 bytes 0-1/1000, bytes 998-999/1000"),
        ("range: bytes=0-1,-2", None, "200"),
        ("range: bytes=0-1,-2\nif-range: \"a\"", Some(1000), "206 bytes 0-1/1000, bytes 998-999/1000"),
        ("range: bytes=0-1,-2\nif-range: W/\"a\"", Some(1000), "200"),
        ("range: bytes=0-1,-2\nif-none-match: \"a\"", Some(1000), "304"),
        ("range: bytes=10-,20-,-0", Some(10), "416 bytes */10"),
        ("range: bytes=0-4\nif-range: \"a\"", Some(10), "206 0-5 bytes 0-4/10"),
        ("range: bytes=0-4\nif-range: \"b\"", Some(10), "200"),
        ("range: bytes=10-\nif-range: \"b\"", Some(10), "200"),
        ("range: bytes=0-4\nif-none-match: \"a\"", Some(10), "304"),
        ("range: bytes=0-4\nif-match: \"b\"", Some(10), "412"),
        ("range: bytes=0-4\nif-match: \"a\"", Some(10), "206 0-5 bytes 0-4/10"),
        ("if-range: \"b\"", Some(10), "200"),
    ] {
        assert_eq!(word(answered(&Method::GET, asked, &stored, length)), expect, "{asked}");
    }
    assert_eq!(word(answered(&Method::HEAD, "range: bytes=0-4", &stored, Some(10))), "200");
    assert_eq!(word(answered(&Method::HEAD, "range: bytes=0-1,-2", &stored, Some(1000))), "200");
    assert_eq!(word(answered(&Method::HEAD, "range: bytes=10-", &stored, Some(10))), "200");
    assert_eq!(word(answered(&Method::HEAD, "if-none-match: \"a\"", &stored, Some(10))), "304");
}

#[test]
fn ranges_are_of_a_200() {
    let missing = judged("", 404, "cache-control: max-age=9", &CacheRules::default()).unwrap().into_stored();
    assert_eq!(word(answered(&Method::GET, "range: bytes=0-4", &missing, Some(10))), "200");
}

#[test]
fn content_range_as_a_field() {
    let stored = stored("cache-control: max-age=9");
    let Answer::Partial(part, range) = answered(&Method::GET, "range: bytes=2-", &stored, Some(10)) else {
        panic!("no part")
    };
    assert_eq!(part, Interval::new(2, 10));
    assert_eq!(range.value(), "bytes 2-9/10");
    assert!(ask("range: bytes=2-").is_range());
}

#[test]
fn fields_of_a_304() {
    for (name, expect) in [
        ("etag", true),
        ("date", true),
        ("vary", true),
        ("cache-control", true),
        ("content-location", true),
        ("x-anything", true),
        ("content-length", false),
        ("content-type", false),
        ("content-encoding", false),
    ] {
        assert_eq!(is_in_304(&HeaderName::from_static(name)), expect, "{name}");
    }
}
