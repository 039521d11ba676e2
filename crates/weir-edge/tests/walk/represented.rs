//! Conditions, ranges and heads, of each kind of representation (RFC 9110 §13, §14): what is decided does not
//! depend on what holds the bytes. Where kinds differ, the last table says how.

use weir_testkit::{Response, byteranges, pattern};

use crate::held::{Held, Holding, Kind, TYPE};

const LENGTH: usize = 10_000;

/// What comes.
#[derive(Clone, Copy, Debug)]
enum Sent {
    /// 200.
    Whole,
    /// 206 of the bytes from the first to the last.
    Part(usize, usize),
    /// 206 of several parts.
    Parts(&'static [(usize, usize)]),
    /// 304.
    Unchanged,
    /// 412.
    Failed,
    /// 416.
    Beyond,
}

use Sent::{Beyond, Failed, Part, Parts, Unchanged, Whole};

type Fields = &'static [(&'static str, &'static str)];

const CONDITIONS: &[(Fields, Sent)] = &[
    (&[("If-None-Match", "{tag}")], Unchanged),
    (&[("If-None-Match", "\"0\", {tag}")], Unchanged),
    (&[("If-None-Match", "W/{tag}")], Unchanged),
    (&[("If-None-Match", "*")], Unchanged),
    (&[("If-None-Match", "\"0\"")], Whole),
    (&[("If-Match", "{tag}")], Whole),
    (&[("If-Match", "*")], Whole),
    (&[("If-Match", "\"0\"")], Failed),
    (&[("If-Match", "W/{tag}")], Failed),
    (&[("If-Modified-Since", "{modified}")], Unchanged),
    (&[("If-Modified-Since", "{later}")], Unchanged),
    (&[("If-Modified-Since", "{earlier}")], Whole),
    (&[("If-Modified-Since", "yesterday")], Whole),
    (&[("If-Unmodified-Since", "{modified}")], Whole),
    (&[("If-Unmodified-Since", "{earlier}")], Failed),
    // A tag is asked before a date.
    (&[("If-None-Match", "\"0\""), ("If-Modified-Since", "{modified}")], Whole),
    (&[("If-Match", "{tag}"), ("If-Unmodified-Since", "{earlier}")], Whole),
    // And all of them before the range.
    (&[("Range", "bytes=0-0,-1"), ("If-None-Match", "{tag}")], Unchanged),
    (&[("Range", "bytes=0-0,-1"), ("If-Match", "\"0\"")], Failed),
    (&[("Range", "bytes=0-0,-1"), ("If-Match", "{tag}")], Parts(&[(0, 0), (9999, 9999)])),
    (&[("Range", "bytes=10000-"), ("If-None-Match", "{tag}")], Unchanged),
];

const RANGES: &[(&str, Sent)] = &[
    ("bytes=0-0,-1", Parts(&[(0, 0), (9999, 9999)])),
    ("bytes=-1,0-0", Parts(&[(9999, 9999), (0, 0)])),
    ("bytes=5000-5999, 100-199 ,9000-", Parts(&[(5000, 5999), (100, 199), (9000, 9999)])),
    ("bytes=0-9,20000-,500-599", Parts(&[(0, 9), (500, 599)])),
    ("bytes=400-449,8000-8009,450-500,0-9", Parts(&[(400, 500), (8000, 8009), (0, 9)])),
    ("bytes=0-9,8000-99999999999999999999999999", Parts(&[(0, 9), (8000, 9999)])),
    ("bytes=0-99,50-149", Part(0, 149)),
    ("bytes=100-199,0-99", Part(0, 199)),
    ("bytes=0-99,150-199", Part(0, 199)),
    ("bytes=20000-,0-9", Part(0, 9)),
    ("bytes=-0,-10", Part(9990, 9999)),
    ("bytes=0-,5-9", Part(0, 9999)),
    ("bytes=9999-9999", Part(9999, 9999)),
    ("bytes=-20000", Part(0, 9999)),
    ("bytes=9000-18446744073709551615", Part(9000, 9999)),
    ("bytes=9000-99999999999999999999999999", Part(9000, 9999)),
    // What says nothing or too much gets the whole.
    ("bytes=9-5", Whole),
    ("bytes=0-9,9-5", Whole),
    ("bytes=", Whole),
    ("bytes=,", Whole),
    ("bytes=-", Whole),
    ("bytes=x-9", Whole),
    ("bytes=+0-9", Whole),
    ("bytes=0x0-0x9", Whole),
    ("bytes=0-9;20-29", Whole),
    ("lines=0-9", Whole),
    ("bytes=0-,0-,0-", Whole),
    ("bytes=0-9999,1-9999,2-9999,3-9999", Whole),
    ("bytes=0-8999,9100-9999", Whole),
    (
        "bytes=9000-9000,8000-8000,7000-7000,6000-6000,5000-5000,4000-4000,3000-3000,2000-2000,1000-1000",
        Whole,
    ),
    ("bytes=10000-", Beyond),
    ("bytes=-0", Beyond),
    ("bytes=10000-10009,20000-,-0", Beyond),
    ("bytes=99999999999999999999999999-", Beyond),
];

/// Conditions by which a range stands, and whether it stands for what was laid a moment ago.
const IF_RANGE: &[(&str, bool, bool)] = &[
    ("{tag}", true, true),
    // What changed within the second in which it was sent is no strong validator (RFC 9110 §8.8.2.2).
    ("{modified}", true, false),
    ("{later}", false, false),
    ("\"0\"", false, false),
    ("W/{tag}", false, false),
    ("1", false, false),
    ("*", false, false),
    ("\"0\", {tag}", false, false),
];

/// Asserts that a response is what must come, in all that says so.
fn check(held: &Held<'_>, found: &Response, expect: Sent, method: &str) {
    let (kind, body) = (held.kind, held.body);
    let what = format!("{kind:?} {method} {expect:?}: {:?}", found.head);
    let header = |name: &str| found.header(name);
    let status = match expect {
        Whole => 200,
        Part(..) | Parts(_) => 206,
        Unchanged => 304,
        Failed => 412,
        Beyond => 416,
    };
    assert_eq!(found.status(), status, "{what}");
    let content_range = match expect {
        Part(first, last) => Some(format!("bytes {first}-{last}/{LENGTH}")),
        Beyond => Some(format!("bytes */{LENGTH}")),
        Whole | Parts(_) | Unchanged | Failed => None,
    };
    assert_eq!(header("content-range"), content_range, "{what}");
    let is_of_it = matches!(expect, Whole | Part(..) | Parts(_) | Unchanged);
    assert_eq!(header("etag").as_ref() == Some(&held.tag), is_of_it, "{what}");
    assert_eq!(header("last-modified").as_ref() == Some(&held.modified), is_of_it, "{what}");
    assert_eq!(header("accept-ranges").is_some(), matches!(expect, Whole), "{what}");
    match expect {
        _ if method == "HEAD" => assert!(found.body.is_empty(), "{what}"),
        Whole => assert!(found.body == body, "{what}"),
        Part(first, last) => assert!(found.body == body[first..=last], "{what}"),
        Parts(parts) => assert_eq!(byteranges(found, body, Some(TYPE)), parts, "{what}"),
        Unchanged => assert!(found.body.is_empty() && header("content-type").is_none(), "{what}"),
        Failed | Beyond => assert!(!found.body.is_empty(), "{what}"),
    }
    match expect {
        Whole | Part(..) => {
            assert_eq!(header("content-type").as_deref(), Some(TYPE), "{what}");
            let length = if let Part(first, last) = expect { last - first + 1 } else { LENGTH };
            assert_eq!(header("content-length"), Some(length.to_string()), "{what}");
        }
        Unchanged => assert_eq!(header("content-length"), None, "{what}"),
        Parts(_) | Failed | Beyond => {}
    }
}

#[test]
fn conditions_are_answered_alike() {
    let holding = Holding::new(&pattern(3, LENGTH), "");
    for held in holding.each() {
        for (fields, expect) in CONDITIONS {
            check(&held, &held.get(fields), *expect, "GET");
            // A HEAD has no range (RFC 9110 §14.2).
            let of_head = if let Part(..) | Parts(_) = expect { Whole } else { *expect };
            check(&held, &held.send("HEAD", fields), of_head, "HEAD");
        }
    }
    assert_eq!(holding.origin.count("/stored.css"), 1);
}

#[test]
fn ranges_are_answered_alike() {
    let holding = Holding::new(&pattern(3, LENGTH), "");
    for held in holding.each() {
        for (range, expect) in RANGES {
            check(&held, &held.get(&[("Range", range)]), *expect, "GET");
        }
        let twice = [("Range", "bytes=0-9"), ("Range", "bytes=0-9")];
        check(&held, &held.get(&twice), Whole, "GET");
        check(&held, &held.get(&[("Range", "bytes=10000-"), ("If-Range", "\"0\"")]), Whole, "GET");
        check(&held, &held.send("HEAD", &[("Range", "bytes=0-9")]), Whole, "HEAD");
    }
    assert_eq!(holding.origin.count("/stored.css"), 1);
}

#[test]
fn a_range_stands_by_a_strong_validator_alone() {
    let holding = Holding::new(&pattern(3, LENGTH), "");
    for held in holding.each() {
        for (condition, stands, of_new) in IF_RANGE {
            let stands = if held.kind == Kind::ByHand { *of_new } else { *stands };
            for (range, part) in
                [("bytes=10-19", Part(10, 19)), ("bytes=10-19,-1", Parts(&[(10, 19), (9999, 9999)]))]
            {
                let found = held.get(&[("Range", range), ("If-Range", condition)]);
                check(&held, &found, if stands { part } else { Whole }, condition);
            }
        }
    }
}

#[test]
fn thirty_two_ranges_are_answered_and_more_are_not() {
    let holding = Holding::new(&pattern(3, LENGTH), "");
    let range = |count: usize| {
        let ranges: Vec<String> = (0..count).map(|at| format!("{}-{}", at * 300, at * 300 + 9)).collect();
        format!("bytes={}", ranges.join(","))
    };
    let expect: Vec<_> = (0..32).map(|at| (at * 300, at * 300 + 9)).collect();
    for held in holding.each() {
        let found = held.get(&[("Range", &range(32))]);
        assert_eq!(byteranges(&found, held.body, Some(TYPE)), expect);
        check(&held, &held.get(&[("Range", &range(33))]), Whole, "GET");
    }
}

/// The route's fields come last, but for those that say what is sent.
#[test]
fn a_route_may_rename_what_is_sent_and_not_how() {
    let site = "[site.response_headers]\nset = { Content-Type = \"text/other\", X-Own = \"1\" }\n";
    let holding = Holding::new(&pattern(3, LENGTH), site);
    for held in holding.each() {
        let several = held.get(&[("Range", "bytes=0-0,-1")]);
        assert_eq!(byteranges(&several, held.body, Some("text/other")), [(0, 0), (9999, 9999)]);
        for (fields, status) in [
            (&[][..], 200),
            (&[("Range", "bytes=0-9")][..], 206),
            (&[("Range", "bytes=0-0,-1")][..], 206),
            (&[("If-None-Match", "{tag}")][..], 304),
        ] {
            let found = held.get(fields);
            assert_eq!((found.status(), found.header("x-own").as_deref()), (status, Some("1")));
        }
    }
}

/// Which fields a kind has: an origin's response has been on its way, and Weir itself is the origin of a file
/// and of content by hand.
const DIFFERENCES: &[(&str, [bool; 3])] = &[
    ("age", [true, false, false]),
    ("via", [true, false, false]),
    ("date", [true, true, true]),
    ("cache-status", [true, true, true]),
    ("cache-control", [true, false, true]),
    ("vary", [false, false, false]),
];

#[test]
fn what_kinds_say_of_themselves() {
    let holding = Holding::new(&pattern(3, LENGTH), "");
    for (at, held) in holding.each().iter().enumerate() {
        for (fields, status) in
            [(&[][..], 200), (&[("Range", "bytes=0-9")][..], 206), (&[("If-None-Match", "{tag}")][..], 304)]
        {
            let found = held.get(fields);
            assert_eq!(found.status(), status);
            for (name, has) in DIFFERENCES {
                let what = format!("{:?} {status} {name}: {:?}", held.kind, found.head);
                assert_eq!(found.header(name).is_some(), has[at], "{what}");
            }
        }
        for (fields, status) in [(&[("If-Match", "\"0\"")][..], 412), (&[("Range", "bytes=10000-")][..], 416)]
        {
            let found = held.get(fields);
            assert_eq!(found.status(), status);
            let expect = if status == 412 { "precondition" } else { "range" };
            assert!(found.cache_status().ends_with(expect), "{:?}: {:?}", held.kind, found.head);
            assert_eq!(found.header("age"), None);
        }
    }
}

#[test]
fn over_tls_each_answer_says_that_the_site_is_to_be_asked_so() {
    let holding = Holding::new(&pattern(3, LENGTH), "hsts = \"1d\"");
    let secure = ("X-Forwarded-Proto", "https");
    for held in holding.each() {
        holding.weir.get_with(held.kind.target(), &[secure]);
        for (fields, status) in [
            (&[secure][..], 200),
            (&[secure, ("Range", "bytes=0-9")][..], 206),
            (&[secure, ("If-None-Match", "{tag}")][..], 304),
            (&[secure, ("If-Match", "\"0\"")][..], 412),
            (&[secure, ("Range", "bytes=10000-")][..], 416),
        ] {
            for _ in 0..3 {
                let found = held.get(fields);
                let said = found.header("strict-transport-security");
                assert_eq!(
                    (found.status(), said.is_some()),
                    (status, true),
                    "{:?}: {:?}",
                    held.kind,
                    found.head
                );
                // What is printed for one scheme is not sent to the other.
                assert_eq!(held.get(&fields[1..]).header("strict-transport-security"), None);
            }
        }
    }
}
