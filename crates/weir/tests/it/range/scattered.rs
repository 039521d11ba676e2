//! Single bytes requested all over one object: what is fetched and what is stored of it stays bounded.
//!
//! `WEIR_SCATTERED` sets how many bytes are requested.

use std::sync::Arc;

use weir_testkit::{Origin, Random, Weir, pattern, until};

use crate::counted::{Counted, Version};
use crate::server::server;

const LENGTH: usize = 50_000_000;
const CLIENTS: u64 = 8;
/// How much Weir may grow beyond the object itself: buffers of connections, and what is on its way.
const BESIDE_BYTES_MAX: u64 = 48 << 20;

/// Requests `count` single bytes and compares them.
fn ask(weir: &Weir, body: &[u8], count: u64, seed: u64) {
    let (mut random, mut client) = (Random::new(seed), weir.client());
    for _ in 0..count {
        let at = random.below(LENGTH as u64) as usize;
        let found = client.get("localhost", "/x", &[("Range", &format!("bytes={at}-{at}"))]);
        assert_eq!((found.status(), &found.body[..]), (206, &body[at..=at]), "byte {at}");
    }
}

#[test]
fn scattered_bytes_cost_the_object_once_at_most() {
    let count = std::env::var("WEIR_SCATTERED").ok().and_then(|count| count.parse().ok()).unwrap_or(2000);
    let (origin, body) = (Origin::start(), Arc::<[u8]>::from(pattern(11, LENGTH)));
    let fields = [("Cache-Control", "max-age=3600")];
    let counted = Counted::new(Version::new("\"1\"", body.clone()), &fields).at(&origin, "/x");
    let weir = server(&[&origin]).more("[cache]\nmemory = \"256MiB\"").start();
    let resting = weir.rss();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (weir, body) = (&weir, &body);
            scope.spawn(move || ask(weir, body, count / CLIENTS, client));
        }
    });
    until("the transfers are over", || weir.metric("weir_fills_running") == Some(0.0));
    let grown = weir.rss_peak().saturating_sub(resting);
    println!(
        "{count} bytes: {} requests to the origin, {} bytes, {} again; Weir grew by {} KiB at most, {} now",
        origin.count("/x"),
        counted.bytes(),
        counted.bytes_again(),
        grown >> 10,
        weir.rss().saturating_sub(resting) >> 10
    );
    assert_eq!(counted.bytes_again(), 0);
    assert!(counted.bytes() <= LENGTH as u64);
    assert!(grown < LENGTH as u64 + BESIDE_BYTES_MAX, "grew by {grown} bytes");
    let asked = origin.count("/x");
    let blocks = (LENGTH as u64).div_ceil(64 << 10) as usize;
    assert!(asked <= blocks, "{asked} requests, and there are {blocks} blocks");
    assert!(weir.get("/x").body[..] == body[..]);
    assert!(counted.bytes() <= LENGTH as u64 && counted.bytes_again() == 0);
}
