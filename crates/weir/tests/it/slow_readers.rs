//! Readers who take their time hold the memory that their bodies lie in: others are served all the same.

use weir_testkit::{Client, Origin, Resource, pattern, until};

use crate::house::house;

const SLOW: usize = 16;
/// Each less than half of the memory, together far more than all of it.
const LARGE: usize = 14 << 20;
const SMALL: usize = 300_000;

#[test]
fn slow_readers_of_large_bodies_stop_nobody_elses_fills() {
    let origin = Origin::start();
    let large = |number: usize| pattern(number as u64, LARGE);
    for number in 0..=SLOW {
        origin.put(&format!("/{number}"), Resource::fresh(large(number)).etag("\"1\"").ranges());
    }
    let small = |number: usize| pattern(100 + number as u64, SMALL);
    for number in 0..8 {
        origin.put(&format!("/small/{number}"), Resource::fresh(small(number)).etag("\"1\""));
    }
    let weir = house(&[&origin]).more("[cache]\nmemory = \"32MiB\"").start();
    let mut slow: Vec<Client> = Vec::new();
    for number in 0..SLOW {
        let mut client = weir.client();
        client.send_get("localhost", &format!("/{number}"), &[]);
        client.recv_head_only().unwrap();
        slow.push(client);
    }
    until("all have been asked for", || origin.total() >= SLOW);
    // Nothing moves any more: what memory there is belongs to those who do not read.
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
