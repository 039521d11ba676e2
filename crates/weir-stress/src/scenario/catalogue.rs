//! What a scenario's own origin has: its parts by path, the size and version of each object, and whether a
//! version may still be served. Those that check and the origin itself ask the same catalogue.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use xxhash_rust::xxh3::xxh3_64;

use crate::body::Expected;
use crate::clock::Clock;
use crate::scenario::sizes::Sizes;
use crate::seeded;

/// How much longer than its lifetime an old version may be served: dates in HTTP have whole seconds, and a
/// response may have been under way.
const SLACK_NS: u64 = 2_000_000_000;
/// The most changes of a part that are remembered. Older versions are old in any case.
const CHANGES_MAX: usize = 10_000;
/// The most paths whose requests are counted one by one.
const PATHS_MAX: usize = 2_000_000;
/// The most parts. Modules add their own.
const PARTS_MAX: usize = 10_000;

/// How long responses may be kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Lifetime {
    /// `Cache-Control: no-store`.
    NoStore,
    /// `Cache-Control: max-age`, in seconds.
    Seconds(u64),
}

/// What is wrong with the responses of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wrong {
    /// Nothing.
    #[default]
    Nothing,
    /// Ends in the middle of the body.
    Truncates,
    /// Answers a range with another one, as its head says.
    Lies,
    /// The version changes while a body is sent: it is cut, and the rest is of another version.
    Changes,
    /// Each request is answered 500.
    Fails,
    /// The connection ends without a response.
    HangsUp,
    /// No byte is ever sent.
    Hangs,
}

/// A part of the origin: all objects whose paths begin alike.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) prefix: String,
    pub(crate) sizes: Sizes,
    /// Sizes of single objects by the hash of their paths; they go before `sizes`.
    pub(crate) known: HashMap<u64, u64>,
    pub(crate) kind: String,
    /// More fields of each response, as lines.
    pub(crate) fields: String,
    pub(crate) lifetime: Lifetime,
    /// Before the first byte, in milliseconds.
    pub(crate) delay_ms: u64,
    /// Bytes a second of each response.
    pub(crate) rate: Option<u64>,
    pub(crate) is_chunked: bool,
    /// Whether responses have an `ETag`.
    pub(crate) has_tag: bool,
    /// Whether ranges are answered by parts.
    pub(crate) has_parts: bool,
    pub(crate) changes_ms: Option<u64>,
    pub(crate) wrong: Mutex<Wrong>,
    /// When its versions ended, in nanoseconds of the catalogue's clock.
    ended_ns: Mutex<Vec<u64>>,
    pub(crate) requests: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// All that an origin has.
#[derive(Debug)]
pub(crate) struct Catalogue {
    seed: u64,
    clock: Clock,
    parts: RwLock<Vec<Arc<Part>>>,
    asked: Mutex<HashMap<u64, u64>>,
    /// Responses' content that has left, and requests that have come.
    pub(crate) requests: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

impl Part {
    /// A part with objects of one size that may be kept for an hour.
    pub(crate) fn new(prefix: &str, sizes: Sizes) -> Self {
        Self {
            prefix: prefix.to_owned(),
            sizes,
            known: HashMap::new(),
            kind: "application/octet-stream".to_owned(),
            fields: String::new(),
            lifetime: Lifetime::Seconds(3600),
            delay_ms: 0,
            rate: None,
            is_chunked: false,
            has_tag: true,
            has_parts: true,
            changes_ms: None,
            wrong: Mutex::new(Wrong::Nothing),
            ended_ns: Mutex::new(Vec::new()),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn wrong(&self) -> Wrong {
        *self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_wrong(&self, wrong: Wrong) {
        *self.wrong.lock().unwrap_or_else(PoisonError::into_inner) = wrong;
    }

    /// The length of the body at `path`.
    pub(crate) fn bytes_of(&self, path: &[u8]) -> u64 {
        let hash = xxh3_64(path);
        self.known.get(&hash).copied().unwrap_or_else(|| self.sizes.of(hash))
    }

    /// The version at `now_ns`.
    fn version(&self, now_ns: u64) -> u64 {
        let ended = self.ended_ns.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        ended + self.changes_ms.map_or(0, |every| now_ns / (every.max(1) * 1_000_000))
    }

    /// Whether `version` may not be served at `now_ns`: it ended too long ago, or has not begun.
    fn is_old(&self, version: u64, now_ns: u64) -> bool {
        if version >= self.version(now_ns) {
            return version > self.version(now_ns);
        }
        let ended_ns = match self.changes_ms {
            Some(every) => (version + 1) * every.max(1) * 1_000_000,
            None => {
                let ended = self.ended_ns.lock().unwrap_or_else(PoisonError::into_inner);
                ended.get(version as usize).copied().unwrap_or(0)
            }
        };
        let kept_ns = match self.lifetime {
            Lifetime::NoStore => 0,
            Lifetime::Seconds(seconds) => seconds.saturating_mul(1_000_000_000),
        };
        ended_ns.saturating_add(kept_ns).saturating_add(SLACK_NS) < now_ns
    }
}

impl Catalogue {
    pub(crate) fn new(seed: u64, parts: Vec<Part>) -> Self {
        Self {
            seed,
            clock: Clock::start(),
            parts: RwLock::new(parts.into_iter().map(Arc::new).collect()),
            asked: Mutex::new(HashMap::new()),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Adds a part; one with the same prefix is replaced.
    pub(crate) fn add(&self, part: Part) -> Arc<Part> {
        let part = Arc::new(part);
        let mut parts = self.parts.write().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|known| known.prefix != part.prefix);
        if parts.len() >= PARTS_MAX {
            parts.remove(0);
        }
        parts.push(part.clone());
        part
    }

    /// The part of `path`: the one with the longest prefix.
    pub(crate) fn part(&self, path: &[u8]) -> Option<Arc<Part>> {
        let parts = self.parts.read().unwrap_or_else(PoisonError::into_inner);
        let fitting = parts.iter().filter(|part| path.starts_with(part.prefix.as_bytes()));
        fitting.max_by_key(|part| part.prefix.len()).cloned()
    }

    /// What `version` of the object at `path` is. `None` where there is nothing.
    pub(crate) fn expected(&self, path: &[u8], version: u64) -> Option<Expected> {
        let part = self.part(path)?;
        Some(Expected {
            key: self.key(path, version),
            bytes: part.bytes_of(path),
            is_old: part.is_old(version, self.clock.nanoseconds()),
        })
    }

    pub(crate) fn key(&self, path: &[u8], version: u64) -> u64 {
        seeded::key(self.seed, path, version)
    }

    /// The version that is there now.
    pub(crate) fn version(&self, part: &Part) -> u64 {
        part.version(self.clock.nanoseconds())
    }

    /// Changes all objects of a part.
    pub(crate) fn change(&self, part: &Part) {
        let mut ended = part.ended_ns.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() < CHANGES_MAX {
            ended.push(self.clock.nanoseconds());
        }
    }

    /// Counts a request that has reached the origin.
    pub(crate) fn count(&self, part: Option<&Part>, path: &[u8]) {
        self.requests.fetch_add(1, Relaxed);
        if let Some(part) = part {
            part.requests.fetch_add(1, Relaxed);
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() < PATHS_MAX {
            *asked.entry(xxh3_64(path)).or_default() += 1;
        }
    }

    /// How many requests for `path` have reached the origin.
    pub(crate) fn asked(&self, path: &str) -> u64 {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.get(&xxh3_64(path.as_bytes())).copied().unwrap_or(0)
    }

    /// Counts content that has left the origin.
    pub(crate) fn sent(&self, part: Option<&Part>, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        if let Some(part) = part {
            part.bytes.fetch_add(bytes, Relaxed);
        }
    }

    /// Requests and bytes of content so far.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.requests.load(Relaxed), self.bytes.load(Relaxed))
    }
}
