//! Random lives of one installation and of several. Drives come, go and wander, with purges, replacements,
//! sweeps, emptying and crashes. Clocks change; state folders are put back, taken away, exchanged and
//! damaged. What is found was not purged; and it was not replaced meanwhile, where it is used without
//! revalidation.
//!
//! `WEIR_ROAMING_SEEDS=4..400` says which lives are run. A failure prints what the life did.

mod installation;
mod named;
mod truth;
mod world;

use self::installation::{Kept, RECORD_BYTES, State};
use self::truth::URLS;
use self::world::{AHEAD, BACK, End, Target, World};
use crate::{Force, MARKS_MAX};

const STEPS: u64 = 120;
/// Which files are put back, lost or exchanged together.
const FILES: [&[Kept]; 8] = [
    &[Kept::Ledger, Kept::End, Kept::Register],
    &[Kept::Ledger, Kept::End, Kept::Register],
    &[Kept::Ledger, Kept::End, Kept::Register],
    &[Kept::Ledger, Kept::End],
    &[Kept::Ledger],
    &[Kept::End],
    &[Kept::Register],
    &[Kept::Ledger, Kept::Register],
];
/// A small limit of marks, which is reached.
const MARKS_FEW: usize = 4;

/// What may happen in a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One installation, whose state folder stays as it is.
    Alone,
    /// Several; drives wander, clocks change.
    Wandering,
    /// One whose state folder is changed.
    Harmed,
    /// Everything.
    All,
}

impl Kind {
    fn of(seed: u64) -> Kind {
        [Kind::Alone, Kind::Wandering, Kind::Harmed, Kind::All][(seed % 4) as usize]
    }

    fn has_several(self) -> bool {
        matches!(self, Kind::Wandering | Kind::All)
    }

    fn has_harm(self) -> bool {
        matches!(self, Kind::Harmed | Kind::All)
    }
}

struct Life {
    world: World,
    kind: Kind,
    random: u64,
    told: Vec<String>,
}

impl Life {
    fn new(seed: u64) -> Life {
        let kind = Kind::of(seed);
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut life = Life { world: World::new(seed, 3), kind, random, told: Vec::new() };
        let count = if kind.has_several() { 2 + life.below(2) } else { 1 };
        for _ in 0..count {
            let (clock, marks_max) = (life.any_clock(), [MARKS_FEW, MARKS_MAX][life.below(2) as usize]);
            life.world.set_up(clock, marks_max);
            life.tell(format!("set up with a clock {clock} s off, {marks_max} marks at most"));
            life.pass();
        }
        (0..3).for_each(|at| life.attach(at % count as usize, at));
        life
    }

    fn below(&mut self, count: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % count
    }

    fn any<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.below(of.len() as u64) as usize].clone())
    }

    fn tell(&mut self, what: String) {
        self.told.push(what);
    }

    fn any_clock(&mut self) -> i64 {
        match self.kind {
            Kind::Alone => 0,
            _ => [0, 0, 9, -9, 3600, AHEAD, BACK][self.below(7) as usize],
        }
    }

    /// Some time passes, or hardly any.
    fn pass(&mut self) {
        let seconds = [0, 0, 0, 0, 1, 1, 7, 9000][self.below(8) as usize];
        self.world.pass(seconds);
    }

    fn act(&mut self) -> Result<(), String> {
        self.pass();
        let own = self.below(self.world.installations.len() as u64) as usize;
        if self.world.installations[own].running.is_none() {
            return self.begin(own);
        }
        let (url, drive) = (self.below(URLS), self.below(3) as usize);
        match self.below(if self.kind.has_harm() { 48 } else { 44 }) {
            0..=5 => {
                self.tell(format!("{own} has a newer version of {url}"));
                self.world.truth.change(url);
                self.world.put(own, url);
            }
            6 | 7 => {
                self.tell(format!("{own} stores {url}"));
                self.world.put(own, url);
            }
            8 => {
                self.tell(format!("{own} begins to store {url}"));
                self.world.put_slowly(own, url);
            }
            9 => {
                self.tell(format!("{own} has stored all of what it began"));
                self.world.finish_all(own);
            }
            10..=17 => self.get(own, url)?,
            18..=22 => self.purge(own),
            23 | 24 => {
                self.tell(format!("{own} syncs"));
                self.world.sync(own);
            }
            25..=28 => self.sweep(own, drive),
            29..=31 => self.eject(own),
            32..=36 => {
                self.attach(own, drive);
                if self.below(4) == 0 {
                    self.purge(own);
                    self.get_all(own)?;
                }
            }
            37 => self.empty(own),
            38 | 46 | 47 => {
                self.tell(format!("copy {} of {own}", self.world.installations[own].copies.len()));
                self.world.copy(own);
            }
            39 | 40 | 44 | 45 => self.end(own)?,
            41 if url < 4 => {
                let operations = self.below(60);
                self.tell(format!("the drives of {own} fail in {operations}"));
                self.world.doom(own, operations);
            }
            _ => self.get_all(own)?,
        }
        Ok(())
    }

    fn get_all(&mut self, own: usize) -> Result<(), String> {
        (0..URLS).try_for_each(|url| self.get(own, url))
    }

    fn get(&mut self, own: usize, url: u64) -> Result<(), String> {
        let got = self.world.get(own, url)?;
        self.tell(format!("{own} answers {url} by {got:?}"));
        Ok(())
    }

    fn purge(&mut self, own: usize) {
        let (url, tag) = (self.below(URLS), self.below(3));
        let target = [Target::Url(url), Target::Url(url), Target::Tag(tag), Target::Tag(tag), Target::All];
        let target = target[self.below(5) as usize];
        let force = if self.below(4) == 0 { Force::Soft } else { Force::Hard };
        self.tell(format!("{own} purges {target:?} {force:?}"));
        self.world.purge(own, target, force);
    }

    fn sweep(&mut self, own: usize, drive: usize) {
        if self.world.drives_of(own).contains(&drive) {
            self.tell(format!("{own} sweeps {drive}"));
            self.world.sweep(drive);
        }
    }

    fn eject(&mut self, own: usize) {
        let drives = self.world.drives_of(own);
        let Some(drive) = self.any(&drives) else { return };
        let has_failed = self.below(2) == 0;
        self.tell(format!("{own} lets {drive} go, failed: {has_failed}"));
        self.world.eject(drive, has_failed);
    }

    fn attach(&mut self, own: usize, drive: usize) {
        if self.world.drives[drive].seat.is_none() {
            if self.kind != Kind::Alone && self.below(8) == 0 {
                // Where both the index and the state were changed, nothing says so.
                let last = if self.kind.has_harm() { 2 } else { 3 };
                let which = ["swept", "opened", "index/"][self.below(last) as usize];
                self.tell(format!("{which} of {drive} is damaged"));
                self.world.damage_drive(drive, which);
            }
            self.tell(format!("{own} takes {drive}"));
            self.world.attach(own, drive);
        }
    }

    fn empty(&mut self, own: usize) {
        let drives = self.world.drives_of(own);
        if let Some(drive) = self.any(&drives) {
            self.tell(format!("{own} empties {drive}"));
            self.world.empty(drive);
        }
    }

    fn end(&mut self, own: usize) -> Result<(), String> {
        if self.kind.has_harm() && self.below(2) == 0 {
            self.tell(format!("copy {} of {own}", self.world.installations[own].copies.len()));
            self.world.copy(own);
            self.purge(own);
        }
        let how = [End::Stop, End::Stop, End::Kill, End::Power][self.below(4) as usize];
        self.tell(format!("{own} ends: {how:?}"));
        self.world.end(own, how);
        if self.below(4) > 0 { self.begin(own) } else { Ok(()) }
    }

    /// Something happens to an installation that is not running, and another process begins.
    fn begin(&mut self, own: usize) -> Result<(), String> {
        let is_harmed = self.kind.has_harm() && self.below(4) > 0;
        if is_harmed {
            self.harm(own);
        }
        if self.kind != Kind::Alone && self.below(4) == 0 {
            let clock = self.any_clock();
            self.tell(format!("the clock of {own} is {clock} s off"));
            self.world.installations[own].clock = clock;
        }
        if self.below(6) == 0 {
            let starts = 1 + self.below(12);
            self.tell(format!("{own} starts {starts} times more"));
            for _ in 0..starts {
                self.world.start(own);
                if is_harmed {
                    // A process that ends before it has looked for the volumes may hide that the state is a
                    // copy.
                    self.world.call(own);
                }
                self.world.end(own, End::Stop);
            }
        }
        self.tell(format!("{own} starts"));
        self.world.start(own);
        for drive in 0..3 {
            let was_here = self.world.drives[drive].last == Some(own);
            if self.below(6) < if was_here { 5 } else { 1 } {
                self.attach(own, drive);
            }
        }
        self.world.call(own);
        if self.below(2) == 0 { self.get_all(own) } else { Ok(()) }
    }

    fn harm(&mut self, own: usize) {
        let other = self.below(self.world.installations.len() as u64) as usize;
        let (state, named) = match self.below(10) {
            0..=2 => {
                let copies = self.world.installations[own].copies.clone();
                let count = copies.len().max(1) as u64;
                let at = if self.below(2) == 0 { count - 1 } else { self.below(count) } as usize;
                let Some(copy) = copies.get(at) else { return };
                (copy.clone(), format!("copy {at}"))
            }
            3 | 4 => (State::new(), "nothing".to_owned()),
            5 => (self.world.installations[other].state(), format!("that of {other}")),
            _ => return self.damage(own),
        };
        let files = FILES[self.below(FILES.len() as u64) as usize];
        self.tell(format!("{files:?} of {own} is {named}"));
        self.world.replace(own, files, &state);
    }

    /// The end of the ledger was changed.
    fn damage(&mut self, own: usize) {
        if self.below(2) == 0 {
            self.tell(format!("{own} starts once more, and writes its ledger again"));
            self.world.start(own);
            self.world.end(own, End::Stop);
        }
        let mut state = self.world.installations[own].state();
        let Some(ledger) = state.get_mut(&Kept::Ledger) else { return };
        let records = (ledger.len() / RECORD_BYTES).saturating_sub(1);
        if records == 0 {
            return;
        }
        let how = match self.below(3) {
            0 => {
                let fewer = 1 + self.below(records as u64) as usize;
                ledger.truncate((records + 1 - fewer) * RECORD_BYTES);
                format!("shorter by {fewer} of {records} records")
            }
            1 => {
                let fewer = 1 + self.below(RECORD_BYTES as u64 - 1) as usize;
                ledger.truncate(ledger.len() - fewer);
                format!("shorter by {fewer} bytes")
            }
            _ => {
                let (back, bit) = (1 + self.below(RECORD_BYTES as u64) as usize, self.below(8));
                let at = ledger.len() - back;
                ledger[at] ^= 1 << bit;
                "flipped by a bit in its last record".to_owned()
            }
        };
        self.tell(format!("the ledger of {own} is {how}"));
        if self.below(4) == 0 {
            self.tell("and its other file is lost".to_owned());
            state.remove(&Kept::End);
            self.world.replace(own, &[Kept::Ledger, Kept::End], &state);
        } else {
            self.world.replace(own, &[Kept::Ledger], &state);
        }
    }
}

/// Lives a life. Says what went wrong in which step, and what happened before.
fn live(seed: u64) -> Result<[u64; 2], String> {
    let mut life = Life::new(seed);
    for step in 0..STEPS {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| life.act()));
        let why = match done {
            Ok(Ok(())) => continue,
            Ok(Err(why)) => why,
            Err(_) => "panicked".to_owned(),
        };
        let told = life.told.join("\n  ");
        return Err(format!("seed {seed} ({:?}), step {step}: {why}\n  {told}", life.kind));
    }
    Ok(life.world.used)
}

#[test]
fn nothing_that_was_purged_or_replaced_comes_back_with_a_drive_or_a_ledger() {
    let seeds = std::env::var("WEIR_ROAMING_SEEDS").ok().and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    let (mut used, mut failed) = ([0; 2], Vec::new());
    for seed in seeds.unwrap_or(0..200) {
        match live(seed) {
            Ok(own) => used = [used[0] + own[0], used[1] + own[1]],
            Err(why) => failed.push(why),
        }
    }
    let first = failed.iter().min_by_key(|why| why.len());
    let lines: Vec<&str> = failed.iter().filter_map(|why| why.lines().next()).collect();
    assert!(failed.is_empty(), "{}\nthe shortest:\n{}", lines.join("\n"), first.unwrap());
    assert!(used[0] > 1000 && used[1] > 50, "{used:?} says little");
}
