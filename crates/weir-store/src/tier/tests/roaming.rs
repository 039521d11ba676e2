//! Volumes that come and go by chance, with purges, replacements, sweeps, emptying and crashes in between: what is found was
//! neither purged, nor, where it is used without asking, replaced meanwhile.

mod lives;
mod named;
mod truth;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_policy::StoredFlags;

use super::wait;
use crate::ledger::tests::files::Power;
use crate::register::{Arriving, Register};
use crate::samples::{Folder, body, key, now, proof, url};
use crate::tier::sweeper::{Stuck, Sweeper};
use crate::volume::{Clock, CrashDisk, Fault, Volume, VolumeSettings};
use crate::volumes::Attached;
use crate::{Found, Generation, Ledger, MARKS_MAX, Mark, Scope, Seating, Settings, Store};

const VOLUMES: usize = 3;
const KEYS: u64 = 30;
const DISK_BYTES: u64 = 8 << 20;
const MEMORY_BYTES: u64 = 1 << 20;

struct Drive {
    disk: CrashDisk,
    attached: Option<(Attached, Sweeper)>,
    /// It fails until it is attached again.
    is_dead: bool,
}

struct World {
    store: Store,
    register: Arc<Register>,
    folder: Folder,
    power: Power,
    drives: Vec<Drive>,
    numbers: Arc<std::sync::atomic::AtomicU64>,
    random: u64,
    /// The last version that was stored of all.
    version: u64,
    /// By key: the newest version; what may be used without asking from which version on, now and after a crash; and up to which
    /// version all was purged.
    newest: BTreeMap<u64, u64>,
    floor: BTreeMap<u64, u64>,
    floor_durable: BTreeMap<u64, u64>,
    purged: BTreeMap<u64, u64>,
    /// How often something was found: as it is, and doubted.
    found: [u64; 2],
}

impl World {
    fn new(seed: u64) -> World {
        let drive =
            |at: usize| Drive { disk: CrashDisk::new(seed * 10 + at as u64), attached: None, is_dead: false };
        let (folder, power) = (Folder::new("roaming"), Power::new());
        let (register, _) = Register::open(folder.path()).unwrap();
        let mut world = World {
            store: Store::new(MEMORY_BYTES),
            register: Arc::new(register),
            folder,
            power,
            drives: (0..VOLUMES).map(drive).collect(),
            numbers: Arc::default(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            version: 0,
            newest: BTreeMap::new(),
            floor: BTreeMap::new(),
            floor_durable: BTreeMap::new(),
            purged: BTreeMap::new(),
            found: [0; 2],
        };
        world.begin();
        (0..VOLUMES).for_each(|at| world.attach(at));
        world
    }

    /// A new process, without volumes.
    fn begin(&mut self) {
        let ledger = Ledger::open(MARKS_MAX, Box::new(self.power.files()), now()).unwrap();
        let (register, is_damaged) = Register::open(self.folder.path()).unwrap();
        assert!(!is_damaged);
        self.register = Arc::new(register);
        self.numbers = Arc::new(self.register.numbers().into());
        self.store = Store::with_ledger(Settings::of(MEMORY_BYTES), ledger);
        self.store.set_register(Arc::clone(&self.register));
    }

    fn below(&mut self, count: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % count
    }

    #[allow(clippy::disallowed_methods)]
    fn attach(&mut self, at: usize) {
        if self.drives[at].attached.is_some() {
            return;
        }
        if std::mem::take(&mut self.drives[at].is_dead) {
            self.drives[at].disk.restart();
        }
        let begun = std::time::Instant::now();
        let mut settings = VolumeSettings::of(DISK_BYTES, Clock::new(move || begun.elapsed()));
        settings.segment_bytes = Some(128 << 10);
        settings.identity = Some((at as u128 + 1, 8));
        settings.numbers = Arc::clone(&self.numbers);
        // What one thread was asked for is done in order.
        settings.readers = 1;
        let (volume, _) = Volume::open(Arc::new(self.drives[at].disk.clone()), &settings).unwrap();
        let path = format!("/drive/{at}");
        let arriving = Arriving {
            id: volume.id(),
            path: &path,
            reached: volume.found(),
            opening: volume.renew_opening(),
            is_empty: volume.usage().objects == 0,
            is_mount: true,
        };
        let arrival = self.register.arrive(arriving, self.store.ledger()).unwrap();
        let seating = Seating {
            trusted_from: arrival.trusted_from,
            dead_below: arrival.dead_below,
            ..Seating::of(&path, 1)
        };
        let attached = self.store.attach_without_sweeper(volume, seating, now);
        self.drives[at].attached = Some((attached, Sweeper::default()));
    }

    /// A volume is let go: its drive has died, or is closed in order.
    fn eject(&mut self, at: usize, is_dead: bool) {
        let Some((attached, _)) = self.drives[at].attached.take() else { return };
        if is_dead {
            self.drives[at].disk.fail_at(0, Fault::PowerCut);
            self.drives[at].is_dead = true;
        }
        self.register.leave(attached.id(), true).unwrap();
        self.store.detach(&attached);
        attached.close();
    }

    fn put(&mut self, number: u64) {
        self.version += 1;
        let length = [200, 9000, 40_000][self.below(3) as usize];
        let tag = format!("\"{}\"", self.version);
        let stamp = self.store.ledger().current();
        let begun = self.store.begin(proof(&[], &[("etag", &tag)]), key(number), stamp, Some(length));
        let Ok((_, mut writer)) = begun else { return };
        writer.push(body(self.version, 0, length as usize)).unwrap();
        writer.seal().unwrap();
        self.newest.insert(number, self.version);
        self.floor.insert(number, self.version);
    }

    fn purge(&mut self, numbers: std::ops::Range<u64>, scope: Scope) {
        let (done, wait) = std::sync::mpsc::channel();
        let acknowledge = Box::new(move |result: Result<_, _>| done.send(result.is_ok()).unwrap_or_default());
        self.store.purge(&[Mark::hard(scope)], now(), acknowledge);
        assert!(wait.recv().unwrap());
        self.purged.extend(numbers.map(|number| (number, self.version)));
    }

    fn sync(&mut self) {
        for (attached, _) in self.drives.iter().filter_map(|drive| drive.attached.as_ref()) {
            // What was replaced elsewhere is taken out by that thread.
            wait(attached.volume().ask(|| ()).unwrap());
            assert!(attached.volume().sync().is_some());
        }
        self.floor_durable = self.floor.clone();
        let told = |(attached, _): &(Attached, Sweeper)| (attached.id(), attached.volume().reached());
        let reached: Vec<_> =
            self.drives.iter().filter_map(|drive| drive.attached.as_ref()).map(told).collect();
        let numbers = self.numbers.load(std::sync::atomic::Ordering::Acquire) + 100;
        self.register.note(&reached, numbers).unwrap();
    }

    /// A pass on one volume.
    fn sweep(&mut self, at: usize) {
        let shelf = Arc::clone(self.store.shelf_for_tests());
        if let Some((attached, sweeper)) = &mut self.drives[at].attached {
            let passed = sweeper.pass_on(&shelf, attached.tier_for_tests());
            assert!(matches!(passed, Ok(()) | Err(Stuck::Behind)), "{passed:?}");
        }
    }

    fn empty(&mut self, at: usize) {
        if let Some((attached, _)) = &self.drives[at].attached {
            attached.set_draining(true);
            self.store.empty(attached).unwrap();
            attached.set_draining(false);
        }
    }

    /// The power goes, and comes back; volumes may be missing then.
    fn crash(&mut self) {
        for drive in &mut self.drives {
            drive.disk.fail_at(0, Fault::PowerCut);
        }
        let seed = self.below(1 << 30);
        self.power.cut(seed);
        for drive in &mut self.drives {
            if let Some((attached, _)) = drive.attached.take() {
                self.store.detach(&attached);
                attached.close();
            }
            drive.disk.restart();
            drive.is_dead = false;
        }
        self.begin();
        self.floor = self.floor_durable.clone();
        let missing = self.below(2 * VOLUMES as u64) as usize;
        (0..VOLUMES).filter(|at| *at != missing).for_each(|at| self.attach(at));
        let paths: Vec<String> = (0..VOLUMES).map(|at| format!("/drive/{at}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let present: Vec<u128> = (0..VOLUMES).filter(|at| *at != missing).map(|at| at as u128 + 1).collect();
        self.register.call(&paths, &present).unwrap();
    }

    fn find(&self, number: u64) -> Option<Arc<Generation>> {
        let key = key(number);
        if let Found::Ask(ask) = self.store.find(key.digest, &key.full, key.site, &|_| true) {
            ask.wait();
        }
        match self.store.find(key.digest, &key.full, key.site, &|_| true) {
            Found::Ready(found) => found.filter(|found| found.is_whole()),
            Found::Ask(_) => None,
        }
    }

    /// A request: what is doubted is asked about.
    fn ask(&mut self, number: u64) {
        let Some(found) = self.find(number) else { return };
        let head = found.head();
        let tag = head.stored.headers["etag"].to_str().unwrap();
        let version: u64 = tag.trim_matches('"').parse().unwrap();
        let of = |table: &BTreeMap<u64, u64>| table.get(&number).copied().unwrap_or(0);
        assert!(version > of(&self.purged), "{number}: {version} was purged at {}", of(&self.purged));
        let is_doubted = head.stored.facts.flags.has(StoredFlags::DOUBTED);
        self.found[usize::from(is_doubted)] += 1;
        if !is_doubted {
            assert!(version >= of(&self.floor), "{number}: {version} was replaced by {}", of(&self.floor));
            return;
        }
        match version == of(&self.newest) {
            true => {
                let renewed = proof(&[], &[("etag", tag)]).into_stored();
                self.store.freshen(&found, renewed, self.store.ledger().current());
            }
            false => self.put(number),
        }
    }

    fn act(&mut self) {
        let (number, at) = (self.below(KEYS), self.below(VOLUMES as u64) as usize);
        match self.below(40) {
            0..=13 => self.put(number),
            14..=21 => self.ask(number),
            22 | 23 => self.purge(number..number + 1, url(number)),
            24 if number == 0 => self.purge(0..KEYS, Scope::All),
            24 | 25 => self.sync(),
            26..=28 => self.sweep(at),
            29..=31 => self.eject(at, number.is_multiple_of(2)),
            32..=35 => self.attach(at),
            36 => self.empty(at),
            37 if number < 12 => self.crash(),
            _ => (0..KEYS).for_each(|number| self.ask(number)),
        }
    }
}

#[test]
fn nothing_that_was_purged_or_replaced_comes_back_with_a_volume() {
    let seeds = std::env::var("WEIR_ROAMING_SEEDS").ok().and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    let mut found = [0; 2];
    for seed in seeds.unwrap_or(1..13) {
        let mut world = World::new(seed);
        for step in 0..300 {
            let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.act()));
            assert!(said.is_ok(), "seed {seed}, step {step}");
        }
        found = [found[0] + world.found[0], found[1] + world.found[1]];
    }
    assert!(found[0] > 1000 && found[1] > 50, "{found:?} says little");
}
