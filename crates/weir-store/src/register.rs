//! The register: which volumes the house knows, how far each was when it was last seen, and since when one
//! that was away is not to be believed. A file of the state folder, written whole and renamed, a line a
//! volume (`docs/format/register.md`).
//!
//! A volume that was pulled, ejected, restored from a copy, or used elsewhere lacks what happened meanwhile:
//! what was purged there may have no mark any more, and what was replaced may lie on another volume. So a
//! volume is believed only if it is the one that was seen last, no older, and no copy of it ([`Opening`]):
//! otherwise what it holds is asked about before it is used ([`Arrival::trusted_from`]), or is gone
//! ([`Arrival::dead_below`]) where marks were dropped in its absence.

mod text;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_disk::Disk;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::ledger::{Ledger, Past, Stamp};
use crate::volume::{Bears, Opening, Reached, Volume, random};

/// Its name in the state folder.
const NAME: &str = "volumes";
/// No ledger gets so far: a volume that says so was written by none.
const NUMBER_MAX: u64 = 1 << 63;
/// How many volumes are remembered that nobody expects back.
const FORGOTTEN_AFTER: usize = 256;
/// How many starts are remembered that did not come far enough to forget the others.
const ANNOUNCED_MAX: usize = 16;
/// A register is never longer than this, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// The volumes that the house knows.
#[derive(Debug)]
pub struct Register {
    disk: Arc<dyn Disk>,
    state: Mutex<State>,
    own: Mutex<Announced>,
}

/// What this process has announced.
#[derive(Debug, Default)]
struct Announced {
    /// What the numbers of first openings are made of; durable.
    with: Option<u64>,
    /// The volumes that have had theirs.
    opened: BTreeSet<u128>,
    /// What starts before have announced and perhaps not written down.
    before: Vec<u64>,
}

impl Announced {
    fn has_announced(&self, id: u128, opening: u64) -> bool {
        self.with.is_some_and(|with| announced_opening(with, id) == opening)
    }
}

/// The number of the opening of a volume that was announced so.
fn announced_opening(with: u64, id: u128) -> u64 {
    xxh3_64_with_seed(&id.to_le_bytes(), with)
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    /// Objects have got numbers up to here.
    numbers: u64,
    /// The ledger has reached this number, durably.
    ledger: u64,
    /// What openings were announced with by starts that have not come as far as [`Register::call`], and by
    /// the last one.
    announced: Vec<u64>,
    volumes: BTreeMap<u128, Entry>,
    /// The file may not say this; not written down.
    is_unwritten: bool,
}

/// What is known of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    /// Its durable epoch when it was last written down, and where its log ended: it is never behind that.
    reached: Reached,
    /// What it says of its last opening.
    opening: u64,
    /// With which ledger it was used last; 0 where that had no id yet.
    ledger: u128,
    /// It was there all the time since.
    is_present: bool,
    /// It has arrived in this process; not written down. One that has not lacks what happens now, though it
    /// may have been present.
    is_here: bool,
    /// It has arrived in this process, and may have left; not written down.
    was_here: bool,
    /// It is to come back.
    is_expected: bool,
    trusted_from: u64,
    dead_below: u64,
    /// Its folder was on a drive of its own.
    is_mount: bool,
    path: String,
}

impl Entry {
    /// Whether a volume of that opening would be believed at the next start.
    fn matches(&self, opening: Opening, is_announced: bool) -> bool {
        self.is_present && (self.opening == opening.own || is_announced)
    }
}

/// A volume that has been opened.
#[derive(Debug, Clone, Copy)]
pub struct Arriving<'a> {
    /// Which one.
    pub id: u128,
    /// Its folder.
    pub path: &'a str,
    /// How far it has come.
    pub reached: Reached,
    /// What it said of its last opening, and says of this one.
    pub opening: Opening,
    /// Which numbers of a ledger it bears.
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

/// What a volume that has been opened is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// What was asked for before this number of the ledger is asked about before it is used.
    pub trusted_from: Stamp,
    /// What was asked for before this number is gone.
    pub dead_below: Stamp,
    /// Why it is not believed from now on.
    pub distrust: Option<Distrust>,
}

/// Why what a volume holds is not used as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// The house does not know it.
    Unknown,
    /// It was away, was used elsewhere, or is a copy.
    Away,
    /// It bears numbers that the ledger has not reached: the ledger is a copy from before.
    Ahead,
    /// It was used with a ledger that is gone: what that made dead is not known, and all of it is dead.
    Orphaned,
}

impl Distrust {
    /// What it comes to, after the volume's name.
    pub fn sentence(self) -> &'static str {
        match self {
            Distrust::Unknown => "is not known here: what it holds is asked about before it is used",
            Distrust::Away => {
                "was away, was used elsewhere, or is a copy: what it holds is asked about before it is used"
            }
            Distrust::Ahead => {
                "is ahead of the ledger, which is a copy from before: what all volumes hold is asked about before it is used"
            }
            Distrust::Orphaned => {
                "was used with a ledger that is lost: what it holds is not used any more, since nobody knows what of it was purged"
            }
        }
    }
}

impl Register {
    /// The register of a state folder. One that is lost or damaged knows nothing, so that every volume that
    /// holds something is asked about; whether it was damaged is said beside it.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn open(disk: Arc<dyn Disk>) -> io::Result<(Register, bool)> {
        let (state, is_damaged) = load(&*disk)?;
        let register = Register { disk, state: Mutex::new(state), own: Mutex::default() };
        Ok((register, is_damaged))
    }

    /// Reads it again, when another process has written it.
    ///
    /// # Errors
    /// As [`Register::open`].
    pub fn reload(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        (*state, _) = load(&*self.disk)?;
        Ok(())
    }

    /// Says, before volumes are opened, that their openings will be this process's: one that is killed before
    /// it could write down that a volume has come is known by the next. Where that cannot be written their
    /// numbers are as any.
    pub fn announce(&self) {
        let mut state = self.state.lock();
        let (with, before) = (random::word(), state.announced.clone());
        let mut wanted = state.clone();
        let superfluous = (wanted.announced.len() + 1).saturating_sub(ANNOUNCED_MAX);
        wanted.announced.drain(..superfluous);
        wanted.announced.push(with);
        let with = self.write(&mut state, wanted).is_ok().then_some(with);
        *self.own.lock() = Announced { with, opened: BTreeSet::new(), before };
    }

    /// The number of an opening of a volume that is about to be opened.
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

    /// Whether the file may not say what is known.
    pub fn is_unwritten(&self) -> bool {
        self.state.lock().is_unwritten
    }

    /// Whether the volume that was last in a folder was on a drive of its own: then an empty folder that is
    /// on the root's drive is a mount that is missing.
    pub fn was_mount(&self, path: &str) -> bool {
        self.state.lock().volumes.values().any(|entry| entry.path == path && entry.is_mount)
    }

    /// Whether a volume was ever in a folder, as far as is known.
    pub fn knows(&self, path: &str) -> bool {
        self.state.lock().volumes.values().any(|entry| entry.path == path)
    }

    /// The volume that is expected in a folder in which another one is found.
    pub fn other_in(&self, path: &str, found: u128) -> Option<u128> {
        let state = self.state.lock();
        let is_other =
            |(id, entry): &(&u128, &Entry)| **id != found && entry.is_expected && entry.path == path;
        state.volumes.iter().find(is_other).map(|(id, _)| *id)
    }

    /// Says that a volume is there from now on, and leads the ledger beyond all numbers that it bears, so
    /// that whatever is marked from now on concerns it; durable when it returns.
    ///
    /// Where it cannot be written down that is done later, and a start before then finds another opening than
    /// the last one it knows.
    ///
    /// # Errors
    /// It cannot be written down, nor would that be noticed; or its numbers are no ledger's: the volume is
    /// not to be used.
    pub fn arrive(&self, volume: Arriving<'_>, ledger: &Ledger) -> io::Result<Arrival> {
        let mut state = self.state.lock();
        let known = state.volumes.get(&volume.id);
        let distrust = distrust(&volume, known, ledger, &self.own.lock().before);
        let (trusted_from, dead_below) = known.map_or((0, 0), |entry| (entry.trusted_from, entry.dead_below));
        let largest = volume.bears.largest.max(trusted_from).max(dead_below);
        if largest >= NUMBER_MAX {
            return Err(io::Error::other("it bears numbers that no ledger gave"));
        }
        ledger.raise(largest);
        let (mut trusted_from, mut dead_below) = match volume.is_empty {
            // There is nothing to ask about.
            true => (0, 0),
            false => (trusted_from.max(ledger.doubted().number()), dead_below),
        };
        match distrust {
            Some(Distrust::Orphaned) => dead_below = ledger.step().number(),
            Some(Distrust::Unknown | Distrust::Away | Distrust::Ahead) => {
                trusted_from = ledger.step().number();
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
            trusted_from,
            dead_below,
            is_mount: volume.is_mount,
            path: volume.path.to_owned(),
        };
        let mut wanted = state.clone();
        // What was in that folder before is not to be waited for.
        for other in wanted.volumes.values_mut().filter(|other| other.path == volume.path) {
            (other.is_expected, other.is_present, other.is_here) = (false, false, false);
        }
        if distrust == Some(Distrust::Ahead) {
            // What the ledger has lost may concern the others as well.
            for other in wanted.volumes.values_mut() {
                other.trusted_from = other.trusted_from.max(trusted_from);
            }
        }
        wanted.volumes.insert(volume.id, entry);
        wanted.ledger = wanted.ledger.max(ledger.state().durable);
        // Where nothing can be written, what is there must not believe it at the next start.
        let is_announced = self.own.lock().has_announced(volume.id, volume.opening.own);
        let is_another =
            !state.is_unwritten && known.is_none_or(|entry| !entry.matches(volume.opening, is_announced));
        let is_safe = is_another || volume.opening.is_new() && !is_announced;
        match self.write(&mut state, wanted) {
            Err(error) if !is_safe => return Err(error),
            Ok(()) | Err(_) => {}
        }
        Ok(Arrival { trusted_from: Stamp::of(trusted_from), dead_below: Stamp::of(dead_below), distrust })
    }

    /// Says that a volume is not there from now on, and whether it is expected back; durable when it returns.
    ///
    /// # Errors
    /// It is not durable. What the house does now without the volume may be undone by it after a crash.
    pub fn leave(&self, id: u128, is_expected: bool) -> io::Result<()> {
        self.change(|volumes| {
            if let Some(entry) = volumes.get_mut(&id) {
                (entry.is_present, entry.is_here, entry.is_expected) = (false, false, is_expected);
            }
        })
    }

    /// Takes back that a volume is not there: it was all the time, and what it owed is durable.
    ///
    /// # Errors
    /// It is not durable: at its next opening it is asked about.
    pub fn settle(&self, id: u128, reached: Reached) -> io::Result<()> {
        self.change(|volumes| {
            if let Some(entry) = volumes.get_mut(&id) {
                (entry.is_present, entry.is_here) = (true, true);
            }
            note(volumes, &[(id, reached)]);
        })
    }

    /// Says of all volumes whose folders are not among these that nobody expects them, and of all others but
    /// the present ones that they are away.
    ///
    /// # Errors
    /// As [`Register::leave`].
    pub fn call(&self, expected: &[&str], present: &[u128]) -> io::Result<()> {
        let mut state = self.state.lock();
        let mut wanted = state.clone();
        for (id, entry) in &mut wanted.volumes {
            entry.is_expected &= expected.contains(&entry.path.as_str());
            entry.is_present &= present.contains(id);
        }
        let superfluous = wanted.announced.len().saturating_sub(1);
        wanted.announced.drain(..superfluous);
        self.write(&mut state, wanted)
    }

    /// Whether a volume is away that is expected back, or is still being opened: marks are kept for it while
    /// there is room.
    pub(crate) fn is_somebody_away(&self) -> bool {
        self.state.lock().volumes.values().any(|entry| entry.is_expected && !entry.is_here)
    }

    /// Says before marks are dropped that whatever was not swept by them is dead: all that is not here, and
    /// `unswept`. `reached` is how far those have come that were.
    ///
    /// # Errors
    /// Nothing was said: the marks are to be kept.
    pub(crate) fn lose(&self, until: Stamp, unswept: &[u128], reached: &[(u128, Reached)]) -> io::Result<()> {
        self.change(|volumes| {
            for (id, entry) in volumes.iter_mut() {
                if !entry.is_here || unswept.contains(id) {
                    entry.dead_below = entry.dead_below.max(until.number());
                }
            }
            note(volumes, reached);
        })
    }

    /// Writes down how far the volumes that are there, and the ledger, have come, and which numbers objects
    /// got.
    ///
    /// # Errors
    /// It was not written down.
    pub fn note(&self, reached: &[(u128, Reached)], numbers: u64, ledger: &Ledger) -> io::Result<()> {
        let mut state = self.state.lock();
        let mut wanted = state.clone();
        wanted.numbers = wanted.numbers.max(numbers);
        wanted.ledger = wanted.ledger.max(ledger.state().durable);
        note(&mut wanted.volumes, reached);
        self.write(&mut state, wanted)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<u128, Entry>)) -> io::Result<()> {
        let mut state = self.state.lock();
        let mut wanted = state.clone();
        change(&mut wanted.volumes);
        self.write(&mut state, wanted)
    }

    /// Writes what is wanted, if it is news; in memory it is so in either case, so that this process does not
    /// forget.
    fn write(&self, state: &mut State, mut wanted: State) -> io::Result<()> {
        wanted.forget();
        if *state == wanted && !state.is_unwritten {
            return Ok(());
        }
        *state = State { is_unwritten: true, ..wanted };
        self.disk.replace(NAME, state.to_text().as_bytes())?;
        state.is_unwritten = false;
        Ok(())
    }
}

/// Why a volume is not to be believed. What it says of this very ledger counts though it holds nothing, or
/// was away. `announced` is what starts announced that were perhaps killed before they could write down that
/// it came.
fn distrust(
    volume: &Arriving<'_>,
    known: Option<&Entry>,
    ledger: &Ledger,
    announced: &[u64],
) -> Option<Distrust> {
    let Bears { largest, reached } = volume.bears;
    // One that was here in this process has followed the ledger since that was opened.
    let was_here = known.is_some_and(|entry| entry.was_here);
    if reached.ledger == ledger.id() && reached.number > ledger.found() && !was_here {
        return Some(Distrust::Ahead);
    }
    let Some(entry) = known.filter(|_| !volume.is_empty) else {
        let why = if ledger.past() == Past::New { Distrust::Orphaned } else { Distrust::Unknown };
        return (!volume.is_empty).then_some(why);
    };
    // Without an id only what was used with a ledger that has got its own since.
    if entry.ledger != ledger.id() && !(entry.ledger == 0 && ledger.is_adopted()) {
        return Some(Distrust::Orphaned);
    }
    let found = volume.opening.found;
    let is_own = |with: &u64| found == announced_opening(*with, volume.id);
    let is_other = found != entry.opening && !announced.iter().any(is_own);
    if !entry.is_present || is_other || volume.reached.is_behind(entry.reached) {
        return Some(Distrust::Away);
    }
    let largest = largest.max(entry.trusted_from).max(entry.dead_below);
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
    /// Bounds what is remembered of volumes that nobody expects.
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
