//! The register: which volumes the house knows, how far each was when it was last seen, and since when one that was away is not to
//! be believed. A file of the state folder, written whole and renamed, a line a volume (`docs/format/register.md`).
//!
//! A volume that was pulled, ejected, restored from a copy, or used elsewhere lacks what happened meanwhile: what was purged there
//! may have no mark any more, and what was replaced may lie on another volume. So a volume is believed only if it is the one that
//! was seen last, no older, and no copy of it ([`Opening`]): otherwise what it holds is asked about before it is used ([`Arrival::trusted_from`]), or is gone
//! ([`Arrival::dead_below`]) where marks were dropped in its absence.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::ledger::{Ledger, Stamp};

/// Its name in the state folder.
const NAME: &str = "volumes";
const NEW_NAME: &str = "volumes.new";
const FIRST_LINE: &str = "weir volumes 2";
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
    /// It was there all the time since.
    is_present: bool,
    /// It has arrived in this process; not written down. One that has not lacks what happens now, though it may have been present.
    is_here: bool,
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
    /// It was away, or is behind.
    pub was_away: bool,
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

    /// Whether the volume that was last in a folder was on a drive of its own: then an empty folder that is on the root's drive is
    /// a mount that is missing.
    pub fn was_mount(&self, path: &str) -> bool {
        self.state.lock().volumes.values().any(|entry| entry.path == path && entry.is_mount)
    }

    /// Whether a volume was ever in a folder, as far as is known.
    pub fn knows(&self, path: &str) -> bool {
        self.state.lock().volumes.values().any(|entry| entry.path == path)
    }

    /// Says that a volume is there from now on; durable when it returns.
    ///
    /// # Errors
    /// It cannot be written down: the volume is not to be used.
    pub fn arrive(&self, volume: Arriving<'_>, ledger: &Ledger) -> io::Result<Arrival> {
        let mut state = self.state.lock();
        let known = state.volumes.get(&volume.id);
        let was_away = match known {
            Some(entry) => {
                let is_other = volume.opening.found != entry.opening;
                !entry.is_present || is_other || volume.reached.is_behind(entry.reached)
            }
            None => !volume.is_empty,
        };
        let (mut trusted_from, dead_below) =
            known.map_or((0, 0), |entry| (entry.trusted_from, entry.dead_below));
        if was_away {
            trusted_from = ledger.step().number();
        }
        let entry = Entry {
            reached: volume.reached,
            opening: volume.opening.own,
            is_present: true,
            is_here: true,
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
        wanted.volumes.insert(volume.id, entry);
        self.write(&mut state, wanted)?;
        Ok(Arrival { trusted_from: Stamp::of(trusted_from), dead_below: Stamp::of(dead_below), was_away })
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

    /// Writes down how far the volumes that are there have come, and which numbers were given out.
    ///
    /// # Errors
    /// It was not written down.
    pub fn note(&self, reached: &[(u128, Reached)], numbers: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let mut wanted = state.clone();
        wanted.numbers = wanted.numbers.max(numbers);
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
        let new = self.folder.join(NEW_NAME);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(state.to_text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.folder.join(NAME))?;
        File::open(&self.folder)?.sync_all()?;
        state.is_unwritten = false;
        Ok(())
    }
}

/// What the file says, and whether it is damaged.
fn load(folder: &Path) -> io::Result<(State, bool)> {
    let file = match File::open(folder.join(NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((State::default(), false)),
        Err(error) => return Err(error),
    };
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
        let mut text = format!("{FIRST_LINE}\nnumbers {}\n", self.numbers);
        for (id, entry) in &self.volumes {
            let flag = |is: bool, yes: &'static str, no: &'static str| if is { yes } else { no };
            let presence = flag(entry.is_present, "present", "away");
            let expected = flag(entry.is_expected, "expected", "gone");
            let drive = flag(entry.is_mount, "mount", "root");
            let Entry { reached: Reached { epoch, end }, opening, trusted_from, dead_below, .. } = entry;
            let path: String = entry.path.escape_default().collect();
            let _ = writeln!(
                text,
                "volume {id:032x} {presence} {expected} epoch {epoch} end {end} opening {opening:016x} trusted {trusted_from} dead {dead_below} {drive} {path}"
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
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        let numbers = lines.next()?.strip_prefix("numbers ")?.parse().ok()?;
        let volumes = lines.map(entry).collect::<Option<_>>()?;
        Some(State { numbers, volumes, is_unwritten: false })
    }
}

fn entry(line: &str) -> Option<(u128, Entry)> {
    let mut words = line.splitn(16, ' ');
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
    let (trusted_from, dead_below) = (after("trusted")?.parse().ok()?, after("dead")?.parse().ok()?);
    let is_mount = is(word()?, "mount", "root")?;
    let path = unescaped(word()?)?;
    let is_here = false;
    Some((
        id,
        Entry {
            reached,
            opening,
            is_present,
            is_here,
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
