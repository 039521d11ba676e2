//! Slow readers of large bodies, while other requests make the volume evict and purges make bodies dead.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use weir_testkit::{Random, Weir};

use super::stock::{AILING, KILLED, Stock};
use crate::server::server;

/// How many clients read slowly at a time, and how many bodies each reads.
const READERS: usize = 16;
const BODIES_EACH: usize = 3;
/// The receive buffer of a slow reader in bytes: more than a packet of the loopback device.
const RECEIVE_BYTES: usize = 256 << 10;
/// The bytes that it reads at a time, and its pause then.
const GULP_BYTES: usize = 128 << 10;
const PAUSE: Duration = Duration::from_millis(25);

/// Reads one body slowly and judges it as far as it goes. True if it came whole.
fn sip(stock: &Stock, weir: &Weir, number: usize) -> bool {
    let oldest = stock.oldest(number);
    let mut client = weir.client();
    let socket = client.socket().tcp().unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BYTES).unwrap();
    client.send_get("localhost", &format!("/{number}"), &[]);
    let head = client.recv_head_only().unwrap();
    let mut found = weir_testkit::Response { head, ..Default::default() };
    let length: usize = found.header("content-length").unwrap().parse().unwrap();
    let mut paused_at = 0;
    while found.body.len() < length {
        let piece = client.read_some();
        if piece.is_empty() {
            break;
        }
        found.body.extend_from_slice(&piece);
        if found.body.len() - paused_at >= GULP_BYTES {
            paused_at = found.body.len();
            std::thread::sleep(PAUSE);
        }
    }
    let is_whole = found.body.len() == length;
    stock.judge(number, oldest, &found, is_whole);
    is_whole
}

#[test]
fn slow_readers_get_right_bytes_while_bodies_are_evicted_and_purged() {
    let stock = Stock::new(&[6_000_000, 300_000, 40_000, 4_000_000, 90_000, 1_000_000], 48);
    let origin = stock.origin();
    let weir = server(&[&origin])
        .site("purge = { allow = [\"127.0.0.0/8\"] }")
        .more("[cache]\nmemory = \"12MiB\"\n[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"48MiB\"\n")
        .start();
    // Bodies may break off here: the one that is being read may be dropped for room.
    let stage = AtomicU8::new(AILING);
    let (whole, cut) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let begun = Instant::now();
    let purge = |tag: &str| weir.command(&["purge", "--tag", tag]).code == Some(0);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (stock, weir, stage, purge) = (&stock, &weir, &stage, &purge);
            scope.spawn(move || stock.load(weir, stage, purge, 100 + seed));
        }
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let (stock, weir, whole, cut) = (&stock, &weir, &whole, &cut);
                scope.spawn(move || {
                    let mut random = Random::new(reader as u64);
                    for _ in 0..BODIES_EACH {
                        // The long ones.
                        let number = random.below(8) as usize * 6 + random.below(2) as usize * 3;
                        let count = if sip(stock, weir, number) { whole } else { cut };
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let results: Vec<_> = readers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stage.store(KILLED, Ordering::SeqCst);
        assert!(results.into_iter().all(|result| result.is_ok()), "a slow reader got what it should not");
    });
    let evicted = weir.metric("weir_volume_evicted_total").unwrap();
    let (whole, cut) = (whole.into_inner(), cut.into_inner());
    println!(
        "{whole} whole, {cut} cut, {} of the quick ones cut, {evicted} evicted, {:?}",
        stock.cut(),
        begun.elapsed()
    );
    assert!(evicted > 0.0, "nothing was evicted meanwhile");
    assert!(whole >= READERS, "{whole} of {} came whole", whole + cut);
}
