//! Parts that are purged, and parts on a volume: what is gone does not come back, and what was stored is not
//! fetched again.

use weir_testkit::{Client, Gate, Origin, Random, Resource, Response, Weir, pattern};

use crate::durable::{restart, settle};
use crate::server::{Server, server};

const LENGTH: usize = 4_000_123;
const MIB: usize = 1 << 20;
const BLOCK: usize = 64 << 10;

fn with_volume(origin: &Origin, memory: &str) -> Server {
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"256MiB\"";
    server(&[origin]).more(&format!("[cache]\nmemory = \"{memory}\"\n{volume}"))
}

fn tagged(body: &[u8], tag: &str) -> Resource {
    Resource::fresh(body).etag(tag).ranges().header("Cache-Tag", "red")
}

fn ranged(weir: &Weir, target: &str, first: usize, count: usize) -> Response {
    weir.get_with(target, &[("Range", &format!("bytes={first}-{}", first + count - 1))])
}

/// Requests a part and compares it.
fn part(weir: &Weir, body: &[u8], first: usize, count: usize) -> Response {
    let found = ranged(weir, "/x", first, count);
    assert_eq!(found.status(), 206, "{:?}", found.head);
    assert!(found.body == body[first..first + count], "{first}: other bytes");
    found
}

/// The Range of each request that the origin got; empty where it had none.
fn asked(origin: &Origin) -> Vec<String> {
    origin.requests("/x").iter().map(|request| request.header("range").unwrap_or_default()).collect()
}

const SCOPES: [&[&str]; 2] = [&["purge", "http://localhost/x"], &["purge", "--tag", "red"]];

#[test]
fn a_part_that_is_purged_during_its_gap_is_fetched_again() {
    for scope in SCOPES {
        let (origin, body, newer) = (Origin::start(), pattern(1, LENGTH), pattern(2, LENGTH));
        origin.put("/x", tagged(&body, "\"1\""));
        let weir = server(&[&origin]).start();
        part(&weir, &body, 0, 1000);
        let gate = Gate::new();
        origin.put("/x", tagged(&body, "\"1\"").body_gate(200_000, &gate));
        let mut client: Client = weir.client();
        client.send_get("localhost", "/x", &[("Range", "bytes=2097152-3145727")]);
        client.recv_head_only().unwrap();
        let mut got = client.read_some();
        origin.put("/x", tagged(&newer, "\"2\""));
        assert_eq!(weir.command(scope).code, Some(0));
        part(&weir, &newer, 0, 1000);
        part(&weir, &newer, 2 * MIB, 1000);
        gate.open();
        got.extend(client.read_at_least(MIB - got.len()));
        assert!(!got.is_empty() && got[..] == body[2 * MIB..2 * MIB + got.len()]);
        for first in [0, 2 * MIB, 3 * MIB, MIB] {
            assert_eq!(part(&weir, &newer, first, 1000).header("etag").as_deref(), Some("\"2\""));
        }
        assert!(weir.get("/x").body == newer);
    }
}

#[test]
fn a_part_that_was_purged_does_not_come_back_after_a_kill() {
    for scope in SCOPES {
        let (origin, body, newer) = (Origin::start(), pattern(1, LENGTH), pattern(2, LENGTH));
        origin.put("/x", tagged(&body, "\"1\""));
        let mut weir = with_volume(&origin, "64MiB").start();
        part(&weir, &body, 0, 1000);
        part(&weir, &body, 2 * MIB, 1000);
        settle(&weir);
        origin.put("/x", tagged(&newer, "\"2\""));
        assert_eq!(weir.command(scope).code, Some(0));
        restart(&mut weir, "KILL");
        for first in [2 * MIB, 0, 3 * MIB] {
            assert_eq!(part(&weir, &newer, first, 1000).header("etag").as_deref(), Some("\"2\""));
        }
        settle(&weir);
        restart(&mut weir, "KILL");
        part(&weir, &newer, 2 * MIB, 1000);
        assert!(weir.get("/x").body == newer);
    }
}

#[test]
fn fetched_ranges_are_hits_after_a_restart() {
    for signal in ["TERM", "KILL"] {
        let (origin, body) = (Origin::start(), pattern(3, LENGTH));
        origin.put("/x", tagged(&body, "\"1\""));
        let mut weir = with_volume(&origin, "64MiB").start();
        for first in [2 * MIB, 0] {
            // It is not a short range, so its chunk comes with it.
            part(&weir, &body, first, BLOCK);
        }
        settle(&weir);
        restart(&mut weir, signal);
        for first in [2 * MIB, 0, 3 * MIB - 1000, 500_000] {
            let found = part(&weir, &body, first, 1000);
            assert!(found.is_hit(), "{signal} {first}: {}", found.cache_status());
        }
        assert_eq!(origin.total(), 2, "{signal}: {:?}", asked(&origin));
        part(&weir, &body, MIB + 300_000, BLOCK);
        assert_eq!(asked(&origin)[2..], ["bytes=1310720-2097151"], "{signal}");
        settle(&weir);
        restart(&mut weir, signal);
        assert!(part(&weir, &body, MIB + 300_000, 1000).is_hit());
        assert!(weir.get("/x").body == body);
        assert_eq!(asked(&origin)[3..], ["bytes=1048576-1310719", "bytes=3145728-4000122"], "{signal}");
    }
}

#[test]
fn ranges_of_more_than_memory_holds_are_right() {
    const OBJECTS: u64 = 4;
    let origin = Origin::start();
    let bodies: Vec<Vec<u8>> = (0..OBJECTS).map(|number| pattern(number + 10, 12_000_000)).collect();
    for (number, body) in bodies.iter().enumerate() {
        origin.put(&format!("/{number}"), tagged(body, &format!("\"{number}\"")));
    }
    let mut weir = with_volume(&origin, "16MiB").start();
    for round in 0..2 {
        std::thread::scope(|scope| {
            for user in 0..6 {
                let (weir, bodies) = (&weir, &bodies);
                scope.spawn(move || {
                    let mut random = Random::new(round * 100 + user);
                    for _ in 0..60 {
                        let number = random.below(OBJECTS) as usize;
                        let body = &bodies[number];
                        let first = random.below(body.len() as u64 - 1) as usize;
                        let count = (1 + random.below(800_000) as usize).min(body.len() - first);
                        let found = ranged(weir, &format!("/{number}"), first, count);
                        assert_eq!(found.status(), 206, "{:?}", found.head);
                        assert!(found.body == body[first..first + count], "{number} {first} {count}");
                    }
                });
            }
        });
        for (number, body) in bodies.iter().enumerate() {
            assert!(weir.get(&format!("/{number}")).body == *body);
        }
        settle(&weir);
        restart(&mut weir, if round == 0 { "KILL" } else { "TERM" });
    }
    let before = origin.total();
    for (number, body) in bodies.iter().enumerate() {
        assert!(ranged(&weir, &format!("/{number}"), 6_000_000, 1000).body == body[6_000_000..6_001_000]);
    }
    assert_eq!(origin.total(), before, "what was on the volume was fetched again");
}

/// Bodies beyond half of memory, more of them than the volume holds: all the time something leaves it while
/// it is read. The origin has everything, so nobody's body is cut.
#[test]
fn no_body_is_cut_where_memory_and_volume_are_short() {
    const BODY_BYTES: usize = 20_000_000;
    const BODIES: usize = 6;
    let origin = Origin::start();
    let bodies: Vec<Vec<u8>> = (0..BODIES).map(|number| pattern(number as u64, BODY_BYTES)).collect();
    for (number, body) in bodies.iter().enumerate() {
        origin.put(&format!("/{number}"), tagged(body, &format!("\"{number}\"")));
    }
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"64MiB\"";
    let weir = server(&[&origin]).more(&format!("[cache]\nmemory = \"16MiB\"\n{volume}")).start();
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (weir, bodies) = (&weir, &bodies);
            scope.spawn(move || {
                for turn in 0..8 {
                    let number = (client * 5 + turn * (client + 1)) % BODIES;
                    let found = weir.get(&format!("/{number}"));
                    let came = found.body.len();
                    assert!(found.body == bodies[number], "{number}: {came} bytes: {:?}", found.head);
                }
            });
        }
    });
    // What has left the volume since it was loaded is no hit, and nobody says so.
    for number in 0..BODIES {
        let target = format!("/{number}");
        let explained = weir.command(&["explain", &format!("http://{}{target}", weir.addr())]).stdout;
        let found = weir.get(&target);
        let status = found.header("cache-status").unwrap();
        let verdict = explained.lines().find(|line| line.contains("verdict")).unwrap();
        assert!(!verdict.contains(" hit") || status.contains("; hit"), "{explained}\n{status}");
    }
}
