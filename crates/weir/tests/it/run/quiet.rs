//! What Weir costs while nobody asks: memory of connections that wait and of those that have closed, wake-ups
//! of its threads.

use std::time::{Duration, Instant};

use weir_testkit::{Client, Origin, Resource, Weir, until};

use crate::server::server;

/// The most anonymous bytes of a connection that waits for its next request, with those of the allocator's
/// pages and of lists that grow by doubling.
const IDLE_BYTES_MAX: u64 = 3 << 10;
const CONNECTIONS: usize = 3000;

fn asked(weir: &Weir) -> Client {
    let mut client = weir.client();
    client.get("localhost", "/kept", &[]);
    client
}

#[test]
fn a_connection_that_waits_holds_little_and_a_closed_one_nothing() {
    let origin = Origin::start();
    origin.put("/kept", Resource::fresh(vec![b'x'; 1000]));
    let weir = server(&[&origin]).more("[limits]\nconnections_per_client = 10000\n").start();
    let round = || (0..CONNECTIONS).map(|_| asked(&weir)).collect::<Vec<_>>();
    // The first round grows what stays for the next: lists, the allocator's pages.
    drop(round());
    until("the first connections are gone", || weir.metric("weir_connections_open") == Some(0.0));
    let before = weir.anonymous();
    let held = round();
    let most = before + CONNECTIONS as u64 * IDLE_BYTES_MAX;
    until("idle connections have given their memory back", || weir.anonymous() < most);
    drop(held);
    // A tenth of what they may hold, and what the allocator keeps. Nothing is asked of it meanwhile.
    let most = before + CONNECTIONS as u64 * IDLE_BYTES_MAX / 10 + (1 << 20);
    until("closed connections have given their memory back", || weir.anonymous() < most);
}

#[test]
fn a_weir_that_nobody_asks_sleeps() {
    const SECONDS: u64 = 5;
    let origin = Origin::start();
    let weir =
        server(&[&origin]).more("[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"64MiB\"\n").start();
    // A volume is calm after a while, on a busy machine later. Each thread that looks has once or twice a
    // second; what looked ten times a second had 28 more, and would never be calm.
    until("it sleeps", || {
        let (begun, before) = (Instant::now(), weir.woken());
        std::thread::sleep(Duration::from_secs(SECONDS));
        let woken = weir.woken() - before;
        // On a busy machine it is more than that.
        let seconds = begun.elapsed().as_secs();
        println!("{woken} wake-ups in {seconds} s");
        woken / seconds <= 28
    });
}

#[test]
fn an_empty_cache_takes_little_memory() {
    const BYTES_MAX: u64 = 12 << 20;
    let origin = Origin::start();
    let weir =
        server(&[&origin]).more("[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"1GiB\"\n").start();
    until("the volume is open", || weir.metric("weir_volume_up") == Some(1.0));
    let bytes = weir.anonymous();
    assert!(bytes < BYTES_MAX, "{bytes} anonymous bytes at the start");
}
