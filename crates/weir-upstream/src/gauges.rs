//! What is known of an origin besides what Weir sees itself: values by name and source, each with its age
//! (elsewhere: *metrics*, *load reports*). Collectors, reports and operators set them, and picks read them
//! without a lock. It must not know where a value comes from, nor what it means.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::clock;

pub(crate) mod orca;

/// The most names that one source has at an origin.
pub const NAMES_MAX: usize = 512;
/// The most sources of an origin.
const SOURCES_MAX: usize = 16;
/// The most names that are new here and that reports of the origin bring at once.
const NEW_NAMES: usize = 64;
/// After these, one in so many nanoseconds: four a second.
const NEW_NAME_NS: i64 = 250_000_000;
/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// The source of what operators push. It comes before all others.
pub const PUSHED: &str = "push";
/// The source of what HAProxy agents say. It comes after all others.
pub const AGENT: &str = "agent";

/// The loads that origins report in their responses (ORCA).
#[derive(Clone, Debug, PartialEq)]
pub struct ReportSettings {
    /// The name of their source.
    pub source: Arc<str>,
    /// How long a report counts.
    pub stale_after: Duration,
}

/// What an agent says counts for so many times the time between two connections to it.
const STALE_AFTER: u32 = 3;

/// Why a value was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GaugeError {
    /// The name is empty, too long, or has other characters than letters, digits and `_ . : - /`.
    #[error("a metric's name has 1 to 128 letters, digits and any of \"_.:-/\"")]
    Name,
    /// It is no number.
    #[error("a metric's value is a finite number")]
    Value,
    /// There are as many names, or sources, as there may be, and all of them are fresh.
    #[error("the origin has as many metrics of this source as it may have")]
    Full,
}

/// A value as a pick reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gauge {
    /// It counts.
    Fresh(f64),
    /// It is too old to count.
    Stale(f64),
    /// There is none.
    Missing,
}

impl Gauge {
    /// The value, where it counts.
    pub fn fresh(self) -> Option<f64> {
        match self {
            Gauge::Fresh(value) => Some(value),
            Gauge::Stale(_) | Gauge::Missing => None,
        }
    }
}

/// A value with all that is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Its name.
    pub name: Arc<str>,
    /// Who has said it: `[metrics.NAME]`, `push` or `agent`.
    pub source: Arc<str>,
    /// The value.
    pub value: f64,
    /// When it was measured.
    pub measured: Instant,
    /// How long ago that was.
    pub age: Duration,
    /// How long it still counts; `None` where it always does.
    pub left: Option<Duration>,
    /// Whether it counts.
    pub is_fresh: bool,
}

/// A value that is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting<'n> {
    /// Its name.
    pub name: &'n str,
    /// The value.
    pub value: f64,
    /// When it was measured.
    pub measured: Instant,
    /// From then on it counts as missing; without it, it always counts.
    pub good_until: Option<Instant>,
}

/// The values of one origin. Setting one that is there writes three numbers; reading one takes no lock.
#[derive(Debug)]
pub struct Gauges {
    since: Instant,
    cells: ArcSwap<Vec<Named>>,
    /// The sources in the order in which they count. Held while a name is added.
    sources: Mutex<Vec<Arc<str>>>,
    /// How often a value was set.
    changes: AtomicU64,
    /// What is done with reports in responses.
    reports: ArcSwapOption<ReportSettings>,
    /// The new names that reports may bring.
    new_names: Mutex<Allowance>,
}

/// So many at once, then a few a second.
#[derive(Debug)]
struct Allowance {
    left: usize,
    /// Up to when it was filled, in nanoseconds since [`Gauges::since`].
    filled: i64,
}

impl Allowance {
    /// Takes as many as there are, at most `count`.
    fn take(&mut self, count: usize, now: i64) -> usize {
        let more = (now - self.filled).max(0) / NEW_NAME_NS;
        self.filled += more * NEW_NAME_NS;
        self.left = usize::try_from(more).unwrap_or(NEW_NAMES).saturating_add(self.left).min(NEW_NAMES);
        let taken = count.min(self.left);
        self.left -= taken;
        taken
    }
}

#[derive(Clone, Debug)]
struct Named {
    hash: u64,
    rank: usize,
    name: Arc<str>,
    source: Arc<str>,
    cell: Arc<Cell>,
}

/// A value. Its times are nanoseconds since [`Gauges::since`].
#[derive(Debug, Default)]
struct Cell {
    value: AtomicU64,
    measured: AtomicI64,
    /// `i64::MAX` where it always counts.
    good_until: AtomicI64,
}

impl Default for Gauges {
    fn default() -> Gauges {
        Gauges {
            since: clock::now(),
            cells: ArcSwap::default(),
            sources: Mutex::default(),
            changes: AtomicU64::new(0),
            reports: ArcSwapOption::empty(),
            new_names: Mutex::new(Allowance { left: NEW_NAMES, filled: 0 }),
        }
    }
}

impl Gauges {
    /// Puts a value in place of the one of this name and source. `good_until`: from then on it counts as
    /// missing; without it, it always counts.
    ///
    /// # Errors
    /// The name or the value is none, or the source has too many names here.
    pub fn set(
        &self,
        name: &str,
        source: &Arc<str>,
        value: f64,
        (measured, good_until): (Instant, Option<Instant>),
    ) -> Result<(), GaugeError> {
        self.set_all(source, [Setting { name, value, measured, good_until }])
    }

    /// Sets many values at once: names that are new here are added together. Of one name the last counts.
    ///
    /// # Errors
    /// The first of a value that was not taken; all others are taken.
    pub fn set_all<'n>(
        &self,
        source: &Arc<str>,
        settings: impl IntoIterator<Item = Setting<'n>>,
    ) -> Result<(), GaugeError> {
        let (new, put) = self.put_all(source, settings);
        let added = self.add(source, &new);
        put.and(added)
    }

    /// A report of the origin itself has come, at `now`. Of names that are new it may bring a few a second.
    pub(crate) fn hear_report<'n>(
        &self,
        source: &Arc<str>,
        settings: impl IntoIterator<Item = Setting<'n>>,
        now: Instant,
    ) {
        // What cannot be taken is left out.
        let (mut new, _) = self.put_all(source, settings);
        if !new.is_empty() {
            new.truncate(self.new_names.lock().take(new.len(), self.ns(now)));
            let _ = self.add(source, &new);
        }
    }

    /// Sets those whose names are there. Returns the others, and the first fault.
    fn put_all<'n>(
        &self,
        source: &Arc<str>,
        settings: impl IntoIterator<Item = Setting<'n>>,
    ) -> (Vec<(u64, Setting<'n>)>, Result<(), GaugeError>) {
        let (mut new, mut done, mut is_any) = (Vec::new(), Ok(()), false);
        let cells = self.cells.load();
        for one in settings {
            let hash = xxh3_64(one.name.as_bytes());
            if !one.value.is_finite() {
                done = done.and(Err(GaugeError::Value));
            } else if let Some(named) = of_source(&cells, (hash, one.name), source) {
                self.write(&named.cell, &one);
                is_any = true;
            } else if is_name(one.name) {
                new.push((hash, one));
            } else {
                done = done.and(Err(GaugeError::Name));
            }
        }
        if is_any {
            self.changes.fetch_add(1, Ordering::Release);
        }
        (new, done)
    }

    /// Adds names, as many as there is room for.
    fn add(&self, source: &Arc<str>, new: &[(u64, Setting<'_>)]) -> Result<(), GaugeError> {
        if new.is_empty() {
            return Ok(());
        }
        let mut sources = self.sources.lock();
        if !sources.contains(source) {
            if sources.len() >= SOURCES_MAX {
                return Err(GaugeError::Full);
            }
            sources.push(source.clone());
        }
        let cells = self.cells.load();
        let mut added: Vec<Named> = Vec::new();
        for (hash, one) in new {
            let is_same = |named: &&Named| named.hash == *hash && *named.name == *one.name;
            let there = of_source(&cells, (*hash, one.name), source);
            match there.or_else(|| added.iter().find(is_same)) {
                Some(named) => self.write(&named.cell, one),
                None => {
                    let cell = Arc::new(Cell::default());
                    self.write(&cell, one);
                    let (name, source) = (one.name.into(), source.clone());
                    added.push(Named { hash: *hash, rank: 0, name, source, cell });
                }
            }
        }
        // Those that no longer count make room, the oldest first.
        let now = self.ns(clock::now());
        let until = |one: &Named| one.cell.good_until.load(Ordering::Acquire);
        let own = || cells.iter().enumerate().filter(|(_, one)| one.source == *source);
        let free = NAMES_MAX.saturating_sub(own().count());
        let mut old: Vec<(i64, usize)> = match added.len() > free {
            true => own().map(|(at, one)| (until(one), at)).filter(|(until, _)| *until <= now).collect(),
            false => Vec::new(),
        };
        let is_too_many = added.len() > free + old.len();
        added.truncate(free + old.len());
        if !added.is_empty() {
            old.sort_unstable();
            old.truncate(added.len().saturating_sub(free));
            let mut gone: Vec<usize> = old.into_iter().map(|(_, at)| at).collect();
            gone.sort_unstable();
            let left = cells.iter().enumerate().filter(|(at, _)| gone.binary_search(at).is_err());
            self.put(left.map(|(_, one)| one.clone()).chain(added).collect(), &sources);
        }
        if is_too_many { Err(GaugeError::Full) } else { Ok(()) }
    }

    fn write(&self, cell: &Cell, one: &Setting<'_>) {
        let good_until = one.good_until.map_or(i64::MAX, |at| self.ns(at));
        cell.put(one.value, self.ns(one.measured), good_until);
    }

    /// From now on these sources count, in this order, and what operators push before them; what others have
    /// said is forgotten.
    pub fn follow(&self, sources: &[Arc<str>]) {
        let mut known = self.sources.lock();
        let mut wanted: Vec<Arc<str>> = Vec::with_capacity(sources.len() + 2);
        wanted.push(PUSHED.into());
        wanted.extend(sources.iter().take(SOURCES_MAX - 2).cloned());
        wanted.push(AGENT.into());
        if *known == wanted {
            return;
        }
        *known = wanted;
        let mut cells = Vec::clone(&self.cells.load());
        cells.retain(|one| known.contains(&one.source));
        self.put(cells, &known);
    }

    /// An agent has said what factor the origin's weight has: `agent`, 1 for 100 %.
    pub(crate) fn hear_agent(&self, percent: u32, every: Duration) {
        let (now, value) = (clock::now(), f64::from(percent) / 100.0);
        let good_until = now.checked_add(every.saturating_mul(STALE_AFTER));
        // Its name and value are fit, and it has no other.
        let _ = self.set(AGENT, &AGENT.into(), value, (now, good_until));
    }

    /// Takes reports out of responses from now on, or leaves them there.
    pub(crate) fn follow_reports(&self, settings: Option<&ReportSettings>) {
        if self.reports.load().as_deref() != settings {
            self.reports.store(settings.cloned().map(Arc::new));
        }
    }

    /// What is done with reports in responses; `None`: they are left there.
    pub(crate) fn reports(&self) -> Guard<Option<Arc<ReportSettings>>> {
        self.reports.load()
    }

    /// Forgets what a source has said; with a name, that value only. Whether there was any.
    pub fn forget(&self, source: &str, name: Option<&str>) -> bool {
        let sources = self.sources.lock();
        let mut cells = Vec::clone(&self.cells.load());
        let before = cells.len();
        cells.retain(|one| *one.source != *source || name.is_some_and(|name| *one.name != *name));
        let is_any = cells.len() != before;
        self.put(cells, &sources);
        is_any
    }

    fn put(&self, mut cells: Vec<Named>, sources: &[Arc<str>]) {
        for one in &mut cells {
            one.rank = sources.iter().position(|source| *source == one.source).unwrap_or(usize::MAX);
        }
        cells.sort_by_key(|one| (one.hash, one.rank));
        self.cells.store(Arc::new(cells));
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// The value of this name that counts: the fresh one of the first source that has one.
    pub fn get(&self, name: &str, now: Instant) -> Gauge {
        let now = self.ns(now);
        let cells = self.cells.load();
        let mut stale = Gauge::Missing;
        for one in of_name(&cells, xxh3_64(name.as_bytes()), name) {
            let (value, _, good_until) = one.cell.get();
            if now < good_until {
                return Gauge::Fresh(value);
            }
            if stale == Gauge::Missing {
                stale = Gauge::Stale(value);
            }
        }
        stale
    }

    /// The same with all that is known of it.
    pub fn read(&self, name: &str, now: Instant) -> Option<Reading> {
        let cells = self.cells.load();
        let mut stale = None;
        for one in of_name(&cells, xxh3_64(name.as_bytes()), name) {
            let reading = self.reading(one, now);
            if reading.is_fresh {
                return Some(reading);
            }
            stale = stale.or(Some(reading));
        }
        stale
    }

    /// All values, by name; of one name in the order in which they count.
    pub fn all(&self, now: Instant) -> Vec<Reading> {
        let cells = self.cells.load();
        let mut all: Vec<(&Named, Reading)> = cells.iter().map(|one| (one, self.reading(one, now))).collect();
        all.sort_by(|(a, _), (b, _)| (&a.name, a.rank).cmp(&(&b.name, b.rank)));
        all.into_iter().map(|(_, reading)| reading).collect()
    }

    /// How often a value was set, or one was forgotten: where it is the same, so are all values, but for
    /// their ages.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn reading(&self, one: &Named, now: Instant) -> Reading {
        let (value, measured, good_until) = one.cell.get();
        let now_ns = self.ns(now);
        let left = (good_until != i64::MAX).then(|| ns_between(now_ns, good_until));
        let age = ns_between(measured, now_ns);
        Reading {
            name: one.name.clone(),
            source: one.source.clone(),
            value,
            measured: now.checked_sub(age).unwrap_or(self.since),
            age,
            left,
            is_fresh: now_ns < good_until,
        }
    }

    /// A time in nanoseconds since it was made; before that below zero.
    fn ns(&self, at: Instant) -> i64 {
        let of = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX - 1);
        match at.checked_duration_since(self.since) {
            Some(after) => of(after),
            None => -of(self.since.saturating_duration_since(at)),
        }
    }
}

impl Cell {
    // A reader that sees new times sees the new value or a later one.
    fn put(&self, value: f64, measured: i64, good_until: i64) {
        self.value.store(value.to_bits(), Ordering::Release);
        self.measured.store(measured, Ordering::Release);
        self.good_until.store(good_until, Ordering::Release);
    }

    fn get(&self) -> (f64, i64, i64) {
        let good_until = self.good_until.load(Ordering::Acquire);
        let measured = self.measured.load(Ordering::Acquire);
        (f64::from_bits(self.value.load(Ordering::Acquire)), measured, good_until)
    }
}

/// Those of this name, in the order in which they count.
fn of_name<'c>(cells: &'c [Named], hash: u64, name: &'c str) -> impl Iterator<Item = &'c Named> {
    let first = cells.partition_point(|one| one.hash < hash);
    let same = cells[first..].iter().take_while(move |one| one.hash == hash);
    same.filter(move |one| *one.name == *name)
}

/// That of this name and source.
fn of_source<'c>(cells: &'c [Named], (hash, name): (u64, &'c str), source: &str) -> Option<&'c Named> {
    of_name(cells, hash, name).find(|named| *named.source == *source)
}

fn ns_between(from: i64, to: i64) -> Duration {
    Duration::from_nanos(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}

/// Whether it may be a metric's name.
pub fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-/".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests;
