//! Weir is killed, or its drive's power cut, in the middle of fills, evictions and purges.

use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use weir_testkit::{Drive, Origin, Random, Weir};

use super::stock::{KILLED, Kept, Stock, WELL};
use crate::server::server;

/// The lengths of the objects: from one block to several extents.
const LENGTHS: [usize; 12] =
    [10, 300, 900, 2000, 5000, 15_000, 30_000, 64_000, 70_000, 200_000, 400_000, 3_000_000];
const ALLOWED: &str = "purge = { allow = [\"127.0.0.0/8\"] }";
/// A volume that evicts all the time, in bytes.
const CROWDED: usize = 32 << 20;
/// A volume that never has to evict, in bytes.
const ROOMY: usize = 1 << 30;

/// How often: a variable of the environment, or a few times.
fn times(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// A Weir with a volume of `size` bytes on a drive. If the volume evicts, memory does as well.
fn weir_on(origin: &Origin, drive: &Path, size: usize) -> Weir {
    let drive = drive.display();
    let memory = if size == CROWDED { "8MiB" } else { "64MiB" };
    server(&[origin])
        .site(ALLOWED)
        .more(&format!(
            "[cache]\nmemory = \"{memory}\"\n[[cache.volume]]\npath = \"{drive}/volume\"\n\
            size = \"{size}B\"\n\
             [state]\npath = \"{drive}/state\"\n"
        ))
        .start()
}

/// Runs clients against Weir until `end` has ended it.
fn under_load(weir: &Weir, state: &Path, stock: &Stock, seed: u64, end: impl FnOnce(&AtomicU8)) {
    let stage = AtomicU8::new(WELL);
    let state = state.display().to_string();
    let purge = |tag: &str| weir.command(&["purge", "--tag", tag, "--state", &state]).code == Some(0);
    std::thread::scope(|scope| {
        for client in 0..3 {
            let (stage, purge) = (&stage, &purge);
            scope.spawn(move || stock.load(weir, stage, purge, seed ^ client));
        }
        let _ended = Ended(&stage);
        end(&stage);
    });
    let said = weir.stderr();
    assert!(!said.contains("panicked at"), "{said}");
}

/// Ends the clients even if `end` has panicked.
struct Ended<'a>(&'a AtomicU8);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(KILLED, Ordering::SeqCst);
    }
}

/// Kills one Weir this many times.
fn kill_again_and_again(rounds: usize, seed: u64, drive: &Path, size: usize) -> Kept {
    let stock = Stock::new(&LENGTHS, 144);
    let origin = stock.origin();
    let mut weir = weir_on(&origin, drive, size);
    let mut random = Random::new(seed);
    let mut all = Kept::default();
    for round in 0..rounds {
        // Some live long enough that what they store must be there afterwards.
        let ms = if round % 6 == 1 { 1700 } else { 100 + random.below(500) };
        let mut end = Instant::now();
        under_load(&weir, &drive.join("state"), &stock, random.number(), |stage| {
            std::thread::sleep(Duration::from_millis(ms));
            stage.store(KILLED, Ordering::SeqCst);
            end = Instant::now();
            weir.signal("KILL");
        });
        weir.start_again();
        all += stock.audit(&weir, end, Duration::from_secs(1), size / 3);
    }
    assert!(size == CROWDED || stock.broken() == 0, "{} bodies broke off", stock.broken());
    all
}

#[test]
fn a_kill_loses_nothing_that_was_complete_a_second_before_and_nothing_is_ever_wrong() {
    let kills = times("WEIR_KILLS", 30);
    let folder = crate::server::setup();
    let kept = std::thread::scope(|scope| {
        let threads: Vec<_> = [(1, CROWDED), (2, ROOMY)]
            .into_iter()
            .map(|(seed, size)| {
                let drive = folder.folder().join(seed.to_string());
                std::fs::create_dir_all(&drive).unwrap();
                scope.spawn(move || kill_again_and_again(kills.div_ceil(2), seed, &drive, size))
            })
            .collect();
        let mut all = Kept::default();
        threads.into_iter().for_each(|thread| all += thread.join().unwrap());
        all
    });
    println!("{kills} kills: {kept:?}");
    kept.assert_enough();
}

/// Cuts the power of one drive this many times.
fn cut_again_and_again(rounds: usize, seed: u64, mut drive: Drive, size: usize) -> Kept {
    let stock = Stock::new(&LENGTHS, 144);
    let origin = stock.origin();
    let mut weir = weir_on(&origin, &drive.path(), size);
    let mut random = Random::new(seed);
    let mut all = Kept::default();
    for _ in 0..rounds {
        let mut end = Instant::now();
        let well = AtomicU8::new(WELL);
        (0..stock.count()).for_each(|number| stock.ask(&weir, &well, number));
        under_load(&weir, &drive.path().join("state"), &stock, random.number(), |stage| {
            std::thread::sleep(Duration::from_millis(2000 + random.below(1500)));
            stock.before_power_cut(stage);
            end = Instant::now();
            drive.cut_power();
            // Weir lives on for a while without its drive, and serves.
            std::thread::sleep(Duration::from_millis(random.below(400)));
            stage.store(KILLED, Ordering::SeqCst);
            weir.signal("KILL");
        });
        weir.wait(Duration::from_secs(30)).unwrap();
        drive.unmount();
        drive.mount();
        weir.start_again();
        all += stock.audit(&weir, end, Duration::from_secs(2), size / 3);
    }
    assert!(size == CROWDED || stock.broken() == 0, "{} bodies broke off", stock.broken());
    all
}

#[test]
fn a_power_cut_loses_nothing_that_was_complete_two_seconds_before_and_nothing_is_ever_wrong() {
    let cuts = times("WEIR_POWER_CUTS", 6);
    let sizes = [CROWDED, ROOMY];
    let drives: Vec<Drive> = sizes.iter().map_while(|size| Drive::ext4(2 * *size as u64)).collect();
    if drives.len() < sizes.len() {
        return;
    }
    let kept = std::thread::scope(|scope| {
        let threads: Vec<_> = drives
            .into_iter()
            .zip(sizes)
            .zip(3..)
            .map(|((drive, size), seed)| {
                scope.spawn(move || cut_again_and_again(cuts.div_ceil(2), seed, drive, size))
            })
            .collect();
        let mut all = Kept::default();
        threads.into_iter().for_each(|thread| all += thread.join().unwrap());
        all
    });
    println!("{cuts} power cuts: {kept:?}");
    kept.assert_enough();
}
