//! What to do with the stored response that was found (RFC 9111 §4, §4.2.4, §5.2.1; RFC 5861). The only maker
//! of [`Reusable`].

use crate::consult::Ask;
use crate::control::{Directives, MaxStale};
use crate::freshness::{Freshness, freshness};
use crate::now::Now;
use crate::rules::{CacheRules, StaleRules};
use crate::stored::{Stored, StoredFlags};
use crate::targeted::said;
use http::StatusCode;
use std::time::Duration;

/// The route's `stale.if_unreachable` if it has none.
const IF_UNREACHABLE: Duration = Duration::from_secs(60 * 60);

/// Proof that a stored response may be sent for the request that it was judged for, with its freshness at
/// that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reusable {
    freshness: Freshness,
}

impl Reusable {
    /// Its freshness when it was judged. The field Age comes from here.
    pub fn freshness(&self) -> Freshness {
        self.freshness
    }
}

/// What to do with a request that the cache may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send the stored response.
    Hit(Reusable),
    /// Send the stored response, although it is stale.
    Stale(Reusable, StaleUse),
    /// Validate the stored response with the origin, or fetch another if it has no validators.
    Revalidate(Revalidation),
    /// Fetch it.
    Miss(MissReason),
    /// 504: the client wants only a stored response (only-if-cached), and none can be used.
    GatewayTimeout,
}

/// Why a stale response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleUse {
    /// It is within stale-while-revalidate: refresh it in the background (RFC 5861 §3).
    WhileRevalidate,
    /// The client accepts it (max-stale): no refresh is needed.
    MaxStale,
}

/// A revalidation that must come before anything is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revalidation {
    /// Why.
    pub why: RevalidateReason,
    /// The freshness of the stored response.
    pub freshness: Freshness,
}

/// Why the stored response may not be sent without asking the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RevalidateReason {
    /// It is stale.
    Stale,
    /// It is stale because it was purged softly.
    Purged,
    /// It says no-cache.
    NoCache,
    /// It may have been replaced unnoticed, on a volume that was away.
    Suspect,
    /// The client wants it validated: no-cache, or a max-age or min-fresh that it does not meet.
    Request,
    /// The route wants this request to fetch again. The stored response is not validated but replaced: send
    /// no conditional fields.
    Refresh,
}

impl RevalidateReason {
    /// The word for logs.
    pub fn word(self) -> &'static str {
        match self {
            RevalidateReason::Stale => "stale",
            RevalidateReason::Purged => "soft-purged",
            RevalidateReason::NoCache => "no-cache",
            RevalidateReason::Suspect => "suspect",
            RevalidateReason::Request => "request",
            RevalidateReason::Refresh => "refresh",
        }
    }
}

/// Why there is nothing to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MissReason {
    /// Nothing is stored under the key.
    Uri,
    /// Other variants are stored. The edge says this in place of `Uri` if its look-up saw some.
    Vary,
    /// The stored response was purged, or lost. The edge says so.
    Gone,
}

impl MissReason {
    /// The word for logs.
    pub fn word(self) -> &'static str {
        match self {
            MissReason::Uri => "uri-miss",
            MissReason::Vary => "vary-miss",
            MissReason::Gone => "gone",
        }
    }
}

/// Judges what was found for a request.
pub fn verdict(ask: &Ask, stored: Option<&Stored>, now: Now) -> Verdict {
    let Some(stored) = stored else {
        return if ask.directives.only_if_cached() {
            Verdict::GatewayTimeout
        } else {
            Verdict::Miss(MissReason::Uri)
        };
    };
    let freshness = freshness(stored, now);
    let why = match objection(ask, stored, &freshness) {
        None => return Verdict::Hit(Reusable { freshness }),
        Some(why) => why,
    };
    if matches!(why, RevalidateReason::Stale | RevalidateReason::Purged)
        && let Some(usage) = stale_use(ask, stored, &freshness)
    {
        return Verdict::Stale(Reusable { freshness }, usage);
    }
    if ask.directives.only_if_cached() {
        return Verdict::GatewayTimeout;
    }
    Verdict::Revalidate(Revalidation { why, freshness })
}

/// What forbids sending the stored response as it is (RFC 9111 §4). The client's wishes come before
/// staleness, since no window may override them.
fn objection(ask: &Ask, stored: &Stored, freshness: &Freshness) -> Option<RevalidateReason> {
    if ask.is_refresh() {
        return Some(RevalidateReason::Refresh);
    }
    if wants_validation(ask, stored, freshness) {
        return Some(RevalidateReason::Request);
    }
    if stored.facts.flags.has(StoredFlags::NO_CACHE) {
        return Some(RevalidateReason::NoCache);
    }
    if stored.facts.flags.has(StoredFlags::SUSPECT) {
        return Some(RevalidateReason::Suspect);
    }
    let why = match stored.facts.flags.has(StoredFlags::PURGED) {
        true => RevalidateReason::Purged,
        false => RevalidateReason::Stale,
    };
    (!freshness.is_fresh()).then_some(why)
}

/// Whether the client's directives refuse the stored response (RFC 9111 §5.2.1). A browser that reloads a
/// page sends max-age; that is no reason to validate what is immutable and fresh (RFC 8246 §2).
fn wants_validation(ask: &Ask, stored: &Stored, freshness: &Freshness) -> bool {
    let directives = &ask.directives;
    if directives.no_cache() {
        return true;
    }
    let is_settled = stored.facts.flags.has(StoredFlags::IMMUTABLE) && freshness.is_fresh();
    let is_too_old =
        !is_settled && directives.max_age_s.is_some_and(|wanted| freshness.age > seconds(wanted));
    let is_too_close = directives.min_fresh_s.is_some_and(|wanted| freshness.left() < seconds(wanted));
    is_too_old || is_too_close
}

/// Whether a stale response may be sent all the same, and why. Its windows are zero if it forbids that.
fn stale_use(ask: &Ask, stored: &Stored, freshness: &Freshness) -> Option<StaleUse> {
    let staleness = freshness.staleness();
    if staleness < freshness.while_revalidate {
        return Some(StaleUse::WhileRevalidate);
    }
    let flags = stored.facts.flags;
    let bonds = [StoredFlags::MUST_REVALIDATE, StoredFlags::S_MAXAGE, StoredFlags::SUSPECT];
    let forbids = bonds.iter().any(|bond| flags.has(*bond));
    match ask.directives.max_stale {
        Some(MaxStale::Any) if !forbids => Some(StaleUse::MaxStale),
        Some(MaxStale::Seconds(taken)) if !forbids && staleness <= seconds(taken) => Some(StaleUse::MaxStale),
        _ => None,
    }
}

/// Whether a request may read the response of a fill that another request leads (RFC 9111 §4). `arrived` is
/// when the request came, `now` when it looks at the fill's head.
///
/// A head that came after the request counts as one made for it, however short its lifetime. An earlier head
/// is judged like any stored response, so that a long fill does not outlive its freshness. A response with
/// no-cache is only for the request that it was made for (§5.2.2.4). If this returns nothing, the request
/// plans again or bypasses the cache.
pub fn joined(ask: &Ask, stored: &Stored, arrived: Now, now: Now) -> Option<Reusable> {
    if stored.facts.flags.has(StoredFlags::NO_CACHE) {
        return None;
    }
    if stored.facts.received_mono >= arrived.mono {
        return Some(Reusable { freshness: freshness(stored, now) });
    }
    match verdict(ask, Some(stored), now) {
        Verdict::Hit(reusable) | Verdict::Stale(reusable, _) => Some(reusable),
        _ => None,
    }
}

/// How the origin failed to give an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The origin answered with this status.
    Status(StatusCode),
    /// The origin could not be reached, or gave no answer at all: the cache is disconnected (RFC 9111
    /// §4.2.4).
    NoAnswer,
    /// What the origin sent is no response, or Weir itself could not ask.
    Unusable,
    /// The origin has not answered yet, and the route's `revalidation_wait` is over.
    Slow,
}

/// Why a stored response may be sent in place of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// It is fresh, or stale within stale-if-error (RFC 5861 §4).
    Error,
    /// It is stale within the route's `stale.if_unreachable` (RFC 9111 §4.2.4).
    Unreachable,
    /// It is fresh, or stale within the route's `stale.if_status`.
    Status,
}

/// Whether a stored response may be sent because the origin gave no good answer (stale-if-error, RFC 5861 §4;
/// disconnected, RFC 9111 §4.2.4), and why. If not, the failure is passed on.
pub fn error_reusable(
    ask: &Ask,
    stored: &Stored,
    failure: Failure,
    rules: &StaleRules,
    now: Now,
) -> Option<(Reusable, Excuse)> {
    let of_status = match failure {
        Failure::Status(status) => rules.if_status.of(status),
        Failure::NoAnswer | Failure::Unusable | Failure::Slow => None,
    };
    if let (Failure::Status(status), None) = (failure, of_status)
        && !matches!(status.as_u16(), 500 | 502 | 503 | 504)
    {
        return None;
    }
    let excuse = if of_status.is_some() { Excuse::Status } else { Excuse::Error };
    let flags = stored.facts.flags;
    let needs_asking = flags.has(StoredFlags::NO_CACHE) || flags.has(StoredFlags::SUSPECT);
    if ask.directives.no_cache() || needs_asking {
        return None;
    }
    let freshness = freshness(stored, now);
    let reusable = Reusable { freshness };
    if freshness.is_fresh() {
        return Some((reusable, excuse));
    }
    if flags.has(StoredFlags::MUST_REVALIDATE) {
        return None;
    }
    if let Some(window) = of_status {
        let is_within = freshness.staleness() < window && is_good(stored, rules);
        return is_within.then_some((reusable, excuse));
    }
    // A client cannot lift what the origin says; the route and the origin itself can.
    let asked = ask.directives.if_error_s.filter(|_| !flags.has(StoredFlags::S_MAXAGE));
    let asked = asked.map_or(Duration::ZERO, seconds);
    let own = match failure {
        Failure::Status(_) | Failure::NoAnswer | Failure::Unusable => freshness.if_error,
        Failure::Slow => freshness.if_error.max(freshness.while_revalidate),
    };
    let staleness = freshness.staleness();
    if staleness < own.max(asked) {
        return Some((reusable, Excuse::Error));
    }
    let is_within = failure == Failure::NoAnswer && staleness < unreachable_window(stored, rules);
    is_within.then_some((reusable, Excuse::Unreachable))
}

/// Whether a stored response may be sent in place of a response with this status, to a client that says
/// nothing about it. Such a response does not replace it. A stored error outlasts none.
pub fn outlasts(stored: &Stored, status: StatusCode, rules: &StaleRules, now: Now) -> bool {
    is_good(stored, rules)
        && error_reusable(&Ask::plain(), stored, Failure::Status(status), rules, now).is_some()
}

/// Whether a stored response is none of those in whose place a stored one may be sent.
fn is_good(stored: &Stored, rules: &StaleRules) -> bool {
    !stored.status.is_server_error() && rules.if_status.of(stored.status).is_none()
}

/// How long past its freshness a response may be sent if the origin gives no answer at all. Zero if a
/// directive forbids that (RFC 9111 §4.2.4).
///
/// The origin's stale-if-error is the limit "absent other information" (RFC 5861 §4). The route's own key is
/// such information. So is s-maxage, which leaves no more than these two say (ADR 0095).
pub fn unreachable_window(stored: &Stored, rules: &StaleRules) -> Duration {
    let flags = stored.facts.flags;
    let bonds = [StoredFlags::MUST_REVALIDATE, StoredFlags::NO_CACHE, StoredFlags::SUSPECT];
    if bonds.iter().any(|bond| flags.has(*bond)) {
        return Duration::ZERO;
    }
    let if_error = stored.facts.if_error;
    match rules.if_unreachable {
        Some(window) => window.max(if_error),
        None if flags.has(StoredFlags::NAMES_IF_ERROR) || flags.has(StoredFlags::S_MAXAGE) => if_error,
        None => IF_UNREACHABLE.max(if_error),
    }
}

/// Which directive of a stored response forbids stale use; `None` where none does. `s-maxage` leaves the
/// windows that are named. `s-maxage-authorization` leaves none: it was stored for a request with
/// credentials, or may have been. no-cache, which forbids more, is not meant.
pub fn against_stale(stored: &Stored) -> Option<&'static str> {
    let flags = stored.facts.flags;
    if !flags.has(StoredFlags::MUST_REVALIDATE) {
        return flags.has(StoredFlags::S_MAXAGE).then_some("s-maxage");
    }
    let said = said(&stored.headers, &CacheRules::default());
    if said.has(Directives::MUST_REVALIDATE) {
        Some("must-revalidate")
    } else if said.has(Directives::PROXY_REVALIDATE) {
        Some("proxy-revalidate")
    } else {
        Some("s-maxage-authorization")
    }
}

fn seconds(number: u32) -> Duration {
    Duration::from_secs(u64::from(number))
}

#[cfg(test)]
mod tests;
