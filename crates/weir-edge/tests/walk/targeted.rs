//! What is newer than the public suite's release: targeted cache control (RFC 9213), and interim responses in
//! front of stored ones (RFC 9110 §15.2, RFC 8297). Also where Weir reads the RFC differently from the suite.

use std::time::Duration;

use weir_testkit::{Origin, Resource, Response, until};

use crate::kit::{Weir, before};

/// What must happen to a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Becomes {
    /// It is stored, and fresh for this many seconds more, give or take ten.
    Fresh(i64),
    /// It is sent again only after the origin was asked.
    Asked,
}
use Becomes::{Asked, Fresh};

/// The fields of a response, and what must happen to it.
const TARGETED: [(&str, Becomes); 39] = [
    ("CDN-Cache-Control: max-age=3600", Fresh(3600)),
    ("CDN-Cache-Control: max-age=3600\nCache-Control: max-age=1", Fresh(3600)),
    ("CDN-Cache-Control: max-age=3600\nCache-Control: s-maxage=1", Fresh(3600)),
    ("CDN-Cache-Control: max-age=3600\nCache-Control: no-store", Fresh(3600)),
    ("CDN-Cache-Control: max-age=3600\nCache-Control: private", Fresh(3600)),
    ("CDN-Cache-Control: max-age=3600\nCache-Control: no-cache", Fresh(3600)),
    ("CDN-Cache-Control: max-age=3600\nExpires: Mon, 01 Jan 2001 00:00:00 GMT", Fresh(3600)),
    ("CDN-Cache-Control: max-age=3600\nExpires: 0", Fresh(3600)),
    ("CDN-Cache-Control: max-age=3600\nPragma: no-cache", Fresh(3600)),
    ("CDN-Cache-Control: max-age=3600\nSurrogate-Control: max-age=1", Fresh(3600)),
    ("CDN-Cache-Control: max-age=3600\nSurrogate-Control: no-store", Fresh(3600)),
    ("CDN-Cache-Control: s-maxage=3600, max-age=1", Fresh(3600)),
    ("CDN-Cache-Control: max-age=3600;foo=bar", Fresh(3600)),
    ("CDN-Cache-Control: max-age=3600, foo=(a b)", Fresh(3600)),
    ("CDN-Cache-Control: foo, max-age=3600", Fresh(3600)),
    ("CDN-Cache-Control:   max-age=3600  ", Fresh(3600)),
    ("CDN-Cache-Control: max-age=1\nCDN-Cache-Control: max-age=3600", Fresh(3600)),
    ("cdn-cache-control: max-age=3600", Fresh(3600)),
    ("CDN-Cache-Control: max-age=3600\nAge: 1000", Fresh(2600)),
    ("CDN-Cache-Control: max-age=2147483647", Fresh(2_147_483_647)),
    ("CDN-Cache-Control: max-age=3600\nAge: 3600", Asked),
    ("CDN-Cache-Control: max-age=0\nCache-Control: max-age=3600", Asked),
    ("CDN-Cache-Control: max-age=0\nExpires: Thu, 01 Jan 2099 00:00:00 GMT", Asked),
    ("CDN-Cache-Control: no-store\nCache-Control: max-age=3600", Asked),
    ("CDN-Cache-Control: no-store, max-age=3600\nCache-Control: max-age=3600", Asked),
    ("CDN-Cache-Control: private\nCache-Control: max-age=3600", Asked),
    ("CDN-Cache-Control: no-cache\nCache-Control: max-age=3600", Asked),
    ("CDN-Cache-Control: no-cache, max-age=3600\nCache-Control: max-age=3600", Asked),
    ("CDN-Cache-Control: must-revalidate\nCache-Control: max-age=3600", Asked),
    ("CDN-Cache-Control: foo\nCache-Control: max-age=3600", Asked),
    ("CDN-Cache-Control: max-age=3600\nSet-Cookie: a=b", Asked),
    ("CDN-Cache-Control: max-age=3600\nVary: *", Asked),
    ("CDN-Cache-Control: \nCache-Control: max-age=3600", Fresh(3600)),
    ("CDN-Cache-Control: max-age=1 2\nCache-Control: max-age=3600", Fresh(3600)),
    ("CDN-Cache-Control: max-age =1\nCache-Control: max-age=3600", Fresh(3600)),
    ("CDN-Cache-Control: max-age= 1\nCache-Control: max-age=3600", Fresh(3600)),
    ("CDN-Cache-Control: Max-Age=1\nCache-Control: max-age=3600", Fresh(3600)),
    ("CDN-Cache-Control: no-store,\nCache-Control: max-age=3600", Fresh(3600)),
    ("Other-Cache-Control: no-store\nCache-Control: max-age=3600", Fresh(3600)),
];

/// The `ttl` of a response's Cache-Status (RFC 9211 §2.4).
fn left_s(answer: &Response) -> Option<i64> {
    answer.cache_status().split("; ").find_map(|part| part.strip_prefix("ttl=")?.parse().ok())
}

fn becomes(weir: &Weir, path: &str) -> Result<Option<i64>, String> {
    if weir.get(path).status() != 200 {
        return Err("no response".to_owned());
    }
    let second = weir.get(path);
    match (second.is_hit(), left_s(&second)) {
        (true, Some(left)) => Ok(Some(left)),
        (true, None) => Err(format!("a hit without ttl: {:?}", second.head)),
        (false, _) => Ok(None),
    }
}

#[test]
fn targeted_cache_control_is_followed() {
    let origin = Origin::start();
    let weir = before(&origin);
    let mut wrong = Vec::new();
    for (number, (lines, expected)) in TARGETED.iter().enumerate() {
        let path = format!("/{number}");
        let fields = lines.split('\n').filter_map(|line| line.split_once(':'));
        let resource = fields
            .fold(Resource::new("x"), |resource, (name, value)| resource.header(name, value.trim_start()));
        origin.put(&path, resource);
        let found = becomes(&weir, &path);
        let fine = match (expected, &found) {
            (Fresh(seconds), Ok(Some(left))) => (left - seconds).abs() <= 10,
            (Asked, Ok(None)) => origin.count(&path) == 2,
            _ => false,
        };
        if !fine {
            wrong.push(format!("{lines:?}: {found:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), TARGETED.len(), wrong.join("\n"));
}

#[test]
fn a_targeted_field_does_not_speak_for_credentials() {
    let origin = Origin::start();
    origin.put("/x", Resource::new("x").header("CDN-Cache-Control", "max-age=3600"));
    origin.put("/y", Resource::new("y").header("CDN-Cache-Control", "public, max-age=3600"));
    let weir = before(&origin);
    for path in ["/x", "/y"] {
        weir.get_with(path, &[("Authorization", "Basic YTpi")]);
        weir.get(path);
    }
    assert_eq!((origin.count("/x"), origin.count("/y")), (2, 1));
}

#[test]
fn a_304_renews_what_the_targeted_field_says() {
    let origin = Origin::start();
    let tagged = |control: &str| {
        let resource = Resource::new("x").header("CDN-Cache-Control", control);
        resource.header("Cache-Control", "private").etag("\"1\"")
    };
    origin.put("/x", tagged("max-age=1"));
    let weir = before(&origin);
    weir.get("/x");
    origin.put("/x", tagged("max-age=3600"));
    weir.later(Duration::from_millis(2100));
    assert_eq!(weir.get("/x").text(), "x");
    let third = weir.get("/x");
    assert!(third.is_hit() && left_s(&third).is_some_and(|left| left > 3500), "{:?}", third.head);
    assert_eq!(origin.count("/x"), 2);
}

#[test]
fn a_condition_by_date_counts_from_the_date_of_the_response() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    let weir = before(&origin);
    let date = weir.get("/x").header("date").unwrap();
    let since = |date: &str| weir.get_with("/x", &[("If-Modified-Since", date)]).status();
    assert_eq!(since(&date), 304);
    assert_eq!(since("Thu, 01 Jan 2099 00:00:00 GMT"), 304);
    assert_eq!(since("Mon, 01 Jan 2001 00:00:00 GMT"), 200);
    assert_eq!(origin.count("/x"), 1);
}

/// Status and fields of an interim response.
type Interim = (u16, &'static [(&'static str, &'static str)]);

/// A response after interim ones, stored for an hour.
fn announced(interim: &[Interim]) -> Resource {
    let resource = Resource::fresh("hello").etag("\"1\"");
    interim.iter().fold(resource, |resource, (status, fields)| resource.interim(*status, fields))
}

#[test]
fn interim_responses_come_before_a_miss_and_not_before_a_hit() {
    const LINK: &[(&str, &str)] = &[("Link", "</a.css>; rel=preload; as=style")];
    let cases: [(&str, &[Interim], &[u16]); 6] = [
        ("/103", &[(103, LINK)], &[103]),
        ("/100", &[(100, &[])], &[]),
        ("/102", &[(102, &[])], &[102]),
        ("/199", &[(199, &[("X-A", "1")])], &[199]),
        ("/103-103", &[(103, LINK), (103, LINK)], &[103, 103]),
        ("/100-102-103", &[(100, &[]), (102, &[]), (103, LINK)], &[102, 103]),
    ];
    let origin = Origin::start();
    let weir = before(&origin);
    for (path, interim, told) in cases {
        origin.put(path, announced(interim));
        let miss = weir.get(path);
        assert_eq!((miss.status(), miss.text().as_str()), (200, "hello"), "{path}");
        let statuses: Vec<u16> = miss.interim.iter().map(|head| head.status).collect();
        assert_eq!(statuses, told, "{path}");
        let hit = weir.get(path);
        assert!(hit.is_hit() && hit.text() == "hello" && hit.interim.is_empty(), "{path}: {hit:?}");
        assert_eq!((hit.header("link"), hit.header("x-a")), (None, None), "{path}: {:?}", hit.head);
        assert_eq!(origin.count(path), 1, "{path}");
    }
}

#[test]
fn fields_of_an_interim_response_are_not_stored() {
    const FIELDS: &[(&str, &str)] = &[
        ("Cache-Control", "no-store"),
        ("Set-Cookie", "session=secret"),
        ("Vary", "*"),
        ("Content-Type", "text/odd"),
        ("ETag", "\"odd\""),
        ("Connection", "X-Hop"),
        ("X-Hop", "1"),
    ];
    let origin = Origin::start();
    origin.put("/x", announced(&[(103, FIELDS)]));
    let weir = before(&origin);
    let miss = weir.get("/x");
    assert_eq!(miss.text(), "hello");
    for gone in ["x-hop", "connection"] {
        assert!(miss.interim.iter().all(|head| head.header(gone).is_none()), "{gone}: {:?}", miss.interim);
    }
    let hit = weir.get("/x");
    assert!(hit.is_hit() && hit.text() == "hello", "{:?}", hit.head);
    assert_eq!(
        (hit.header("etag").as_deref(), hit.header("set-cookie"), hit.header("vary")),
        (Some("\"1\""), None, None)
    );
}

#[test]
fn interim_responses_do_not_disturb_a_revalidation_or_a_pass() {
    let origin = Origin::start();
    let early: &[(&str, &str)] = &[("Link", "</a.css>; rel=preload")];
    let resource = |control: &str| Resource::new("hello").header("Cache-Control", control).etag("\"1\"");
    origin.put("/revalidated", resource("no-cache").interim(103, early).interim(102, &[]));
    origin.put("/passed", resource("no-store").interim(100, &[]).interim(103, early));
    origin.put("/refreshed", resource("max-age=1, stale-while-revalidate=60").interim(103, early));
    let weir = before(&origin);
    for round in 0..3 {
        for path in ["/revalidated", "/passed"] {
            let answer = weir.get(path);
            assert_eq!((answer.status(), answer.text().as_str()), (200, "hello"), "{path} {round}");
            assert!(answer.interim.iter().any(|head| head.status == 103), "{path} {round}: {answer:?}");
        }
    }
    weir.get("/refreshed");
    weir.later(Duration::from_millis(2100));
    let stale = weir.get("/refreshed");
    assert_eq!((stale.text().as_str(), stale.interim.len()), ("hello", 0));
    until("it is refreshed", || weir.get("/refreshed").cache_status().contains("hit"));
    let answer = weir.send("POST /passed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!((answer.status(), answer.interim.len()), (200, 1));
    assert_eq!(weir.send("HEAD /passed HTTP/1.1\r\nHost: localhost\r\n\r\n").status(), 200);
}
