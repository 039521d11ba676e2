//! A store over a volume, rows and a ledger that all crash, beside a model of what may be found and what must
//! be found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_policy::{CacheKey, Stored, StoredFlags, freshness};

use super::super::{Stuck, Sweeper};
use crate::catalogue::{Change, Rows, wanted};
use crate::samples::{body, now, proof};
use crate::tier::VolumeTier;
use crate::volume::testing::CrashRows;
use crate::volume::testing::{CrashDisk, Fault, leave_header};
use crate::volume::{Candidate, Clock, Volume, VolumeSettings};
use crate::{
    Force, Found, Generation, Ledger, MARKS_MAX, Mark, Place, Read, Scope, Settings, Stamp, Store, Writer,
};

const DISK_BYTES: u64 = 16 << 20;
const KEYS: u64 = 24;
const SITES: u64 = 3;
const TAGS: u64 = 5;
/// A course takes no longer than this.
const SLOW: Duration = Duration::from_secs(250);

/// What searches the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    Nothing,
    Rows,
}

/// What is purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    All,
    Site(u64),
    Tag(u64),
    Url(u64),
    /// The first folder of a site.
    Prefix(u64),
}

/// What must be found of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Must {
    /// It may be there or not.
    Nothing,
    /// It is there while the process lives.
    Live,
    /// It is there after any crash.
    Stay,
}

/// A version of an object that was stored.
#[derive(Debug, Clone)]
struct Version {
    tag: u64,
    length: u64,
    stamp: Stamp,
    must: Must,
}

/// A transfer under way.
pub(super) struct Filling {
    key: u64,
    version: u64,
    writer: Writer,
    at: u64,
}

pub(super) struct World {
    pub(super) store: Store,
    pub(super) rows: CrashRows,
    beside: Beside,
    disk: CrashDisk,
    power: CrashDisk,
    sweeper: Sweeper,
    random: u64,
    /// By key: what was stored, by the seed of its bytes. And the purges that were acknowledged.
    versions: BTreeMap<u64, BTreeMap<u64, Version>>,
    purges: Vec<(Target, Force, Stamp)>,
    next: u64,
}

/// Rows that were made beside another volume.
pub(super) fn rows_of_another() -> CrashRows {
    let rows = CrashRows::new(1);
    for row in 0..3000u32 {
        let key = [&[1][..], &row.to_be_bytes(), b"............"].concat();
        let changes =
            [Change::Put { key: &key, value: &[0; 28] }, Change::Put { key: &[0], value: &[1; 32] }];
        rows.apply(&changes).unwrap();
    }
    rows.sync().unwrap();
    rows
}

fn site_of(key: u64) -> u64 {
    key % SITES + 1
}

fn folder_of(key: u64) -> u64 {
    key / SITES % 2
}

fn key_of(key: u64) -> CacheKey {
    let site = site_of(key);
    let url = format!("http://site{site}.test/{}/object/{key}", folder_of(key));
    CacheKey::new(Bytes::from(url)).of_site(site)
}

/// The key as volumes know it.
pub(super) fn on_volume(key: u64) -> CacheKey {
    crate::volume::key::on_volume(&key_of(key))
}

impl Target {
    fn concerns(self, key: u64, tag: u64) -> bool {
        match self {
            Target::All => true,
            Target::Site(site) => site_of(key) == site,
            Target::Tag(own) => own == tag,
            Target::Url(own) => own == key,
            Target::Prefix(site) => site_of(key) == site && folder_of(key) == 0,
        }
    }

    fn scope(self) -> Scope {
        match self {
            Target::All => Scope::All,
            Target::Site(site) => Scope::Site(site),
            Target::Tag(tag) => Scope::tag(format!("tag{tag}").as_bytes()),
            Target::Url(key) => Scope::Url { site: site_of(key), digest: key_of(key).digest },
            Target::Prefix(site) => Scope::prefix(site, &format!("http://site{site}.test/0/")),
        }
    }
}

#[allow(clippy::disallowed_methods)]
fn open(disk: &CrashDisk, power: &CrashDisk, rows: Option<&CrashRows>) -> Store {
    let begun = std::time::Instant::now();
    let mut settings = VolumeSettings::of(DISK_BYTES, Clock::new(move || begun.elapsed()));
    settings.segment_bytes = Some(128 << 10);
    settings.identity = Some((7, 8));
    let (volume, _) = Volume::open(Arc::new(disk.clone()), &settings).unwrap();
    let ledger = Ledger::open(MARKS_MAX, Arc::new(power.process()), 0, now()).unwrap();
    let rows = rows.map(|rows| {
        rows.tidy_by(Some(wanted(&volume)));
        Arc::new(rows.clone()) as Arc<dyn Rows>
    });
    Store::without_sweeper(Settings::of(4 << 20), ledger, volume, rows, now)
}

impl World {
    pub(super) fn new(seed: u64, beside: Beside) -> World {
        let (disk, power, rows) = (CrashDisk::new(seed), CrashDisk::new(1), CrashRows::new(seed));
        let store = open(&disk, &power, (beside == Beside::Rows).then_some(&rows));
        World {
            store,
            rows,
            beside,
            disk,
            power,
            sweeper: Sweeper::default(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            versions: BTreeMap::new(),
            purges: Vec::new(),
            next: 0,
        }
    }

    pub(super) fn below(&mut self, count: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % count
    }

    pub(super) fn act(&mut self) {
        match self.below(20) {
            0..=9 => {
                let (key, tag) = (self.below(KEYS), self.below(TAGS));
                let length = [100, 3000, 40_000, 100_000][self.below(4) as usize];
                self.store(key, length, tag);
            }
            10 | 11 => {
                let target = match self.below(12) {
                    0 => Target::All,
                    1..=2 => Target::Site(self.below(SITES) + 1),
                    3..=6 => Target::Tag(self.below(TAGS)),
                    7..=9 => Target::Url(self.below(KEYS)),
                    _ => Target::Prefix(self.below(SITES) + 1),
                };
                match self.below(6) {
                    0 => self.purge(target, Force::Soft),
                    1 | 2 => {
                        let seconds = [0, 300, 5000][self.below(3) as usize];
                        self.purge(target, Force::Lifetime(Duration::from_secs(seconds)));
                    }
                    _ => self.purge(target, Force::Hard),
                }
            }
            12 => self.settle(),
            13 | 14 => self.sync(),
            15 | 16 => {
                let passed = self.pass_without_covering();
                assert!(matches!(passed, Ok(()) | Err(Stuck::Behind)), "{passed:?}");
            }
            17 => drop(self.store.sweep()),
            18 => self.store.cover_for_tests(1),
            _ => {
                let key = self.below(KEYS);
                self.assert_key(key);
            }
        }
    }

    pub(super) fn store(&mut self, key: u64, length: u64, tag: u64) {
        self.store_at(self.store.ledger().current(), key, length, tag);
    }

    /// Stores a response that was asked for at a stamp.
    pub(super) fn store_at(&mut self, stamp: Stamp, key: u64, length: u64, tag: u64) {
        let mut filling = self.begin_at(stamp, key, length, tag);
        self.push(&mut filling, length);
        self.seal(filling);
    }

    pub(super) fn begin(&mut self, key: u64, length: u64, tag: u64) -> Filling {
        self.begin_at(self.store.ledger().current(), key, length, tag)
    }

    fn begin_at(&mut self, stamp: Stamp, key: u64, length: u64, tag: u64) -> Filling {
        self.next += 1;
        let version = self.next;
        let (tags, own) = (format!("tag{tag} other"), version.to_string());
        let proof = proof(&[], &[("surrogate-key", &tags), ("x-version", &own)]);
        let (_, writer) = self.store.begin(proof, key_of(key), stamp, Some(length)).unwrap();
        let known = Version { tag, length, stamp, must: Must::Nothing };
        self.versions.entry(key).or_default().insert(version, known);
        Filling { key, version, writer, at: 0 }
    }

    pub(super) fn push(&mut self, filling: &mut Filling, length: u64) {
        filling.writer.push(body(filling.version, filling.at, length as usize)).unwrap();
        filling.at += length;
    }

    pub(super) fn seal(&mut self, filling: Filling) {
        filling.writer.seal().unwrap();
        let versions = self.versions.get_mut(&filling.key).unwrap();
        // What it replaces may leave.
        versions.values_mut().for_each(|version| version.must = Must::Nothing);
        versions.get_mut(&filling.version).unwrap().must = Must::Live;
    }

    pub(super) fn purge(&mut self, target: Target, force: Force) {
        let (done, wait) = std::sync::mpsc::channel();
        let mark = Mark { scope: target.scope(), force };
        let acknowledge = Box::new(move |result: Result<_, _>| done.send(result.is_ok()).unwrap_or_default());
        let stamp = match force {
            Force::Lifetime(_) => self.store.retain(&[mark], now(), acknowledge).unwrap(),
            _ => self.store.purge(&[mark], now(), acknowledge).stamp,
        };
        assert!(wait.recv().unwrap());
        self.purges.push((target, force, stamp));
    }

    pub(super) fn sync(&mut self) {
        assert!(self.store.sync_for_tests());
        let all = self.versions.values_mut().flat_map(|versions| versions.values_mut());
        all.filter(|version| version.must == Must::Live).for_each(|version| version.must = Must::Stay);
    }

    /// Frees the segments in which nothing lives.
    pub(super) fn reclaim(&mut self) {
        assert_eq!(self.tier().volume.reclaim().unwrap(), 1);
        self.sync();
    }

    pub(super) fn tier(&self) -> Arc<VolumeTier> {
        let layout = self.store.inside_for_tests().volumes.tiers.all();
        Arc::clone(layout.iter().next().unwrap())
    }

    /// Where the record of a key is now.
    pub(super) fn candidate(&self, key: u64) -> Candidate {
        self.tier().volume.find(on_volume(key).digest)[0]
    }

    /// Makes durable what was stored, and lets the catalogue follow.
    pub(super) fn settle(&mut self) {
        self.sync();
        self.store.cover_for_tests(u64::MAX);
    }

    /// A pass. What its barrier makes durable is covered before the search.
    pub(super) fn pass(&mut self) -> Result<(), Stuck> {
        match self.pass_without_covering() {
            Err(Stuck::Behind) => {
                self.store.cover_for_tests(u64::MAX);
                self.pass_without_covering()
            }
            result => result,
        }
    }

    pub(super) fn pass_without_covering(&mut self) -> Result<(), Stuck> {
        self.sweeper.pass(self.store.inside_for_tests())
    }

    /// What the thread does every half second.
    pub(super) fn tick(&mut self) {
        self.sweeper.tick(self.store.inside_for_tests(), &self.tier());
    }

    /// The process ends right after the volume was told that it is swept.
    pub(super) fn note_swept(&self) {
        let swept = self.store.ledger().current().number();
        self.tier().volume.set_swept(swept).unwrap();
    }

    pub(super) fn cut_at(&self, operation: u64) {
        self.disk.fail_at(operation, Fault::PowerCut);
    }

    pub(super) fn is_down(&self) -> bool {
        self.disk.is_down()
    }

    /// The power fails, and comes back.
    pub(super) fn crash(&mut self) {
        self.restart(|_| {});
    }

    /// The index is lost as well.
    pub(super) fn crash_without_index(&mut self) {
        self.sync();
        self.restart(|disk| {
            for path in disk.paths().iter().filter(|path| path.starts_with("index/")) {
                disk.flip(path, 0, 16);
            }
        });
    }

    /// A begun segment has its header only.
    pub(super) fn crash_leaving_a_header(&mut self, segment: u64) {
        self.restart(|disk| leave_header(disk, segment));
    }

    fn restart(&mut self, then: impl FnOnce(&CrashDisk)) {
        self.disk.fail_at(0, Fault::PowerCut);
        self.rows.fail_in(0);
        let seed = self.below(1 << 30);
        self.power.cut(seed);
        self.store.close();
        self.store = Store::new(1 << 20);
        self.sweeper = Sweeper::default();
        self.disk.restart();
        self.rows.crash();
        then(&self.disk);
        self.store = open(&self.disk, &self.power, (self.beside == Beside::Rows).then_some(&self.rows));
        let all = self.versions.values_mut().flat_map(|versions| versions.values_mut());
        all.filter(|version| version.must == Must::Live).for_each(|version| version.must = Must::Nothing);
    }

    pub(super) fn find(&self, key: u64) -> Option<Arc<Generation>> {
        let key = key_of(key);
        if let Found::Ask(ask) = self.store.find(key.digest, &key.full, key.site, &|_| true) {
            ask.wait();
        }
        match self.store.find(key.digest, &key.full, key.site, &|_| true) {
            Found::Ready(found) => found.filter(|found| found.is_whole()),
            Found::Ask(_) => None,
        }
    }

    /// What is found under a key is a version that was stored there, every byte of it, and no purge has made
    /// it dead. What a soft purge concerns is outdated, unless a retention is newer. What one concerns is
    /// fresh until then. What must be there is found.
    fn assert_key(&self, key: u64) {
        let nothing = BTreeMap::new();
        let versions = self.versions.get(&key).unwrap_or(&nothing);
        let newest = |of: &Version, force| {
            let concerning = self.purges.iter().filter(|(target, own, stamp)| {
                *own == force && target.concerns(key, of.tag) && *stamp > of.stamp
            });
            concerning.count()
        };
        let Some(found) = self.find(key) else {
            let wanted = versions
                .iter()
                .find(|(_, version)| version.must != Must::Nothing && newest(version, Force::Hard) == 0);
            assert!(wanted.is_none(), "key {key}: {wanted:?} is lost");
            return;
        };
        let head = found.head();
        let number: u64 = head.stored.headers["x-version"].to_str().unwrap().parse().unwrap();
        let version = &versions[&number];
        assert_eq!(
            newest(version, Force::Hard),
            0,
            "key {key}: {number} {version:?} was purged: {:?}",
            self.purges
        );
        self.assert_facts(&head.stored, key, version);
        if let Some(bytes) = bytes_of(&found) {
            assert!(bytes == body(number, 0, version.length as usize), "key {key}: wrong bytes");
        } else {
            assert_eq!(version.must, Must::Nothing, "key {key}: {number} is gone");
        }
    }

    /// The newest retention decides, and soft purges after it.
    fn assert_facts(&self, stored: &Stored, key: u64, version: &Version) {
        let concerning = self
            .purges
            .iter()
            .filter(|(target, _, stamp)| target.concerns(key, version.tag) && *stamp > version.stamp);
        let (mut retained, mut is_outdated) = (None, false);
        for (_, force, _) in concerning {
            match force {
                Force::Soft => is_outdated = true,
                Force::Lifetime(lifetime) => (retained, is_outdated) = (Some(*lifetime), false),
                Force::Hard => {}
            }
        }
        let what = format!("key {key}: {version:?}: {:?}", self.purges);
        let flags = stored.facts.flags;
        assert_eq!(flags.has(StoredFlags::PURGED), is_outdated, "{what}");
        assert_eq!(flags.has(StoredFlags::RETAINED), retained.is_some(), "{what}");
        if let Some(lifetime) = retained.filter(|_| !is_outdated) {
            let left = freshness(stored, now()).left();
            assert!(left <= lifetime && left + SLOW >= lifetime, "{what}: {left:?} of {lifetime:?}");
        }
    }

    pub(super) fn assert_true(&self) {
        (0..100).for_each(|key| self.assert_key(key));
    }

    /// The keys under which something is found.
    pub(super) fn found(&self) -> BTreeSet<u64> {
        (0..100).filter(|key| self.find(*key).is_some()).collect()
    }

    /// Those of them that were purged softly.
    pub(super) fn outdated(&self) -> BTreeSet<u64> {
        let is_outdated = |found: Arc<Generation>| found.head().stored.facts.flags.has(StoredFlags::PURGED);
        (0..100).filter(|key| self.find(*key).is_some_and(is_outdated)).collect()
    }

    /// In the end all is swept, and a recount agrees.
    pub(super) fn finish(&mut self) {
        // The volume's writer has a clock and work of its own: a pass that meets it in the middle is tried
        // again, as the thread does.
        let mut passed = Err(Stuck::Failed);
        for _ in 0..10 {
            self.settle();
            passed = self.pass();
            if passed.is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert_eq!(passed, Ok(()));
        assert_eq!(self.store.ledger().marks(), 0);
        self.assert_true();
        let verified = self.store.verify(&|| std::ops::ControlFlow::Continue(())).remove(0).1.unwrap();
        let usage = self.store.volumes()[0].usage;
        assert_eq!((verified.damaged, verified.objects), (0, usage.objects));
    }
}

/// All bytes, wherever they are; `None` where something is gone.
fn bytes_of(found: &Generation) -> Option<Vec<u8>> {
    if !found.is_on_disk() {
        let (bytes, end) = crate::samples::read_from(found, 0, 100_000);
        return matches!(end, Read::End).then_some(bytes);
    }
    let mut bytes = Vec::new();
    fetch(found, &mut Place::default(), &mut bytes, usize::MAX).then_some(bytes)
}

/// Reads on from a volume until there are so many bytes, or all. False where something is gone.
pub(super) fn fetch(found: &Generation, place: &mut Place, bytes: &mut Vec<u8>, most: usize) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    while bytes.len() < most {
        place.moved(bytes.len() as u64);
        match runtime.block_on(found.fetch(place, bytes.len() as u64, 100_000)) {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
    true
}
