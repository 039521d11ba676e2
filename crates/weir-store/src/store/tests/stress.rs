//! Many threads on one small store: no wrong byte, no dead generation found, no ceiling passed, nothing left
//! over.

use super::*;
use crate::Writer;
use http::HeaderValue;
use std::sync::atomic::{AtomicBool, AtomicU64};

const THREADS: u64 = 6;
const STEPS: u64 = 2000;
const KEYS: u64 = 40;
const LIMIT: u64 = 3 << 20;

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

/// The seed of a body is in its head, so that mixed versions show.
fn seed_of(generation: &Generation) -> u64 {
    let head = generation.head();
    let value: &HeaderValue = head.stored.headers.get("etag").unwrap();
    value.to_str().unwrap().trim_matches('"').parse().unwrap()
}

struct Scene {
    store: Store,
    seeds: AtomicU64,
    is_over: AtomicBool,
}

impl Scene {
    fn begin(&self, number: u64, length: Option<u64>) -> Option<(u64, Writer)> {
        let seed = self.seeds.fetch_add(1, Ordering::Relaxed);
        let stamp = self.store.ledger().current();
        let etag = format!("\"{seed}\"");
        let proof = proof(&[], &[("etag", &etag)]);
        let (_, writer) = self.store.begin(proof, key(number), stamp, length).ok()?;
        Some((seed, writer))
    }

    /// Fills a body in pieces; false if there was no memory for it.
    fn fill(&self, random: &mut Random, writer: &mut Writer, seed: u64, length: u64) -> bool {
        while writer.position() < length {
            let at = writer.position();
            let count = (1 + random.below(120_000)).min(length - at);
            if writer.push(body(seed, at, count as usize)).is_err() {
                return false;
            }
        }
        true
    }

    fn write(&self, random: &mut Random) {
        let length = match random.below(20) {
            0 => random.below(LIMIT),
            1..4 => random.below(1000),
            _ => random.below(200_000),
        };
        let known = (random.below(2) == 0).then_some(length);
        let Some((seed, mut writer)) = self.begin(random.below(KEYS), known) else { return };
        if !self.fill(random, &mut writer, seed, length) || random.below(10) == 0 {
            return writer.abandon();
        }
        let generation = Arc::clone(writer.generation());
        writer.seal().unwrap();
        assert!(generation.is_whole() || generation.retirement() == Some(Retirement::Outgrown));
    }

    fn read(&self, random: &mut Random) {
        let number = random.below(KEYS);
        let Some(generation) = find(&self.store, number) else { return };
        let seed = seed_of(&generation);
        // Where the length is not known yet, this may be beyond it.
        let begun = random.below(generation.length().unwrap_or(1000).max(1));
        let mut at = begun;
        loop {
            match generation.read(at, 1 + random.below(90_000) as usize) {
                Read::Piece(bytes) => {
                    assert_eq!(bytes, body(seed, at, bytes.len()), "wrong bytes at {at}");
                    at += bytes.len() as u64;
                }
                Read::NotYet if random.below(4) > 0 => std::thread::yield_now(),
                Read::NotYet | Read::Gone => return,
                Read::End => return assert_eq!(at, generation.length().unwrap().max(begun)),
            }
        }
    }

    fn invalidate(&self, random: &mut Random) {
        let number = random.below(KEYS);
        let mark = self.store.invalidate(url(number), now());
        if let Some(generation) = find(&self.store, number) {
            assert!(generation.stamp() >= mark, "a dead generation was found");
        }
    }

    fn soften(&self, random: &mut Random) {
        let number = random.below(KEYS);
        let scope = crate::samples::url(number);
        let mark = self.store.purge(&[Mark::soft(scope)], now(), Box::new(|_| {})).stamp;
        if let Some(generation) = find(&self.store, number) {
            let is_fresh = weir_policy::freshness(&generation.head().stored, now()).is_fresh();
            assert!(generation.stamp() >= mark || !is_fresh, "a fresh one was found after a soft purge");
        }
    }

    fn freshen(&self, random: &mut Random) {
        let stamp = self.store.ledger().current();
        if let Some(generation) = find(&self.store, random.below(KEYS)) {
            let stored = generation.head().stored.clone();
            self.store.freshen(&generation, stored, stamp);
        }
    }

    fn step(&self, random: &mut Random) {
        match random.below(100) {
            0..30 => self.write(random),
            30..90 => self.read(random),
            90..94 => self.invalidate(random),
            94..96 => self.freshen(random),
            96 => self.soften(random),
            97 => drop(self.store.sweep()),
            98 => drop(find(&self.store, random.below(KEYS)).inspect(|found| self.store.retire(found))),
            _ => drop(self.store.usage()),
        }
        assert!(self.store.usage().used_bytes <= LIMIT);
    }
}

#[test]
fn many_threads_leave_everything_in_order() {
    let settings = Settings { marks_max: 50, window_bytes: 300_000, ..Settings::of(LIMIT) };
    let scene =
        Scene { store: Store::with(settings), seeds: AtomicU64::new(1), is_over: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let scene = &scene;
                scope.spawn(move || {
                    let mut random = Random(0x1234_5678 + thread * 7919);
                    (0..STEPS).for_each(|_| scene.step(&mut random));
                })
            })
            .collect();
        scope.spawn(|| {
            while !scene.is_over.load(Ordering::Relaxed) {
                assert!(scene.store.usage().used_bytes <= LIMIT);
                std::thread::yield_now();
            }
        });
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        scene.is_over.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    let usage = scene.store.usage();
    assert!(usage.evicted > 0 && usage.outgrown > 0 && usage.windows == 0, "{usage:?}");
    let budget = Arc::clone(&scene.store.inside.memory.budget);
    drop(scene);
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn concurrent_fills_of_large_objects_keep_the_ceiling() {
    let store = Store::new(LIMIT);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let length = LIMIT / 2 - 10_000;
                let stamp = store.ledger().current();
                // While the others' fills have all the room, not even a head can be kept.
                let (generation, mut writer) = loop {
                    match store.begin(proof(&[], &[]), key(thread), stamp, Some(length)) {
                        Ok(begun) => break begun,
                        Err(NotAdmitted) => std::thread::yield_now(),
                    }
                };
                let mut at = 0;
                while at < length {
                    let count = 60_000.min(length - at);
                    let mut rest = body(thread, at, count as usize);
                    while let Err(Full { rest: left }) = writer.push(rest) {
                        rest = left;
                        std::thread::yield_now();
                    }
                    at += count;
                    assert!(store.usage().used_bytes <= LIMIT);
                    let Read::Piece(newest) = generation.read(at - 1, 1) else {
                        panic!("the newest byte is readable")
                    };
                    assert_eq!(newest, body(thread, at - 1, 1));
                }
                writer.seal().unwrap();
            });
        }
    });
    let usage = store.usage();
    // What is there at the end, and what had no room, is all.
    assert!(usage.generations + usage.outgrown + usage.evicted >= THREADS, "{usage:?}");
    assert_eq!(usage.windows, 0, "{usage:?}");
}
