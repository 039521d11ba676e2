//! What the RAM tier costs: `find`, a store with and without eviction, bytes of memory an object, and what
//! becomes of the process's memory when bodies come and go. Run with `cargo bench -p weir-store [-- NAME…]`;
//! figures only, no judgement. Names: `find`, `insert`, `memory`, `churn`, `purge`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use weir_policy::{CacheKey, CacheRules, Now, RequestView, ResponseView, Storable, matches, storable};
use weir_store::{Found, Mark, Scope, Store};

const OBJECTS: u64 = 1_000_000;
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let benches: [(&str, fn()); 5] =
        [("find", find), ("insert", insert), ("memory", memory), ("churn", churn), ("purge", purge)];
    for (name, bench) in benches {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            bench();
        }
    }
}

/// `find` in a store of a million objects: at random, and among a thousand hot ones, by one thread and by
/// two.
fn find() {
    let store = Store::new(16 * GIB);
    let proof = proof();
    let body = Bytes::from(vec![7; 1024]);
    let before = resident_bytes();
    let time = timed(|| (0..OBJECTS).for_each(|number| put(&store, &proof, number, &body)));
    row("insert 1 KB, no eviction", nanoseconds(time, OBJECTS), "ns");
    row("memory an object of 1 KB, resident", (resident_bytes() - before) as f64 / OBJECTS as f64, "B");
    row("memory an object of 1 KB, counted", store.usage().used_bytes as f64 / OBJECTS as f64, "B");
    let keys: Vec<CacheKey> = (0..OBJECTS).map(key).collect();
    let headers = HeaderMap::new();
    let look_up = |seed: u64, count: u64, among: u64| {
        let mut random = Random(seed);
        for _ in 0..count {
            let key = &keys[random.below(among) as usize];
            let select = |stored: &weir_policy::Stored| matches(&stored.variant, &headers);
            let found = store.find(key.digest, &key.full, key.site, &select);
            assert!(matches!(black_box(found), Found::Ready(Some(_))));
        }
    };
    for (name, among) in [("1,000,000", OBJECTS), ("1,000", 1000), ("1", 1)] {
        look_up(3, 200_000, among);
        let time = timed(|| look_up(1, 2_000_000, among));
        row(&format!("find, 1 thread, among {name}"), nanoseconds(time, 2_000_000), "ns");
        let time = timed(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| look_up(5, 2_000_000, among));
                look_up(2, 2_000_000, among);
            });
        });
        row(&format!("find, 2 threads at once, among {name}"), nanoseconds(time, 2_000_000), "ns");
    }
    let absent: Vec<CacheKey> = (0..1000).map(|number| key(OBJECTS + number)).collect();
    let time = timed(|| {
        for round in 0..2_000_000 {
            let key = &absent[round % absent.len()];
            black_box(store.find(key.digest, &key.full, key.site, &|_| true));
        }
    });
    row("find, absent", nanoseconds(time, 2_000_000), "ns");
}

/// A purge by tag among a million objects that bear four tags each, and what look-ups cost until they are
/// stamped again.
fn purge() {
    let store = Store::new(16 * GIB);
    let tags = "shop page product-17 lang-en";
    let (proof, body) = (proof_with(&[("surrogate-key", tags)]), Bytes::from_static(b"x"));
    (0..OBJECTS).for_each(|number| put(&store, &proof, number, &body));
    let keys: Vec<CacheKey> = (0..OBJECTS).map(key).collect();
    let look_up = |name: &str| {
        let mut random = Random(7);
        let time = timed(|| {
            for _ in 0..1_000_000 {
                let key = &keys[random.below(OBJECTS) as usize];
                black_box(store.find(key.digest, &key.full, key.site, &|_| true));
            }
        });
        row(&format!("find, {name}"), nanoseconds(time, 1_000_000), "ns");
    };
    let mark = |scope: Scope| {
        let time = timed(|| {
            store.purge(&[Mark::hard(scope)], now(), Box::new(|_| {}));
        });
        row(&format!("purge: {scope:.14?}"), time.as_secs_f64() * 1e6, "us");
    };
    look_up("no mark is newer");
    for number in 0..1000_u64 {
        store.invalidate(Scope::tag(&number.to_le_bytes()), now());
    }
    look_up("after 1,000 purges by other tags");
    for length in [30, 35, 40, 45] {
        let other = "https://www.example.test/images/elsewhere/0123456789";
        store.invalidate(Scope::prefix(0, &other[..length]), now());
    }
    look_up("and by prefixes of 4 lengths");
    let mut steps = 0;
    let time = timed(|| {
        while store.sweep() {
            steps += 1;
        }
    });
    row("sweep of a million: a step", nanoseconds(time, steps.max(1)) / 1e3, "us");
    look_up("swept");
    mark(Scope::tag(b"shop"));
    look_up("all dead by a tag");
    mark(Scope::All);
}

/// A body of 1 KB and of 64 KiB into a full store: each goes in, something goes out.
fn insert() {
    for (name, length, count) in [("1 KB", 1024, 500_000), ("64 KiB", 65_536, 100_000)] {
        let store = Store::new(64 * MIB);
        let (proof, body) = (proof(), Bytes::from(vec![7; length]));
        (0..100_000.min(count)).for_each(|number| put(&store, &proof, number, &body));
        let time = timed(|| (0..count).for_each(|number| put(&store, &proof, OBJECTS + number, &body)));
        row(&format!("insert {name} and evict"), nanoseconds(time, count), "ns");
    }
}

/// Resident memory of the process: bodies of 1 MiB filled to 256 MiB, then dropped.
fn memory() {
    let base = resident_bytes();
    let store = Store::new(300 * MIB);
    let (proof, body) = (proof(), Bytes::from(vec![7; MIB as usize]));
    (0..256).for_each(|number| put(&store, &proof, number, &body));
    row("256 MiB in bodies of 1 MiB: resident", mebibytes(resident_bytes() - base), "MiB");
    drop(store);
    row("  after the drop", mebibytes(resident_bytes().saturating_sub(base)), "MiB");
}

/// Resident memory after bodies of mixed sizes have gone through a store many times, by four threads.
fn churn() {
    let base = resident_bytes();
    let store = Store::new(256 * MIB);
    let mut most = 0;
    for round in 0..8 {
        let time = timed(|| {
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let store = &store;
                    scope.spawn(move || mixed(store, round * 4 + thread, 100 * MIB));
                }
            });
        });
        most = most.max(resident_bytes() - base);
        if round == 0 || round == 7 {
            row("churn, 400 MiB through 256 MiB: time", time.as_secs_f64() * 1e3, "ms");
            row("churn: resident", mebibytes(resident_bytes() - base), "MiB");
            row("churn: counted", mebibytes(store.usage().used_bytes), "MiB");
        }
    }
    row("churn: most resident", mebibytes(most), "MiB");
    drop(store);
    row("  after the drop", mebibytes(resident_bytes().saturating_sub(base)), "MiB");
}

/// Bodies of 200 B to 2 MiB, most of them small, until so many bytes went in.
fn mixed(store: &Store, seed: u64, bytes: u64) {
    let mut random = Random(seed + 1);
    let (proof, all) = (proof(), Bytes::from(vec![7; 2 * MIB as usize]));
    let mut sum = 0;
    while sum < bytes {
        let length = 200 << random.below(14);
        let length = length + random.below(length);
        put(store, &proof, random.below(u64::MAX), &all.slice(..length.min(2 * MIB) as usize));
        sum += length;
    }
}

fn put(store: &Store, proof: &Storable, number: u64, body: &Bytes) {
    let stamp = store.ledger().current();
    let begun = store.begin(proof.clone(), key(number), stamp, Some(body.len() as u64));
    let Ok((_, mut writer)) = begun else { return };
    for start in (0..body.len()).step_by(16_384) {
        let end = body.len().min(start + 16_384);
        if writer.push(body.slice(start..end)).is_err() {
            return;
        }
    }
    assert!(writer.seal().is_ok());
}

fn key(number: u64) -> CacheKey {
    CacheKey::new(Bytes::from(format!("https://www.example.test/images/products/{number}.webp?width=400")))
}

/// A response as they come: ten fields.
fn proof() -> Storable {
    proof_with(&[])
}

/// The same with more.
fn proof_with(more: &[(&'static str, &'static str)]) -> Storable {
    let fields = [
        ("date", "Fri, 20 Nov 2026 10:00:00 GMT"),
        ("content-type", "image/webp"),
        ("content-length", "1024"),
        ("cache-control", "public, max-age=86400"),
        ("etag", "\"65a1b2c3-400\""),
        ("last-modified", "Thu, 19 Nov 2026 10:00:00 GMT"),
        ("server", "example"),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
        ("strict-transport-security", "max-age=31536000"),
    ];
    let headers: HeaderMap = fields
        .into_iter()
        .chain(more.iter().copied())
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    let request = HeaderMap::new();
    let view = RequestView {
        method: &Method::GET,
        scheme: "https",
        host: "www.example.test",
        path_and_query: "/",
        headers: &request,
        has_body: false,
        is_trusted: false,
    };
    let now = now();
    match storable(&view, &ResponseView::new(StatusCode::OK, &headers, now, now), &CacheRules::default()) {
        Ok(proof) => proof,
        Err(why) => panic!("not storable: {why:?}"),
    }
}

#[allow(clippy::disallowed_methods)]
fn now() -> Now {
    Now { mono: Instant::now(), wall: std::time::SystemTime::now() }
}

#[allow(clippy::disallowed_methods)]
fn timed(act: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    act();
    begin.elapsed()
}

fn nanoseconds(time: Duration, count: u64) -> f64 {
    time.as_secs_f64() * 1e9 / count as f64
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}

/// The resident set of this process, in bytes.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
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
