//! Ranges of a stored response: one, several, those that are not answered, and conditional ones (RFC 9110
//! §13.1.5, §14).

use std::time::Duration;

use weir_testkit::{Origin, Resource, Response, byteranges as parts, pattern};

use crate::kit::{Weir, before, server};

const LENGTH: usize = 10_000;

/// A Weir that holds `/x`, and what `/x` is.
fn holding(resource: impl FnOnce(&[u8]) -> Resource) -> (Origin, Weir, Vec<u8>) {
    let (origin, body) = (Origin::start(), pattern(3, LENGTH));
    origin.put("/x", resource(&body));
    let weir = before(&origin);
    assert!(weir.get("/x").body == body);
    (origin, weir, body)
}

fn tagged(body: &[u8]) -> Resource {
    Resource::fresh(body).etag("\"1\"").header("Content-Type", "text/x-bytes")
}

fn ranged(weir: &Weir, target: &str, range: &str) -> Response {
    weir.get_with(target, &[("Range", range)])
}

#[test]
fn several_ranges_of_what_is_held_are_one_message_of_parts() {
    let (origin, weir, body) = holding(tagged);
    for (range, expect) in [
        ("bytes=0-0,-1", vec![(0, 0), (9999, 9999)]),
        ("bytes=-1,0-0", vec![(9999, 9999), (0, 0)]),
        ("bytes=5000-5999, 100-199 ,9000-", vec![(5000, 5999), (100, 199), (9000, 9999)]),
        ("bytes=0-9,20000-,500-599", vec![(0, 9), (500, 599)]),
        ("bytes=400-449,8000-8009,450-500,0-9", vec![(400, 500), (8000, 8009), (0, 9)]),
        ("bytes=0-9,8000-99999999999999999999999999", vec![(0, 9), (8000, 9999)]),
    ] {
        let found = ranged(&weir, "/x", range);
        assert_eq!(parts(&found, &body, Some("text/x-bytes")), expect, "{range}");
        assert!(found.is_hit() && found.header("etag").as_deref() == Some("\"1\""), "{:?}", found.head);
    }
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn thirty_two_ranges_are_answered_and_more_are_not() {
    let (_origin, weir, body) = holding(|body| Resource::fresh(body));
    let range = |count: usize| {
        let ranges: Vec<String> = (0..count).map(|at| format!("{}-{}", at * 300, at * 300 + 9)).collect();
        format!("bytes={}", ranges.join(","))
    };
    let expect: Vec<_> = (0..32).map(|at| (at * 300, at * 300 + 9)).collect();
    assert_eq!(parts(&ranged(&weir, "/x", &range(32)), &body, None), expect);
    let found = ranged(&weir, "/x", &range(33));
    assert!(found.status() == 200 && found.body == body);
}

#[test]
fn what_is_left_of_a_set_may_be_one_range() {
    let (_origin, weir, body) = holding(tagged);
    for (range, first, last) in [
        ("bytes=0-99,50-149", 0, 149),
        ("bytes=100-199,0-99", 0, 199),
        ("bytes=0-99,150-199", 0, 199),
        ("bytes=20000-,0-9", 0, 9),
        ("bytes=-0,-10", 9990, 9999),
        ("bytes=0-,5-9", 0, 9999),
        ("bytes=9999-9999", 9999, 9999),
        ("bytes=-20000", 0, 9999),
        ("bytes=9000-18446744073709551615", 9000, 9999),
        ("bytes=9000-99999999999999999999999999", 9000, 9999),
    ] {
        let found = ranged(&weir, "/x", range);
        assert_eq!(found.status(), 206, "{range}");
        assert_eq!(found.header("content-range"), Some(format!("bytes {first}-{last}/10000")), "{range}");
        assert_eq!(found.header("content-type").as_deref(), Some("text/x-bytes"));
        assert!(found.body == body[first..=last], "{range}");
    }
}

#[test]
fn a_range_that_says_nothing_or_too_much_gets_the_whole() {
    let (origin, weir, body) = holding(tagged);
    for range in [
        "bytes=9-5",
        "bytes=0-9,9-5",
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=x-9",
        "bytes=+0-9",
        "bytes=0x0-0x9",
        "bytes=0-9;20-29",
        "lines=0-9",
        "bytes=0-,0-,0-",
        "bytes=0-9999,1-9999,2-9999,3-9999",
        "bytes=0-8999,9100-9999",
        "bytes=9000-9000,8000-8000,7000-7000,6000-6000,5000-5000,4000-4000,3000-3000,2000-2000,1000-1000",
    ] {
        let found = ranged(&weir, "/x", range);
        assert_eq!((found.status(), found.header("content-range")), (200, None), "{range}");
        assert!(found.body == body, "{range}");
    }
    let twice = weir.get_with("/x", &[("Range", "bytes=0-9"), ("Range", "bytes=0-9")]);
    assert!(twice.status() == 200 && twice.body == body);
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn beyond_the_end_is_416_with_the_length() {
    let (origin, weir, _) = holding(tagged);
    for range in
        ["bytes=10000-", "bytes=-0", "bytes=10000-10009,20000-,-0", "bytes=99999999999999999999999999-"]
    {
        let found = ranged(&weir, "/x", range);
        assert_eq!(found.status(), 416, "{range}");
        assert_eq!(found.header("content-range").as_deref(), Some("bytes */10000"), "{range}");
    }
    let found = weir.get_with("/x", &[("Range", "bytes=10000-"), ("If-Range", "\"0\"")]);
    assert_eq!(found.status(), 200, "the range does not stand");
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn if_range_lets_a_range_stand_only_by_a_strong_validator() {
    let day = Duration::from_secs(86_400);
    let (_origin, weir, body) = holding(|body| tagged(body).modified_ago(day));
    let date = weir.get("/x").header("last-modified").unwrap();
    let other = httpdate::fmt_http_date(httpdate::parse_http_date(&date).unwrap() + Duration::from_secs(1));
    for (condition, stands) in [
        ("\"1\"", true),
        (&*date, true),
        ("\"2\"", false),
        ("W/\"1\"", false),
        ("1", false),
        ("*", false),
        ("\"2\", \"1\"", false),
        (&*other, false),
    ] {
        let found = weir.get_with("/x", &[("Range", "bytes=10-19"), ("If-Range", condition)]);
        let (status, bytes) = if stands { (206, &body[10..20]) } else { (200, &body[..]) };
        assert_eq!(found.status(), status, "{condition}");
        assert!(found.is_hit() && found.body == bytes, "{condition}");
        let found = weir.get_with("/x", &[("Range", "bytes=10-19,-1"), ("If-Range", condition)]);
        assert_eq!(found.status(), status, "{condition}");
        match stands {
            true => assert_eq!(parts(&found, &body, Some("text/x-bytes")), [(10, 19), (9999, 9999)]),
            false => assert!(found.body == body),
        }
    }
}

#[test]
fn if_range_never_stands_by_a_weak_validator() {
    for resource in [
        |body: &[u8]| Resource::fresh(body).etag("W/\"1\""),
        // Changed within the second in which it was sent.
        |body: &[u8]| Resource::fresh(body).modified_as_it_is_sent(),
        |body: &[u8]| Resource::fresh(body),
    ] {
        let (_origin, weir, body) = holding(resource);
        let date =
            weir.get("/x").header("last-modified").unwrap_or("Mon, 13 Nov 2023 22:13:20 GMT".to_owned());
        for condition in ["W/\"1\"", "\"1\"", &date] {
            let found = weir.get_with("/x", &[("Range", "bytes=10-19"), ("If-Range", condition)]);
            assert!(found.status() == 200 && found.body == body, "{condition}");
        }
        assert!(ranged(&weir, "/x", "bytes=10-19").body == body[10..20]);
    }
}

#[test]
fn other_conditions_come_before_the_range() {
    let (_origin, weir, _) = holding(tagged);
    let range = ("Range", "bytes=0-0,-1");
    assert_eq!(weir.get_with("/x", &[range, ("If-None-Match", "\"1\"")]).status(), 304);
    assert_eq!(weir.get_with("/x", &[range, ("If-Match", "\"2\"")]).status(), 412);
    assert_eq!(weir.get_with("/x", &[range, ("If-Match", "\"1\"")]).status(), 206);
}

#[test]
fn ranges_are_of_the_variant_and_of_its_encoded_bytes() {
    let (origin, plain, coded) = (Origin::start(), pattern(1, LENGTH), pattern(2, LENGTH / 2));
    let (said, coded_said) = (plain.clone(), coded.clone());
    origin.on("/x", move |exchange| {
        let mut headers =
            vec![("Cache-Control", "max-age=60"), ("Vary", "Accept-Encoding"), ("Content-Type", "text/css")];
        if exchange.request.header("accept-encoding").is_some_and(|accepted| accepted.contains("gzip")) {
            headers.extend([("Content-Encoding", "gzip"), ("ETag", "\"z\"")]);
            exchange.reply(200, &headers, &coded_said);
        } else {
            headers.push(("ETag", "\"p\""));
            exchange.reply(200, &headers, &said);
        }
    });
    let weir = before(&origin);
    let gzip = ("Accept-Encoding", "gzip");
    assert!(weir.get("/x").body == plain && weir.get_with("/x", &[gzip]).body == coded);
    let several = ("Range", "bytes=-5,100-199");
    let found = weir.get_with("/x", &[gzip, several]);
    assert_eq!(parts(&found, &coded, Some("text/css")), [(4995, 4999), (100, 199)]);
    assert_eq!(found.header("content-encoding").as_deref(), Some("gzip"));
    assert_eq!(found.header("vary").as_deref(), Some("Accept-Encoding"));
    let found = weir.get_with("/x", &[several]);
    assert_eq!(parts(&found, &plain, Some("text/css")), [(9995, 9999), (100, 199)]);
    assert_eq!(found.header("content-encoding"), None);
    let found = weir.get_with("/x", &[gzip, ("Range", "bytes=4000-"), ("If-Range", "\"z\"")]);
    assert!(found.status() == 206 && found.body == coded[4000..]);
    // The other variant's tag.
    let found = weir.get_with("/x", &[gzip, ("Range", "bytes=4000-"), ("If-Range", "\"p\"")]);
    assert!(found.status() == 200 && found.body == coded);
    assert_eq!(ranged(&weir, "/x", "bytes=6000-").body, plain[6000..]);
    assert_eq!(weir.get_with("/x", &[gzip, ("Range", "bytes=6000-")]).status(), 416);
    assert_eq!(origin.count("/x"), 2);
}

#[test]
fn a_part_does_not_claim_the_digest_of_the_whole() {
    let digest = |body: &[u8]| {
        tagged(body).header("Content-Digest", "sha-256=:YQ==:").header("Repr-Digest", "sha-256=:YQ==:")
    };
    let (_origin, weir, _) = holding(digest);
    assert!(weir.get("/x").header("content-digest").is_some());
    for range in ["bytes=0-9", "bytes=0-0,-1"] {
        let found = ranged(&weir, "/x", range);
        assert_eq!((found.status(), found.header("content-digest")), (206, None));
        assert!(found.header("repr-digest").is_some());
    }
}

#[test]
fn parts_are_typed_as_the_route_has_it() {
    let (origin, body) = (Origin::start(), pattern(3, LENGTH));
    origin.put("/x", tagged(&body));
    let weir =
        server(&[&origin]).site("[site.response_headers]\nset = { Content-Type = \"text/other\" }").start();
    weir.get("/x");
    let found = ranged(&weir, "/x", "bytes=0-0,-1");
    assert_eq!(parts(&found, &body, Some("text/other")), [(0, 0), (9999, 9999)]);
}

#[test]
fn a_part_without_a_validator_may_be_kept_by_itself() {
    let (origin, body, newer) = (Origin::start(), pattern(4, 900_000), pattern(5, 900_000));
    origin.put("/x", Resource::fresh(&body).ranges());
    let weir = server(&[&origin]).site("range = { without_validator = \"separate\" }").start();
    let first = ranged(&weir, "/x", "bytes=300000-399999");
    assert!(first.status() == 206 && first.body == body[300_000..400_000]);
    assert_eq!(origin.requests("/x")[0].header("range").as_deref(), Some("bytes=300000-399999"));
    origin.put("/x", Resource::fresh(&newer).ranges());
    let within = ranged(&weir, "/x", "bytes=310000-319999");
    assert!(within.body == body[310_000..320_000] && within.is_hit(), "{}", within.cache_status());
    assert_eq!(within.header("content-range").as_deref(), Some("bytes 310000-319999/900000"));
    assert_eq!(origin.count("/x"), 1);
    // The bytes beyond it are of another version, which replaces it.
    assert!(ranged(&weir, "/x", "bytes=390000-409999").body == newer[390_000..410_000]);
    let before = ranged(&weir, "/x", "bytes=310000-319999");
    assert!(before.body == newer[310_000..320_000], "{}", before.cache_status());
    assert!(weir.get("/x").body == newer);
    assert!(ranged(&weir, "/x", "bytes=0-9").is_hit());
}

#[test]
fn a_200_says_that_ranges_of_it_are_answered_whatever_was_asked_for_first() {
    let (origin, body) = (Origin::start(), pattern(5, 300_000));
    // nginx says so in its 200s and not in its 206s; some servers say `none` and some nothing.
    let paths = ["/first", "/none", "/nothing", "/missing"];
    let whole = body.clone();
    origin.otherwise(move |exchange| {
        let path = exchange.request.path().to_owned();
        let mut fields = vec![("Cache-Control", "max-age=600"), ("ETag", "\"1\"")];
        if path == "/none" {
            fields.push(("Accept-Ranges", "none"));
        }
        if path == "/missing" {
            exchange.reply(404, &fields, "not here");
            return;
        }
        match exchange.request.header("range").filter(|_| path == "/first") {
            Some(range) => {
                let (first, last) = range["bytes=".len()..].split_once('-').unwrap();
                let first: usize = first.parse().unwrap();
                let last = last.parse().map_or(whole.len(), |last: usize| whole.len().min(last + 1));
                let placed = format!("bytes {first}-{}/{}", last - 1, whole.len());
                fields.push(("Content-Range", &placed));
                exchange.reply(206, &fields, &whole[first..last]);
            }
            None => {
                exchange.reply(200, &fields, &whole);
            }
        }
    });
    let weir = before(&origin);
    assert_eq!(ranged(&weir, "/first", "bytes=0-9").status(), 206);
    for path in paths {
        for round in ["cold", "warm"] {
            let answer = weir.get(path);
            let expect = (path != "/missing").then_some("bytes");
            assert_eq!(
                answer.header("accept-ranges").as_deref(),
                expect,
                "{path} {round}: {:?}",
                answer.head
            );
        }
        if path != "/missing" {
            assert_eq!(ranged(&weir, path, "bytes=5-9").body, body[5..10], "{path}");
        }
    }
    let head = weir.send("HEAD /first HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(head.header("accept-ranges").as_deref(), Some("bytes"));
}

#[test]
fn a_part_says_once_where_it_lies_whatever_the_whole_said() {
    let origin = Origin::start();
    let stray = [("Cache-Control", "max-age=60"), ("ETag", "\"1\""), ("Content-Range", "bytes 7-8/9")];
    origin.on("/x", move |exchange| {
        exchange.reply(200, &stray, pattern(1, LENGTH));
    });
    let weir = before(&origin);
    assert_eq!(weir.get("/x").status(), 200);
    let found = ranged(&weir, "/x", "bytes=5-9");
    assert_eq!((found.status(), found.head.all("content-range")), (206, vec!["bytes 5-9/10000"]));
    let found = ranged(&weir, "/x", "bytes=5-9,5000-5001");
    assert_eq!((found.status(), found.head.all("content-range")), (206, vec![]));
}

/// A 200 with a `Content-Range` became a 206 with two that contradict each other.
#[test]
fn a_content_range_of_a_whole_is_not_kept() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(pattern(1, 1000)).header("Content-Range", "bytes 500-999/1000"));
    origin.put("/odd", Resource::fresh(pattern(1, 1000)).header("Content-Range", "none"));
    let weir = server(&[&origin]).start();
    assert_eq!([weir.get("/x").status(), weir.get("/odd").status()], [200, 200]);
    for (path, fields, status, expect) in [
        ("/x", &[("Range", "bytes=0-9")][..], 206, &["bytes 0-9/1000"][..]),
        ("/x", &[("Range", "bytes=0-9,500-509")], 206, &[]),
        ("/x", &[], 200, &[]),
        ("/odd", &[("Range", "bytes=0-9")], 206, &["bytes 0-9/1000"]),
        ("/odd", &[("Range", "bytes=0-9,500-509")], 206, &[]),
    ] {
        let answer = weir.get_with(path, fields);
        assert_eq!((answer.status(), answer.head.all("content-range")), (status, expect.to_vec()), "{path}");
    }
    assert_eq!(origin.total(), 2);
}
