//! A drive that stands still for a while costs no body, and holds no reader back for long.

use std::time::Duration;

use weir_testkit::{Drive, Origin, Resource, Weir, pattern, until};

use crate::server::server;

fn weir_on(origin: &Origin, drive: &Drive, memory: &str) -> Weir {
    let volume = drive.path().join("volume").display().to_string();
    server(&[origin])
        .more(&format!(
            "[cache]\nmemory = \"{memory}\"\n[[cache.volume]]\npath = \"{volume}\"\nsize = \"400MiB\""
        ))
        .start()
}

fn put(origin: &Origin, path: &str, seed: u64, length: usize) -> Vec<u8> {
    let body = pattern(seed, length);
    origin.put(path, Resource::fresh(&body).etag("\"1\""));
    body
}

fn queue_full(weir: &Weir) -> f64 {
    weir.metric("weir_volume_queue_full_total").unwrap()
}

#[test]
fn every_body_is_kept_though_the_drive_stands_still_for_a_while() {
    const COUNT: usize = 34;
    let Some(drive) = Drive::ext4(450 << 20) else { return };
    let origin = Origin::start();
    let bodies: Vec<Vec<u8>> =
        (0..COUNT).map(|number| put(&origin, &format!("/{number}"), number as u64, 1 << 20)).collect();
    let mut weir = weir_on(&origin, &drive, "128MiB");
    put(&origin, "/first", 1000, 1000);
    weir.get("/first");
    until("the volume is used", || weir.metric("weir_volume_objects") >= Some(1.0));
    let frozen = drive.freeze();
    // More than the queue takes: the rest waits in memory, for longer than a busy drive ever needs.
    for (number, body) in bodies.iter().enumerate() {
        assert!(weir.get(&format!("/{number}")).body == *body, "{number}");
    }
    std::thread::sleep(Duration::from_secs(7));
    drop(frozen);
    until("all are on the volume", || weir.metric("weir_volume_objects") >= Some((COUNT + 1) as f64));
    assert_eq!(queue_full(&weir), 0.0);
    weir.restart();
    for (number, body) in bodies.iter().enumerate() {
        let found = weir.get_with(&format!("/{number}"), &[("Cache-Control", "only-if-cached")]);
        assert!(found.status() == 200 && found.body == *body, "{number}");
    }
}

#[test]
fn a_drive_that_stands_still_holds_no_reader_back_for_long() {
    let Some(drive) = Drive::ext4(450 << 20) else { return };
    let origin = Origin::start();
    let large = put(&origin, "/large", 1, 60 << 20);
    let small = put(&origin, "/small", 2, 1 << 20);
    let weir = weir_on(&origin, &drive, "32MiB");
    put(&origin, "/first", 1000, 1000);
    weir.get("/first");
    until("the volume is used", || weir.metric("weir_volume_objects") >= Some(1.0));
    let frozen = drive.freeze();
    // Neither memory nor the queue can take it: it would never end if it went at the drive's pace.
    assert!(weir.get("/large").body == large);
    assert!(weir.get("/small").body == small, "others are not held back either");
    drop(frozen);
    until("the volume is used again", || {
        weir.get("/small").body == small && weir.metric("weir_volume_objects") >= Some(2.0)
    });
}
