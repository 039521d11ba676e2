//! What is removed, replaced or evicted while it is read stays for its readers: until they have it, within
//! bounds, and never as other bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_disk::Room;
use weir_policy::{Interval, Intervals};

use super::power::act;
use super::world::{Crash, Random, World, settings};
use crate::read::known::KnownReader;
use crate::read::reader::{Part, Position, Record, Wait};
use crate::testing::{CrashDisk, Fault, samples};
use crate::write::engine::kept::{KEPT_PART, KEPT_TIME_MAX};
use crate::write::storing::End;

const KIB: u64 = 1 << 10;
const SIZE: u64 = 4 << 20;
const SEGMENT: u64 = 64 * KIB;
/// So long that it lies in several segments, and so short that all of them may be kept.
const LONG: u64 = 300 * KIB;
const SHORT: u64 = 90 * KIB;
const SEEDS: u64 = 6;
const TICK: Duration = Duration::from_millis(500);

fn world(seed: u64) -> World {
    World::new(CrashDisk::new(seed), settings(SIZE, SEGMENT)).unwrap()
}

/// A client that reads an object from its beginning.
struct Client {
    record: Arc<Record>,
    known: KnownReader,
    /// What there was to be read when it began.
    first: Intervals,
    at: u64,
}

impl Client {
    fn of(world: &World, object: u64, client: u64) -> Client {
        let record = Arc::new(world.find(object).unwrap().for_reading());
        let all = Interval { start: 0, end: record.length.unwrap_or(u64::MAX) };
        let mut known = world.shared.readers.begin(object, client, all);
        known.tell(|| Arc::clone(&record));
        let first = world.shared.readable(&record);
        Client { record, known, first, at: 0 }
    }

    fn part(&self, world: &World) -> Part {
        let mut position = Position::default();
        world.shared.read(&self.record, &mut position, self.at, 20_000, Wait::Device).unwrap()
    }

    /// Reads one piece, and compares it. False where there is nothing to be read.
    fn read(&mut self, world: &World) -> bool {
        self.known.moved(self.at);
        let mut part = self.part(world);
        if part == Part::Gap
            && let Some(newest) = world.shared.readers.newest(self.record.number)
        {
            self.record = newest;
            part = self.part(world);
        }
        let Part::Bytes(checked) = part else { return false };
        let bytes = checked.into_bytes();
        assert_eq!(bytes, samples::body(self.record.number, self.at, bytes.len()));
        self.at += bytes.len() as u64;
        true
    }

    /// Reads on to the end. Returns how far it came.
    fn finish(mut self, world: &World) -> u64 {
        while self.read(world) {}
        self.at
    }
}

fn reclaim(world: &mut World) {
    assert!(world.sync());
    world.reclaim();
}

fn kept(world: &World) -> u64 {
    world.shared.usage().kept_bytes
}

fn lost(world: &World) -> u64 {
    world.shared.usage().kept_no_longer
}

/// Stores other objects until the volume has been filled that many times.
fn turn_over(world: &mut World, times: u64) {
    let before = world.shared.usage().body_bytes;
    for key in 1000.. {
        world.store(key, 30_000);
        world.pass(Duration::from_millis(10));
        if world.shared.usage().body_bytes - before > times * SIZE {
            return;
        }
    }
}

#[test]
fn a_reader_has_all_of_a_body_that_is_removed_and_swept() {
    let mut world = world(1);
    let object = world.store(1, LONG);
    let (mut client, mut later) = (Client::of(&world, object, 1), Client::of(&world, object, 2));
    assert!(client.read(&world));
    let segments: Vec<u64> = client.record.runs(|_| true).into_keys().collect();
    assert!(segments.len() > 4, "{segments:?}");
    world.withdraw(object);
    // The open segment is closed.
    world.store(2, 50_000);
    reclaim(&mut world);
    let left = segments.iter().filter(|segment| world.shared.segments.has(**segment)).count();
    assert!(left <= 1, "{left} are not freed");
    assert!(world.find(object).is_none(), "no look-up finds it");
    assert!(world.shared.candidates(world.key_of(object).digest).is_empty());
    assert!(kept(&world) > 200 * KIB && later.read(&world));
    assert!(world.shared.usage().used_bytes >= kept(&world), "what is kept is part of the size");
    assert_eq!(client.finish(&world), LONG);
    world.pass(TICK);
    assert!(kept(&world) > 0, "another one reads");
    assert_eq!(later.finish(&world), LONG);
    world.pass(TICK);
    assert_eq!((kept(&world), lost(&world)), (0, 0));
    let used = world.disk.used_bytes();
    assert!(used < LONG, "their files are gone: {used}");
    world.sync();
    let world = world.reopen(Crash::Power);
    assert!(world.find(object).is_none());
}

#[test]
fn what_was_kept_does_not_come_back_after_a_crash() {
    for crash in [Crash::Kill, Crash::Power] {
        let mut world = world(2);
        let object = world.store(1, LONG);
        let client = Client::of(&world, object, 1);
        world.withdraw(object);
        world.store(2, 50_000);
        reclaim(&mut world);
        assert!(world.sync() && kept(&world) > 0);
        let world = world.reopen(crash);
        assert!(world.find(object).is_none() && kept(&world) == 0);
        drop(client);
    }
}

#[test]
fn a_reader_has_all_of_a_body_that_is_evicted_while_others_are_stored() {
    let mut world = world(3);
    let object = world.store(1, LONG);
    let mut client = Client::of(&world, object, 1);
    assert!(client.read(&world));
    turn_over(&mut world, 3);
    assert!(world.find(object).is_none() && kept(&world) > 200 * KIB);
    world.assert_ceiling();
    // It is written as before.
    let stored = world.store(2, 40_000);
    assert_eq!(world.ended(stored), None);
    assert_eq!((client.finish(&world), lost(&world)), (LONG, 0));
}

#[test]
fn what_a_reader_has_read_is_kept_no_longer() {
    let mut world = world(4);
    let object = world.store(1, LONG);
    let mut client = Client::of(&world, object, 1);
    world.withdraw(object);
    world.store(2, 50_000);
    reclaim(&mut world);
    let all = kept(&world);
    while client.at < LONG / 2 {
        assert!(client.read(&world));
    }
    world.pass(TICK);
    let left = kept(&world);
    assert!(left > 0 && left < all * 2 / 3, "{left} of {all}");
    assert_eq!((client.finish(&world), lost(&world)), (LONG, 0));
}

#[test]
fn a_body_that_is_removed_while_it_is_stored_stays_as_far_as_it_has_come() {
    let mut world = world(5);
    let object = world.begin(1, LONG, true);
    // Nothing of it is written yet, and its reader knows no record.
    let known = world.shared.readers.begin(object, 1, Interval { start: 0, end: LONG });
    world.push(object, 0, 200_000);
    world.pass(Duration::from_millis(300));
    world.push(object, 200_000, 30_000);
    let record = world.withdraw(object).unwrap();
    world.store(2, 50_000);
    reclaim(&mut world);
    assert!(kept(&world) > 0);
    let client = Client { record, known, first: Intervals::new(), at: 0 };
    assert_eq!(client.finish(&world), 230_000);
}

#[test]
fn a_long_body_that_outgrows_its_volume_is_kept_where_its_reader_is() {
    let mut world = world(6);
    let object = world.begin(1, 10 * SIZE, true);
    world.push(object, 0, 200_000);
    world.pass(Duration::from_millis(300));
    let mut client = Client::of(&world, object, 1);
    let mut at = 200_000;
    while at < 2 * SIZE {
        world.push(object, at, 50_000);
        world.pass(Duration::from_millis(300));
        at += 50_000;
    }
    assert!(kept(&world) > 0 && kept(&world) <= SIZE / KEPT_PART);
    // What was published since does not have the beginning any more.
    let record = world.find(object).unwrap();
    assert!(world.shared.held(&record).iter().all(|run| run.start > 0));
    while client.at < 200_000 {
        assert!(client.read(&world), "at {}", client.at);
    }
}

#[test]
fn at_most_a_tenth_is_kept_and_the_rest_is_counted() {
    let mut world = world(7);
    let mut objects: Vec<u64> = (0..4).map(|key| world.store(key, LONG)).collect();
    objects.push(world.store(4, SHORT));
    // One client reads the four long ones, and another the short one.
    let greedy: Vec<Client> = objects[..4].iter().map(|object| Client::of(&world, *object, 1)).collect();
    let modest = Client::of(&world, objects[4], 2);
    for object in &objects {
        world.withdraw(*object);
    }
    world.store(9, 50_000);
    reclaim(&mut world);
    assert!(kept(&world) <= SIZE / KEPT_PART && kept(&world) > SIZE / KEPT_PART / 2);
    assert_eq!(lost(&world), 4);
    assert!(!modest.known.is_lost());
    assert_eq!(modest.finish(&world), SHORT, "a client that reads little is not cut for another");
    for client in greedy {
        let is_lost = client.known.is_lost();
        assert_eq!(client.finish(&world) < LONG, is_lost);
    }
    // What is kept takes no room that something else needs.
    turn_over(&mut world, 2);
    world.assert_ceiling();
}

#[test]
fn after_ten_minutes_nothing_is_kept() {
    let mut world = world(8);
    let object = world.store(1, LONG);
    let mut client = Client::of(&world, object, 1);
    assert!(client.read(&world));
    world.withdraw(object);
    world.store(2, 50_000);
    reclaim(&mut world);
    world.pass(KEPT_TIME_MAX - TICK);
    assert!(kept(&world) > 0 && client.read(&world) && !client.known.is_lost());
    world.pass(TICK);
    assert!(kept(&world) == 0 && client.known.is_lost());
    assert!(client.finish(&world) < LONG);
    assert_eq!(lost(&world), 1, "a reader counts once");
}

#[test]
fn nothing_is_kept_where_the_file_system_is_full() {
    let removed = |seed| {
        let mut world = world(seed);
        let object = world.store(1, LONG);
        let client = Client::of(&world, object, 1);
        world.withdraw(object);
        world.store(2, 50_000);
        reclaim(&mut world);
        assert!(kept(&world) > 0);
        (world, client)
    };
    let (mut world, client) = removed(9);
    world.disk.fail_at(0, Fault::Full);
    world.store(3, 3000);
    assert!(kept(&world) == 0 && client.known.is_lost());
    let (mut world, client) = removed(10);
    world.disk.set_room(Room { total_bytes: 1 << 40, free_bytes: 0 });
    for key in 3..6 {
        world.store(key, 50_000);
    }
    assert!(kept(&world) == 0 && client.known.is_lost());
}

#[test]
fn a_number_of_a_slot_that_is_used_again_leads_nowhere_else() {
    let mut world = world(11);
    let object = world.store(1, LONG);
    let mut client = Client::of(&world, object, 1);
    let first = client.record.runs(|_| true).into_keys().next().unwrap();
    world.withdraw(object);
    world.store(2, 50_000);
    reclaim(&mut world);
    assert!(!world.shared.segments.has(first));
    // The next segments have the slots of those that are kept.
    world.engine.skip_segments_for_tests(first + world.shared.segments.geometry.slots());
    for key in 100..120 {
        world.store(key, 50_000);
    }
    assert!(!world.shared.segments.is_free(first), "the slot is in use");
    assert!(client.read(&world));
    world.pass(KEPT_TIME_MAX);
    assert!(!client.read(&world), "nothing is read in its place");
    let again = Client { at: 0, ..client };
    assert_eq!(again.finish(&world), 0);
}

#[test]
fn the_end_of_the_volume_is_the_end_of_what_is_kept() {
    let mut world = world(12);
    let object = world.store(1, LONG);
    let client = Client::of(&world, object, 1);
    world.withdraw(object);
    world.store(2, 50_000);
    reclaim(&mut world);
    world.stop();
    assert!(kept(&world) == 0 && client.known.is_lost());
}

/// Readers of objects that are stored, removed, evicted, written again and swept at random.
fn course(seed: u64) -> (u64, u64) {
    let mut random = Random(seed);
    let mut world = world(seed);
    let (mut open, mut clients) = (Vec::new(), Vec::<Client>::new());
    let (mut finished, mut kept_most) = (0, 0);
    for _ in 0..500 {
        match random.below(14) {
            0..=3 => act(&mut world, &mut random, &mut open),
            4 => {
                world.store(random.below(30), random.below(LONG));
            }
            5 => {
                let found = world.indexed();
                if let Some(record) = found.get(random.below(found.len() as u64) as usize) {
                    clients.push(Client::of(&world, record.number, random.below(4)));
                }
            }
            6..=9 if !clients.is_empty() => {
                let at = random.below(clients.len() as u64) as usize;
                let has_read = clients[at].read(&world);
                let is_whole = clients[at].record.length == Some(clients[at].at);
                if !has_read {
                    finished += u64::from(is_whole);
                    clients.swap_remove(at);
                }
            }
            10 => {
                let found = world.indexed();
                let one = found.get(random.below(found.len() as u64) as usize).map(|record| record.number);
                if let Some(object) = one {
                    open.retain(|(own, _)| *own != object);
                    world.withdraw(object);
                }
            }
            11 => reclaim(&mut world),
            12 if random.below(20) == 0 => world.pass(KEPT_TIME_MAX),
            _ => world.pass(Duration::from_millis(random.below(600))),
        }
        world.assert_ceiling();
        assert!(kept(&world) <= SIZE / KEPT_PART);
        kept_most = kept_most.max(kept(&world));
    }
    world.assert_true();
    let counted = world.shared.counters.kept_no_longer.load(Ordering::Relaxed);
    // Who is still there and has lost nothing has all that was ever stored.
    for client in clients.into_iter().filter(|client| !client.known.is_lost()) {
        let record = world.shared.readers.newest(client.record.number).unwrap();
        let was_there = client.first.contains(Interval { start: client.at, end: client.at + 1 });
        let run = record.run_at(client.at).filter(|_| was_there);
        let end = run.map_or(client.at, |run| run.end);
        assert!(client.finish(&world) >= end, "seed {seed}");
    }
    world.sync();
    world.reopen(if seed.is_multiple_of(2) { Crash::Kill } else { Crash::Power });
    (finished + counted, kept_most)
}

#[test]
fn readers_get_the_right_bytes_or_are_cut_whatever_happens() {
    let (mut ended, mut kept) = (0, 0);
    for seed in 0..SEEDS {
        let (own, most) = course(seed);
        (ended, kept) = (ended + own, kept.max(most));
    }
    assert!(ended > 10 && kept > SIZE / KEPT_PART / 2, "{ended} readers, {kept} bytes");
}

#[test]
fn a_power_cut_at_any_moment_leaves_nothing_of_what_was_kept() {
    for n in 0..40 {
        let mut world = world(n);
        let object = world.begin(1, LONG, true);
        world.push(object, 0, LONG);
        world.end(object, End::Whole(LONG));
        let client = Client::of(&world, object, 1);
        assert!(world.sync());
        world.withdraw(object);
        assert!(world.sync());
        world.disk.fail_at(n, Fault::PowerCut);
        world.store(2, 50_000);
        world.reclaim();
        world.sync();
        drop(client);
        let world = world.reopen(Crash::Power);
        assert!(world.find(object).is_none(), "at {n}");
    }
}
