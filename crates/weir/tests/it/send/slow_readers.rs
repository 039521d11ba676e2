//! Slow readers hold the memory of their bodies. Others are served all the same.

use weir_testkit::{Client, Gate, Origin, Resource, pattern, until};

use crate::server::server;

const SLOW: usize = 16;
/// Each takes less than half of the memory, and all together far more than all of it.
const LARGE: usize = 14 << 20;
const SMALL: usize = 300_000;

#[test]
fn slow_readers_of_large_bodies_stop_no_other_fills() {
    let origin = Origin::start();
    let large = |number: usize| pattern(number as u64, LARGE);
    for number in 0..=SLOW {
        origin.put(&format!("/{number}"), Resource::fresh(large(number)).etag("\"1\"").ranges());
    }
    let small = |number: usize| pattern(100 + number as u64, SMALL);
    for number in 0..8 {
        origin.put(&format!("/small/{number}"), Resource::fresh(small(number)).etag("\"1\""));
    }
    let weir = server(&[&origin]).more("[cache]\nmemory = \"32MiB\"").start();
    let mut slow: Vec<Client> = Vec::new();
    for number in 0..SLOW {
        let mut client = weir.client();
        client.send_get("localhost", &format!("/{number}"), &[]);
        client.recv_head_only().unwrap();
        slow.push(client);
    }
    until("all have been asked for", || origin.total() >= SLOW);
    // Nothing moves any more: the memory belongs to clients that do not read.
    std::thread::sleep(std::time::Duration::from_secs(1));
    for number in 0..8 {
        let found = weir.get(&format!("/small/{number}"));
        assert!(found.status() == 200 && found.body == small(number), "{number}: {:?}", found.head);
    }
    let found = weir.get(&format!("/{SLOW}"));
    assert!(found.status() == 200 && found.body == large(SLOW), "{:?}", found.head);
    let part = weir.get_with("/0", &[("Range", "bytes=13000000-13000009")]);
    assert!(part.status() == 206 && part.body == large(0)[13_000_000..13_000_010], "{:?}", part.head);
    // What they get, however late, is right as far as it goes.
    for (number, client) in slow.iter_mut().enumerate().take(4) {
        let (body, mut got) = (large(number), Vec::new());
        while got.len() < LARGE {
            let piece = client.read_some();
            if piece.is_empty() {
                break;
            }
            got.extend(piece);
        }
        assert!(body.starts_with(&got), "{number}: other bytes");
    }
    drop(slow);
    until("there is memory again", || {
        weir.get("/small/0");
        weir.get("/small/0").is_hit()
    });
}

#[test]
fn sixteen_slow_readers_hold_up_no_other_client() {
    const FILM: usize = 20_000_000;
    const OTHER: usize = 5_000_000;
    let origin = Origin::start();
    let film = pattern(1, FILM);
    for number in 0..SLOW {
        origin.put(&format!("/film/{number}"), Resource::fresh(film.clone()).etag("\"1\""));
        origin.put(&format!("/other/{number}"), Resource::fresh(pattern(200 + number as u64, OTHER)));
    }
    let sizes = |number: usize| 3000 + 4000 * (number % 16);
    for number in 0..64 {
        let body = pattern(300 + number as u64, sizes(number));
        origin.put(&format!("/tiny/{number}"), Resource::fresh(body));
    }
    // A client that reads nothing is not cut before the end of this.
    let limits = "[limits]\nsend_stall = \"10m\"\n[cache]\nmemory = \"64MiB\"";
    let weir = server(&[&origin]).more(limits).start();
    let mut slow: Vec<Client> = Vec::new();
    for number in 0..SLOW {
        let mut client = weir.client();
        client.send_get("localhost", &format!("/film/{number}"), &[]);
        client.recv_head_only().unwrap();
        slow.push(client);
    }
    until("all have been asked for", || origin.total() >= SLOW);
    std::thread::sleep(std::time::Duration::from_secs(1));
    std::thread::scope(|scope| {
        for number in 0..SLOW {
            let weir = &weir;
            scope.spawn(move || {
                let found = weir.get(&format!("/other/{number}"));
                let is_whole = found.status() == 200 && found.body == pattern(200 + number as u64, OTHER);
                assert!(is_whole, "{number}: {:?} and {} bytes", found.head, found.body.len());
            });
            scope.spawn(move || {
                for number in number * 4..number * 4 + 4 {
                    let found = weir.get(&format!("/tiny/{number}"));
                    let body = pattern(300 + number as u64, sizes(number));
                    assert!(found.status() == 200 && found.body == body, "{number}: {:?}", found.head);
                }
            });
        }
    });
    let is_stored = |number: usize| {
        weir.get(&format!("/tiny/{number}"));
        weir.get(&format!("/tiny/{number}")).is_hit()
    };
    assert!((0..64).all(is_stored), "what is small is stored all the same");
}

#[test]
fn what_the_volume_has_of_long_bodies_that_pause_makes_room_for_more() {
    const BODIES: usize = 20;
    const READERS: usize = 3;
    const LENGTH: usize = 9_000_000;
    let (origin, gate) = (Origin::start(), Gate::new());
    let path = |number: usize| format!("/crowd/{number}");
    for number in 0..BODIES {
        let resource = Resource::fresh(pattern(number as u64, LENGTH)).etag("\"1\"").ranges();
        origin.put(&path(number), resource.body_gate(2_000_000, &gate));
    }
    let more = "[limits]\nsend_stall = \"10m\"\n\
                [cache]\nmemory = \"16MiB\"\nadmission = \"always\"\n\
                [[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"1GiB\"";
    let weir = server(&[&origin]).more(more).start();
    // Each is longer than half of the memory. What has come of all is more than all of it.
    let mut readers: Vec<Client> = Vec::new();
    for number in 0..BODIES * READERS {
        let mut client = weir.client();
        client.send_get("localhost", &path(number % BODIES), &[]);
        client.recv_head_only().unwrap();
        readers.push(client);
    }
    gate.open();
    for number in 0..BODIES {
        let found = weir.get(&path(number));
        assert!(found.status() == 200 && found.body == pattern(number as u64, LENGTH), "{number}");
        assert_eq!(origin.count(&path(number)), 1, "{number}");
    }
}
