//! The register: which volumes Weir knows, how far each had come when it was last seen, and which of them are
//! suspect. It is a file of the state folder, replaced as a whole, with a line for each volume
//! (`docs/format/register.md`).
//!
//! A volume that was pulled, ejected, restored from a copy, or used elsewhere lacks what happened meanwhile.
//! The mark of a purge may have been dropped since, and a newer version may lie on another volume. So a
//! volume is believed only if it is the one that was seen last, no older, and no copy of it ([`Opening`]).
//! Otherwise what it holds is revalidated before it is used ([`Arrival::suspect_before`]), or is dead
//! ([`Arrival::dead_before`]) where marks were dropped in its absence.

mod desk;
mod text;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use weir_disk::Disk;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use self::desk::Desk;
use crate::ledger::{Ledger, Past, Stamp};
use crate::volume::{Bears, Opening, Reached, Volume, random};

/// Its name in the state folder.
const NAME: &str = "volumes";
/// No ledger comes this far: a volume that says so was written by none.
const NUMBER_MAX: u64 = 1 << 63;
/// The most volumes remembered that nobody expects back.
const FORGOTTEN_AFTER: usize = 256;
/// The most starts remembered that ended before they could forget the others.
const ANNOUNCED_MAX: usize = 16;
/// The largest register, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// The volumes that Weir knows. No lock is held while the file is written.
#[derive(Debug)]
pub struct Register {
    disk: Arc<dyn Disk>,
    desk: Desk,
    state: Mutex<State>,
    /// What workers ask.
    is_somebody_away: AtomicBool,
    own: Mutex<Announced>,
}

/// The openings that this process has announced.
#[derive(Debug, Default)]
struct Announced {
    /// The seed of the numbers of first openings; durable.
    with: Option<u64>,
    /// The volumes that had their first opening.
    opened: BTreeSet<u128>,
    /// The seeds that earlier starts announced.
    before: Vec<u64>,
}

impl Announced {
    fn has_announced(&self, id: u128, opening: u64) -> bool {
        self.with.is_some_and(|with| announced_opening(with, id) == opening)
    }
}

/// The announced number of a volume's opening.
fn announced_opening(with: u64, id: u128) -> u64 {
    xxh3_64_with_seed(&id.to_le_bytes(), with)
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    /// Objects have numbers up to this one.
    numbers: u64,
    /// The ledger has reached this number, durably.
    ledger: u64,
    /// The seeds announced by the last start, and by starts that ended before [`Register::call`].
    announced: Vec<u64>,
    volumes: BTreeMap<u128, Entry>,
}

/// What is known of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    /// Its durable epoch when it was last written here, and where its log ended. It is never behind that.
    reached: Reached,
    /// The number of its last opening.
    opening: u64,
    /// The ledger that it was used with last; 0 where that had no identity yet.
    ledger: u128,
    /// It was there all the time since.
    is_present: bool,
    /// It has arrived in this process; not written. If it has not, it lacks what happens now, though it may
    /// have been present.
    is_here: bool,
    /// It has arrived in this process, and may have left; not written.
    was_here: bool,
    /// It is expected back.
    is_expected: bool,
    suspect_before: u64,
    dead_before: u64,
    /// Its folder was on a drive of its own.
    is_mount: bool,
    path: String,
}

impl Entry {
    /// Whether a volume with this opening would be believed at the next start.
    fn matches(&self, opening: Opening, is_announced: bool) -> bool {
        self.is_present && (self.opening == opening.own || is_announced)
    }
}

/// A volume that has been opened.
#[derive(Debug, Clone, Copy)]
pub struct Arriving<'a> {
    /// Its identity.
    pub id: u128,
    /// Its folder.
    pub path: &'a str,
    /// How far it has come.
    pub reached: Reached,
    /// The numbers of its last opening and of this one.
    pub opening: Opening,
    /// The ledger's numbers that it holds.
    pub bears: Bears,
    /// Whether it holds nothing.
    pub is_empty: bool,
    /// Whether its folder is on another drive than the root of the file system.
    pub is_mount: bool,
}

impl<'a> Arriving<'a> {
    /// Of a volume in that folder, by that opening of it.
    pub(crate) fn of(volume: &Volume, path: &'a str, opening: Opening, is_mount: bool) -> Arriving<'a> {
        Arriving {
            id: volume.id(),
            path,
            reached: volume.found(),
            opening,
            bears: volume.bears(),
            is_empty: volume.usage().objects == 0,
            is_mount,
        }
    }
}

/// What a volume is told that has been opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// What was asked for before this number of the ledger is revalidated before it is used.
    pub suspect_before: Stamp,
    /// What was asked for before this number is dead.
    pub dead_before: Stamp,
    /// Why it is not believed, if it is not.
    pub distrust: Option<Distrust>,
}

/// Why a volume is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// Weir does not know it.
    Unknown,
    /// It was away, was used elsewhere, or is a copy.
    Away,
    /// It has numbers that the ledger has not reached: the ledger is an old copy.
    Ahead,
    /// It was used with a ledger that is lost. What that made dead is not known, so that all of it is dead.
    Orphaned,
}

impl Distrust {
    /// What follows, as a sentence after the volume's name.
    pub fn sentence(self) -> &'static str {
        match self {
            Distrust::Unknown => "is not known here: what it holds is asked about before it is used",
            Distrust::Away => {
                "was away, was used elsewhere, or is a copy: what it holds is asked about before it is used"
            }
            Distrust::Ahead => {
                "is ahead of the ledger, which is a copy from before: what all volumes hold is asked about \
                before it is used"
            }
            Distrust::Orphaned => {
                "was used with a ledger that is lost: what it holds is not used any more, since nobody \
                knows what of it was purged"
            }
        }
    }
}

impl Register {
    /// Opens the register of a state folder. A lost or damaged one knows nothing, so that every volume with
    /// content is suspect. The second value says whether it was damaged.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn open(disk: Arc<dyn Disk>) -> io::Result<(Register, bool)> {
        let (state, is_damaged) = load(&*disk)?;
        let register = Register {
            desk: Desk::new(Arc::clone(&disk)),
            disk,
            is_somebody_away: AtomicBool::new(state.is_somebody_away()),
            state: Mutex::new(state),
            own: Mutex::default(),
        };
        Ok((register, is_damaged))
    }

    /// Reads it again, when another process has written it.
    ///
    /// # Errors
    /// As [`Register::open`].
    pub fn reload(&self) -> io::Result<()> {
        let (found, _) = load(&*self.disk)?;
        let mut state = self.state.lock();
        self.is_somebody_away.store(found.is_somebody_away(), Ordering::Release);
        *state = found;
        Ok(())
    }

    /// Announces, before volumes are opened, that their openings will be this process's. If it is killed
    /// before it could write that a volume came, the next start knows the opening. If the announcement cannot
    /// be written, openings have random numbers.
    pub fn announce(&self) {
        let state = self.state.lock();
        let (with, before) = (random::word(), state.announced.clone());
        let mut wanted = state.clone();
        let superfluous = (wanted.announced.len() + 1).saturating_sub(ANNOUNCED_MAX);
        wanted.announced.drain(..superfluous);
        wanted.announced.push(with);
        let with = self.write(state, wanted).is_ok().then_some(with);
        *self.own.lock() = Announced { with, opened: BTreeSet::new(), before };
    }

    /// The number for a volume that is about to be opened.
    pub fn opening(&self, id: u128) -> u64 {
        let mut own = self.own.lock();
        let is_first = own.opened.insert(id);
        own.with.filter(|_| is_first).map_or_else(random::word, |with| announced_opening(with, id))
    }

    /// A number that no object has, as far as is known.
    pub fn numbers(&self) -> u64 {
        self.state.lock().numbers
    }

    /// A number that the ledger has reached.
    pub fn ledger_number(&self) -> u64 {
        self.state.lock().ledger
    }

    /// Whether the file may say less than is known.
    pub fn is_unwritten(&self) -> bool {
        self.desk.is_unwritten()
    }

    /// Whether the last volume in a folder was on a drive of its own. Then an empty folder on the root's
    /// drive is a missing mount.
    pub fn was_mount(&self, path: &str) -> bool {
        self.state.lock().volumes.values().any(|entry| entry.path == path && entry.is_mount)
    }

    /// Whether a volume was ever in a folder, as far as is known.
    pub fn knows(&self, path: &str) -> bool {
        self.state.lock().volumes.values().any(|entry| entry.path == path)
    }

    /// The volume that is expected in a folder, where another one is found.
    pub fn other_in(&self, path: &str, found: u128) -> Option<u128> {
        let state = self.state.lock();
        let is_other =
            |(id, entry): &(&u128, &Entry)| **id != found && entry.is_expected && entry.path == path;
        state.volumes.iter().find(is_other).map(|(id, _)| *id)
    }

    /// Notes that a volume is there, and raises the ledger beyond all numbers that the volume has, so that
    /// all later marks concern it. Durable when it returns.
    ///
    /// If it cannot be written now that is done later. A start before then finds another opening than the
    /// last that it knows.
    ///
    /// # Errors
    /// It can neither be written nor be noticed at the next start, or the volume has numbers that no ledger
    /// gave. Then the volume must not be used.
    pub fn arrive(&self, volume: Arriving<'_>, ledger: &Ledger) -> io::Result<Arrival> {
        let before = self.state.lock().volumes.get(&volume.id).cloned();
        let distrust = distrust(&volume, before.as_ref(), ledger, &self.own.lock().before);
        let (suspect_before, dead_before) = numbers_of(before.as_ref());
        let largest = volume.bears.largest.max(suspect_before).max(dead_before);
        if largest >= NUMBER_MAX {
            return Err(io::Error::other("it bears numbers that no ledger gave"));
        }
        // It waits for the drive: not under the lock.
        ledger.raise(largest);
        let state = self.state.lock();
        let known = state.volumes.get(&volume.id);
        let (suspect_before, dead_before) = numbers_of(known);
        let (mut suspect_before, mut dead_before) = match volume.is_empty {
            // There is nothing to revalidate.
            true => (0, 0),
            false => (suspect_before.max(ledger.suspect_before().number()), dead_before),
        };
        match distrust {
            Some(Distrust::Orphaned) => dead_before = ledger.step().number(),
            Some(Distrust::Unknown | Distrust::Away | Distrust::Ahead) => {
                suspect_before = ledger.step().number();
            }
            None => {}
        }
        let entry = Entry {
            reached: volume.reached,
            opening: volume.opening.own,
            ledger: ledger.id(),
            is_present: true,
            is_here: true,
            was_here: true,
            is_expected: true,
            suspect_before,
            dead_before,
            is_mount: volume.is_mount,
            path: volume.path.to_owned(),
        };
        let mut wanted = state.clone();
        // The volume that was in that folder before is not expected any more.
        for other in wanted.volumes.values_mut().filter(|other| other.path == volume.path) {
            (other.is_expected, other.is_present, other.is_here) = (false, false, false);
        }
        if distrust == Some(Distrust::Ahead) {
            // Marks that the ledger has lost may concern the other volumes as well.
            for other in wanted.volumes.values_mut() {
                other.suspect_before = other.suspect_before.max(suspect_before);
            }
        }
        wanted.volumes.insert(volume.id, entry);
        wanted.ledger = wanted.ledger.max(ledger.state().durable);
        // If nothing can be written, the file must not say what would be believed at the next start.
        let is_announced = self.own.lock().has_announced(volume.id, volume.opening.own);
        let is_another = !self.desk.is_unwritten()
            && known.is_none_or(|entry| !entry.matches(volume.opening, is_announced));
        let is_safe = is_another || volume.opening.is_new() && !is_announced;
        match self.write(state, wanted) {
            Err(error) if !is_safe => return Err(error),
            Ok(()) | Err(_) => {}
        }
        Ok(Arrival {
            suspect_before: Stamp::of(suspect_before),
            dead_before: Stamp::of(dead_before),
            distrust,
        })
    }

    /// Notes that a volume is not there, and whether it is expected back. Durable when it returns.
    ///
    /// # Errors
    /// It is not durable. After a crash the volume may be believed, though it lacks what happens from now on.
    pub fn leave(&self, id: u128, is_expected: bool) -> io::Result<()> {
        self.change(|volumes| {
            if let Some(entry) = volumes.get_mut(&id) {
                (entry.is_present, entry.is_here, entry.is_expected) = (false, false, is_expected);
            }
        })
    }

    /// Takes back that a volume is not there: it was all the time, and its removals are durable now.
    ///
    /// # Errors
    /// It is not durable: at its next opening the volume is suspect.
    pub fn settle(&self, id: u128, reached: Reached) -> io::Result<()> {
        self.change(|volumes| {
            if let Some(entry) = volumes.get_mut(&id) {
                (entry.is_present, entry.is_here) = (true, true);
            }
            note(volumes, &[(id, reached)]);
        })
    }

    /// Notes that volumes outside of these folders are not expected, and that all but the present ones are
    /// away.
    ///
    /// # Errors
    /// As [`Register::leave`].
    pub fn call(&self, expected: &[&str], present: &[u128]) -> io::Result<()> {
        let state = self.state.lock();
        let mut wanted = state.clone();
        for (id, entry) in &mut wanted.volumes {
            entry.is_expected &= expected.contains(&entry.path.as_str());
            entry.is_present &= present.contains(id);
        }
        let superfluous = wanted.announced.len().saturating_sub(1);
        wanted.announced.drain(..superfluous);
        self.write(state, wanted)
    }

    /// Whether an expected volume is away or still being opened: marks are kept for it while there is room.
    /// Waits for nothing.
    pub(crate) fn is_somebody_away(&self) -> bool {
        self.is_somebody_away.load(Ordering::Acquire)
    }

    /// Notes, before marks are dropped, that what was not swept by them is dead: all volumes that are not
    /// here, and `unswept`. `reached` says how far the swept ones have come.
    ///
    /// # Errors
    /// Nothing was noted: the marks must be kept.
    pub(crate) fn lose(&self, until: Stamp, unswept: &[u128], reached: &[(u128, Reached)]) -> io::Result<()> {
        self.change(|volumes| {
            for (id, entry) in volumes.iter_mut() {
                if !entry.is_here || unswept.contains(id) {
                    entry.dead_before = entry.dead_before.max(until.number());
                }
            }
            note(volumes, reached);
        })
    }

    /// Writes how far the present volumes and the ledger have come, and the numbers of objects.
    ///
    /// # Errors
    /// It was not written.
    pub fn note(&self, reached: &[(u128, Reached)], numbers: u64, ledger: &Ledger) -> io::Result<()> {
        let durable = ledger.state().durable;
        let state = self.state.lock();
        let mut wanted = state.clone();
        wanted.numbers = wanted.numbers.max(numbers);
        wanted.ledger = wanted.ledger.max(durable);
        note(&mut wanted.volumes, reached);
        self.write(state, wanted)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<u128, Entry>)) -> io::Result<()> {
        let state = self.state.lock();
        let mut wanted = state.clone();
        change(&mut wanted.volumes);
        self.write(state, wanted)
    }

    /// Writes the wanted state, if it is new, and waits for that, for a bounded time. In memory it holds in
    /// either case and at once, so that this process does not forget it.
    fn write(&self, mut state: MutexGuard<'_, State>, mut wanted: State) -> io::Result<()> {
        wanted.forget();
        if *state == wanted && !self.desk.is_unwritten() {
            return Ok(());
        }
        *state = wanted;
        self.is_somebody_away.store(state.is_somebody_away(), Ordering::Release);
        // Under the lock: texts come in the order of what they say.
        let number = self.desk.ask(state.to_text());
        drop(state);
        self.desk.wait(number)
    }
}

/// What is asked about before it is used, and what is dead.
fn numbers_of(known: Option<&Entry>) -> (u64, u64) {
    known.map_or((0, 0), |entry| (entry.suspect_before, entry.dead_before))
}

/// Why a volume is not believed. What it says of this ledger counts even if it is empty or was away.
/// `announced` are the seeds of earlier starts, which may have been killed before they could write that it
/// came.
fn distrust(
    volume: &Arriving<'_>,
    known: Option<&Entry>,
    ledger: &Ledger,
    announced: &[u64],
) -> Option<Distrust> {
    let Bears { largest, reached } = volume.bears;
    // A volume that was here in this process has followed the ledger since then.
    let was_here = known.is_some_and(|entry| entry.was_here);
    if reached.ledger == ledger.id() && reached.number > ledger.found() && !was_here {
        return Some(Distrust::Ahead);
    }
    let Some(entry) = known.filter(|_| !volume.is_empty) else {
        let why = if ledger.past() == Past::New { Distrust::Orphaned } else { Distrust::Unknown };
        return (!volume.is_empty).then_some(why);
    };
    // Without an identity, only with a ledger that has got its own since.
    if entry.ledger != ledger.id() && !(entry.ledger == 0 && ledger.is_adopted()) {
        return Some(Distrust::Orphaned);
    }
    let found = volume.opening.found;
    let is_own = |with: &u64| found == announced_opening(*with, volume.id);
    let is_other = found != entry.opening && !announced.iter().any(is_own);
    if !entry.is_present || is_other || volume.reached.is_behind(entry.reached) {
        return Some(Distrust::Away);
    }
    let largest = largest.max(entry.suspect_before).max(entry.dead_before);
    (largest > ledger.current().number()).then_some(Distrust::Ahead)
}

/// What the file says, and whether it is damaged.
fn load(disk: &dyn Disk) -> io::Result<(State, bool)> {
    let state = match disk.read(NAME, BYTES_MAX) {
        Ok(None) => return Ok((State::default(), false)),
        Ok(Some(bytes)) => State::read(&bytes),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => None,
        Err(error) => return Err(error),
    };
    let is_damaged = state.is_none();
    Ok((state.unwrap_or_default(), is_damaged))
}

fn note(volumes: &mut BTreeMap<u128, Entry>, reached: &[(u128, Reached)]) {
    for (id, reached) in reached {
        if let Some(entry) = volumes.get_mut(id).filter(|entry| entry.is_present) {
            let before = entry.reached;
            let (epoch, end) = (before.epoch.max(reached.epoch), before.end.max(reached.end));
            entry.reached = Reached { epoch, end };
        }
    }
}

impl State {
    fn is_somebody_away(&self) -> bool {
        self.volumes.values().any(|entry| entry.is_expected && !entry.is_here)
    }

    /// Forgets the oldest volumes that nobody expects.
    fn forget(&mut self) {
        let unexpected: Vec<u128> =
            self.volumes.iter().filter(|(_, entry)| !entry.is_expected).map(|(id, _)| *id).collect();
        for id in unexpected.iter().skip(FORGOTTEN_AFTER) {
            self.volumes.remove(id);
        }
    }
}

#[cfg(test)]
mod tests;
