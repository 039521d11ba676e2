//! The pure parts of scenarios.

use proptest::prelude::*;

use crate::scenario::catalogue::{Catalogue, Lifetime, Part};
use crate::scenario::client::paced;
use crate::scenario::file::{Extent, Scenario};
use crate::scenario::playlog::{self, Row};
use crate::scenario::says::{find, split};
use crate::scenario::server::shell;
use crate::scenario::settings::Format;
use crate::scenario::sizes::{Bytes, Sizes};
use crate::seeded;

proptest! {
    #[test]
    fn any_piece_of_a_seeded_body_is_as_in_the_whole(key: u64, from in 0usize..3000, bytes in 0usize..3000) {
        let mut whole = vec![0; 6000];
        seeded::fill(key, 0, &mut whole);
        let mut piece = vec![0; bytes];
        seeded::fill(key, from as u64, &mut piece);
        prop_assert_eq!(&piece[..], &whole[from..from + bytes]);
        prop_assert_eq!(seeded::difference(key, from as u64, &piece), None);
        if bytes > 0 {
            piece[bytes / 2] ^= 1;
            prop_assert_eq!(seeded::difference(key, from as u64, &piece), Some((from + bytes / 2) as u64));
        }
    }

    #[test]
    fn no_line_makes_the_reader_of_logs_panic(line in "\\PC{0,120}") {
        let _ = playlog::row(&line);
        let _ = playlog::row(&format!("x [{line}] \"GET {line}"));
        let _ = playlog::row(&format!("{{\"time\": \"{line}\", \"path\": \"/x\"}}"));
    }
}

#[test]
fn seeded_bodies_are_always_the_same() {
    let key = seeded::key(1, b"/o/1", 0);
    let mut bytes = [0; 8];
    seeded::fill(key, 0, &mut bytes);
    // What is recorded in other runs must stay comparable.
    assert_eq!(bytes, GOLDEN);
    assert_ne!(seeded::key(1, b"/o/1", 1), key);
    assert_ne!(seeded::key(1, b"/o/2", 0), key);
    assert_ne!(seeded::key(2, b"/o/1", 0), key);
}

const GOLDEN: [u8; 8] = [1, 246, 211, 212, 243, 77, 10, 8];

#[test]
fn sizes_are_read_and_spread() {
    for (text, bytes) in [("1500", 1500), ("10 KB", 10_000), ("64KiB", 65_536), ("1.5 MB", 1_500_000)] {
        assert_eq!(Bytes::parse(text), Ok(Bytes(bytes)));
    }
    assert!(Bytes::parse("KB").is_err() && Bytes::parse("9 TB").is_err() && Bytes::parse("9999 GB").is_err());
    let between = Sizes::Between(1000, 1_000_000);
    let hashes: Vec<u64> =
        (0..10_000u64).map(|at| seeded::mix(at.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let below = hashes.iter().filter(|hash| between.of(**hash) < 31_623).count();
    assert!((4700..5300).contains(&below), "half below the geometric middle: {below}");
    let cdn: Vec<u64> = hashes.iter().map(|hash| Sizes::Cdn.of(*hash)).collect();
    let small = cdn.iter().filter(|bytes| **bytes <= 60_000).count();
    assert!((7600..8400).contains(&small), "{small}");
    let large: u64 = cdn.iter().filter(|bytes| **bytes > 1_000_000).sum();
    assert!(large * 2 > cdn.iter().sum::<u64>(), "most bytes are in few objects");
}

#[test]
fn versions_are_old_once_their_lifetime_is_over() {
    let mut part = Part::new("/x/", Sizes::One(10));
    part.lifetime = Lifetime::Seconds(0);
    let catalogue = Catalogue::new(1, Vec::new());
    let part = catalogue.add(part);
    let is_old = |version| catalogue.expected(b"/x/1", version).unwrap().is_old;
    assert!(!is_old(0) && is_old(1), "a version that there never was");
    catalogue.change(&part);
    assert!(!is_old(0) && !is_old(1), "within the slack");
    std::thread::sleep(std::time::Duration::from_millis(2100));
    assert!(is_old(0) && !is_old(1));
    assert_eq!(catalogue.expected(b"/y", 0), None);
}

#[test]
fn the_part_with_the_longest_prefix_counts() {
    let parts =
        vec![Part::new("/", Sizes::One(1)), Part::new("/a/b", Sizes::One(3)), Part::new("/a", Sizes::One(2))];
    let catalogue = Catalogue::new(1, parts);
    for (path, bytes) in [("/a/b/c", 3), ("/a/x", 2), ("/x", 1)] {
        assert_eq!(catalogue.expected(path.as_bytes(), 0).unwrap().bytes, bytes);
    }
}

#[test]
fn figures_are_found_in_what_servers_say() {
    let prometheus = "# HELP a x\na 3\na_total{site=\"x\",tier=\"all\"} 4\n\
     a_total{site=\"y\",tier=\"all\"} 5 1600\n\
                      a_total{site=\"y\",tier=\"memory\"} 9\n";
    let stub = "Active connections: 1 \nserver accepts handled requests\n 16 17 18 \nReading: 0 Writing: 1\n";
    let json = "{\"a\": {\"b\": [1, 2, 3.5]}, \"c\": 4}";
    let log = "200 10 HIT 0\n200 20 MISS 20\n404 - MISS 7\n";
    for (format, text, place, value) in [
        (Format::Prometheus, prometheus, "a", Some(3.0)),
        (Format::Prometheus, prometheus, "a_total{tier=\"all\"}", Some(9.0)),
        (Format::Prometheus, prometheus, "a_total{site=\"y\",tier=\"all\"} + a", Some(8.0)),
        (Format::Prometheus, prometheus, "b", None),
        (Format::Prometheus, prometheus, "a_total{site=\"z\"}", Some(0.0)),
        (Format::Prometheus, "", "a_total{site=\"z\"}", None),
        (Format::Numbers, stub, "4", Some(18.0)),
        (Format::Numbers, stub, "99", None),
        (Format::Json, json, "/a/b", Some(6.5)),
        (Format::Json, json, "/c + /a/b/0", Some(5.0)),
        (Format::Json, json, "/x", None),
        (Format::Lines, log, "count", Some(3.0)),
        (Format::Lines, log, "count where MISS", Some(2.0)),
        (Format::Lines, log, "2", Some(30.0)),
        (Format::Lines, log, "4 where MISS", Some(27.0)),
    ] {
        assert_eq!(find(format, text, place), value, "{place}");
    }
    assert_eq!(split("http://a:1/x?y"), ("http://a:1".to_owned(), "/x?y".to_owned()));
    assert_eq!(split("http://a"), ("http://a".to_owned(), "/".to_owned()));
}

#[test]
fn lines_of_logs_are_read() {
    let read = |line: &str| playlog::row(line);
    let common = "::1 - - [01/Jan/1970:01:00:05 +0100] \"GET /x?y HTTP/1.1\" 200 77";
    assert_eq!(read(common), Some(Row { at_s: 5.0, path: "/x?y".to_owned(), bytes: Some(77) }));
    assert_eq!(read(&common.replace("200", "304")).unwrap().bytes, None);
    assert_eq!(read(&common.replace("GET", "POST")), None);
    let leap = common.replace("01/Jan/1970:01:00:05 +0100", "29/Feb/2024:00:00:00 +0000");
    assert_eq!(read(&leap).unwrap().at_s, 1_709_164_800.0);
    let json = "{\"time\": \"2024-02-29T00:00:00.5Z\", \"path\": \"/x\", \"bytes\": 3}";
    assert_eq!(read(json), Some(Row { at_s: 1_709_164_800.5, path: "/x".to_owned(), bytes: Some(3) }));
    assert_eq!(read("{\"time\": 7.25, \"path\": \"/x\"}").unwrap().at_s, 7.25);
    assert_eq!(read("{\"time\": 7.25, \"path\": \"no\"}"), None);
}

#[test]
fn a_plain_line_needs_no_shell() {
    assert_eq!(shell("nginx -c /x/y.conf"), ["nginx", "-c", "/x/y.conf"]);
    assert_eq!(shell("a | b"), ["sh", "-c", "a | b"]);
}

#[test]
fn a_slow_client_takes_so_many_bytes_a_second_in_pieces_that_are_read_at_once() {
    for rate in [1, 10, 10_000, 655_360, 1_000_000, 4_000_000] {
        let (bytes, pause) = paced(rate);
        let ratio = bytes as f64 / pause.as_secs_f64() / rate as f64;
        assert!((0.99..1.01).contains(&ratio) && bytes <= 65_536, "{rate}: {bytes} each {pause:?}");
    }
}

#[test]
fn the_scenarios_that_are_shipped_are_read() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = |folder: &str| std::fs::read_dir(root.join(folder)).unwrap();
    let mut read = 0;
    for entry in entries("examples/stress").chain(entries("bench")) {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let scenario = Scenario::read(&path, Extent::Whole).unwrap();
            assert!(!scenario.servers.is_empty() && !scenario.modules.is_empty(), "{}", path.display());
            read += 1;
        }
    }
    assert_eq!(read, 11);
}
