//! What scripts remember between requests: a map with lifetimes, shared by all workers, bounded in entries
//! and bytes. It must not grow with what clients send, and one client must not cost the others their entries.
//!
//! Each entry is charged to the client whose request made it: an IPv4 address or an IPv6 /64, as everywhere
//! in Weir, and its /48 for an eighth; what fills made is charged to nobody. A full shard looks at a few of
//! its entries, others each time, and removes one of the client that has the most in this shard. So a client
//! that makes entries without end pushes out its own. To push out others takes as many addresses as there are
//! entries.

mod shard;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rhai::{Dynamic, ImmutableString};
use shard::Shard;
use weir_share::Client;

/// How many shards there are. A power of two.
const SHARDS: usize = 64;
/// The most entries of one state.
pub const ENTRIES_MAX: usize = 131_072;
/// The most bytes of one state, with keys and overhead.
pub const BYTES_MAX: usize = 32 << 20;
/// The longest key that is kept as it is, in bytes. Clients make keys long, so a longer one is hashed.
pub const KEY_BYTES_MAX: usize = 512;
/// The longest text that is kept, in bytes.
pub const VALUE_BYTES_MAX: usize = 4096;
/// The longest lifetime and the longest window, in seconds.
pub const SECONDS_MAX: i64 = 86_400;

/// Whose entry it is; nobody's, if there is no client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner(Option<Client>);

impl Owner {
    /// The owner that a client's address stands for.
    pub fn of(client: Option<IpAddr>) -> Owner {
        Owner(client.map(Client::of))
    }

    /// The owner as a witness of failures: all of a /48 are one.
    pub(crate) fn witness(self) -> Owner {
        Owner(self.0.map(Client::witness))
    }
}

/// Why nothing was remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// A counter has no room.
    #[error("`state` has no room for a counter")]
    Room,
    /// The value is too long, or of no kind that is kept.
    #[error("`state` keeps numbers, `true` and `false`, and texts of at most {VALUE_BYTES_MAX} bytes")]
    Value,
    /// The time is too long, or none.
    #[error("a time of `state` is 1 to {SECONDS_MAX} seconds")]
    Seconds,
}

/// A value that is kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kept {
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(Box<str>),
}

impl Kept {
    fn of(value: &Dynamic) -> Result<Kept, StateError> {
        if let Ok(text) = value.as_immutable_string_ref() {
            if text.len() > VALUE_BYTES_MAX {
                return Err(StateError::Value);
            }
            return Ok(Kept::Text(text.as_str().into()));
        }
        let flag = value.as_bool().ok().map(Kept::Flag);
        let integer = || value.as_int().ok().map(Kept::Integer);
        let number = || value.as_float().ok().map(Kept::Number);
        flag.or_else(integer).or_else(number).ok_or(StateError::Value)
    }

    fn value(&self) -> Dynamic {
        match self {
            Kept::Flag(flag) => (*flag).into(),
            Kept::Integer(number) => (*number).into(),
            Kept::Number(number) => (*number).into(),
            Kept::Text(text) => ImmutableString::from(&**text).into(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Kept::Text(text) => text.len(),
            _ => 0,
        }
    }
}

/// What the scripts of one `[pick.NAME]` remember.
#[derive(Debug)]
pub struct State {
    shards: Box<[Mutex<Shard>]>,
    hasher: std::hash::RandomState,
    begun: Instant,
}

/// How much is remembered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Entries, expired ones that were not removed yet included.
    pub entries: usize,
    /// Bytes, with keys and overhead.
    pub bytes: usize,
    /// Entries that were removed for others before their time.
    pub evicted: u64,
}

impl State {
    /// An empty one of the usual size. `now` is where its time begins.
    pub fn new(now: Instant) -> State {
        State::of(ENTRIES_MAX, BYTES_MAX, now)
    }

    /// An empty one of at most so many entries and bytes.
    pub fn of(entries_max: usize, bytes_max: usize, now: Instant) -> State {
        let shard = |_| Mutex::new(Shard::new((entries_max / SHARDS).max(1), (bytes_max / SHARDS).max(1)));
        State { shards: (0..SHARDS).map(shard).collect(), hasher: std::hash::RandomState::new(), begun: now }
    }

    /// Counts this use of a key, and says how many there were in the last so many seconds, this one included.
    ///
    /// # Errors
    /// Where the time is too long.
    pub fn count(&self, key: &str, seconds: i64, whose: Owner, now: Instant) -> Result<i64, StateError> {
        let (key, seconds) = (counter_key(&self.short(key), seconds)?, checked(seconds)?);
        self.shard(&key).count(&key, seconds, whose, self.ms(now)).map(i64::from).ok_or(StateError::Room)
    }

    /// How many uses of a key [`State::count`] has counted in the last so many seconds.
    ///
    /// # Errors
    /// Where the time is too long.
    pub fn counted(&self, key: &str, seconds: i64, now: Instant) -> Result<i64, StateError> {
        let key = counter_key(&self.short(key), seconds)?;
        Ok(self.shard(&key).counted(&key, self.ms(now)).into())
    }

    /// The value of a key; `()` where there is none.
    pub fn value(&self, key: &str, now: Instant) -> Dynamic {
        let key = &self.short(key);
        let shard = self.shard(key);
        shard.value(key, self.ms(now)).map_or(Dynamic::UNIT, Kept::value)
    }

    /// Keeps a value for so many seconds.
    ///
    /// # Errors
    /// Where the value or the time is too large.
    pub fn set(
        &self,
        key: &str,
        value: &Dynamic,
        seconds: i64,
        (whose, now): (Owner, Instant),
    ) -> Result<(), StateError> {
        let (kept, seconds) = (Kept::of(value)?, checked(seconds)?);
        let key = &self.short(key);
        let now_ms = self.ms(now);
        let until_ms = now_ms + seconds * 1000;
        let is_kept = self.shard(key).set(key, kept, (whose, now_ms, until_ms));
        if is_kept { Ok(()) } else { Err(StateError::Value) }
    }

    /// Forgets a value.
    pub fn remove(&self, key: &str) {
        let key = &self.short(key);
        self.shard(key).remove(key);
    }

    /// How much is remembered.
    pub fn remembered(&self) -> Remembered {
        self.shards.iter().map(|shard| shard.lock().remembered()).fold(Remembered::default(), |sum, one| {
            Remembered {
                entries: sum.entries + one.entries,
                bytes: sum.bytes + one.bytes,
                evicted: sum.evicted + one.evicted,
            }
        })
    }

    /// The key, or the hash of a long one. It has a secret, so that nobody finds two keys with the same.
    fn short<'k>(&self, key: &'k str) -> Cow<'k, str> {
        if key.len() <= KEY_BYTES_MAX {
            return Cow::Borrowed(key);
        }
        let half = |number: u8| self.hasher.hash_one((number, key));
        Cow::Owned(format!("\u{1}{:016x}{:016x}", half(1), half(2)))
    }

    fn shard(&self, key: &str) -> parking_lot::MutexGuard<'_, Shard> {
        let number = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[number].lock()
    }

    fn ms(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.begun).as_millis()).unwrap_or(u64::MAX / 2)
    }
}

/// A counter's key is apart from those of values, and from those of other windows.
fn counter_key(key: &str, seconds: i64) -> Result<String, StateError> {
    checked(seconds)?;
    Ok(format!("\0{seconds}\0{key}"))
}

fn checked(seconds: i64) -> Result<u64, StateError> {
    u64::try_from(seconds).ok().filter(|_| (1..=SECONDS_MAX).contains(&seconds)).ok_or(StateError::Seconds)
}

/// The lifetime of a counter after its last use: its whole window, and the slot in which the use was.
pub(crate) fn counter_lifetime(seconds: u64) -> Duration {
    Duration::from_secs(seconds * 2)
}
