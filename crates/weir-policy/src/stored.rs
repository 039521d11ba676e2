//! A stored response: its cleaned head, validators, variant, and what freshness needs, computed once.

use crate::date::date_of;
use crate::freshness::LifetimeSource;
use crate::now::Now;
use crate::tags::Tags;
use crate::vary::Variant;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use std::time::{Duration, Instant, SystemTime};

/// The head of a stored response with what later decisions need.
///
/// Its parts are public so that the store can write them to a disk and read them back. Only
/// [`Storable`](crate::Storable) proves that a response may be stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The status.
    pub status: StatusCode,
    /// End-to-end fields, without those that may not be stored (RFC 9111 §3.1) and without Age. Date is
    /// always there.
    pub headers: HeaderMap,
    /// What it can be validated with.
    pub validators: Validators,
    /// Which requests it answers.
    pub variant: Variant,
    /// What freshness needs.
    pub facts: Facts,
    /// The tags in `headers`, by which it can be purged.
    pub tags: Tags,
}

impl Stored {
    /// A response of our own, with these fields: conditions and ranges are answered from it. It is as old as
    /// `now`, and nothing says how long it is fresh.
    pub fn of_own(status: StatusCode, headers: HeaderMap, now: Now) -> Stored {
        let validators = Validators { date: Some(now.wall), ..Validators::read(&headers, now.wall) };
        let facts = Facts {
            lifetime: Duration::ZERO,
            source: LifetimeSource::Nothing,
            initial_age: Duration::ZERO,
            received_mono: now.mono,
            received_wall: now.wall,
            while_revalidate: Duration::ZERO,
            if_error: Duration::ZERO,
            flags: StoredFlags::default(),
        };
        Stored { status, headers, validators, variant: Variant::default(), facts, tags: Tags::default() }
    }

    /// Makes it stale from the moment `since` on, as a soft purge does. Its lifetime ends there, unless it
    /// has ended before, and the windows for stale responses (RFC 5861) are counted from there. A response
    /// that arrived later is stale from its arrival.
    pub fn outdate(&mut self, since: Instant) {
        self.facts.outdate(since);
    }

    /// Demands validation before it is used again, whatever its windows: it may have been replaced unnoticed,
    /// on a volume that was away.
    pub fn suspect(&mut self, since: Instant) {
        self.outdate(since);
        self.facts.flags.insert(StoredFlags::SUSPECT);
        (self.facts.while_revalidate, self.facts.if_error) = (Duration::ZERO, Duration::ZERO);
    }
}

/// Freshness of a stored response, worked out when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How long it is fresh (RFC 9111 §4.2.1).
    pub lifetime: Duration,
    /// Where the lifetime came from.
    pub source: LifetimeSource,
    /// Its age on arrival (corrected_initial_age, RFC 9111 §4.2.3).
    pub initial_age: Duration,
    /// When it came, monotonic: ages are counted from here.
    pub received_mono: Instant,
    /// When it came, wall time: for validation by date and for people.
    pub received_wall: SystemTime,
    /// How long after expiry it may be used while it is revalidated (RFC 5861 §3).
    pub while_revalidate: Duration,
    /// How long after expiry it may be used if the origin fails (RFC 5861 §4).
    pub if_error: Duration,
    /// What else the response said.
    pub flags: StoredFlags,
}

impl Facts {
    /// As [`Stored::outdate`].
    pub fn outdate(&mut self, since: Instant) {
        let lifetime = self.lifetime.min(self.age_at(since));
        if lifetime.is_zero() && !self.lifetime.is_zero() {
            self.flags.insert(StoredFlags::CUT);
        }
        self.lifetime = lifetime;
        self.flags.insert(StoredFlags::PURGED);
    }

    /// Lets it be fresh until the moment `until`, as a retention says, whether that is later or earlier than
    /// its own lifetime, and whether it was stale or softly purged before. Its windows for stale responses
    /// are counted from there. A response that arrived later is stale from its arrival. What must be asked
    /// about each time stays so ([`Facts::is_asked_each_time`]).
    pub fn retain(&mut self, until: Instant) {
        if self.is_asked_each_time() {
            return;
        }
        self.lifetime = self.age_at(until);
        self.flags.remove(StoredFlags::PURGED);
        self.flags.insert(StoredFlags::RETAINED);
    }

    /// Forbids every stale use for good: it was stored for a request with credentials, because of its
    /// s-maxage alone (RFC 9111 §3.5, §5.2.2.10).
    pub(crate) fn bind_to_credentials(&mut self) {
        self.flags.insert(StoredFlags::MUST_REVALIDATE);
        self.flags.insert(StoredFlags::OF_CREDENTIALS);
        (self.while_revalidate, self.if_error) = (Duration::ZERO, Duration::ZERO);
    }

    /// Whether it was stored for a request with credentials because of its s-maxage, or may have been: an
    /// earlier version of Weir wrote the head, and did not say. `has_s_maxage`: its directives have one.
    pub(crate) fn may_be_of_credentials(&self, has_s_maxage: bool) -> bool {
        let is_unsaid =
            self.flags.has(StoredFlags::MUST_REVALIDATE) && !self.flags.has(StoredFlags::S_MAXAGE);
        self.flags.has(StoredFlags::OF_CREDENTIALS) || (is_unsaid && has_s_maxage)
    }

    /// Whether it is validated before each use, whatever the time: it says no-cache, it may have been
    /// replaced, or its lifetime was zero when it came (`max-age=0`, an Expires in the past). A guess of zero
    /// says nothing.
    pub fn is_asked_each_time(&self) -> bool {
        let has = |flag| self.flags.has(flag);
        let was_longer = has(StoredFlags::RETAINED) || has(StoredFlags::CUT);
        let is_of_zero = self.lifetime.is_zero() && self.source != LifetimeSource::Heuristic && !was_longer;
        has(StoredFlags::NO_CACHE) || has(StoredFlags::SUSPECT) || is_of_zero
    }

    /// Where its lifetime came from, for logs and for `weir explain`: `retention`, or the word of its source.
    pub fn lifetime_from(&self) -> &'static str {
        if self.flags.has(StoredFlags::RETAINED) { "retention" } else { self.source.word() }
    }

    fn age_at(&self, moment: Instant) -> Duration {
        self.initial_age + moment.saturating_duration_since(self.received_mono)
    }
}

/// What a stored response said about its use, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredFlags(pub u16);

impl StoredFlags {
    /// Never without validation (no-cache).
    pub const NO_CACHE: StoredFlags = StoredFlags(1);
    /// Never stale (must-revalidate, proxy-revalidate).
    pub const MUST_REVALIDATE: StoredFlags = StoredFlags(2);
    /// Does not change while it is fresh (RFC 8246).
    pub const IMMUTABLE: StoredFlags = StoredFlags(4);
    /// It is stale early: it was purged softly.
    pub const PURGED: StoredFlags = StoredFlags(8);
    /// It may have been replaced: never without validation.
    pub const SUSPECT: StoredFlags = StoredFlags(16);
    /// The origin itself says how stale it may be in case of an error (stale-if-error, RFC 5861 §4).
    pub const NAMES_IF_ERROR: StoredFlags = StoredFlags(32);
    /// A retention says until when it is fresh.
    pub const RETAINED: StoredFlags = StoredFlags(64);
    /// It had a lifetime, of which a soft purge has left nothing.
    pub const CUT: StoredFlags = StoredFlags(128);
    /// It has s-maxage: stale only within windows that its origin or the route names.
    pub const S_MAXAGE: StoredFlags = StoredFlags(256);
    /// It was stored for a request with credentials because of its s-maxage alone: never stale.
    pub const OF_CREDENTIALS: StoredFlags = StoredFlags(512);

    /// Whether all of `other` is in it.
    pub fn has(self, other: StoredFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Adds `other`.
    pub fn insert(&mut self, other: StoredFlags) {
        self.0 |= other.0;
    }

    /// Takes `other` away.
    pub fn remove(&mut self, other: StoredFlags) {
        self.0 &= !other.0;
    }
}

/// The validators of a response (RFC 9110 §8.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// Its entity tag.
    pub etag: Option<ETag>,
    /// Last-Modified, if it is a date.
    pub last_modified: Option<SystemTime>,
    /// Date, if it is a date.
    pub date: Option<SystemTime>,
}

impl Validators {
    /// Reads the validators of a response that came at `received`, wall time.
    pub fn read(headers: &HeaderMap, received: SystemTime) -> Validators {
        let date = |name| headers.get(name).and_then(|value| date_of(value, received));
        Validators {
            etag: headers.get(header::ETAG).and_then(ETag::read),
            last_modified: date(header::LAST_MODIFIED),
            date: date(header::DATE),
        }
    }

    /// Whether there is nothing to validate with.
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }

    /// Whether Last-Modified is a strong validator: at least a second before Date, both on the origin's clock
    /// (RFC 9110 §8.8.2.2).
    pub fn is_last_modified_strong(&self) -> bool {
        match (self.last_modified, self.date) {
            (Some(modified), Some(date)) => {
                date.duration_since(modified).is_ok_and(|gap| gap >= Duration::from_secs(1))
            }
            _ => false,
        }
    }
}

/// An entity tag as received, quotes and `W/` included (RFC 9110 §8.8.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ETag(HeaderValue);

impl ETag {
    /// Reads a field value; `None` if it is not one entity tag. A value without quotes, as some origins send,
    /// counts as an opaque strong tag and is sent back as it came.
    pub fn read(value: &HeaderValue) -> Option<ETag> {
        let bytes = value.as_bytes().trim_ascii();
        (!bytes.is_empty()).then(|| ETag(value.clone()))
    }

    /// The field value as received.
    pub fn value(&self) -> &HeaderValue {
        &self.0
    }

    /// Whether it is weak.
    pub fn is_weak(&self) -> bool {
        self.0.as_bytes().starts_with(b"W/")
    }
}

#[cfg(test)]
mod tests;
