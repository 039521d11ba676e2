//! Each eviction is reported once, nothing else, and nothing is read for it while nobody listens.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::power::act;
use super::world::{Crash, Random, World, owner_of, settings};
use crate::eviction::{Eviction, EvictionListener};
use crate::testing::samples;
use crate::testing::{CrashDisk, Fault};
use crate::write::storing::End;

const KIB: u64 = 1 << 10;
const SEGMENT: u64 = 128 * KIB;

/// Notes what is reported.
#[derive(Debug, Default)]
struct Listener {
    is_deaf: AtomicBool,
    /// The keys on the volume, with the bytes of their bodies and why they were evicted.
    reported: Mutex<Vec<(Vec<u8>, u64, Eviction)>>,
    unreported: AtomicU64,
}

impl EvictionListener for Listener {
    fn is_listening(&self) -> bool {
        !self.is_deaf.load(Ordering::Relaxed)
    }

    fn evicted(&self, on_volume: &[u8], bytes: u64, why: Eviction) {
        self.reported.lock().unwrap().push((on_volume.to_vec(), bytes, why));
    }

    fn missed(&self, count: u64) {
        self.unreported.fetch_add(count, Ordering::Relaxed);
    }
}

impl Listener {
    fn unreported(&self) -> u64 {
        self.unreported.load(Ordering::Relaxed)
    }

    /// How many evictions were reported for a reason.
    fn count(&self, why: Eviction) -> u64 {
        self.reported.lock().unwrap().iter().filter(|(.., own)| *own == why).count() as u64
    }

    /// The reported keys with the bytes of their bodies, each once.
    fn reported(&self) -> BTreeMap<Vec<u8>, u64> {
        let reported = self.reported.lock().unwrap();
        let keys: BTreeMap<Vec<u8>, u64> =
            reported.iter().map(|(key, bytes, _)| (key.clone(), *bytes)).collect();
        assert_eq!(keys.len(), reported.len(), "something is reported twice");
        keys
    }
}

fn listened_to(seed: u64, size_bytes: u64, segment_bytes: u64) -> (World, Arc<Listener>) {
    let listener = Arc::new(Listener::default());
    let mut settings = settings(size_bytes, segment_bytes);
    settings.listener = Arc::clone(&listener) as Arc<dyn EvictionListener>;
    (World::new(CrashDisk::new(seed), settings).unwrap(), listener)
}

/// The keys and lengths of those objects that are not found any more. Each object has a key of its own.
fn gone(world: &World, but: &[u64]) -> BTreeMap<Vec<u8>, u64> {
    let is_gone = |object: &&u64| !but.contains(object) && world.find(**object).is_none();
    let of =
        |object: &u64| (samples::key(world.objects[object].key).full.to_vec(), world.objects[object].length);
    world.objects.keys().filter(is_gone).map(of).collect()
}

#[test]
fn every_eviction_is_reported_once() {
    let (mut world, listener) = listened_to(1, 2048 * KIB, SEGMENT);
    let mut random = Random(1);
    let mut removed = Vec::new();
    for key in 0..1500 {
        let object = world.store(key, random.below(6000));
        match key % 7 {
            0 => world.note_uses(object, 1 + key % 3),
            1 => world.refresh(object),
            2 => {
                removed.push(object);
                world.remove(object);
            }
            _ => {}
        }
        // So that a removal comes between two steps.
        world.nudge(Duration::from_millis(10));
        let old = world.objects.keys().nth_back(300 - key as usize % 100).copied();
        if let Some(old) = old.filter(|_| key % 11 == 0)
            && world.find(old).is_some()
        {
            removed.push(old);
            world.remove(old);
        }
    }
    world.pass(Duration::from_millis(10));
    let usage = world.shared.usage();
    assert!(usage.segments_dropped > 20 && usage.reinserted > 20, "{usage:?}");
    let reported = listener.reported();
    let gone_then = gone(&world, &removed);
    assert!(reported.keys().eq(gone_then.keys()), "{} of {} are reported", reported.len(), gone_then.len());
    // The body of what was refreshed may have gone before its head.
    let as_stored = gone_then.iter().filter(|(key, bytes)| reported[*key] == **bytes).count();
    assert!(
        as_stored >= reported.len() * 6 / 7 && reported.iter().all(|(key, bytes)| *bytes <= gone_then[key])
    );
    assert_eq!((reported.len() as u64, listener.unreported()), (usage.evicted, 0));
    assert_eq!(listener.count(Eviction::Room), usage.evicted);
    world.assert_stocks();
    world.sync();
    // What was reported does not come back.
    let world = world.reopen(Crash::Power);
    assert!(reported.keys().eq(gone(&world, &removed).keys()));
}

#[test]
fn a_partial_object_is_reported_with_the_bytes_it_held() {
    let (mut world, listener) = listened_to(1, 2048 * KIB, SEGMENT);
    let part = world.begin(1, 90_000, true);
    world.push(part, 0, 30_000);
    world.end(part, End::Rest);
    for key in 10..400 {
        world.store(key, 9000);
        world.pass(Duration::from_millis(10));
    }
    assert!(world.find(part).is_none());
    assert_eq!(listener.reported()[&samples::key(1).full.to_vec()], 30_000);
}

#[test]
fn evictions_for_a_quota_are_reported_as_such() {
    let (mut world, listener) = listened_to(1, 2048 * KIB, SEGMENT);
    let owner = owner_of(&samples::key(3).full);
    world.shared.quotas.store(Arc::new(HashMap::from([(owner, 200_000)])));
    for key in 0..900 {
        let object = world.store(key, 4000);
        if key % 5 == 0 {
            world.note_uses(object, 2);
        }
        world.pass(Duration::from_millis(10));
    }
    let usage = world.shared.usage();
    assert!(usage.over_quota > 50 && usage.evicted > 50, "{usage:?}");
    assert!(listener.reported() == gone(&world, &[]));
    assert_eq!(listener.count(Eviction::Room), usage.evicted);
    assert_eq!(listener.count(Eviction::Quota), usage.over_quota);
    let of_site = |(key, _, why): &(Vec<u8>, u64, Eviction)| *why == Eviction::Room || owner_of(key) == owner;
    assert!(listener.reported.lock().unwrap().iter().all(of_site));
}

#[test]
fn evictions_for_a_smaller_ceiling_are_reported() {
    let (mut world, listener) = listened_to(1, 4096 * KIB, SEGMENT);
    for key in 0..300 {
        world.store(key, 9000);
        world.pass(Duration::from_millis(10));
    }
    assert_eq!(listener.reported().len(), 0, "there was room");
    world.shared.size_bytes.store(2048 * KIB, Ordering::Release);
    world.pass(Duration::from_millis(10));
    let reported = listener.reported();
    assert!(reported.len() > 50 && reported == gone(&world, &[]), "{} are reported", reported.len());
}

/// If a store needs the room at once, evictions that cannot be read in a short time are counted instead.
#[test]
fn evictions_that_cannot_be_read_in_time_are_counted() {
    let (mut world, listener) = listened_to(1, 4096 * KIB, 1024 * KIB);
    for key in 0..16_000 {
        world.store(key, 8);
    }
    let usage = world.shared.usage();
    assert!(usage.segments_dropped > 1, "{usage:?}");
    let reported = listener.reported().len() as u64;
    assert_eq!(reported + listener.unreported(), usage.evicted);
    assert!(
        reported >= usage.segments_dropped * 1000 && listener.unreported() > 1000,
        "{reported} of {usage:?}"
    );
}

#[test]
fn nothing_is_read_while_nobody_listens() {
    let fill = |is_deaf: bool| {
        let (mut world, listener) = listened_to(1, 2048 * KIB, SEGMENT);
        listener.is_deaf.store(is_deaf, Ordering::Relaxed);
        for key in 0..300 {
            world.store(key, 9000);
            world.pass(Duration::from_millis(10));
        }
        (world, listener)
    };
    let mut unwatched = World::new(CrashDisk::new(1), settings(2048 * KIB, SEGMENT)).unwrap();
    for key in 0..300 {
        unwatched.store(key, 9000);
        unwatched.pass(Duration::from_millis(10));
    }
    let (deaf, nothing) = fill(true);
    assert_eq!((deaf.disk.operations(), nothing.reported().len()), (unwatched.disk.operations(), 0));
    let (mut world, listener) = fill(false);
    assert!(world.disk.operations() > deaf.disk.operations());
    let before = listener.reported().len();
    // In the middle of a segment.
    for key in 300.. {
        world.store(key, 9000);
        world.nudge(Duration::from_millis(10));
        if listener.reported().len() > before {
            break;
        }
    }
    listener.is_deaf.store(true, Ordering::Relaxed);
    let (reported, evicted) = (listener.reported().len(), world.shared.usage().evicted);
    world.pass(Duration::from_millis(10));
    assert_eq!((listener.reported().len(), listener.unreported()), (reported, 0));
    assert!(world.shared.usage().evicted > evicted, "it was evicted all the same");
}

#[test]
fn an_unreadable_segment_is_counted_and_dropped() {
    for is_flipped in [true, false] {
        let (mut world, listener) = listened_to(1, 2048 * KIB, SEGMENT);
        let first = world.store(0, 3000);
        let number = world.find(first).unwrap().segment();
        if is_flipped {
            let end = world.shared.segments.segment(number).unwrap().end();
            // The key of the first record.
            world.disk.flip(&crate::index::segment::path(number), 64 + 70, 1);
            assert!(end > 134 && world.find(first).is_none());
        }
        let mut key = 1;
        while world.shared.usage().segments_dropped == 0 {
            world.store(key, 9000);
            let has_begun = !listener.reported.lock().unwrap().is_empty();
            if !is_flipped && has_begun && listener.unreported() == 0 {
                world.disk.fail_at(0, Fault::Io);
            }
            world.nudge(Duration::from_millis(1));
            key += 1;
        }
        let (reported, usage) = (listener.reported(), world.shared.usage());
        assert_eq!(reported.len() as u64 + listener.unreported(), usage.evicted);
        assert!(listener.unreported() >= 1, "flipped: {is_flipped}");
        assert!(!is_flipped || listener.unreported() == 1);
        let known: BTreeSet<Vec<u8>> = gone(&world, &[]).into_keys().collect();
        assert!(reported.keys().all(|key| known.contains(key)));
    }
}

/// Whatever else happens, as many evictions are reported as are counted.
#[test]
fn random_courses_report_what_they_count() {
    let mut dropped = 0;
    for seed in 0..40 {
        let mut random = Random(seed);
        let (mut world, listener) = listened_to(seed, 2048 * KIB, SEGMENT);
        let mut open = Vec::new();
        for step in 0..200 {
            act(&mut world, &mut random, &mut open);
            world.nudge(Duration::from_millis(1));
            world.assert_stocks();
            if step % 50 == 10 {
                let quotas = HashMap::from([(owner_of(b"0"), random.below(400_000))]);
                world.shared.quotas.store(Arc::new(quotas));
            }
        }
        world.pass(Duration::from_secs(1));
        let usage = world.shared.usage();
        assert_eq!(listener.unreported(), 0, "seed {seed}");
        let reported = (listener.count(Eviction::Room), listener.count(Eviction::Quota));
        assert_eq!(reported, (usage.evicted, usage.over_quota), "seed {seed}");
        dropped += usage.segments_dropped;
        world.sync();
        world.reopen(if seed % 2 == 0 { Crash::Power } else { Crash::Kill }).assert_stocks();
    }
    assert!(dropped > 100, "{dropped}");
}
