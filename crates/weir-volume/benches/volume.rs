//! What a volume costs: look-ups, storing small and large bodies, bytes of memory an object, restarts, reads.
//! On the file system of the temporary folder. Run `cargo bench -p weir-volume --bench volume [-- NAME…]`;
//! names: `million`, `large`. It prints figures and judges nothing.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_policy::CacheKey;
use weir_volume::{Clock, OsDisk, Part, Position, ReadError, Volume, VolumeSettings};

const OBJECTS: u64 = 1_000_000;
const GIB: u64 = 1 << 30;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let benches: [(&str, fn()); 2] = [("million", million), ("large", large)];
    for (name, bench) in benches {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            bench();
        }
    }
}

/// A million objects of 1 KB with heads of 400 bytes.
fn million() {
    let folder = Folder::new();
    let memory = resident_bytes();
    let volume = open(&folder.0, 16 * GIB);
    let (head, body) = (Bytes::from(vec![b'h'; 400]), Bytes::from(vec![7; 1024]));
    let before = cpu();
    let time = timed(|| {
        for number in 0..OBJECTS {
            while volume.store(&key(number), head.clone(), 1, std::slice::from_ref(&body)).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        volume.sync();
    });
    row("store 1 KB: all threads' CPU", nanoseconds(cpu() - before, OBJECTS), "ns");
    row("store 1 KB: rate", OBJECTS as f64 / time.as_secs_f64(), "objects/s");
    let usage = volume.usage();
    assert_eq!(usage.objects, OBJECTS);
    row("index, by its capacities", usage.index_memory_bytes as f64 / OBJECTS as f64, "B an object");
    row(
        "memory grown, resident",
        resident_bytes().saturating_sub(memory) as f64 / OBJECTS as f64,
        "B an object",
    );
    row("written beside the body and its head", beside(&volume) as f64 / OBJECTS as f64, "B an object");
    row("journal and checkpoints", index_bytes(&volume) as f64 / OBJECTS as f64, "B an object");
    let keys: Vec<CacheKey> = (0..OBJECTS + 1000).map(key).collect();
    look_up(&volume, &keys);
    let drop_time = timed(|| drop(volume));
    row("close", drop_time.as_secs_f64() * 1e3, "ms");
    let begin = Instant::now();
    let volume = open(&folder.0, 16 * GIB);
    row("open again", begin.elapsed().as_secs_f64() * 1e3, "ms");
    let candidate = volume.find(keys[5].digest)[0];
    black_box(volume.record(candidate, &keys[5]).unwrap());
    row("open again and the first hit", begin.elapsed().as_secs_f64() * 1e3, "ms");
    drop(volume);
    std::fs::remove_dir_all(folder.0.join("index")).unwrap();
    let begin = Instant::now();
    let volume = open(&folder.0, 16 * GIB);
    row("open without an index", begin.elapsed().as_secs_f64() * 1e3, "ms");
    assert_eq!(volume.usage().objects, OBJECTS);
    let on = || std::ops::ControlFlow::Continue(());
    let verify = timed(|| assert_eq!(volume.verify(&on).unwrap().objects, OBJECTS));
    row("verify", verify.as_secs_f64() * 1e3, "ms");
}

fn look_up(volume: &Volume, keys: &[CacheKey]) {
    const COUNT: u64 = 2_000_000;
    let mut random = Random(1);
    let time = timed(|| {
        for _ in 0..COUNT {
            assert!(!black_box(volume.find(keys[random.below(OBJECTS) as usize].digest)).is_empty());
        }
    });
    row("find, among 1,000,000", nanoseconds(time, COUNT), "ns");
    let time = timed(|| {
        for _ in 0..COUNT {
            black_box(volume.find(keys[(OBJECTS + random.below(1000)) as usize].digest));
        }
    });
    row("find, absent", nanoseconds(time, COUNT), "ns");
    let (mut slow, mut reads) = (0, 0);
    let time = timed(|| {
        for _ in 0..500_000 {
            let key = &keys[random.below(OBJECTS) as usize];
            reads += 1;
            for candidate in volume.find(key.digest) {
                match volume.try_record(candidate, key) {
                    // Two keys in a million share a tag.
                    Ok(None) => {}
                    Ok(Some(record)) => assert!(black_box(record).body().is_some()),
                    Err(ReadError::NotResident) => slow += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    });
    row("find and read 1 KB from the page cache", nanoseconds(time, reads), "ns");
    row("of them not in the page cache", slow as f64, "");
}

/// Bodies of 16 MiB, as they come from an origin in pieces of 64 KiB.
fn large() {
    const LENGTH: u64 = 16 << 20;
    const COUNT: u64 = 200;
    let folder = Folder::new();
    let volume = open(&folder.0, 2 * GIB);
    let piece = Bytes::from(vec![7; 65_536]);
    let before = cpu();
    let time = timed(|| {
        for number in 0..COUNT {
            let put = volume.begin(&key(number), Bytes::from_static(b"head"), 1, Some(LENGTH)).unwrap();
            let mut at = 0;
            while at < LENGTH {
                // The queue never waits, so a sender that is faster than the drive must.
                while volume.usage().queued_bytes > 32 << 20 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                put.push(at, piece.clone()).unwrap();
                at += piece.len() as u64;
            }
            put.finish(LENGTH).unwrap();
        }
        volume.sync();
    });
    let bytes = COUNT * LENGTH;
    row("store 16 MiB: rate, evicting", bytes as f64 / time.as_secs_f64() / 1e6, "MB/s");
    row("store 16 MiB: CPU", (cpu() - before).as_secs_f64() * 1e3 / (bytes as f64 / 1e9), "ms/GB");
    let usage = volume.usage();
    let written = usage.body_bytes + usage.head_bytes + usage.journal_bytes + usage.checkpoint_bytes;
    row("written a byte stored", written as f64 / bytes as f64, "B");
    let last = key(COUNT - 1);
    let record = volume.record(volume.find(last.digest)[0], &last).unwrap().unwrap();
    let before = cpu();
    let time = timed(|| {
        for _ in 0..50 {
            let mut position = Position::default();
            let mut at = 0;
            while let Part::Bytes(bytes) = volume.read(&record, &mut position, at, 262_144).unwrap() {
                at += bytes.bytes().len() as u64;
            }
            assert_eq!(at, LENGTH);
        }
    });
    row("read 16 MiB, checked", 50.0 * LENGTH as f64 / time.as_secs_f64() / 1e6, "MB/s");
    row("read 16 MiB: CPU", (cpu() - before).as_secs_f64() * 1e3 / (50.0 * LENGTH as f64 / 1e9), "ms/GB");
}

fn open(folder: &Path, size_bytes: u64) -> Arc<Volume> {
    let start = Instant::now();
    let settings = VolumeSettings::of(size_bytes, Clock::new(move || start.elapsed()));
    let (volume, _) = Volume::open(Arc::new(OsDisk::take(folder).unwrap()), &settings).unwrap();
    Arc::new(volume)
}

fn beside(volume: &Volume) -> u64 {
    volume.usage().head_bytes - OBJECTS * (400 + key(1).full.len() as u64)
}

fn index_bytes(volume: &Volume) -> u64 {
    let usage = volume.usage();
    usage.journal_bytes + usage.checkpoint_bytes
}

fn key(number: u64) -> CacheKey {
    CacheKey::new(Bytes::from(format!("http://example.test/some/folder/object/{number:08}")))
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        Folder(std::env::temp_dir().join(format!("weir-bench-volume-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn timed(act: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    act();
    begin.elapsed()
}

/// The CPU time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |at: usize| after_name.split_whitespace().nth(at).and_then(|word| word.parse::<u64>().ok());
    // Linux counts hundredths of a second here.
    Duration::from_millis(10 * (ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)))
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn nanoseconds(time: Duration, count: u64) -> f64 {
    time.as_secs_f64() * 1e9 / count as f64
}

fn row(name: &str, value: f64, unit: &str) {
    println!("{name:<48} {value:>12.1} {unit}");
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound
    }
}
