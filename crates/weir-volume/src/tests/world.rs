//! A volume on a crashing disk beside a model of it, which says what may be found, what must be, and what
//! must not.
//!
//! An object's bytes follow from its number, so that every read can be judged without remembering bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_disk::Disk;
use weir_policy::{CacheKey, Interval};

use crate::index::{KeyHash, Location};
use crate::read::reader::{Part, Position, ReadError, Record, Wait};
use crate::read::verify::{Verified, verify};
use crate::recover::{OpenError, Recovered, open};
use crate::settings::{Clock, VolumeSettings};
use crate::shared::Shared;
use crate::stock::Stock;
use crate::testing::CrashDisk;
use crate::testing::samples;
use crate::write::engine::Engine;
use crate::write::intake::{Command, Intake};
use crate::write::put::{PutError, PutStatus};
use crate::write::storing::{End, ObjectHead, Put};

/// splitmix64.
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(super) fn below(&mut self, count: u64) -> u64 {
        self.word() % count.max(1)
    }
}

/// What the model knows of an object.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) key: u64,
    pub(super) length: u64,
    /// How many heads it was given.
    pub(super) heads: u64,
    status: Arc<PutStatus>,
    is_removed: bool,
    /// A sync followed its removal.
    is_gone_for_good: bool,
}

/// An object as it was durable: the places of its record and its extents.
#[derive(Debug, Clone)]
struct Durable {
    segments: BTreeSet<u64>,
    is_whole: bool,
}

pub(super) struct World {
    pub(super) disk: CrashDisk,
    pub(super) settings: VolumeSettings,
    pub(super) shared: Arc<Shared>,
    pub(super) engine: Engine,
    pub(super) recovered: Recovered,
    pub(super) now: Duration,
    pub(super) objects: BTreeMap<u64, Known>,
    durable: BTreeMap<u64, Durable>,
    next_object: u64,
    most_bytes: u64,
    intake: Intake,
    recounted: crossbeam_channel::Receiver<u64>,
}

pub(super) fn settings(size_bytes: u64, segment_bytes: u64) -> VolumeSettings {
    let mut settings = VolumeSettings::of(size_bytes, Clock::new(|| Duration::ZERO));
    settings.segment_bytes = Some(segment_bytes);
    settings.identity = Some((1, 2));
    settings.owner_of = owner_of;
    settings
}

/// Three sites, by the last digit of the key.
pub(super) fn owner_of(key: &[u8]) -> u64 {
    key.last().map_or(0, |digit| u64::from(digit % 3) << 60 | 5)
}

pub(super) fn head(object: u64, version: u64) -> Bytes {
    let length = (object * 7 + version) % 300 + 20;
    Bytes::from(format!("head {object} {version} {}", "h".repeat(length as usize)))
}

impl World {
    pub(super) fn new(disk: CrashDisk, settings: VolumeSettings) -> Result<World, OpenError> {
        let (shared, engine, recovered) = open(Arc::new(disk.clone()) as Arc<dyn Disk>, &settings)?;
        let next_object = engine.next_object();
        // A power cut may bring back names that were unlinked, so that the files exceed the size until the
        // first of them is unlinked again.
        let most_bytes = settings.size_bytes.max(disk.used_bytes());
        disk.forget_most_bytes();
        Ok(World {
            most_bytes,
            disk,
            settings,
            shared,
            engine,
            recovered,
            now: Duration::ZERO,
            objects: BTreeMap::new(),
            durable: BTreeMap::new(),
            next_object,
            intake: Intake::new(64 << 20),
            recounted: crossbeam_channel::never(),
        })
    }

    /// Begins an object of `length` bytes under a key.
    pub(super) fn begin(&mut self, key: u64, length: u64, is_declared: bool) -> u64 {
        let object = self.next_object;
        self.next_object += 1;
        let status = PutStatus::new();
        let known = Known {
            key,
            length,
            heads: 1,
            status: Arc::clone(&status),
            is_removed: false,
            is_gone_for_good: false,
        };
        self.objects.insert(object, known);
        let key = samples::key(key);
        let declared = is_declared.then_some(length);
        let described = ObjectHead {
            digest: key.digest,
            key: key.full,
            head: head(object, 0),
            stamp: object,
            length: declared,
        };
        self.engine.begin(object, Put::new(described, status));
        object
    }

    pub(super) fn push(&mut self, object: u64, offset: u64, length: u64) {
        let bytes = samples::body(object, offset, length as usize);
        let Ok(waiting) = self.intake.wait_for(length, u64::MAX) else { return };
        self.engine.body(object, offset, &bytes, waiting);
    }

    pub(super) fn end(&mut self, object: u64, end: End) {
        let key = self.key_of(object);
        if end == End::Abandon {
            self.note_removed(object);
        }
        self.engine.end(object, key.digest, end);
    }

    pub(super) fn store(&mut self, key: u64, length: u64) -> u64 {
        let object = self.begin(key, length, true);
        self.push(object, 0, length);
        self.end(object, End::Whole(length));
        object
    }

    /// Notes `times` uses of an object.
    pub(super) fn note_uses(&self, object: u64, times: u64) {
        let hash = KeyHash::of(self.key_of(object).digest);
        (0..times).for_each(|_| self.shared.uses.note(hash));
    }

    /// Removes an object that may be read, and returns the record that its readers still find.
    pub(super) fn withdraw(&mut self, object: u64) -> Option<Arc<Record>> {
        let key = self.key_of(object);
        self.note_removed(object);
        self.engine.withdraw(object, key.digest);
        self.shared.readers.newest(object)
    }

    pub(super) fn remove(&mut self, object: u64) {
        let key = self.key_of(object);
        self.note_removed(object);
        self.engine.remove(object, key.digest);
    }

    /// Frees the segments in which nothing is of use, as a sweep does.
    pub(super) fn reclaim(&mut self) {
        let shared = Arc::clone(&self.shared);
        let _ = shared.reclaim(|free| {
            let waiting = self.intake.wait_for(0, u64::MAX).unwrap();
            self.engine.apply(free, waiting)
        });
    }

    /// Ends the engine.
    pub(super) fn stop(&mut self) {
        let waiting = self.intake.wait_for(0, u64::MAX).unwrap();
        assert!(!self.engine.apply(Command::Stop, waiting));
    }

    fn note_removed(&mut self, object: u64) {
        self.objects.get_mut(&object).unwrap().is_removed = true;
        self.durable.remove(&object);
    }

    pub(super) fn refresh(&mut self, object: u64) {
        let key = self.key_of(object);
        let known = self.objects.get_mut(&object).unwrap();
        known.heads += 1;
        let head = head(object, known.heads - 1);
        self.engine.refresh(object, key.digest, head, object);
    }

    pub(super) fn resume(&mut self, object: u64) -> Option<PutError> {
        let key = self.key_of(object);
        let status = PutStatus::new();
        self.objects.get_mut(&object).unwrap().status = Arc::clone(&status);
        self.engine.resume(object, key.digest, Arc::clone(&status));
        status.error()
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        while self.engine.step(self.now, false) {}
        self.assert_ceiling();
        if self.shared.index.len() < 20 {
            self.assert_stocks();
        }
    }

    /// Takes a single step, so that a checkpoint or a drop is met in its middle.
    pub(super) fn nudge(&mut self, time: Duration) {
        self.now += time;
        self.engine.step(self.now, false);
    }

    pub(super) fn assert_ceiling(&self) {
        assert!(self.disk.most_bytes() <= self.most_bytes, "{} bytes", self.disk.most_bytes());
    }

    /// As a sweep asks the writer to make everything durable.
    pub(super) fn sync_by_command(&mut self) {
        let (done, result) = crossbeam_channel::bounded(1);
        let waiting = self.intake.wait_for(0, u64::MAX).unwrap();
        assert!(self.engine.apply(Command::Sync(done), waiting));
        assert!(result.recv().unwrap().is_some());
    }

    /// Makes everything durable, and notes in the model what that is.
    pub(super) fn sync(&mut self) -> bool {
        let synced = self.engine.sync();
        if synced && !self.disk.is_down() {
            self.note_durable();
        }
        synced
    }

    fn note_durable(&mut self) {
        self.durable.clear();
        for record in self.indexed() {
            let mut segments: BTreeSet<u64> =
                record.extents.iter().map(|extent| extent.place.segment).collect();
            segments.insert(self.shared.segments.at(record.location).unwrap().1.segment);
            let is_whole = self.shared.held(&record).length() == self.objects[&record.number].length;
            self.durable.insert(record.number, Durable { segments, is_whole });
        }
        for known in self.objects.values_mut().filter(|known| known.is_removed) {
            known.is_gone_for_good = true;
        }
    }

    pub(super) fn key_of(&self, object: u64) -> CacheKey {
        samples::key(self.objects[&object].key)
    }

    pub(super) fn ended(&self, object: u64) -> Option<PutError> {
        self.objects[&object].status.error()
    }

    /// The records of all entries in the index.
    pub(super) fn indexed(&self) -> Vec<Record> {
        self.locations().into_iter().filter_map(|location| self.shared.any_record(location).ok()).collect()
    }

    /// The volume's count for the site of a key.
    pub(super) fn stock(&self, key: u64) -> Stock {
        self.shared.stocks.of(owner_of(&samples::key(key).full))
    }

    /// Starts a recount, which runs between the next events. The next call sees what it found to differ.
    pub(super) fn ask_for_recount(&mut self) {
        assert_eq!(self.recounted.try_iter().sum::<u64>(), 0, "a recount has found something else");
        let (done, recounted) = crossbeam_channel::unbounded();
        self.recounted = recounted;
        self.engine.recount_for(done);
    }

    /// Compares the counts of all owners with the records at this moment.
    pub(super) fn assert_stocks(&mut self) {
        // What could not be read when it left is counted again, step by step.
        while self.engine.is_repairing() && self.engine.step(self.now, false) {}
        if self.disk.is_down() || self.engine.is_repairing() {
            return;
        }
        let mut counted: BTreeMap<u64, Stock> = BTreeMap::new();
        for record in self.disk.look(|| self.indexed()) {
            let is_held =
                |segment: u64| self.shared.segments.has(segment) && !self.engine.books.is_dropping(segment);
            let extents = record.extents.iter().filter(|extent| is_held(extent.place.segment));
            let bytes = extents.map(|extent| u64::from(extent.length)).sum();
            let objects = u64::from(is_held(record.segment()));
            *counted.entry(owner_of(&record.key)).or_default() += Stock { objects, bytes };
        }
        counted.retain(|_, stock| !stock.is_empty());
        assert_eq!(self.shared.stocks.all().into_iter().collect::<BTreeMap<_, _>>(), counted);
    }

    fn locations(&self) -> Vec<Location> {
        let shards = 0..self.shared.index.shards();
        shards.flat_map(|shard| self.shared.index.shard(shard)).map(Location::of).collect()
    }

    /// The record that a reader finds of an object.
    pub(super) fn find(&self, object: u64) -> Option<Record> {
        let key = self.key_of(object);
        let candidates = self.shared.candidates(key.digest);
        let mut records = candidates
            .into_iter()
            .filter_map(|candidate| self.shared.record(candidate, &key.full, Wait::Device).ok().flatten());
        records.find(|record| record.number == object)
    }

    /// Reads everything that is held of a record and compares every byte. Returns how many there were.
    pub(super) fn read_all(&self, record: &Record) -> u64 {
        let mut read = 0;
        for Interval { start, end } in self.shared.held(record).iter() {
            let mut position = Position::default();
            let mut at = start;
            while at < end {
                match self.shared.read(record, &mut position, at, 100_000, Wait::Device) {
                    Ok(Part::Bytes(checked)) => {
                        let bytes = checked.into_bytes();
                        assert_eq!(bytes, samples::body(record.number, at, bytes.len()));
                        at += bytes.len() as u64;
                        read += bytes.len() as u64;
                    }
                    other => panic!("{other:?} at {at} of object {}", record.number),
                }
            }
        }
        read
    }

    /// Checks that each entry of the index is what was stored under its key, only once, and not removed.
    /// Returns the numbers.
    pub(super) fn assert_true(&self) -> BTreeSet<u64> {
        let mut numbers = BTreeSet::new();
        for location in self.locations() {
            let record = self.shared.any_record(location);
            let record = record.unwrap_or_else(|error| panic!("an entry without a record: {error:?}"));
            self.assert_is_known(&record);
            assert!(numbers.insert(record.number), "object {} twice", record.number);
            assert!(self.shared.index.find(KeyHash::of(record.digest)).contains(&location));
            self.read_all(&record);
        }
        assert_eq!(self.shared.index.len(), numbers.len() as u64);
        numbers
    }

    fn assert_is_known(&self, record: &Record) {
        let known = &self.objects[&record.number];
        assert_eq!(record.key, samples::key(known.key).full);
        assert_eq!(record.digest, samples::key(known.key).digest);
        let heads = (0..known.heads).map(|version| head(record.number, version));
        assert!(heads.into_iter().any(|head| head == record.head), "another object's head");
        assert!(record.length.is_none_or(|length| length == known.length));
        assert!(!known.is_gone_for_good, "object {} was removed, durably", record.number);
    }

    pub(super) fn verify(&mut self) -> Verified {
        let mut damaged = Vec::new();
        let on = || std::ops::ControlFlow::Continue(());
        let report = verify(&self.shared, &on, |hash, location, place| damaged.push((hash, location, place)));
        for (hash, location, place) in damaged {
            self.engine.drop_damaged(hash, location, place);
        }
        match report {
            Err(ReadError::Device(_)) => Verified::default(),
            report => report.unwrap(),
        }
    }

    /// Ends as a process ends, and comes back with what the disk has. Checks that what must be there is.
    pub(super) fn reopen(self, crash: Crash) -> World {
        let objects = self.objects.clone();
        // A checkpoint has the entries of a dropping segment that the index still has.
        let dropping = self.engine.dropping_for_tests();
        let stays = |segment: &u64| self.shared.segments.has(*segment) && dropping != Some(*segment);
        let expected: BTreeMap<u64, Durable> = self
            .durable
            .iter()
            .filter(|(_, durable)| durable.segments.iter().all(stays))
            .map(|(object, durable)| (*object, durable.clone()))
            .collect();
        let next_object = self.next_object;
        let (disk, settings) = (self.disk.clone(), self.settings.clone());
        drop(self);
        match crash {
            Crash::Power => disk.restart(),
            Crash::Kill => disk.revive(),
        }
        let mut world = World::new(disk, settings).unwrap();
        world.objects = objects;
        // A removal that was not durable may have been undone.
        world.objects.values_mut().for_each(|known| known.is_removed = known.is_gone_for_good);
        let found = world.assert_true();
        for (object, durable) in expected {
            assert!(found.contains(&object), "object {object} was durable");
            let record = world.find(object).unwrap();
            let held = world.shared.held(&record).length();
            assert!(!durable.is_whole || held == world.objects[&object].length, "object {object} in part");
        }
        world.assert_stocks();
        let used = found.last().map_or(0, |newest| newest + 1);
        assert!(world.engine.next_object() >= used, "a number would come again");
        // Numbers that never reached the disk may come again; the model must tell them apart.
        let nothing = ObjectHead { digest: 0, key: Bytes::new(), head: Bytes::new(), stamp: 0, length: None };
        world.engine.begin(next_object, Put::new(nothing, PutStatus::new()));
        world.engine.end(next_object, 0, End::Abandon);
        world.next_object = next_object + 1;
        world
    }
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    /// Killed: the page cache stays.
    Kill,
    /// A power cut.
    Power,
}
