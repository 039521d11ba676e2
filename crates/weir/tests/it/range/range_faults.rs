//! Transfers of parts that meet one another: what one leaves undone another completes, and no reader waits in
//! vain.

use std::sync::Arc;
use std::time::Duration;

use weir_testkit::{Client, Origin, Weir, pattern, until};

use crate::counted::{Counted, Version};
use crate::server::{before, server};

const MIB: u64 = 1 << 20;
const FIELDS: [(&str, &str); 1] = [("Cache-Control", "max-age=3600")];

fn body(length: u64) -> Arc<[u8]> {
    Arc::from(pattern(17, length as usize))
}

fn counted(body: &Arc<[u8]>) -> Counted {
    Counted::new(Version::new("\"1\"", body.clone()), &FIELDS)
}

fn begin(weir: &Weir, range: &str, count: usize) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", "/x", &[("Range", range)]);
    client.recv_head_only().unwrap();
    let mut got = 0;
    while got < count {
        let piece = client.read_some();
        assert!(!piece.is_empty(), "cut after {got} of {count} bytes");
        got += piece.len();
    }
    client
}

fn check(weir: &Weir, body: &[u8], first: u64, last: u64) {
    let found = weir.get_with("/x", &[("Range", &format!("bytes={first}-{last}"))]);
    assert_eq!(found.status(), 206, "{}", found.cache_status());
    assert!(found.body == body[first as usize..=last as usize], "{first}-{last} differs");
}

#[test]
fn an_object_to_be_completed_is_fetched_however_much_is_missing() {
    let (origin, body) = (Origin::start(), body(20 * MIB));
    let counted = counted(&body).at(&origin, "/x");
    let weir =
        server(&[&origin]).site("range = { fill = \"whole\" }").more("[cache]\nmemory = \"128MiB\"").start();
    check(&weir, &body, 7 * MIB, 7 * MIB + 9);
    until("all has come", || weir.metric("weir_origin_body_bytes_total") >= Some(20.0 * MIB as f64));
    let asked = origin.count("/x");
    assert!(weir.get("/x").body[..] == body[..]);
    assert_eq!((origin.count("/x"), counted.bytes_again()), (asked, 0));
}

#[test]
fn a_transfer_without_readers_ends_with_its_chunk() {
    let (origin, body) = (Origin::start(), body(20 * MIB));
    let counted = counted(&body).slow(2_000_000, Duration::ZERO).at(&origin, "/x");
    let weir = before(&origin);
    drop(begin(&weir, "bytes=0-", 1_500_000));
    until("it has come farther", || weir.metric("weir_origin_body_bytes_total") >= Some(1_900_000.0));
    counted.set_rate(0);
    let mut last = None;
    until("it has stopped", || {
        let now = weir.metric("weir_origin_body_bytes_total");
        std::thread::sleep(Duration::from_millis(200));
        std::mem::replace(&mut last, now) == now
    });
    assert!(last <= Some(4.0 * MIB as f64), "{last:?} bytes for a reader who left after 1.5 MB");
}

#[test]
fn one_change_is_one_however_many_see_it() {
    let (origin, body) = (Origin::start(), body(4 * MIB));
    let counted = counted(&body).slow(0, Duration::from_millis(300)).at(&origin, "/x");
    let weir = before(&origin);
    check(&weir, &body, 0, 9);
    counted.change(Version::new("\"2\"", body.clone()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| check(&weir, &body, 2 * MIB, 2 * MIB + 9));
        }
    });
    check(&weir, &body, 3 * MIB, 3 * MIB + 9);
    let asked = origin.requests("/x");
    assert!(asked.iter().all(|request| request.header("range").is_some()), "asked for the whole");
}

#[test]
fn bytes_written_to_the_volume_are_found_beside_a_transfer_for_them() {
    let (origin, body) = (Origin::start(), body(24 * MIB));
    let counted = counted(&body).slow(2_000_000, Duration::ZERO).at(&origin, "/x");
    let volume =
        "[cache]\nmemory = \"64MiB\"\n[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"256MiB\"";
    let weir = server(&[&origin]).more(volume).start();
    let slow = begin(&weir, "bytes=0-", 100_000);
    until("it is ahead", || counted.bytes() >= MIB);
    check(&weir, &body, 8 * MIB, 13 * MIB);
    check(&weir, &body, 8 * MIB + 100_000, 8 * MIB + 100_009);
    drop(slow);
}

#[test]
fn bytes_evicted_before_a_slow_reader_come_from_the_volume() {
    let (origin, body) = (Origin::start(), body(64 * MIB));
    let counted = counted(&body).slow(10_000_000, Duration::ZERO).at(&origin, "/x");
    let volume =
        "[cache]\nmemory = \"256MiB\"\n[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"512MiB\"";
    let weir = server(&[&origin]).more(volume).start();
    let mut slow = weir.client();
    slow.send_get("localhost", "/x", &[]);
    slow.recv_head_only().unwrap();
    until("it is ahead", || counted.bytes() >= 24 * MIB);
    check(&weir, &body, 48 * MIB, 55 * MIB);
    check(&weir, &body, 49 * MIB, 49 * MIB + 9);
    counted.set_rate(0);
    let mut got = Vec::new();
    while got.len() < body.len() {
        let piece = slow.read_some();
        assert!(!piece.is_empty(), "cut after {} bytes", got.len());
        got.extend(piece);
    }
    assert!(got == body[..], "the whole differs");
}

#[test]
fn a_client_with_a_part_gets_no_part_of_another_version() {
    let (origin, body) = (Origin::start(), pattern(4, 900_000));
    origin.on("/x", {
        let body = body.clone();
        move |exchange| {
            let is_whole = exchange.request.header("if-range").is_some();
            let part = exchange.request.header("range").filter(|_| !is_whole);
            let fields = [("Cache-Control", "max-age=60"), ("Content-Range", "bytes 300000-399999/900000")];
            match part {
                Some(_) => exchange.reply(206, &fields, &body[300_000..400_000]),
                None => exchange.reply(200, &fields[..1], &body),
            };
        }
    });
    let weir = server(&[&origin]).site("range = { without_validator = \"separate\" }").start();
    let fields = [("Range", "bytes=300000-399999"), ("If-Range", "\"older\"")];
    let found = weir.get_with("/x", &fields);
    assert!(found.status() == 200 && found.body == body, "{} {}", found.status(), found.cache_status());
}
