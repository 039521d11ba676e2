//! The register: which volumes the house knows, how far each was when it was last seen, and since when one that was away is not to
//! be believed. A file of the state folder, written whole and renamed, a line a volume (`docs/format/register.md`).
//!
//! A volume that was pulled, ejected, restored from a copy, or used elsewhere lacks what happened meanwhile: what was purged there
//! may have no mark any more, and what was replaced may lie on another volume. So a volume is believed only if it is the one that
//! was seen last, no older, and no copy of it ([`Opening`]): otherwise what it holds is asked about before it is used ([`Arrival::trusted_from`]), or is gone
//! ([`Arrival::dead_below`]) where marks were dropped in its absence.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::ledger::{Durable, Ledger, Past, Stamp};
use crate::scratch::{self, Scratch};

/// Its name in the state folder.
const NAME: &str = "volumes";
const NEW_NAME: &str = "volumes.new";
const FIRST_LINE: &str = "weir volumes 3";
/// The version before, which knows nothing of the ledger.
const FIRST_LINE_2: &str = "weir volumes 2";
/// No ledger gets so far: a volume that says so was written by none.
const NUMBER_MAX: u64 = 1 << 63;
/// How many volumes are remembered that nobody expects back.
const FORGOTTEN_AFTER: usize = 256;
/// A register is never longer than this, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// The volumes that the house knows.
#[derive(Debug)]
pub struct Register {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    /// Objects have got numbers up to here.
    numbers: u64,
    /// The ledger has reached this number, durably.
    ledger: u64,
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
    /// It has arrived in this process; not written down. One that has not lacks what happens now, though it may have been present.
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

/// How far a volume has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// The last epoch that is durable; 0 where that is not known, since the index was made anew.
    pub epoch: u64,
    /// Where the durable log ends.
    pub end: u64,
}

impl Reached {
    /// Whether it lacks something of what it had.
    fn is_behind(self, before: Reached) -> bool {
        if self.epoch > 0 { self.epoch < before.epoch } else { self.end < before.end }
    }
}

/// By which opening a volume is used: a number that nobody guesses, in the volume and in the register. Of two copies that are used
/// in turn each lacks the other's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Opening {
    /// What the volume said.
    pub found: u64,
    /// What it says from now on.
    pub own: u64,
}

impl Opening {
    /// Whether the volume says it, so that no register that was written before matches it.
    fn is_new(self) -> bool {
        self.own != self.found && self.own != 0
    }
}

impl Entry {
    /// Whether a volume of that opening would be believed.
    fn matches(&self, opening: Opening) -> bool {
        self.is_present && self.opening == opening.own
    }
}

/// The numbers of a ledger that a volume bears.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bears {
    /// No stamp is larger, nor the number up to which it was swept, nor the next one.
    pub largest: u64,
    /// How far the ledger that it was used with was durable when it was last written to.
    pub reached: Durable,
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
    /// The register of a state folder. One that is lost or damaged knows nothing, so that every volume that holds something is
    /// asked about; whether it was damaged is said beside it.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn open(folder: &Path) -> io::Result<(Register, bool)> {
        let (state, is_damaged) = load(folder)?;
        Ok((Register { folder: folder.to_owned(), state: Mutex::new(state) }, is_damaged))
    }

    /// Reads it again, when another process has written it.
    ///
    /// # Errors
    /// As [`Register::open`].
    pub fn reload(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        (*state, _) = load(&self.folder)?;
        Ok(())
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

    /// Whether the volume that was last in a folder was on a drive of its own: then an empty folder that is on the root's drive is
    /// a mount that is missing.
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

    /// Says that a volume is there from now on, and leads the ledger beyond all numbers that it bears, so that whatever is marked
    /// from now on concerns it; durable when it returns.
    ///
    /// Where it cannot be written down that is done later, and a start before then finds another opening than the last one it knows.
    ///
    /// # Errors
    /// It cannot be written down, nor would that be noticed; or its numbers are no ledger's: the volume is not to be used.
    pub fn arrive(&self, volume: Arriving<'_>, ledger: &Ledger) -> io::Result<Arrival> {
        let mut state = self.state.lock();
        let known = state.volumes.get(&volume.id);
        let distrust = distrust(&volume, known, ledger);
        let (trusted_from, dead_below) = known.map_or((0, 0), |entry| (entry.trusted_from, entry.dead_below));
        let largest = volume.bears.largest.max(trusted_from).max(dead_below);
        if largest >= NUMBER_MAX {
            return Err(io::Error::other("it bears numbers that no ledger gave"));
        }
        ledger.raise(largest);
        let mut trusted_from = trusted_from.max(ledger.doubted().number());
        let mut dead_below = dead_below;
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
        let is_another = !state.is_unwritten && known.is_none_or(|entry| !entry.matches(volume.opening));
        let is_safe = volume.opening.is_new() || is_another;
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

    /// Says of all volumes whose folders are not among these that nobody expects them, and of all others but the present ones that
    /// they are away.
    ///
    /// # Errors
    /// As [`Register::leave`].
    pub fn call(&self, expected: &[&str], present: &[u128]) -> io::Result<()> {
        self.change(|volumes| {
            for (id, entry) in volumes.iter_mut() {
                entry.is_expected &= expected.contains(&entry.path.as_str());
                entry.is_present &= present.contains(id);
            }
        })
    }

    /// Whether a volume is away that is expected back, or is still being opened: marks are kept for it while there is room.
    pub(crate) fn is_somebody_away(&self) -> bool {
        self.state.lock().volumes.values().any(|entry| entry.is_expected && !entry.is_here)
    }

    /// Says before marks are dropped that whatever was not swept by them is dead: all that is not here, and `unswept`. `reached` is
    /// how far those have come that were.
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

    /// Writes down how far the volumes that are there, and the ledger, have come, and which numbers objects got.
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

    /// Writes what is wanted, if it is news; in memory it is so in either case, so that this process does not forget.
    fn write(&self, state: &mut State, mut wanted: State) -> io::Result<()> {
        wanted.forget();
        if *state == wanted && !state.is_unwritten {
            return Ok(());
        }
        *state = State { is_unwritten: true, ..wanted };
        let mut new = Scratch::create(&self.folder, NEW_NAME, state.to_text().as_bytes())?;
        new.file.sync_all()?;
        new.rename(self.folder.join(NAME))?;
        File::open(&self.folder)?.sync_all()?;
        state.is_unwritten = false;
        Ok(())
    }
}

/// Why a volume is not to be believed. What it says of this very ledger counts though it holds nothing, or was away.
fn distrust(volume: &Arriving<'_>, known: Option<&Entry>, ledger: &Ledger) -> Option<Distrust> {
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
    let is_other = volume.opening.found != entry.opening;
    if !entry.is_present || is_other || volume.reached.is_behind(entry.reached) {
        return Some(Distrust::Away);
    }
    let largest = largest.max(entry.trusted_from).max(entry.dead_below);
    (largest > ledger.current().number()).then_some(Distrust::Ahead)
}

/// What the file says, and whether it is damaged.
fn load(folder: &Path) -> io::Result<(State, bool)> {
    let Some(file) = scratch::open(&folder.join(NAME))? else { return Ok((State::default(), false)) };
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let state = State::read(&bytes).filter(|_| bytes.len() as u64 <= BYTES_MAX);
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

    fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\nnumbers {}\nledger {}\n", self.numbers, self.ledger);
        for (id, entry) in &self.volumes {
            let flag = |is: bool, yes: &'static str, no: &'static str| if is { yes } else { no };
            let presence = flag(entry.is_present, "present", "away");
            let expected = flag(entry.is_expected, "expected", "gone");
            let drive = flag(entry.is_mount, "mount", "root");
            let Entry { reached: Reached { epoch, end }, opening, ledger, trusted_from, dead_below, .. } =
                entry;
            let path: String = entry.path.escape_default().collect();
            let _ = writeln!(
                text,
                "volume {id:032x} {presence} {expected} epoch {epoch} end {end} opening {opening:016x} ledger {ledger:032x} trusted {trusted_from} dead {dead_below} {drive} {path}"
            );
        }
        let _ = writeln!(text, "sum {:016x}", xxh3_64(text.as_bytes()));
        text
    }

    /// `None` where it is not what was written.
    fn read(bytes: &[u8]) -> Option<State> {
        let text = std::str::from_utf8(bytes).ok()?;
        let at = text.trim_end_matches('\n').rfind('\n')? + 1;
        let sum = text[at..].strip_prefix("sum ")?.strip_suffix('\n')?;
        if sum != format!("{:016x}", xxh3_64(&bytes[..at])) {
            return None;
        }
        let mut lines = text[..at].lines();
        let has_ledger = match lines.next() {
            Some(FIRST_LINE) => true,
            Some(FIRST_LINE_2) => false,
            _ => return None,
        };
        let numbers = lines.next()?.strip_prefix("numbers ")?.parse().ok()?;
        let ledger = if has_ledger { lines.next()?.strip_prefix("ledger ")?.parse().ok()? } else { 0 };
        let volumes = lines.map(|line| entry(line, has_ledger)).collect::<Option<_>>()?;
        Some(State { numbers, ledger, volumes, is_unwritten: false })
    }
}

fn entry(line: &str, has_ledger: bool) -> Option<(u128, Entry)> {
    let mut words = line.splitn(if has_ledger { 18 } else { 16 }, ' ');
    let mut word = || words.next();
    let is = |word: &str, yes: &str, no: &str| (word == yes || word == no).then_some(word == yes);
    if word()? != "volume" {
        return None;
    }
    let id = u128::from_str_radix(word()?, 16).ok()?;
    let is_present = is(word()?, "present", "away")?;
    let is_expected = is(word()?, "expected", "gone")?;
    let mut after = |name: &str| word().filter(|word| *word == name).and_then(|_| word());
    let reached = Reached { epoch: after("epoch")?.parse().ok()?, end: after("end")?.parse().ok()? };
    let opening = u64::from_str_radix(after("opening")?, 16).ok()?;
    let ledger = if has_ledger { u128::from_str_radix(after("ledger")?, 16).ok()? } else { 0 };
    let (trusted_from, dead_below) = (after("trusted")?.parse().ok()?, after("dead")?.parse().ok()?);
    let is_mount = is(word()?, "mount", "root")?;
    let path = unescaped(word()?)?;
    let (is_here, was_here) = (false, false);
    Some((
        id,
        Entry {
            reached,
            opening,
            ledger,
            is_present,
            is_here,
            was_here,
            is_expected,
            trusted_from,
            dead_below,
            is_mount,
            path,
        },
    ))
}

/// What `escape_default` has made of a text, undone.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.push(char);
            continue;
        }
        out.push(match chars.next()? {
            't' => '\t',
            'r' => '\r',
            'n' => '\n',
            'u' => {
                let rest = chars.as_str();
                let (digits, after) = rest.strip_prefix('{')?.split_once('}')?;
                chars = after.chars();
                char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
            }
            other => other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests;
