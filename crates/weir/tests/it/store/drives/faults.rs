//! A drive that runs full, turns read-only, answers no read, or lies.

use std::sync::atomic::AtomicU8;
use std::time::Duration;

use weir_testkit::{Drive, Origin, Weir, until};

use super::stock::{AILING, Stock, WELL};
use crate::durable::settle;
use crate::server::server;

/// A Weir with a small memory and a volume on a drive. Its state lies elsewhere.
fn weir_on(origin: &Origin, drive: &Drive, memory: &str, size: &str) -> Weir {
    let volume = drive.path().join("volume").display().to_string();
    server(&[origin])
        .more(&format!(
            "[cache]\nmemory = \"{memory}\"\n[[cache.volume]]\npath = \"{volume}\"\nsize = \"{size}\""
        ))
        .start()
}

fn written(weir: &Weir) -> f64 {
    weir.metric("weir_volume_written_body_bytes_total").unwrap()
}

fn is_held(weir: &Weir, number: usize) -> bool {
    let found = weir.get_with(&format!("/{number}"), &[("Cache-Control", "only-if-cached")]);
    found.status() == 200
}

/// Requests some objects one after another. All must come whole.
fn ask_well(stock: &Stock, weir: &Weir, numbers: std::ops::Range<usize>) {
    numbers.for_each(|number| stock.ask(weir, &AtomicU8::new(WELL), number));
    assert_eq!(stock.broken(), 0, "a body broke off");
}

/// As [`ask_well`], but a body may break off: the one that is being read may be dropped for room, or fail.
fn ask_ailing(stock: &Stock, weir: &Weir, numbers: std::ops::Range<usize>) {
    numbers.for_each(|number| stock.ask(weir, &AtomicU8::new(AILING), number));
}

/// Thirty bodies come while a foreign file takes all the room.
fn runs_full(drive: &Drive) {
    let stock = Stock::new(&[1_500_000, 1_500_000, 40_000], 90);
    let origin = stock.origin();
    let mut weir = weir_on(&origin, drive, "16MiB", "1GiB");
    ask_well(&stock, &weir, 0..6);
    settle(&weir);
    std::thread::scope(|scope| {
        for number in 10..40 {
            let (stock, weir) = (&stock, &weir);
            scope.spawn(move || stock.ask(weir, &AtomicU8::new(WELL), number));
        }
        std::thread::sleep(Duration::from_millis(20));
        drive.fill_up_to(0);
    });
    assert_eq!(stock.broken(), 0, "thirty of thirty bodies are whole");
    // No room at all: hits and misses, and no errors.
    ask_ailing(&stock, &weir, 0..60);
    ask_ailing(&stock, &weir, 0..60);
    // A Weir that is started on a full drive serves as well.
    weir.signal("KILL");
    weir.start_again();
    ask_ailing(&stock, &weir, 0..60);
    drive.empty();
    let mut next = 60;
    let before = written(&weir);
    until("the volume is used again", || {
        ask_well(&stock, &weir, next..next + 1);
        next = if next == 79 { 60 } else { next + 1 };
        written(&weir) > before
    });
    settle(&weir);
    ask_well(&stock, &weir, 80..90);
    settle(&weir);
    weir.signal("KILL");
    weir.start_again();
    let kept = (80..90).filter(|number| is_held(&weir, *number)).count();
    assert!(kept >= 5, "{kept} of 10 that were stored when there was room again are there");
    ask_ailing(&stock, &weir, 0..90);
}

#[test]
fn thirty_bodies_come_whole_while_a_drive_in_memory_runs_full() {
    if let Some(drive) = Drive::tmpfs(40 << 20) {
        runs_full(&drive);
    }
}

#[test]
fn thirty_bodies_come_whole_while_an_ext4_runs_full() {
    if let Some(drive) = Drive::ext4(64 << 20) {
        runs_full(&drive);
    }
}

#[test]
fn a_drive_that_turned_read_only_is_still_served_from() {
    let Some(drive) = Drive::ext4(128 << 20) else { return };
    let stock = Stock::new(&[800_000, 30_000, 500, 3_000_000], 80);
    let origin = stock.origin();
    let mut weir = weir_on(&origin, &drive, "4MiB", "100MiB");
    ask_well(&stock, &weir, 0..40);
    settle(&weir);
    let held: Vec<usize> = (0..40).filter(|number| is_held(&weir, *number)).collect();
    assert!(held.len() >= 38, "{held:?}");
    std::thread::scope(|scope| {
        for number in 40..60 {
            let (stock, weir) = (&stock, &weir);
            scope.spawn(move || stock.ask(weir, &AtomicU8::new(WELL), number));
        }
        std::thread::sleep(Duration::from_millis(10));
        drive.turn_read_only();
    });
    for round in 0..2 {
        for number in &held {
            assert!(is_held(&weir, *number), "{number} in round {round}");
        }
        // New objects are passed on, whole.
        ask_well(&stock, &weir, 0..80);
    }
    assert!(std::fs::write(drive.path().join("x"), "x").is_err(), "the drive is read-only");
    weir.signal("TERM");
    assert!(weir.wait(Duration::from_secs(30)).is_some_and(|status| status.success()));
}

#[test]
fn a_drive_that_answers_no_read_costs_hits_and_nothing_else() {
    let Some(drive) = Drive::ext4(160 << 20) else { return };
    let stock = Stock::new(&[800_000, 30_000, 500, 3_000_000, 70_000], 100);
    let origin = stock.origin();
    let weir = weir_on(&origin, &drive, "4MiB", "120MiB");
    // An object that a busy drive left out is stored at its next request.
    until("all is on the volume", || {
        ask_well(&stock, &weir, 0..60);
        weir.metric("weir_volume_objects") >= Some(58.0)
    });
    settle(&weir);
    drive.forget_pages();
    drive.lose_all_behind(24 << 20);
    until("reads fail", || {
        ask_ailing(&stock, &weir, 0..80);
        drive.forget_pages();
        weir.metric("weir_volume_read_errors_total").unwrap() > 0.0
    });
    ask_ailing(&stock, &weir, 0..80);
    // A volume that is given up is not asked again, and nothing breaks off any more.
    until("the volume is left alone, or what failed is gone", || {
        let before = stock.cut();
        ask_ailing(&stock, &weir, 0..100);
        stock.cut() == before
    });
}

#[test]
fn bits_that_flip_below_the_file_system_are_found_and_never_sent() {
    let Some(mut drive) = Drive::ext4(32 << 20) else { return };
    let stock = Stock::new(&[100_000, 150_000, 9000], 24);
    let origin = stock.origin();
    let mut weir = weir_on(&origin, &drive, "16MiB", "24MiB");
    ask_well(&stock, &weir, 0..24);
    settle(&weir);
    let flip = |drive: &Drive, numbers: std::ops::Range<usize>| {
        // Behind the first block of the longer ones.
        let marks: Vec<&[u8]> = numbers.map(|number| stock.body(number, 1)).collect();
        let marks: Vec<&[u8]> = marks.iter().map(|body| &body[body.len() / 8 * 5..][..32]).collect();
        assert_eq!(drive.flip_at(&marks), marks.len(), "all of them are on the device");
    };
    let verify = |weir: &Weir| {
        let output = weir.command(&["verify", "--json"]);
        assert_eq!(output.code, Some(0), "{output:?}");
        let found: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        (found["objects"].as_u64().unwrap(), found["damaged"].as_u64().unwrap())
    };
    // Clients find them; memory holds nothing.
    weir.signal("KILL");
    weir.wait(Duration::from_secs(30)).unwrap();
    drive.unmount();
    flip(&drive, 0..6);
    drive.mount();
    weir.start_again();
    ask_ailing(&stock, &weir, 0..24);
    until("six are found", || weir.metric("weir_volume_damaged_total") == Some(6.0));
    ask_well(&stock, &weir, 0..24);
    // A verification finds them.
    settle(&weir);
    assert_eq!(verify(&weir), (24, 0));
    drive.forget_pages();
    settle(&weir);
    drive.forget_pages();
    flip(&drive, 9..15);
    assert_eq!(verify(&weir), (18, 6));
    assert_eq!(verify(&weir), (18, 0));
    ask_ailing(&stock, &weir, 0..24);
    ask_well(&stock, &weir, 0..24);
}
