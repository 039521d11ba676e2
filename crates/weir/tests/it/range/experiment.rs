//! The published experiment: ten bytes from the middle of a 10 MiB file that an origin sends at 1 MB/s.
//!
//! Every ten bytes of the file are nine digits of their own offset and a line feed. `bench/ranges` measures
//! the same with other proxies beside Weir, and `weir run --demo` has the file at `/offsets.txt`. That
//! something came early is shown by what the origin had not sent yet, not by a clock.

use std::sync::Arc;
use std::time::Duration;

use weir_testkit::{Client, Gate, Origin, Setup, Weir, free_port, until};

use crate::counted::{Counted, Version};
use crate::server::{before, setup};

const LENGTH: u64 = 10_485_760;
const RATE: u64 = 1_000_000;
const DELAY: Duration = Duration::from_millis(5);
const CHUNK: u64 = 1 << 20;
const BLOCK: u64 = 64 << 10;

fn offsets() -> Vec<u8> {
    (0..LENGTH).step_by(10).flat_map(|offset| format!("{offset:09}\n").into_bytes()).collect()
}

/// An origin with the file at `/offsets.txt`, its counts, and a Weir that has seen nothing of it.
fn experiment() -> (Origin, Arc<Counted>, Weir) {
    gated(LENGTH, &Gate::new())
}

/// The same. Each response of the origin stops after `after` bytes until the gate is opened.
fn gated(after: u64, gate: &Gate) -> (Origin, Arc<Counted>, Weir) {
    let origin = Origin::start();
    let counted = Counted::new(Version::new("\"1\"", offsets()), &[("Cache-Control", "max-age=3600")]);
    let counted = counted.slow(RATE, DELAY).gate(after, gate).at(&origin, "/offsets.txt");
    let weir = before(&origin);
    (origin, counted, weir)
}

/// Requests ten bytes from the middle and compares them.
fn middle(weir: &Weir) {
    let found = weir.get_with("/offsets.txt", &[("Range", "bytes=5000000-5000009")]);
    assert_eq!((found.status(), found.text().as_str()), (206, "005000000\n"));
    assert_eq!(found.header("content-range").as_deref(), Some("bytes 5000000-5000009/10485760"));
}

/// Begins a request and reads `count` bytes of its body.
fn begin(weir: &Weir, range: Option<&str>, count: usize) -> (Client, Vec<u8>) {
    let headers: Vec<_> = range.map(|range| ("Range", range)).into_iter().collect();
    let mut client = weir.client();
    client.send_get("localhost", "/offsets.txt", &headers);
    client.recv_head_only().unwrap();
    let mut got = Vec::new();
    read(&mut client, &mut got, count);
    (client, got)
}

fn read(client: &mut Client, got: &mut Vec<u8>, count: usize) {
    while got.len() < count {
        let piece = client.read_some();
        assert!(!piece.is_empty(), "cut after {} of {count} bytes", got.len());
        got.extend(piece);
    }
}

#[test]
fn the_middle_comes_at_once_and_a_hundred_times_for_one_block() {
    // No more than the wanted bytes, and the bytes before them in their block, come until all requests were
    // answered.
    let gate = Gate::new();
    let (origin, counted, weir) = gated(5_000_010 - 5_000_000 / BLOCK * BLOCK, &gate);
    for _ in 0..101 {
        middle(&weir);
    }
    assert_eq!(origin.count("/offsets.txt"), 1, "{:?}", counted.sent());
    gate.open();
    let block = 5_000_000 / BLOCK * BLOCK;
    until("the rest of the block has come", || counted.bytes() >= BLOCK);
    // A reader that goes on in the next block has shown that it reads on, so the rest of the chunk is
    // fetched.
    let near = |offset: u64| {
        let range = format!("bytes={offset}-{}", offset + 9);
        let near = weir.get_with("/offsets.txt", &[("Range", &range)]);
        assert_eq!(near.text(), format!("{offset:09}\n"));
        near.is_hit()
    };
    near(5_100_000);
    until("the rest of the chunk has come", || counted.bytes() >= 5 * CHUNK - block);
    until("what came with it is held", || near(5_242_860));
    middle(&weir);
    let sent: Vec<_> = counted.sent().iter().map(|sent| sent.bytes.clone()).collect();
    assert_eq!(sent, [block..block + BLOCK, block + BLOCK..5 * CHUNK]);
}

#[test]
fn a_suffix_costs_one_request_and_no_more_than_a_block() {
    let (origin, counted, weir) = experiment();
    let ends = || {
        let found = weir.get_with("/offsets.txt", &[("Range", "bytes=-10")]);
        assert_eq!((found.status(), found.text().as_str()), (206, "010485750\n"));
        assert_eq!(found.header("content-range").as_deref(), Some("bytes 10485750-10485759/10485760"));
    };
    ends();
    assert_eq!(origin.count("/offsets.txt"), 1);
    assert_eq!(origin.requests("/offsets.txt")[0].method, "GET");
    until("the transfer is over", || weir.metric("weir_fills_running") == Some(0.0));
    assert!(counted.bytes() <= BLOCK + 10, "{:?}", counted.sent());
    (0..20).for_each(|_| ends());
    assert!(counted.bytes() <= 2 * (BLOCK + 10), "{:?}", counted.sent());
}

#[test]
fn an_open_range_streams_and_is_kept() {
    let (origin, counted, weir) = experiment();
    let body = offsets();
    let (mut client, mut got) = begin(&weir, Some("bytes=5000000-"), 100_000);
    assert!(counted.bytes() < 2_000_000, "{:?}", counted.sent());
    counted.set_rate(0);
    read(&mut client, &mut got, body.len() - 5_000_000);
    assert!(got == body[5_000_000..]);
    until("the transfers are over", || weir.metric("weir_fills_running") == Some(0.0));
    assert_eq!(counted.bytes_again(), 0, "{:?}", counted.sent());
    let asked = origin.total();
    let again = weir.get_with("/offsets.txt", &[("Range", "bytes=5000000-")]);
    assert!(again.is_hit() && again.body == body[5_000_000..], "{}", again.cache_status());
    assert_eq!(origin.total(), asked);
    assert!(weir.get("/offsets.txt").body == body);
    assert_eq!((counted.bytes(), counted.bytes_again()), (LENGTH, 0), "{:?}", counted.sent());
    assert!(weir.get("/offsets.txt").is_hit());
}

#[test]
fn a_range_behind_a_running_fill_is_answered_from_its_bytes() {
    let (origin, counted, weir) = experiment();
    let (mut client, mut got) = begin(&weir, None, 600_000);
    for at in [0, 100_000, 500_000] {
        let range = format!("bytes={at}-{}", at + 9);
        let found = weir.get_with("/offsets.txt", &[("Range", &range)]);
        assert_eq!((found.status(), found.text()), (206, format!("{at:09}\n")));
    }
    assert!(counted.bytes() < LENGTH / 2, "the whole had to come first");
    counted.set_rate(0);
    read(&mut client, &mut got, LENGTH as usize);
    assert!(got == offsets());
    assert_eq!((origin.total(), counted.bytes()), (1, LENGTH));
}

#[test]
fn the_demo_has_the_file() {
    let address = format!("127.0.0.1:{}", free_port());
    let arguments = ["--listen", &address, "--admin", "127.0.0.1:0", "--demo"];
    let setup = arguments.into_iter().fold(setup().listen(address.parse().unwrap()), Setup::arg);
    let weir = setup.run_bare();
    middle(&weir);
    assert!(weir.get("/offsets.txt").body == offsets());
}
