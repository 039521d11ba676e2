//! Objects that are stored in part: what is missing comes from the origin, once, and in the same version or
//! not at all.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_testkit::{Client, Fault, Gate, Origin, Resource, Response, Trouble, Weir, pattern, until};

use crate::durable::{SYNCED_WITHIN, restart};
use crate::server::{Server, server};

const LENGTH: usize = 24_000_000;
/// Where the origin stops at first.
const STOP: usize = 12_000_000;

fn with_volume(origin: &Origin, memory: &str) -> Server {
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"256MiB\"";
    server(&[origin]).more(&format!("[cache]\nmemory = \"{memory}\"\n{volume}"))
}

fn resource(body: &[u8], tag: &str) -> Resource {
    Resource::fresh(body).etag(tag).ranges()
}

fn ask(weir: &Weir, target: &str) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", target, &[]);
    client
}

/// Reads `count` bytes of the body, behind the head.
fn read(client: &mut Client, count: usize) -> Vec<u8> {
    let mut got = Vec::new();
    while got.len() < count {
        let piece = client.read_some();
        assert!(!piece.is_empty(), "cut after {} of {count} bytes", got.len());
        got.extend(piece);
    }
    got
}

/// The first byte of each range that the origin was asked for; 0 for a whole request.
fn starts(origin: &Origin, path: &str) -> Vec<u64> {
    let start =
        |range: String| range.strip_prefix("bytes=").unwrap().split('-').next().unwrap().parse().unwrap();
    origin
        .requests(path)
        .iter()
        .map(|request| request.header("range").map_or(0, |r| start(r.to_owned())))
        .collect()
}

/// A Weir that has the first part of `/x` on its volume and was just restarted.
fn interrupted(origin: &Origin, body: &[u8], tag: &str) -> Weir {
    let gate = Gate::new();
    origin.put("/x", resource(body, tag).body_gate(STOP, &gate));
    let mut weir = with_volume(origin, "64MiB").start();
    let mut client = ask(&weir, "/x");
    client.recv_head_only().unwrap();
    read(&mut client, STOP - 100_000);
    until("most of what has come is on the volume", || {
        weir.metric("weir_volume_written_body_bytes_total").is_some_and(|bytes| bytes > 8e6)
    });
    std::thread::sleep(SYNCED_WITHIN);
    weir.signal("KILL");
    gate.open();
    origin.put("/x", resource(body, tag));
    weir.start_again();
    weir
}

#[test]
fn a_fill_interrupted_by_a_kill_is_completed_and_not_fetched_again() {
    let (origin, body) = (Origin::start(), pattern(7, LENGTH));
    let weir = interrupted(&origin, &body, "\"1\"");
    let found = weir.get("/x");
    assert!(found.body == body);
    assert_eq!(found.fwd().as_deref(), Some("partial"), "{}", found.cache_status());
    let asked = starts(&origin, "/x");
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[1] > 4_000_000, "{asked:?}");
    until("it is held whole", || {
        let found = weir.get("/x");
        assert!(found.body == body);
        found.is_hit()
    });
    assert_eq!(starts(&origin, "/x").len(), 2);
}

#[test]
fn a_range_that_is_held_is_a_hit_and_one_that_is_not_costs_its_gap() {
    let (origin, body) = (Origin::start(), pattern(7, LENGTH));
    let weir = interrupted(&origin, &body, "\"1\"");
    let held = weir.get_with("/x", &[("Range", "bytes=1000000-1999999")]);
    assert_eq!(held.status(), 206);
    assert!(held.is_hit() && held.body == body[1_000_000..2_000_000], "{}", held.cache_status());
    assert_eq!(origin.count("/x"), 1);
    let missing = weir.get_with("/x", &[("Range", "bytes=20000000-20999999")]);
    assert_eq!(missing.status(), 206);
    assert!(missing.body == body[20_000_000..21_000_000]);
    // The gap begins at a block's border.
    assert_eq!(starts(&origin, "/x")[1..], [20_000_000 / 65_536 * 65_536]);
    assert_eq!(weir.get_with("/x", &[("If-None-Match", "\"1\"")]).status(), 304);
    assert_eq!(origin.count("/x"), 2);
    assert!(weir.get("/x").body == body);
}

#[test]
fn a_version_that_is_gone_is_never_mixed_with_the_new_one() {
    let (origin, body, newer) = (Origin::start(), pattern(7, LENGTH), pattern(8, LENGTH));
    let weir = interrupted(&origin, &body, "\"1\"");
    origin.put("/x", resource(&newer, "\"2\""));
    let found = weir.get("/x");
    assert_eq!(found.header("etag").as_deref(), Some("\"2\""));
    assert!(found.body == newer);
    assert!(weir.get("/x").body == newer && weir.get("/x").is_hit());
}

#[test]
fn without_a_strong_validator_a_part_is_not_used() {
    let (origin, body) = (Origin::start(), pattern(7, LENGTH));
    let weir = interrupted(&origin, &body, "W/\"1\"");
    let found = weir.get("/x");
    assert!(found.body == body);
    assert_eq!(starts(&origin, "/x"), [0, 0], "{}", found.cache_status());
}

#[test]
fn many_readers_of_a_part_are_one_request() {
    let (origin, body) = (Origin::start(), pattern(7, LENGTH));
    let weir = interrupted(&origin, &body, "\"1\"");
    let gate = Gate::new();
    origin.put("/x", resource(&body, "\"1\"").head_gate(&gate));
    let mut clients: Vec<Client> = (0..12).map(|_| ask(&weir, "/x")).collect();
    until("all wait for the rest", || weir.metric("weir_requests_running") == Some(12.0));
    gate.open();
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| assert!(client.recv().unwrap().body == body));
        }
    });
    assert_eq!(origin.count("/x"), 2);
}

#[test]
fn an_abandoned_transfer_is_continued_by_the_next_request() {
    for memory in ["256MiB", "16MiB"] {
        let (origin, body, gate) = (Origin::start(), pattern(9, 60_000_000), Gate::new());
        origin.put("/x", resource(&body, "\"1\"").body_gate(20_000_000, &gate));
        let weir = with_volume(&origin, memory).start();
        let mut client = ask(&weir, "/x");
        client.recv_head_only().unwrap();
        read(&mut client, 15_000_000);
        drop(client);
        until("nothing is fetched", || weir.metric("weir_fills_running") == Some(0.0));
        std::thread::sleep(Duration::from_millis(500));
        gate.open();
        assert!(weir.get("/x").body == body);
        let asked = starts(&origin, "/x");
        // Another request may still join a transfer that waits for its origin.
        assert!(asked.len() <= 2, "{asked:?}");
        assert!(asked[1..].iter().all(|start| *start > 8_000_000), "{memory}: {asked:?}");
    }
}

#[test]
fn an_origin_that_breaks_off_for_good_leaves_a_part() {
    let (origin, body) = (Origin::start(), pattern(9, 3_000_000));
    origin.put("/x", resource(&body, "\"1\"").fault(Fault::Truncate(500_000)));
    let weir = server(&[&origin]).start();
    let mut client = ask(&weir, "/x");
    assert!(client.recv().is_err());
    origin.put("/x", resource(&body, "\"1\""));
    let found = weir.get("/x");
    assert!(found.body == body);
    assert!(starts(&origin, "/x").last() >= Some(&1_400_000), "{:?}", starts(&origin, "/x"));
    assert!(weir.get("/x").is_hit());
}

fn segments(weir: &Weir) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(weir.folder().join("volume/segments")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Changes every 50,000th byte of all segments, from the middle of each on.
fn damage(weir: &Weir) {
    use std::os::unix::fs::FileExt;
    for path in segments(weir) {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let length = file.metadata().unwrap().len();
        for at in (length / 2..length).step_by(50_000) {
            let mut byte = [0];
            if file.read_at(&mut byte, at).unwrap() == 1 {
                file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
            }
        }
    }
}

#[test]
fn bytes_that_are_lost_during_sending_come_from_the_origin() {
    for knows_ranges in [true, false] {
        let (origin, body) = (Origin::start(), pattern(5, LENGTH));
        let plain = Resource::fresh(&body).etag("\"1\"");
        origin.put("/x", if knows_ranges { plain.ranges() } else { plain });
        let mut weir = with_volume(&origin, "16MiB").start();
        assert!(weir.get("/x").body == body);
        until("it is on the volume", || weir.get("/x").is_hit());
        restart(&mut weir, "TERM");
        let before = origin.count("/x");
        let mut client = ask(&weir, "/x");
        client.recv_head_only().unwrap();
        let mut got = read(&mut client, 1_000_000);
        damage(&weir);
        // An origin without parts sends the whole, and what is missing is taken out of it.
        got.extend(read(&mut client, LENGTH - got.len()));
        assert!(got == body);
        assert!(origin.count("/x") > before, "nothing was damaged");
        until("it is whole again", || {
            let found = weir.get("/x");
            assert!(found.body == body);
            found.is_hit()
        });
    }
}

#[test]
fn a_late_reader_of_a_body_beyond_memory_reads_the_volume() {
    let (origin, body, gate) = (Origin::start(), pattern(3, 40_000_000), Gate::new());
    origin.put("/x", resource(&body, "\"1\"").body_gate(30_000_000, &gate));
    let weir = with_volume(&origin, "16MiB").start();
    let mut early = ask(&weir, "/x");
    early.recv_head_only().unwrap();
    read(&mut early, 29_000_000);
    until("what has come is on the volume", || {
        weir.metric("weir_volume_written_body_bytes_total").is_some_and(|bytes| bytes > 20e6)
    });
    let mut late: Vec<Client> = (0..4).map(|_| ask(&weir, "/x")).collect();
    for client in &mut late {
        assert!(client.recv_head_only().unwrap().header("age").is_some());
        assert!(read(client, 10_000_000)[..10_000_000] == body[..10_000_000]);
    }
    gate.open();
    std::thread::scope(|scope| {
        for client in &mut late {
            scope.spawn(|| assert!(read_all(client) >= 30_000_000 - (1 << 20)));
        }
    });
    assert_eq!(starts(&origin, "/x"), [0]);
}

/// Reads until nothing more comes for a while. Returns the number of bytes.
fn read_all(client: &mut Client) -> usize {
    let mut count = 0;
    loop {
        let piece = client.read_some();
        count += piece.len();
        if piece.is_empty() || count >= 30_000_000 - (1 << 20) {
            return count;
        }
    }
}

#[test]
fn a_slow_reader_does_not_delay_writing_to_the_volume() {
    let (origin, body) = (Origin::start(), pattern(4, 30_000_000));
    origin.put("/x", resource(&body, "\"1\""));
    let weir = with_volume(&origin, "16MiB").start();
    let mut slow = ask(&weir, "/x");
    slow.recv_head_only().unwrap();
    let mut got = read(&mut slow, 1);
    until("the transfer is over", || weir.metric("weir_fills_running") == Some(0.0));
    until("the next is a hit", || weir.get("/x").is_hit());
    while got.len() < body.len() {
        let piece = slow.read_some();
        assert!(!piece.is_empty(), "cut after {}", got.len());
        got.extend(piece);
    }
    assert!(got == body);
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn a_damaged_object_is_sent_whole_and_stored_again() {
    let origin = Origin::start();
    let bodies: Vec<Vec<u8>> =
        (0..4).map(|number| pattern(number, 100_000 + 50_000 * number as usize)).collect();
    for (number, body) in bodies.iter().enumerate() {
        origin.put(&format!("/{number}"), resource(body, "\"1\""));
    }
    let mut weir = with_volume(&origin, "16MiB").start();
    let get = |weir: &Weir, number: usize| {
        let found = weir.get(&format!("/{number}"));
        assert!(found.body == bodies[number]);
        found
    };
    (0..4).for_each(|number| drop(get(&weir, number)));
    weir.signal("TERM");
    assert!(weir.wait(Duration::from_secs(30)).is_some());
    for path in segments(&weir) {
        let mut bytes = std::fs::read(&path).unwrap();
        for body in &bodies {
            let mark = &body[90_000..90_032];
            if let Some(at) = bytes.windows(32).position(|window| window == mark) {
                bytes[at + 7] ^= 1;
            }
        }
        std::fs::write(&path, bytes).unwrap();
    }
    weir.start_again();
    (0..4).for_each(|number| assert!(get(&weir, number).is_hit()));
    assert!((0..4).all(|number| origin.count(&format!("/{number}")) == 2), "nothing was damaged");
    until("all is stored again", || (0..4).all(|number| get(&weir, number).is_hit()));
    until("all is on the volume", || weir.metric("weir_volume_objects") == Some(4.0));
    restart(&mut weir, "TERM");
    assert!((0..4).all(|number| get(&weir, number).is_hit()));
}

/// A Weir that has the first two thirds of `/x` in memory; its transfer broke off.
fn broken_off(origin: &Origin, body: &[u8], more: &str) -> Weir {
    let first = Resource::new(body).etag("\"1\"").header("Cache-Control", more);
    origin.put("/x", first.fault(Fault::Truncate(body.len() / 3 * 2)));
    let weir = server(&[origin]).start();
    let mut client = ask(&weir, "/x");
    assert!(client.recv().is_err());
    until("nothing is fetched", || weir.metric("weir_fills_running") == Some(0.0));
    weir
}

#[test]
fn a_part_whose_origin_fails_is_no_beginning_of_an_answer() {
    let (origin, body) = (Origin::start(), pattern(9, 3_000_000));
    let weir = broken_off(&origin, &body, "max-age=3600");
    origin.put("/x", Resource::new("down").status(503));
    assert_eq!(weir.get("/x").status(), 503);
    origin.put("/x", resource(&body, "\"1\""));
    assert!(weir.get("/x").body == body);
}

#[test]
fn a_part_that_was_confirmed_is_sent_whole_by_an_origin_without_ranges() {
    let (origin, body) = (Origin::start(), pattern(9, 3_000_000));
    let weir = broken_off(&origin, &body, "max-age=3600");
    origin.put("/x", Resource::fresh(&body).etag("\"1\""));
    let mut client = weir.client();
    client.send_get("localhost", "/x", &[("Cache-Control", "no-cache")]);
    assert!(client.recv().unwrap().body == body);
    assert!(weir.get("/x").body == body);
}

/// The version is known and the head was sent when the origin breaks off. From then on the origin sends no
/// parts.
fn stops_sending_parts(newer: Option<&[u8]>) -> (Vec<u8>, Result<Response, Trouble>) {
    let (origin, body) = (Origin::start(), pattern(9, 6_000_000));
    let first = Resource::fresh(&body).etag("\"1\"").fault(Fault::Truncate(1_000_000));
    origin.put("/x", first);
    let weir = server(&[&origin]).start();
    assert!(ask(&weir, "/x").recv().is_err());
    until("nothing is fetched", || weir.metric("weir_fills_running") == Some(0.0));
    let (breaks, length) = (AtomicBool::new(true), body.len());
    let part = resource(&body, "\"1\"").fault(Fault::Truncate(length / 2));
    let whole = match newer {
        Some(newer) => Resource::fresh(newer).etag("\"2\""),
        None => Resource::fresh(&body).etag("\"1\""),
    };
    origin.on("/x", move |exchange| match breaks.swap(false, Ordering::SeqCst) {
        true => part.answer(exchange),
        false => whole.answer(exchange),
    });
    let answer = ask(&weir, "/x").recv();
    (body, answer)
}

#[test]
fn a_body_under_way_is_sent_whole_although_its_origin_stops_sending_parts() {
    let (body, answer) = stops_sending_parts(None);
    assert!(answer.unwrap().body == body);
}

#[test]
fn a_body_under_way_is_cut_where_the_whole_is_another_version() {
    let newer = pattern(8, 6_000_000);
    let (body, answer) = stops_sending_parts(Some(&newer));
    let Err(Trouble::Cut(answer)) = answer else { panic!("not cut") };
    assert!(answer.status() == 200 && body.starts_with(&answer.body));
}

#[test]
fn a_part_in_another_coding_is_another_version() {
    for knows_ranges in [true, false] {
        let (origin, body, newer) = (Origin::start(), pattern(9, 900_000), pattern(8, 900_000));
        let weir = broken_off(&origin, &body, "max-age=3600");
        let coded = Resource::fresh(&newer).etag("\"1\"").header("Content-Encoding", "gzip");
        origin.put("/x", if knows_ranges { coded.ranges() } else { coded });
        let found = weir.get("/x");
        assert!(found.body == newer, "{}", found.cache_status());
        assert_eq!(found.header("content-encoding").as_deref(), Some("gzip"));
    }
}

#[test]
fn a_range_far_ahead_of_a_transfer_does_not_wait_for_it() {
    let (origin, body, gate) = (Origin::start(), pattern(9, LENGTH), Gate::new());
    let weir = broken_off(&origin, &body, "max-age=3600");
    origin.put("/x", resource(&body, "\"1\"").body_gate(200_000, &gate));
    let mut early = ask(&weir, "/x");
    early.recv_head_only().unwrap();
    let mut got = read(&mut early, LENGTH / 3 * 2);
    let late = weir.get_with("/x", &[("Range", "bytes=22000000-22099999")]);
    assert!(late.status() == 206 && late.body == body[22_000_000..22_100_000]);
    gate.open();
    while got.len() < LENGTH {
        let rest = LENGTH - got.len();
        got.extend(read(&mut early, rest));
    }
    assert!(got == body);
    assert!(weir.get("/x").body == body && weir.get("/x").is_hit());
}

#[test]
fn a_gap_that_others_will_read_is_fetched_in_nobodys_name() {
    let (origin, body) = (Origin::start(), pattern(9, 3_000_000));
    let weir = broken_off(&origin, &body, "public, max-age=3600");
    origin.put("/x", resource(&body, "\"1\""));
    let found = weir.get_with("/x", &[("Authorization", "Basic YTpi")]);
    assert!(found.body == body);
    let asked = origin.requests("/x");
    let part = asked.last().unwrap();
    assert!(part.header("range").is_some() && part.header("authorization").is_none(), "{}", asked.len());
}
