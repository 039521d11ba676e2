//! Ranges of a stored response beside what holds for all representations (`represented`): variants, digests,
//! weak validators, what its origin says of ranges (RFC 9110 §13.1.5, §14).

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
