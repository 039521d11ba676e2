//! What rows in RocksDB cost: CPU a row and bytes written an object while a million objects come and go, at
//! full speed and at a rate; how much of a core RocksDB's threads take in any 100 ms; searching. On the file
//! system of the temporary folder. Run `crates/weir-rocks/with-library cargo bench -p weir-rocks --features
//! rocksdb [-- NAME…]`; names: `flood`, `rate=OBJECTS_A_SECOND`. It prints figures and judges nothing.
//! `WRITE_MB`, `PERMILLE` and `MEMORY_MB` in the environment change the settings, `SYNC_MS` (30,000) how
//! often rows are made durable, `OBJECTS` how many are put.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_rocks::{Settings, open};
use weir_volume::catalogue::{Change, Rows, Wanted};

/// Objects that are put, with two rows each. The younger half is held at a time; the segments of older ones
/// are dropped.
const OBJECTS: u64 = 1_000_000;
/// Objects of a segment.
const SEGMENT: u64 = 10_000;
/// Rows in a batch.
const BATCH: usize = 256;
/// The window over which the CPU of RocksDB's threads is taken.
const WINDOW: Duration = Duration::from_millis(100);

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with("--")).collect();
    let names = if names.is_empty() { vec!["flood".to_owned(), "rate=5000".to_owned()] } else { names };
    for name in names {
        let rate = name.strip_prefix("rate=").map(|rate| rate.parse().unwrap());
        println!("{name}");
        put(rate);
    }
}

/// Puts a million objects, at a rate or as fast as possible.
fn put(rate: Option<u64>) {
    let objects = number("OBJECTS").unwrap_or(OBJECTS);
    let folder = Folder::new();
    let oldest = Arc::new(AtomicU64::new(0));
    let rows = open(&folder.0, &settings(), wanted(oldest.clone())).unwrap();
    let (watch, begin, before) = (Watch::start(), Instant::now(), process_cpu());
    let sync_every = Duration::from_millis(number("SYNC_MS").unwrap_or(30_000));
    let (mut synced, mut syncs, mut tails, mut memory) = (begin, 0_u64, Vec::new(), 0);
    let (mut batch, mut put_cpu) = (Vec::new(), Duration::ZERO);
    for object in 0..objects {
        if object % SEGMENT == 0 {
            oldest.store(object.saturating_sub(objects / 2) / SEGMENT, Ordering::Relaxed);
            memory = memory.max(rows.usage().memory_bytes);
        }
        batch.extend(rows_of(object));
        if batch.len() < BATCH && object + 1 < objects {
            continue;
        }
        if let Some(rate) = rate {
            let due = Duration::from_micros(object * 1_000_000 / rate);
            thread::sleep(due.saturating_sub(begin.elapsed()));
        }
        let (started, own) = (Instant::now(), thread_cpu());
        let changes: Vec<Change<'_>> = batch.iter().map(|(key, value)| Change::Put { key, value }).collect();
        rows.apply(&changes).unwrap();
        put_cpu += thread_cpu() - own;
        tails.push(started.elapsed());
        if synced.elapsed() >= sync_every {
            rows.sync().unwrap();
            (synced, syncs) = (Instant::now(), syncs + 1);
        }
        batch.clear();
    }
    rows.sync().unwrap();
    let (took, all_cpu) = (begin.elapsed(), process_cpu() - before);
    let shares = watch.stop();
    tails.sort_unstable();
    row("rate", objects as f64 / took.as_secs_f64(), "objects/s");
    row("CPU of the thread that puts", micros(put_cpu) / (objects * 2) as f64, "µs a row");
    row("CPU of all threads", micros(all_cpu) / (objects * 2) as f64, "µs a row");
    row("a batch of 256, p99", micros(tails[tails.len() * 99 / 100]) / 1e3, "ms");
    row("a batch of 256, longest", micros(*tails.last().unwrap()) / 1e3, "ms");
    row("syncs", syncs as f64, "");
    tell(&*rows, shares, memory, objects);
    search(&*rows);
    let closing = Instant::now();
    drop(rows);
    row("close", micros(closing.elapsed()) / 1e3, "ms");
    let opening = Instant::now();
    drop(open(&folder.0, &settings(), wanted(oldest)).unwrap());
    row("open and close", micros(opening.elapsed()) / 1e3, "ms");
}

fn tell(rows: &dyn Rows, mut shares: Vec<f64>, memory: u64, objects: u64) {
    let usage = rows.usage();
    row("written", usage.written_bytes as f64 / objects as f64, "B an object");
    row("on the drive", usage.disk_bytes as f64 / (objects / 2) as f64, "B an object held");
    row("memory, most", memory as f64 / 1e6, "MB");
    let average = shares.iter().sum::<f64>() / shares.len() as f64;
    shares.sort_unstable_by(f64::total_cmp);
    row("RocksDB's threads, average", average, "cores");
    for (name, permille) in [("half", 500), ("99 %", 990), ("99.9 %", 999)] {
        row(&format!("of 100 ms windows {name} below"), shares[shares.len() * permille / 1000], "cores");
    }
    row("the busiest 100 ms", *shares.last().unwrap(), "cores");
}

fn search(rows: &dyn Rows) {
    let (begin, before) = (Instant::now(), thread_cpu());
    let mut found = 0_u64;
    rows.scan(b"", &mut |_, _| {
        found += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    row("rows found, wanted or not left yet", found as f64, "");
    row("all of them", begin.elapsed().as_secs_f64(), "s");
    row("CPU of a scan", micros(thread_cpu() - before) / found as f64, "µs a row");
    let begin = Instant::now();
    for site in 0..100 {
        let mut left = 20;
        rows.scan(&[&[1], &(site % 50_u64).to_be_bytes()[..]].concat(), &mut |_, _| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    }
    row("twenty rows from somewhere", micros(begin.elapsed()) / 100.0, "µs");
}

/// The rows of an object with one tag, as the catalogue makes them: one by its site and URL, one by the tag,
/// each with the object's number. The value has the object's segment, its digest and its stamp.
fn rows_of(object: u64) -> [(Vec<u8>, Vec<u8>); 2] {
    let mixed = object.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let url = format!(
        "https://www.site-{:02}.example/catalogue/section-{:03}/articles/2026/11/item-{:016x}.html\
         ?page={}&sort=price",
        mixed % 50,
        mixed / 50 % 400,
        mixed,
        mixed % 9,
    );
    let (site, tag) = (mixed % 50, mixed / 50 % 5000 * 0x9e37_79b9_7f4a_7c15);
    let value: Vec<u8> =
        [(object / SEGMENT).to_be_bytes(), mixed.to_be_bytes(), object.to_be_bytes()].concat();
    let key = [&[1], &site.to_be_bytes()[..], url.as_bytes(), &object.to_be_bytes()].concat();
    let tagged = [&[2], &tag.to_be_bytes()[..], &object.to_be_bytes()].concat();
    [(key, value.clone()), (tagged, value)]
}

fn wanted(oldest: Arc<AtomicU64>) -> Wanted {
    Arc::new(move |_, value| {
        let segment = value.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        segment >= oldest.load(Ordering::Relaxed)
    })
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.write_bytes_per_second =
        number("WRITE_MB").map_or(settings.write_bytes_per_second, |mb| mb << 20);
    settings.compaction_permille =
        number("PERMILLE").map_or(settings.compaction_permille, |share| share as u32);
    settings.memory_bytes = number("MEMORY_MB").map_or(settings.memory_bytes, |mb| (mb as usize) << 20);
    settings
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// Samples the CPU time of RocksDB's threads.
struct Watch {
    ended: Arc<AtomicBool>,
    thread: thread::JoinHandle<Vec<f64>>,
}

impl Watch {
    fn start() -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let until = ended.clone();
        let thread = thread::spawn(move || {
            let (mut shares, mut at, mut cpu) = (Vec::new(), Instant::now(), rocks_cpu());
            while !until.load(Ordering::Relaxed) {
                thread::sleep(WINDOW.saturating_sub(at.elapsed()));
                let (now, spent) = (Instant::now(), rocks_cpu());
                shares.push((spent - cpu).as_secs_f64() / (now - at).as_secs_f64());
                (at, cpu) = (now, spent);
            }
            shares
        });
        Self { ended, thread }
    }

    /// The cores in use in each window.
    fn stop(self) -> Vec<f64> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// The CPU time of RocksDB's threads so far.
fn rocks_cpu() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(|thread| thread.path());
    let rocks = threads.filter(|thread| {
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.starts_with("rocksdb"))
    });
    rocks.map(|thread| on_cpu(&thread.join("schedstat"))).sum()
}

fn thread_cpu() -> Duration {
    on_cpu(&PathBuf::from("/proc/thread-self/schedstat"))
}

fn process_cpu() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    threads.map(|thread| on_cpu(&thread.path().join("schedstat"))).sum()
}

/// The first number of a thread's `schedstat`: the nanoseconds that it ran.
fn on_cpu(schedstat: &std::path::Path) -> Duration {
    let text = std::fs::read_to_string(schedstat).unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn row(name: &str, value: f64, unit: &str) {
    println!("  {name:<44} {value:>12.2} {unit}");
}

/// A folder that is removed with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("weir-rocks-bench-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
