//! Installations, each with a ledger, a register and a clock; drives that go from one to another; and state
//! folders that are older, another's, damaged or gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use weir_policy::{Now, Storable, StoredFlags};

use super::installation::{Installation, Kept, Running, State};
use super::truth::{Place, Truth, URLS, Use};
use crate::inside::sweeper::{Stuck, Sweeper};
use crate::inside::tests::wait;
use crate::register::Distrust;
use crate::samples::{body, key, now, proof, url};
use crate::tier::VolumeTier;
use crate::volume::testing::{CrashDisk, Fault};
use crate::volume::{Clock, Volume, VolumeSettings, codec};
use crate::{Asking, Force, Found, Generation, Mark, Scope, Writer};

const DISK_BYTES: u64 = 8 << 20;
const YEAR: i64 = 365 * 86_400;

/// How far a clock is from the true time, in seconds.
pub(super) const AHEAD: i64 = 5 * YEAR;
pub(super) const BACK: i64 = -5 * YEAR;

/// What is purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    All,
    Tag(u64),
    Url(u64),
}

impl Target {
    pub(super) fn urls(self) -> Vec<u64> {
        let concerns = |number: &u64| match self {
            Target::All => true,
            Target::Tag(tag) => tag_of(*number) == tag,
            Target::Url(own) => own == *number,
        };
        (0..URLS).filter(concerns).collect()
    }

    fn scope(self) -> Scope {
        match self {
            Target::All => Scope::All,
            Target::Tag(tag) => Scope::tag(format!("tag{tag}").as_bytes()),
            Target::Url(number) => url(number),
        }
    }
}

fn tag_of(url: u64) -> u64 {
    url % 3
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// In order.
    Stop,
    /// Killed: the page cache stays.
    Kill,
    /// The power fails.
    Power,
}

/// A transfer under way.
struct Fill {
    installation: usize,
    copy: usize,
    length: u64,
    writer: Writer,
    _asking: Asking,
}

/// Where a drive is.
pub(super) struct Seat {
    pub(super) installation: usize,
    attached: Arc<VolumeTier>,
    sweeper: Sweeper,
}

pub(super) struct Drive {
    disk: CrashDisk,
    pub(super) seat: Option<Seat>,
    /// The installation that used it last.
    pub(super) last: Option<usize>,
    /// It has failed, and works again when it is attached the next time.
    is_failed: bool,
}

pub(super) struct World {
    pub(super) installations: Vec<Installation>,
    pub(super) drives: Vec<Drive>,
    pub(super) truth: Truth,
    pub(super) time: SystemTime,
    fills: Vec<Fill>,
    seed: u64,
    /// How often something was used as it is, and after a revalidation.
    pub(super) used: [u64; 2],
}

fn path_of(drive: usize) -> String {
    format!("/drive/{drive}")
}

fn id_of(drive: usize) -> u128 {
    drive as u128 + 1
}

impl World {
    /// So many drives, and no installation.
    pub(super) fn new(seed: u64, drives: usize) -> World {
        let drive = |at: usize| Drive {
            disk: CrashDisk::new(seed * 10 + at as u64),
            seat: None,
            last: None,
            is_failed: false,
        };
        World {
            installations: Vec::new(),
            drives: (0..drives).map(drive).collect(),
            truth: Truth::default(),
            time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
            fills: Vec::new(),
            seed,
            used: [0; 2],
        }
    }

    /// Sets up an installation whose clock is so far from the true time. Returns which one it is.
    pub(super) fn set_up(&mut self, clock: i64, marks_max: usize) -> usize {
        self.installations.push(Installation::new(clock, marks_max));
        self.start(self.installations.len() - 1);
        self.installations.len() - 1
    }

    fn now(&self, installation: usize) -> Now {
        let clock = self.installations[installation].clock;
        let distance = Duration::from_secs(clock.unsigned_abs());
        let wall = if clock < 0 { self.time - distance } else { self.time + distance };
        Now { wall, ..now() }
    }

    pub(super) fn pass(&mut self, seconds: u64) {
        self.time += Duration::from_secs(seconds);
    }

    pub(super) fn running(&self, installation: usize) -> &Running {
        self.installations[installation].running.as_ref().unwrap()
    }

    /// The drives of an installation.
    pub(super) fn drives_of(&self, installation: usize) -> Vec<usize> {
        let is_there =
            |drive: &Drive| drive.seat.as_ref().is_some_and(|seat| seat.installation == installation);
        (0..self.drives.len()).filter(|at| is_there(&self.drives[*at])).collect()
    }

    /// A new process, without volumes. A ledger that is refused is moved away.
    pub(super) fn start(&mut self, installation: usize) {
        let now = self.now(installation);
        let own = &mut self.installations[installation];
        let state = own.state();
        if !state.contains_key(&Kept::Ledger) {
            let register = state.get(&Kept::Register).map(|bytes| String::from_utf8_lossy(bytes));
            let is_known = |at: &usize| {
                register.as_ref().is_some_and(|text| text.contains(&format!("volume {:032x} ", id_of(*at))))
            };
            own.orphans.extend((0..self.drives.len()).filter(is_known));
        }
        let running = own.open(now).unwrap_or_else(|_| {
            own.write(Kept::Ledger, None);
            own.open(now).unwrap()
        });
        own.running = Some(running);
    }

    /// Says which drives are there, as the program does once they are open.
    pub(super) fn call(&mut self, installation: usize) {
        let paths: Vec<String> = (0..self.drives.len()).map(path_of).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let present: Vec<u128> = self.drives_of(installation).into_iter().map(id_of).collect();
        self.running(installation).register.call(&paths, &present).unwrap();
    }

    #[allow(clippy::disallowed_methods)]
    pub(super) fn attach(&mut self, installation: usize, at: usize) {
        let begun = std::time::Instant::now();
        let drive = &mut self.drives[at];
        assert!(drive.seat.is_none());
        if std::mem::take(&mut drive.is_failed) {
            drive.disk.restart();
        }
        if drive.last.is_some_and(|last| last != installation) {
            self.truth.wandered(at, installation);
        }
        drive.last = Some(installation);
        let running = self.installations[installation].running.as_ref().unwrap();
        let mut settings = VolumeSettings::of(DISK_BYTES, Clock::new(move || begun.elapsed()));
        settings.segment_bytes = Some(128 << 10);
        settings.identity = Some((id_of(at), 8));
        settings.numbers = Arc::clone(&running.numbers);
        settings.journal_bytes_min = Some(2048);
        // One thread does what it is asked in order.
        settings.readers = 1;
        let (volume, _) = Volume::open(Arc::new(drive.disk.clone()), &settings).unwrap();
        let is_empty = volume.usage().objects == 0;
        let (attached, distrust) = running.take(volume, &path_of(at));
        if self.installations[installation].orphans.remove(&at) && !is_empty {
            assert_eq!(
                distrust,
                Some(Distrust::Orphaned),
                "the ledger that drive {at} was used with is lost"
            );
        }
        if distrust.is_some() {
            self.truth.is_suspect(at);
        }
        if distrust == Some(Distrust::Orphaned) {
            self.truth.is_dead(at, installation);
        }
        drive.seat = Some(Seat { installation, attached, sweeper: Sweeper::default() });
    }

    /// Detaches a volume: its drive has failed, or is closed in order.
    pub(super) fn eject(&mut self, at: usize, has_failed: bool) {
        let drive = &mut self.drives[at];
        let Some(Seat { installation, attached, .. }) = drive.seat.take() else { return };
        let own = &self.installations[installation];
        if has_failed || own.is_failing {
            drive.disk.fail_no_more();
            drive.disk.fail_at(0, Fault::PowerCut);
            drive.is_failed = true;
        }
        let running = own.running.as_ref().unwrap();
        running.register.leave(attached.volume().id(), true).unwrap();
        running.store.detach(&attached);
        attached.close();
        if !drive.is_failed {
            self.truth.noted(at);
        }
    }

    /// The power of all drives of an installation fails after so many operations; the installation ends
    /// later.
    pub(super) fn doom(&mut self, installation: usize, operations: u64) {
        for at in self.drives_of(installation) {
            self.drives[at].disk.fail_at(operations, Fault::PowerCut);
        }
        self.installations[installation].is_failing = true;
    }

    /// A process ends.
    pub(super) fn end(&mut self, installation: usize, end: End) {
        let is_failing = std::mem::take(&mut self.installations[installation].is_failing);
        let end = if is_failing { End::Power } else { end };
        let drives = self.drives_of(installation);
        if end == End::Power {
            self.seed += 1;
            self.installations[installation].cut(self.seed);
        }
        let mut reached = Vec::new();
        self.fills.retain(|fill| fill.installation != installation);
        let running = self.installations[installation].running.take().unwrap();
        for at in &drives {
            let drive = &mut self.drives[*at];
            let Some(Seat { attached, .. }) = drive.seat.take() else { continue };
            if end != End::Stop {
                drive.disk.fail_at(0, Fault::PowerCut);
            }
            attached.close();
            if end == End::Stop && attached.has_failed_removals() {
                running.register.leave(attached.volume().id(), true).unwrap();
            } else if end == End::Stop {
                reached.push((attached.volume().id(), attached.volume().reached()));
            }
            running.store.detach(&attached);
            match end {
                End::Stop => {}
                End::Kill => drive.disk.revive(),
                End::Power => drive.disk.restart(),
            }
        }
        if end == End::Stop {
            let numbers = running.numbers.load(Ordering::Acquire);
            running.register.note(&reached, numbers, running.store.ledger()).unwrap();
            self.truth.synced(installation, &drives);
            self.truth.ended(installation);
        } else {
            self.truth.crashed(installation);
        }
    }

    /// Keeps a copy of the state folder.
    pub(super) fn copy(&mut self, installation: usize) {
        let state = self.installations[installation].state();
        self.installations[installation].copies.push(state);
    }

    /// Puts files of a kept state in place of those of an installation that is not running.
    pub(super) fn replace(&mut self, installation: usize, files: &[Kept], state: &State) {
        let own = &self.installations[installation];
        assert!(own.running.is_none());
        for kept in files {
            own.write(*kept, state.get(kept).map(Vec::as_slice));
        }
        self.truth.forgot(installation);
        if files.contains(&Kept::Ledger) || files.contains(&Kept::Register) {
            self.installations[installation].orphans.clear();
        }
        if files.contains(&Kept::Ledger) && files.contains(&Kept::End) && state.contains_key(&Kept::End) {
            self.truth.lost_fresh(installation);
        }
        if files.len() == 3 && !state.is_empty() {
            self.truth.went_back(installation);
        }
    }

    /// Files of a drive that is nowhere are damaged.
    pub(super) fn damage_drive(&mut self, at: usize, prefix: &str) {
        let disk = &self.drives[at].disk;
        for path in disk.paths().iter().filter(|path| path.starts_with(prefix)) {
            disk.flip(path, 0, 16);
        }
    }

    /// An installation looks for an object, fetches it in any case, and stores it.
    pub(super) fn put(&mut self, installation: usize, number: u64) {
        // What it holds is in memory then, and is removed.
        self.find(installation, number);
        if let Some(fill) = self.begin(installation, number) {
            self.finish(fill);
        }
    }

    /// Half of an object has arrived; the rest comes later.
    pub(super) fn put_slowly(&mut self, installation: usize, number: u64) {
        self.find(installation, number);
        let fill = self.begin(installation, number);
        self.fills.extend(fill);
    }

    fn begin(&mut self, installation: usize, number: u64) -> Option<Fill> {
        let copy = self.truth.fetched(number);
        let length = [200, 9000, 40_000][copy % 3];
        let store = &self.running(installation).store;
        let asking = store.ledger().ask();
        let head = head_of(number, self.truth.version(number), copy);
        let (generation, mut writer) = store.begin(head, key(number), asking.stamp(), Some(length)).ok()?;
        writer.push(body(copy as u64, 0, length as usize / 2)).ok()?;
        let home = self.home(&generation);
        self.truth.began(installation, copy, home);
        Some(Fill { installation, copy, length, writer, _asking: asking })
    }

    fn finish(&mut self, fill: Fill) {
        let Fill { installation, copy, length, mut writer, .. } = fill;
        let rest = length - length / 2;
        if writer.push(body(copy as u64, length / 2, rest as usize)).is_ok() && writer.seal().is_ok() {
            self.truth.stored(installation, copy);
        }
    }

    /// A slow transfer comes to its end.
    pub(super) fn finish_all(&mut self, installation: usize) {
        while let Some(at) = self.fills.iter().position(|fill| fill.installation == installation) {
            let fill = self.fills.swap_remove(at);
            self.finish(fill);
        }
    }

    /// The drive that a generation is on, or was last.
    fn home(&self, generation: &Generation) -> Option<usize> {
        let id = generation.home()?.volume().id();
        (0..self.drives.len()).find(|at| id_of(*at) == id)
    }

    pub(super) fn purge(&mut self, installation: usize, target: Target, force: Force) {
        let (done, wait) = std::sync::mpsc::channel();
        let acknowledge = Box::new(move |result: Result<_, _>| done.send(result.is_ok()).unwrap_or_default());
        let (now, mark) = (self.now(installation), Mark { scope: target.scope(), force });
        self.running(installation).store.purge(&[mark], now, acknowledge);
        assert!(wait.recv().unwrap());
        let drives = self.drives_of(installation);
        self.truth.purged(installation, &drives, &target.urls(), force);
    }

    /// All that an installation has is durable, and noted.
    pub(super) fn sync(&mut self, installation: usize) {
        if self.installations[installation].is_failing {
            return;
        }
        let running = self.running(installation);
        let mut reached = Vec::new();
        for seat in self.drives_of(installation).into_iter().filter_map(|at| self.drives[at].seat.as_ref()) {
            let volume = seat.attached.volume();
            // What was replaced elsewhere is removed by that thread.
            wait(volume.ask(|| ()).unwrap());
            assert!(volume.sync().is_some());
            reached.push((volume.id(), volume.reached()));
        }
        let numbers = running.numbers.load(Ordering::Acquire) + 100;
        running.register.note(&reached, numbers, running.store.ledger()).unwrap();
        let drives = self.drives_of(installation);
        self.truth.synced(installation, &drives);
    }

    /// A pass of the sweeper over one drive.
    pub(super) fn sweep(&mut self, at: usize) {
        let Some(seat) = &mut self.drives[at].seat else { return };
        let own = &self.installations[seat.installation];
        let inside = Arc::clone(own.running.as_ref().unwrap().store.inside_for_tests());
        let passed = seat.sweeper.pass_on(&inside, &seat.attached);
        assert!(
            own.is_failing || matches!(passed, Ok(()) | Err(Stuck::Behind | Stuck::Arriving)),
            "{passed:?}"
        );
    }

    /// One drive moves what it has to the others of its installation.
    pub(super) fn empty(&mut self, at: usize) {
        let Some(seat) = &self.drives[at].seat else { return };
        let installation = seat.installation;
        seat.attached.set_draining(true);
        let emptied = self.running(installation).store.empty(&seat.attached);
        seat.attached.set_draining(false);
        assert!(emptied.is_ok() || self.installations[installation].is_failing);
        for to in self.drives_of(installation).into_iter().filter(|to| *to != at) {
            for copy in self.copies_on(to) {
                self.truth.came(copy, Place::Drive(at), Place::Drive(to));
            }
        }
    }

    /// The numbers of the copies on a drive that is attached.
    fn copies_on(&self, at: usize) -> Vec<usize> {
        let mut copies = Vec::new();
        let Some(seat) = &self.drives[at].seat else { return copies };
        let walked = seat.attached.volume().walk(|record| {
            copies.extend(codec::decode(&record.head, now()).ok().map(|stored| number_of(&stored)));
            std::ops::ControlFlow::Continue(())
        });
        assert!(walked.is_ok() || self.installations[seat.installation].is_failing);
        copies
    }

    /// What an installation finds, and where.
    fn find(&self, installation: usize, number: u64) -> Option<(Arc<Generation>, Place)> {
        let (store, key) = (&self.running(installation).store, key(number));
        let mut is_on_disk = false;
        if let Found::Ask(ask) = store.find(key.digest, &key.full, key.site, &|_| true) {
            is_on_disk = true;
            ask.wait();
        }
        let Found::Ready(found) = store.find(key.digest, &key.full, key.site, &|_| true) else { return None };
        let found = found.filter(|found| found.is_whole())?;
        let (memory, copy) = (Place::Memory(installation), number_of(&found.head().stored));
        let place = match self.home(&found) {
            Some(drive) if is_on_disk || !self.truth.lies(memory, copy) => Place::Drive(drive),
            _ => memory,
        };
        Some((found, place))
    }

    /// Whether anything is found of an object.
    pub(super) fn holds(&self, installation: usize, number: u64) -> bool {
        self.find(installation, number).is_some()
    }

    /// A request: what is suspect or outdated is revalidated, what is not held is fetched. Returns the
    /// version that the client gets and whether the origin was asked, or why the client may not get it.
    pub(super) fn get(&mut self, installation: usize, number: u64) -> Result<(u64, Use), String> {
        let Some((found, place)) = self.find(installation, number) else {
            self.put(installation, number);
            return Ok((self.truth.version(number), Use::Asked));
        };
        let head = found.head();
        let copy = number_of(&head.stored);
        let flags = head.stored.facts.flags;
        let is_asked = flags.has(StoredFlags::SUSPECT) || flags.has(StoredFlags::PURGED);
        let how = if is_asked { Use::Asked } else { Use::Plain };
        if let Some(why) = self.truth.objection(installation, place, copy, how) {
            return Err(why);
        }
        self.used[usize::from(is_asked)] += 1;
        if place != Place::Memory(installation) {
            self.truth.came(copy, place, Place::Memory(installation));
        }
        let version = self.truth.copy(copy).version;
        if how == Use::Plain {
            return Ok((version, how));
        }
        if version == self.truth.version(number) {
            let renewed = head_of(number, version, copy).into_stored();
            let store = &self.running(installation).store;
            store.freshen(&found, renewed, store.ledger().current());
        } else {
            self.put(installation, number);
        }
        Ok((self.truth.version(number), how))
    }
}

/// The head of a copy.
fn head_of(url: u64, version: u64, copy: usize) -> Storable {
    let (etag, tags) = (format!("\"{version}.{copy}\""), format!("tag{} other", tag_of(url)));
    proof(&[], &[("etag", &etag), ("surrogate-key", &tags)])
}

/// The number of a copy, from its head.
fn number_of(stored: &weir_policy::Stored) -> usize {
    let etag = stored.headers["etag"].to_str().unwrap().trim_matches('"');
    etag.split_once('.').unwrap().1.parse().unwrap()
}
