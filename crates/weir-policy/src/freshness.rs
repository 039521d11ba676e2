//! Lifetime and age of a response (RFC 9111 §4.2). Once a response is here, its age is counted on monotonic
//! time alone, so that a wall clock that jumps changes no stored response.

use crate::control::{ControlField, DELTA_SECONDS_MAX, Directives, ResponseControl, delta_seconds};
use crate::date::date_of;
use crate::now::Now;
use crate::response::ResponseView;
use crate::rules::{CacheRules, Heuristics};
use crate::stored::{Stored, Validators};
use http::{HeaderMap, StatusCode, header};
use std::time::{Duration, SystemTime};

/// The longest lifetime guessed from Last-Modified.
const HEURISTIC_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Where a lifetime came from, in the order in which the sources are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifetimeSource {
    /// The route's `ttl_override`.
    Override,
    /// CDN-Cache-Control (RFC 9213).
    CdnCacheControl,
    /// Surrogate-Control.
    SurrogateControl,
    /// Cache-Control: s-maxage.
    SMaxage,
    /// Cache-Control: max-age.
    MaxAge,
    /// Expires.
    Expires,
    /// The route's `ttl`.
    Route,
    /// Guessed from Last-Modified (RFC 9111 §4.2.2).
    Heuristic,
    /// No source gives one: the response is stored only to be validated.
    Nothing,
}

impl LifetimeSource {
    /// The word for logs and for `weir explain`.
    pub fn word(self) -> &'static str {
        match self {
            LifetimeSource::Override => "ttl-override",
            LifetimeSource::CdnCacheControl => "cdn-cache-control",
            LifetimeSource::SurrogateControl => "surrogate-control",
            LifetimeSource::SMaxage => "s-maxage",
            LifetimeSource::MaxAge => "max-age",
            LifetimeSource::Expires => "expires",
            LifetimeSource::Route => "ttl",
            LifetimeSource::Heuristic => "heuristic",
            LifetimeSource::Nothing => "none",
        }
    }

    /// Whether the origin itself gave it.
    pub fn is_explicit(self) -> bool {
        use LifetimeSource::{CdnCacheControl, Expires, MaxAge, SMaxage, SurrogateControl};
        matches!(self, CdnCacheControl | SurrogateControl | SMaxage | MaxAge | Expires)
    }
}

/// How fresh a stored response is at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// How long it is fresh, counted from its generation by the origin.
    pub lifetime: Duration,
    /// How old it is (current_age, RFC 9111 §4.2.3).
    pub age: Duration,
    /// How long past expiry it may be used while it is being revalidated.
    pub while_revalidate: Duration,
    /// How long past expiry it may be used where the origin fails.
    pub if_error: Duration,
}

impl Freshness {
    /// Whether it is fresh (RFC 9111 §4.2: the lifetime exceeds the age).
    pub fn is_fresh(&self) -> bool {
        self.lifetime > self.age
    }

    /// How long it stays fresh; zero when stale.
    pub fn left(&self) -> Duration {
        self.lifetime.saturating_sub(self.age)
    }

    /// For how long it has been stale; zero while fresh.
    pub fn staleness(&self) -> Duration {
        self.age.saturating_sub(self.lifetime)
    }

    /// Seconds left for Cache-Status `ttl` (RFC 9211 §2.4): negative when stale.
    pub fn left_s(&self) -> i64 {
        self.lifetime.as_secs() as i64 - self.age.as_secs() as i64
    }

    /// Seconds for the field Age.
    pub fn age_s(&self) -> u64 {
        self.age.as_secs().min(u64::from(DELTA_SECONDS_MAX))
    }
}

/// How fresh `stored` is at `now`.
pub fn freshness(stored: &Stored, now: Now) -> Freshness {
    let facts = &stored.facts;
    Freshness {
        lifetime: facts.lifetime,
        age: facts.initial_age + now.since(facts.received_mono),
        while_revalidate: facts.while_revalidate,
        if_error: facts.if_error,
    }
}

/// Whether a lifetime may be guessed for this status (RFC 9110 §15.1). A 206 is never stored as a whole
/// response.
pub(crate) fn is_heuristically_cacheable(status: StatusCode, heuristics: Heuristics) -> bool {
    match status.as_u16() {
        200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 => true,
        414 | 501 => heuristics == Heuristics::Whole,
        _ => false,
    }
}

/// What the response's own fields say about its lifetime; `None` if they say nothing (RFC 9111 §4.2.1).
pub(crate) fn explicit_lifetime(
    control: &ResponseControl,
    headers: &HeaderMap,
    received: Now,
) -> Option<(Duration, LifetimeSource)> {
    let named = |seconds: u32, source| Some((Duration::from_secs(u64::from(seconds)), source));
    let (shared, own) = match control.field {
        ControlField::Plain => (LifetimeSource::SMaxage, LifetimeSource::MaxAge),
        ControlField::Cdn => (LifetimeSource::CdnCacheControl, LifetimeSource::CdnCacheControl),
        ControlField::Surrogate => (LifetimeSource::SurrogateControl, LifetimeSource::SurrogateControl),
    };
    if let Some(seconds) = control.s_maxage_s {
        return named(seconds, shared);
    }
    if let Some(seconds) = control.max_age_s {
        return named(seconds, own);
    }
    if control.field != ControlField::Plain || !headers.contains_key(header::EXPIRES) {
        return None;
    }
    Some((expires_lifetime(headers, received), LifetimeSource::Expires))
}

/// Expires minus Date. Zero if Expires is not a date, or comes twice with different values (RFC 9111 §5.3).
/// Without a valid Date the time of receipt counts.
fn expires_lifetime(headers: &HeaderMap, received: Now) -> Duration {
    let mut lines = headers.get_all(header::EXPIRES).iter();
    let first = lines.next();
    if lines.any(|line| Some(line) != first) {
        return Duration::ZERO;
    }
    let read = |value| date_of(value, received.wall);
    let Some(expires) = first.and_then(read) else {
        return Duration::ZERO;
    };
    let date = headers.get(header::DATE).and_then(read).unwrap_or_else(|| whole_seconds(received.wall));
    let lifetime = expires.duration_since(date).unwrap_or_default();
    lifetime.min(Duration::from_secs(u64::from(DELTA_SECONDS_MAX)))
}

/// A tenth of the time since the last change, at most a day (RFC 9111 §4.2.2).
pub(crate) fn heuristic_lifetime(validators: &Validators, received: Now) -> Option<Duration> {
    let modified = validators.last_modified?;
    let date = validators.date.unwrap_or(received.wall);
    let unchanged = date.duration_since(modified).unwrap_or_default();
    Some((unchanged / 10).min(HEURISTIC_MAX))
}

/// The age of a response when it arrived: corrected_initial_age (RFC 9111 §4.2.3).
pub(crate) fn initial_age(response: &ResponseView<'_>) -> Duration {
    let ResponseView { headers, requested, received, .. } = *response;
    let date = headers.get(header::DATE).and_then(|value| date_of(value, received.wall));
    let apparent = date
        .map_or(Duration::ZERO, |date| whole_seconds(received.wall).duration_since(date).unwrap_or_default());
    let response_delay = received.since(requested.mono);
    let said = Duration::from_secs(u64::from(age_s(headers)));
    apparent.max(said + response_delay)
}

/// The field Age in seconds (RFC 9111 §5.1); zero if there is none. Of a list, over any number of lines, the
/// first member counts. A value that is not a non-negative integer is ignored.
pub fn age_s(headers: &HeaderMap) -> u32 {
    let lines = headers.get_all(header::AGE).iter();
    let members = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    // Empty members do not count (RFC 9110 §5.6.1.2).
    let first = members.map(<[u8]>::trim_ascii).find(|member| !member.is_empty());
    first.and_then(delta_seconds).unwrap_or(0)
}

/// Whether a status means the requested content, or that the client has it: neither an error nor a redirect.
/// A route's `browser_ttl` is for these statuses.
pub fn is_of_content(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 206 | 304)
}

/// The lifetime, from the first source that has one: `ttl_override`, the origin's fields, the route's `ttl`,
/// the heuristic. The route's lifetimes count for the statuses that they name, guesses for those that allow
/// them.
pub(crate) fn lifetime(
    response: &ResponseView<'_>,
    control: &ResponseControl,
    validators: &Validators,
    rules: &CacheRules,
) -> Option<(Duration, LifetimeSource)> {
    let guessable = is_heuristically_cacheable(response.status, rules.heuristics);
    if let Some(ttl) = rules.ttl_override.of(response.status) {
        return Some((ttl, LifetimeSource::Override));
    }
    let explicit = explicit_lifetime(control, response.headers, response.received);
    if explicit.is_some() {
        return explicit;
    }
    if let Some(ttl) = rules.ttl.of(response.status) {
        return Some((ttl, LifetimeSource::Route));
    }
    if rules.heuristics == Heuristics::Off {
        return None;
    }
    // The origin means a 5xx with public to be kept (RFC 9111 §3, §4.2.2).
    if guessable || control.has(Directives::PUBLIC) {
        return heuristic_lifetime(validators, response.received)
            .map(|guess| (guess, LifetimeSource::Heuristic));
    }
    None
}

/// Cuts off fractions of a second, which HTTP dates do not have. Otherwise a response received within the
/// second of its Date would seem old.
pub(crate) fn whole_seconds(time: SystemTime) -> SystemTime {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs()),
        Err(_) => time,
    }
}
