//! The simulated world: objects with their versions, the clocks, what was seen, and the first fault that was
//! found. The seed decides everything in it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;
use tokio::time::Instant;

/// What differs between runs besides the seed.
#[derive(Clone, Copy, Debug)]
pub struct Climate {
    /// The ceiling of memory in KiB.
    pub memory_kib: u64,
    /// So many of 100 responses are at fault. With 0, nothing may go wrong.
    pub faults_percent: u64,
    /// The wall clock jumps by up to so many hours.
    pub jump_hours: u64,
    pub clients: u64,
    pub steps: u64,
    pub sabotage: Option<Sabotage>,
}

/// A lie that a check must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// The origin sends another version's bytes than its head names.
    OtherBytes,
    /// It goes over to another version in the middle of a body.
    MixedVersions,
    /// It ends chunked bodies early, and cleanly.
    ShortEnd,
    /// It marks a response for one client as one for all.
    Public,
    /// It says that responses may be kept for a minute, while the cache is told a second.
    Impatient,
    /// It says that responses may be kept for days, while the checks are told a minute.
    Immortal,
    /// The origin sleeps, and clients wait less long than the data plane.
    Stuck,
    /// What is held at the end is not given back.
    Holds,
}

impl Climate {
    /// A climate from the seed: half of them with plenty of memory, one in four without a fault.
    pub fn of(seed: u64) -> Climate {
        Climate {
            memory_kib: if seed.is_multiple_of(2) { 64 << 10 } else { 2 << 10 },
            faults_percent: if seed.is_multiple_of(4) { 0 } else { 15 },
            jump_hours: if seed.is_multiple_of(3) { 0 } else { 12 },
            clients: 10,
            steps: 50,
            sabotage: None,
        }
    }

    pub fn is_calm(&self) -> bool {
        self.faults_percent == 0
    }

    pub fn is_roomy(&self) -> bool {
        self.memory_kib >= 32 << 10
    }
}

/// splitmix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub word: &'static str,
    pub max_age_s: u64,
    pub while_revalidate_s: u64,
    pub if_error_s: u64,
    pub has_etag: bool,
    pub has_date: bool,
    /// Whether a fresh response must not be fetched again, where memory suffices.
    pub is_kept: bool,
}

const fn kind(word: &'static str, max_age_s: u64, has_etag: bool, has_date: bool, is_kept: bool) -> Kind {
    Kind { word, max_age_s, while_revalidate_s: 0, if_error_s: 0, has_etag, has_date, is_kept }
}

/// The site's `stale.if_unreachable`.
pub const IF_UNREACHABLE_S: u64 = 40;

pub const KINDS: &[Kind] = &[
    kind("plain", 60, true, true, true),
    kind("chunked", 10, true, false, true),
    kind("large", 60, true, true, false),
    Kind { while_revalidate_s: 20, ..kind("short", 1, true, true, false) },
    Kind { if_error_s: 300, ..kind("error", 5, true, true, false) },
    kind("lang", 60, true, false, true),
    kind("private", 0, true, true, false),
    kind("user", 60, true, true, false),
    kind("shift", 10, true, true, false),
    kind("bare", 10, false, false, true),
    kind("gone", 5, false, false, true),
    kind("close", 60, true, true, false),
];

impl Kind {
    pub fn of(path: &str) -> Kind {
        let word = path.split('/').nth(1).unwrap_or_default();
        *KINDS.iter().find(|kind| kind.word == word).unwrap()
    }

    /// How long after its replacement a version may still go out.
    pub fn bound(&self) -> Duration {
        let windows = [self.while_revalidate_s, self.if_error_s, IF_UNREACHABLE_S];
        Duration::from_secs(self.max_age_s + windows.into_iter().max().unwrap())
    }

    pub fn cache_control(&self) -> String {
        let mut text = format!("max-age={}", self.max_age_s);
        if self.while_revalidate_s > 0 {
            write!(text, ", stale-while-revalidate={}", self.while_revalidate_s).unwrap();
        }
        if self.if_error_s > 0 {
            write!(text, ", stale-if-error={}", self.if_error_s).unwrap();
        }
        text
    }
}

/// An object at the origin.
#[derive(Default)]
pub struct Object {
    /// From 1.
    pub version: u64,
    /// When each version was replaced; version 1 first.
    replaced: Vec<Instant>,
    /// A client that asks after a change was acknowledged must get this version or a later one.
    floor: (u64, Option<Instant>),
    /// By variant: the requests for it at the origin.
    gaps: HashMap<String, Gap>,
    /// Requests under way that may bring any bytes.
    unsettling: u64,
}

/// A missing variant, and the requests that were sent for it.
#[derive(Default)]
struct Gap {
    asking: u64,
    is_troubled: bool,
    fresh_until: Option<Instant>,
}

/// Bodies by name and version.
type Bodies = HashMap<(String, u64), Rc<Vec<u8>>>;

pub struct World {
    pub climate: Climate,
    pub stirred: Notify,
    pub is_down: Cell<bool>,
    pub begun: Instant,
    random: RefCell<Random>,
    objects: RefCell<BTreeMap<String, Object>>,
    once: Cell<u64>,
    seen_once: RefCell<HashSet<String>>,
    bodies: RefCell<Bodies>,
    wrong: RefCell<Option<String>>,
    pub counts: RefCell<BTreeMap<String, u64>>,
    wall_ahead_s: Cell<i64>,
    wall_begun: SystemTime,
    pub story: RefCell<Vec<String>>,
}

const STORY_MAX: usize = 4000;

impl World {
    pub fn new(seed: u64, climate: Climate) -> Rc<World> {
        Rc::new(World {
            climate,
            stirred: Notify::new(),
            is_down: Cell::new(false),
            begun: Instant::now(),
            random: RefCell::new(Random::new(seed)),
            objects: RefCell::default(),
            once: Cell::new(0),
            seen_once: RefCell::default(),
            bodies: RefCell::default(),
            wrong: RefCell::default(),
            counts: RefCell::default(),
            wall_ahead_s: Cell::new(0),
            wall_begun: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
            story: RefCell::default(),
        })
    }

    /// A number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.random.borrow_mut().next() % bound
    }

    pub fn is_one_of(&self, parts: u64) -> bool {
        self.below(parts) == 0
    }

    /// The object that a client asks for: half of the time the one that all ask for now, so that they meet.
    pub fn path(&self) -> String {
        let moment = self.begun.elapsed().as_secs() / 2;
        let mut fashion = Random::new(moment.wrapping_mul(7919));
        let mut number = |bound: u64| match self.is_one_of(2) {
            true => self.below(bound),
            false => fashion.next() % bound,
        };
        let kind = KINDS[number(KINDS.len() as u64) as usize];
        let numbers = if kind.word == "large" { 2 } else { 3 };
        format!("/{}/{}", kind.word, number(numbers))
    }

    /// Between the two, in virtual milliseconds.
    pub async fn pause(&self, least_ms: u64, most_ms: u64) {
        let pause_ms = least_ms + self.below(most_ms - least_ms + 1);
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        self.stir();
    }

    /// Notes activity: time goes in small steps for a while.
    pub fn stir(&self) {
        self.stirred.notify_one();
    }

    pub fn count(&self, what: &str) {
        *self.counts.borrow_mut().entry(what.to_owned()).or_default() += 1;
    }

    /// Writes down what happens, for the reader of a failure.
    pub fn tell(&self, what: impl FnOnce() -> String) {
        let mut story = self.story.borrow_mut();
        if story.len() >= STORY_MAX {
            story.drain(..STORY_MAX / 2);
        }
        let at = self.begun.elapsed();
        story.push(format!("{:>10.3} {}", at.as_secs_f64(), what()));
    }

    /// Notes a fault; only the first is kept.
    pub fn wrong(&self, what: String) {
        self.tell(|| format!("WRONG {what}"));
        self.wrong.borrow_mut().get_or_insert(what);
        self.stir();
    }

    pub fn what_is_wrong(&self) -> Option<String> {
        self.wrong.borrow().clone()
    }

    /// The true wall time, which origins have.
    pub fn wall(&self) -> SystemTime {
        self.wall_begun + self.begun.elapsed()
    }

    /// Moves the data plane's wall clock so far away from the true time.
    pub fn set_wall(&self, ahead_s: i64) {
        self.wall_ahead_s.set(ahead_s);
        let off = Duration::from_secs(ahead_s.unsigned_abs());
        let wall = if ahead_s < 0 { self.wall() - off } else { self.wall() + off };
        weir_edge::simulated::set_wall(wall);
        self.tell(|| format!("wall clock is {ahead_s} s off"));
    }

    /// The body of one version, every line of which names it, its object and its place.
    pub fn body(&self, name: &str, version: u64) -> Rc<Vec<u8>> {
        if name.contains('#') {
            return Rc::new(content(name, version));
        }
        let mut bodies = self.bodies.borrow_mut();
        if bodies.len() > 64 {
            bodies.clear();
        }
        bodies.entry((name.to_owned(), version)).or_insert_with(|| Rc::new(content(name, version))).clone()
    }

    /// A number that no other response has.
    pub fn once(&self) -> u64 {
        self.once.set(self.once.get() + 1);
        self.once.get()
    }

    /// Notes that a client got a response for one client alone. False where another got it before.
    pub fn is_first_to_see(&self, name: &str) -> bool {
        self.seen_once.borrow_mut().insert(name.to_owned())
    }

    fn with<T>(&self, path: &str, act: impl FnOnce(&mut Object) -> T) -> T {
        let mut objects = self.objects.borrow_mut();
        let object = objects.entry(path.to_owned()).or_default();
        object.version = object.version.max(1);
        act(object)
    }

    pub fn version(&self, path: &str) -> u64 {
        self.with(path, |object| object.version)
    }

    /// A new version.
    pub fn change(&self, path: &str) -> u64 {
        self.with(path, |object| {
            object.replaced.push(Instant::now());
            object.version += 1;
            object.version
        })
    }

    /// The change was acknowledged to a client.
    pub fn acknowledged(&self, path: &str, version: u64) {
        self.with(path, |object| {
            if version > object.floor.0 {
                object.floor = (version, Some(Instant::now()));
            }
        });
    }

    /// Whether a version may go out to a request that was sent at `asked`, at most `after` past its
    /// replacement.
    pub fn check_version(&self, path: &str, version: u64, asked: Instant, after: Duration) {
        let said = self.with(path, |object| {
            if version == 0 || version > object.version {
                return Some(format!("{path}: version {version} of {}", object.version));
            }
            if object.floor.1.is_some_and(|since| since < asked) && version < object.floor.0 {
                return Some(format!("{path}: version {version} after {} was acknowledged", object.floor.0));
            }
            let replaced = object.replaced.get(version as usize - 1)?;
            let late = asked.saturating_duration_since(*replaced);
            (late > after).then(|| {
                format!("{path}: version {version} {late:?} after it was replaced, and {after:?} is the most")
            })
        });
        if let Some(said) = said {
            self.wrong(said);
        }
    }

    /// The origin is asked for a variant by a client without special wishes.
    pub fn asked(&self, path: &str, variant: &str) {
        let is_checked = self.climate.is_roomy() && Kind::of(path).is_kept;
        let now = Instant::now();
        let said = self.with(path, |object| {
            let gap = object.gaps.entry(variant.to_owned()).or_default();
            gap.asking += 1;
            gap.is_troubled |= object.unsettling > 0;
            if !is_checked || gap.is_troubled {
                return None;
            }
            if gap.asking > 1 {
                return Some(format!("{path} {variant}: asked for {} times at once", gap.asking));
            }
            let until = gap.fresh_until.filter(|until| now < *until)?;
            Some(format!("{path} {variant}: asked for again, {:?} before it is stale", until - now))
        });
        if let Some(said) = said {
            self.wrong(said);
        }
    }

    /// The answer will be at fault, or may take longer than it is fresh.
    pub fn trouble(&self, path: &str, variant: &str) {
        self.with(path, |object| {
            let gap = object.gaps.entry(variant.to_owned()).or_default();
            gap.is_troubled = true;
            gap.fresh_until = None;
        });
    }

    /// The outcome of the origin's answer to that.
    pub fn answered(&self, path: &str, variant: &str, is_whole: bool, asked: Instant) {
        let kind = Kind::of(path);
        let claimed = match self.climate.sabotage {
            Some(Sabotage::Impatient) => kind.max_age_s + 60,
            _ => kind.max_age_s,
        };
        let is_late = asked.elapsed() > Duration::from_secs(2);
        // The receiver's clock decides the age of a response with a Date (RFC 9111 §4.2.3).
        let is_old = kind.has_date && self.wall_ahead_s.get() > 0;
        self.with(path, |object| {
            let gap = object.gaps.entry(variant.to_owned()).or_default();
            gap.asking = gap.asking.saturating_sub(1);
            if !is_whole || is_late {
                gap.is_troubled = true;
                gap.fresh_until = None;
            } else {
                // The first answer after trouble may bypass the cache.
                let is_kept = !gap.is_troubled && !is_old;
                gap.is_troubled &= gap.asking > 0;
                let lifetime = Duration::from_secs(claimed.saturating_sub(4));
                gap.fresh_until = (is_kept && !lifetime.is_zero()).then(|| asked + lifetime);
            }
        });
    }

    /// A request now under way may replace what is held at any moment.
    pub fn unsettling(&self, path: &str) {
        self.with(path, |object| object.unsettling += 1);
    }

    /// That request is over, and from now on the object may be asked for.
    pub fn unsettled(&self, path: &str) {
        self.with(path, |object| {
            object.unsettling -= 1;
            for gap in object.gaps.values_mut() {
                gap.fresh_until = None;
                gap.is_troubled = true;
            }
        });
    }
}

/// The length of a version in bytes.
fn length(name: &str, version: u64) -> usize {
    let number =
        name.bytes().filter(u8::is_ascii_digit).fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let number = number % 8;
    let length = match name {
        name if name.starts_with("/large/") => 700_000 + number * 450_000 + version * 101,
        name if name.starts_with("/plain/0") && version.is_multiple_of(2) => 0,
        _ => number * number * 3_000 + version * 37 % 1000,
    };
    length as usize
}

fn content(name: &str, version: u64) -> Vec<u8> {
    let length = length(name, version);
    let prefix = format!("{name:<38.38}|{version:08}|");
    let mut bytes = Vec::with_capacity(length + 64);
    while bytes.len() < length {
        let offset = bytes.len();
        bytes.extend_from_slice(prefix.as_bytes());
        write_offset(&mut bytes, offset);
    }
    bytes.truncate(length);
    bytes
}

/// Fifteen digits and a line break.
fn write_offset(bytes: &mut Vec<u8>, mut offset: usize) {
    let mut digits = *b"000000000000000\n";
    let mut at = 15;
    while offset > 0 {
        at -= 1;
        digits[at] = b'0' + (offset % 10) as u8;
        offset /= 10;
    }
    bytes.extend_from_slice(&digits);
}

/// A strong entity tag that names object and version.
pub fn etag(name: &str, version: u64) -> String {
    format!("\"{name}.{version}\"")
}
