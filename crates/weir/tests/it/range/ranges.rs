//! Ranges of what is held: one, several, those that are not answered, and on which condition (RFC 9110
//! §13.1.5, §14).

use std::time::Duration;

use weir_testkit::{Client, Fault, Gate, Origin, Resource, Response, Weir, pattern, until};

use crate::server::{before, server};

const LENGTH: usize = 10_000;
const VOLUME: &str =
    "[cache]\nmemory = \"16MiB\"\n[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"256MiB\"";

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

fn ask(weir: &Weir, target: &str, range: &str) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", target, &[("Range", range)]);
    client
}

/// Where each part of a `multipart/byteranges` begins and ends; every byte of the message is looked at, and
/// those of the parts are compared with the whole body.
fn parts(found: &Response, body: &[u8], content_type: Option<&str>) -> Vec<(usize, usize)> {
    assert_eq!((found.status(), found.header("content-range")), (206, None), "{}", found.cache_status());
    let whole_type = found.header("content-type").unwrap();
    let boundary = whole_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let content_length = found.header("content-length").unwrap();
    assert_eq!(content_length, found.body.len().to_string());
    let (mut rest, mut parts) = (&found.body[..], Vec::new());
    let mut delimiter = format!("--{boundary}");
    loop {
        rest = rest.strip_prefix(delimiter.as_bytes()).expect("a delimiter");
        delimiter = format!("\r\n--{boundary}");
        if rest == b"--\r\n" {
            return parts;
        }
        let head_end = rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&rest[..head_end]).unwrap();
        rest = &rest[head_end + 4..];
        let field = |name: &str| {
            let lines = head.split("\r\n").filter_map(|line| line.split_once(": "));
            lines.filter(|(said, _)| said.eq_ignore_ascii_case(name)).map(|(_, value)| value).last()
        };
        assert_eq!(field("content-type"), content_type);
        let (range, total) =
            field("content-range").unwrap().strip_prefix("bytes ").unwrap().split_once('/').unwrap();
        assert_eq!(total.parse(), Ok(body.len()));
        let (first, last) = range.split_once('-').unwrap();
        let (first, last) = (first.parse::<usize>().unwrap(), last.parse::<usize>().unwrap());
        assert!(rest[..=last - first] == body[first..=last], "{first}-{last} differs");
        rest = &rest[last - first + 1..];
        parts.push((first, last));
    }
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
fn head_knows_no_ranges() {
    let (origin, weir, _) = holding(tagged);
    for range in ["bytes=0-9", "bytes=0-0,-1", "bytes=10000-"] {
        let mut client = weir.client();
        client.send(format!("HEAD /x HTTP/1.1\r\nHost: localhost\r\nRange: {range}\r\n\r\n"));
        let found = client.recv_head().unwrap();
        assert_eq!((found.status(), found.header("content-range")), (200, None), "{range}");
        assert_eq!(found.header("content-length").as_deref(), Some("10000"));
        assert_eq!(found.header("content-type").as_deref(), Some("text/x-bytes"));
        // The connection is good for another request.
        let status = client.get("localhost", "/x", &[("Range", range)]).status();
        assert_eq!(status, if range == "bytes=10000-" { 416 } else { 206 });
    }
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn old_clients_get_parts_by_length_too() {
    let (_origin, weir, body) = holding(tagged);
    let mut client = weir.client();
    client.send("GET /x HTTP/1.0\r\nHost: localhost\r\nRange: bytes=0-0,-1\r\n\r\n");
    let found = client.recv().unwrap();
    assert_eq!(parts(&found, &body, Some("text/x-bytes")), [(0, 0), (9999, 9999)]);
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
fn several_ranges_of_what_lies_on_the_volume() {
    const LENGTH: usize = 24_000_000;
    let (origin, body) = (Origin::start(), pattern(5, LENGTH));
    origin.put("/x", tagged(&body).ranges());
    let mut weir = server(&[&origin]).more(VOLUME).start();
    assert!(weir.get("/x").body == body);
    until("it is on the volume", || weir.get("/x").is_hit());
    weir.signal("TERM");
    assert!(weir.wait(Duration::from_secs(30)).is_some());
    weir.start_again();
    let found = ranged(&weir, "/x", "bytes=20000000-22999999,-1,65000-66000,131072-131072");
    let expect = [(20_000_000, 22_999_999), (LENGTH - 1, LENGTH - 1), (65_000, 66_000), (131_072, 131_072)];
    assert_eq!(parts(&found, &body, Some("text/x-bytes")), expect);
    assert!(found.is_hit(), "{}", found.cache_status());
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn several_ranges_of_a_part_cost_its_gaps_alone() {
    const LENGTH: usize = 12_000_000;
    let (origin, body) = (Origin::start(), pattern(9, LENGTH));
    origin.put("/x", tagged(&body).ranges().fault(Fault::Truncate(2_000_000)));
    let weir = server(&[&origin]).start();
    // What came before it broke off is kept.
    assert!(begin(&weir, "/x").recv().is_err());
    origin.put("/x", tagged(&body).ranges());
    // What was asked for on behalf of the one that was cut comes first.
    until("nothing more is asked for", || {
        let before = origin.count("/x");
        std::thread::sleep(Duration::from_millis(300));
        origin.count("/x") == before
    });
    let before = origin.count("/x");
    let found = ranged(&weir, "/x", "bytes=11000000-11099999,0-99,9000000-9099999,1000000-1999999");
    let expect = [(11_000_000, 11_099_999), (0, 99), (9_000_000, 9_099_999), (1_000_000, 1_999_999)];
    assert_eq!(parts(&found, &body, Some("text/x-bytes")), expect);
    let asked = |from: usize| -> Vec<usize> {
        let ranges =
            origin.requests("/x").split_off(from).into_iter().map(|request| request.header("range").unwrap());
        ranges.map(|range| range[6..].split('-').next().unwrap().parse().unwrap()).collect()
    };
    assert!(
        !asked(before).is_empty() && asked(before).iter().all(|start| *start >= 8_000_000),
        "{:?}",
        asked(before)
    );
    let now = origin.count("/x");
    // It is held by now.
    let found = ranged(&weir, "/x", "bytes=9000000-9099999,500-599");
    assert_eq!(parts(&found, &body, Some("text/x-bytes")), [(9_000_000, 9_099_999), (500, 599)]);
    assert!(found.is_hit(), "{}", found.cache_status());
    assert_eq!(origin.count("/x"), now);
    assert!(weir.get("/x").body == body);
    assert!(asked(now).iter().all(|start| *start >= 3_000_000), "{:?}", asked(now));
}

#[test]
fn a_part_whose_origin_has_changed_is_not_sent_in_parts_of_two_versions() {
    const LENGTH: usize = 12_000_000;
    let (origin, body, newer) = (Origin::start(), pattern(9, LENGTH), pattern(10, LENGTH));
    origin.put("/x", tagged(&body).ranges().fault(Fault::Truncate(2_000_000)));
    let weir = server(&[&origin]).start();
    assert!(begin(&weir, "/x").recv().is_err());
    origin.put("/x", tagged(&newer).etag("\"2\"").ranges());
    // The first part is held, the second is not.
    let found = ranged(&weir, "/x", "bytes=0-99,11000000-11000099");
    assert_eq!(found.header("etag").as_deref(), Some("\"2\""));
    match found.status() {
        200 => assert!(found.body == newer),
        _ => assert_eq!(parts(&found, &newer, Some("text/x-bytes")), [(0, 99), (11_000_000, 11_000_099)]),
    }
}

#[test]
fn parts_ahead_of_a_running_fill_are_waited_for() {
    const LENGTH: usize = 6_000_000;
    let (origin, body, gate) = (Origin::start(), pattern(4, LENGTH), Gate::new());
    origin.put("/x", tagged(&body).body_gate(1_000_000, &gate));
    let weir = before(&origin);
    let mut lead = ask(&weir, "/x", "bytes=0-");
    lead.recv_head_only().unwrap();
    let mut client = ask(&weir, "/x", "bytes=0-9,5000000-5099999,500-599");
    until("both read", || weir.metric("weir_requests_running") == Some(2.0));
    gate.open();
    let found = client.recv().unwrap();
    assert_eq!(parts(&found, &body, Some("text/x-bytes")), [(0, 9), (5_000_000, 5_099_999), (500, 599)]);
    assert_eq!(origin.count("/x"), 1);
}

/// Asks for the whole.
fn begin(weir: &Weir, path: &str) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", path, &[]);
    client
}

/// Reads so many bytes of a body.
fn drain(client: &mut Client, count: usize) {
    let mut left = count;
    while left > 0 {
        let piece = client.read_some();
        assert!(!piece.is_empty(), "{left} bytes are missing");
        left = left.saturating_sub(piece.len());
    }
}

#[test]
fn parts_behind_what_memory_keeps_of_a_running_fill_are_read_from_the_volume() {
    const LENGTH: usize = 40_000_000;
    let (origin, body, gate) = (Origin::start(), pattern(4, LENGTH), Gate::new());
    origin.put("/x", tagged(&body).ranges().body_gate(30_000_000, &gate));
    let weir = server(&[&origin]).more(VOLUME).start();
    let mut lead = begin(&weir, "/x");
    lead.recv_head_only().unwrap();
    drain(&mut lead, 29_000_000);
    until("what has come is on the volume", || {
        weir.metric("weir_volume_written_body_bytes_total").is_some_and(|bytes| bytes > 20e6)
    });
    let mut client = ask(&weir, "/x", "bytes=0-9,19000000-19000009,1000-1999,5000000-5999999");
    let found = client.recv().unwrap();
    let expect = [(0, 9), (19_000_000, 19_000_009), (1000, 1999), (5_000_000, 5_999_999)];
    assert_eq!(parts(&found, &body, Some("text/x-bytes")), expect);
    assert_eq!(origin.count("/x"), 1, "all of it has come already");
    gate.open();
    drain(&mut lead, 10_000_000);
    assert_eq!(origin.count("/x"), 1);
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
    // What goes beyond it is of another version, and takes its place.
    assert!(ranged(&weir, "/x", "bytes=390000-409999").body == newer[390_000..410_000]);
    let before = ranged(&weir, "/x", "bytes=310000-319999");
    assert!(before.body == newer[310_000..320_000], "{}", before.cache_status());
    assert!(weir.get("/x").body == newer);
    assert!(ranged(&weir, "/x", "bytes=0-9").is_hit());
}

#[test]
fn a_200_says_that_ranges_of_it_are_answered_whatever_was_asked_for_first() {
    let (origin, body) = (Origin::start(), pattern(5, 300_000));
    // nginx says so in its 200s and not in its 206s; some say `none` and some nothing.
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
    let mut client = weir.client();
    client.send("HEAD /first HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.recv_head().unwrap().header("accept-ranges").as_deref(), Some("bytes"));
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
