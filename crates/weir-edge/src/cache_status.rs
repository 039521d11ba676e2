//! How the cache handled a request, for `Cache-Status` (RFC 9211) and for the log's record.

use http::StatusCode;
use weir_policy::cache_status::{self, Forward, Forwarded};
use weir_policy::{CacheKey, MissReason, NotStored, PassReason, Reusable, RevalidateReason};

use weir_observe::{Facts, Outcome, Sharing, Storing};

/// How the cache handled a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheStatus {
    outcome: Outcome,
    /// Why it was not simply a hit.
    detail: &'static str,
    /// Why the cache is bypassed, where it is.
    passes: Option<PassReason>,
    /// RFC 9211 §2.2: why the request went to the origin; none on a hit.
    fwd: Option<Forward>,
    /// The status that the origin answered with.
    fwd_status: Option<StatusCode>,
    storing: Storing,
    collapsed: Collapsed,
    ttl_s: Option<i64>,
}

/// Whether the request reads another request's fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collapsed {
    /// It led.
    No,
    /// It joined.
    Yes,
}

impl CacheStatus {
    fn new(outcome: Outcome, detail: &'static str, fwd: Option<Forward>) -> CacheStatus {
        CacheStatus {
            outcome,
            detail,
            passes: None,
            fwd,
            fwd_status: None,
            storing: Storing::NotAsked,
            collapsed: Collapsed::No,
            ttl_s: None,
        }
    }

    /// Served from the store, fresh.
    pub(crate) fn hit(reusable: &Reusable) -> CacheStatus {
        CacheStatus { ttl_s: Some(reusable.freshness().left_s()), ..CacheStatus::new(Outcome::Hit, "", None) }
    }

    /// Served from the store, stale.
    pub(crate) fn stale(reusable: &Reusable) -> CacheStatus {
        CacheStatus {
            ttl_s: Some(reusable.freshness().left_s()),
            ..CacheStatus::new(Outcome::Stale, "stale", None)
        }
    }

    /// Not held.
    pub(crate) fn miss(reason: MissReason) -> CacheStatus {
        CacheStatus::new(Outcome::Miss, reason.word(), Some(reason.into()))
    }

    /// Held in part, and the origin is asked for the missing bytes.
    pub(crate) fn completed(self) -> CacheStatus {
        CacheStatus {
            outcome: Outcome::Miss,
            detail: "partial",
            fwd: Some(Forward::Partial),
            fwd_status: Some(StatusCode::PARTIAL_CONTENT),
            ..self
        }
    }

    /// The cache is bypassed.
    pub(crate) fn pass(reason: PassReason) -> CacheStatus {
        let passes = Some(reason);
        CacheStatus { passes, ..CacheStatus::new(Outcome::Pass, reason.word(), Some(reason.into())) }
    }

    /// The cache is bypassed, because the client asks for another protocol (RFC 9110 §7.8).
    pub(crate) fn upgrade() -> CacheStatus {
        CacheStatus::new(Outcome::Pass, "upgrade", Some(Forward::Bypass))
    }

    /// Held, but not usable without asking the origin.
    pub(crate) fn revalidate(why: RevalidateReason) -> CacheStatus {
        CacheStatus::new(Outcome::Miss, why.word(), Some(why.into()))
    }

    /// Why it was not simply a hit, in the log's word.
    pub(crate) fn detail(&self) -> &'static str {
        self.detail
    }

    /// Whether the request bypasses the cache only because of what is remembered of its key.
    pub(crate) fn is_of_memory(&self) -> bool {
        self.passes == Some(PassReason::Uncacheable)
    }

    /// Whether the request goes as it came only until its key is known to be public.
    pub(crate) fn is_of_signature(&self) -> bool {
        self.passes == Some(PassReason::Signed)
    }

    /// Whether it came from the store, so that it must have an `Age`.
    pub(crate) fn is_from_store(&self) -> bool {
        matches!(self.outcome, Outcome::Hit | Outcome::Stale | Outcome::Revalidated)
            || self.fwd == Some(Forward::Partial)
            || self.collapsed == Collapsed::Yes
    }

    /// The request read another request's fill.
    pub(crate) fn collapsed(self) -> CacheStatus {
        CacheStatus { collapsed: Collapsed::Yes, ..self }
    }

    /// The origin answered with this status.
    pub(crate) fn answered(self, status: StatusCode) -> CacheStatus {
        CacheStatus { fwd_status: Some(status), ..self }
    }

    /// The response is being stored.
    pub(crate) fn stored(self, ttl_s: i64, source: &'static str) -> CacheStatus {
        let storing = Storing::Stored { ttl_s: u64::try_from(ttl_s).unwrap_or(0), source };
        CacheStatus { storing, ttl_s: Some(ttl_s), ..self }
    }

    /// The response is not stored. A request that looked for a response which is never stored becomes a pass.
    pub(crate) fn not_stored(self, reason: NotStored) -> CacheStatus {
        CacheStatus { outcome: Outcome::Pass, storing: Storing::NotStored(reason.word()), ..self }
    }

    /// The origin confirmed the stored response.
    pub(crate) fn unchanged(self, ttl_s: i64) -> CacheStatus {
        CacheStatus { outcome: Outcome::Revalidated, ttl_s: Some(ttl_s), ..self }
    }

    /// The stored response goes out stale for this reason.
    pub(crate) fn stale_because(self, why: &'static str, ttl_s: i64) -> CacheStatus {
        CacheStatus { outcome: Outcome::Stale, detail: why, passes: None, ttl_s: Some(ttl_s), ..self }
    }

    /// Notes it in the record.
    pub(crate) fn note(&self, facts: &mut Facts) {
        facts.outcome = self.outcome;
        facts.detail = self.detail;
        facts.storing = self.storing;
        facts.ttl_left_s = self.ttl_s;
        facts.sharing = match self.collapsed {
            Collapsed::Yes => Sharing::Joined,
            Collapsed::No => Sharing::Alone,
        };
    }

    /// Prints the value of `Cache-Status`, with the key where one is given.
    pub(crate) fn print(&self, out: &mut Vec<u8>, key: Option<&CacheKey>) {
        match (self.fwd, self.ttl_s) {
            (None, ttl_s) => cache_status::hit(out, ttl_s.unwrap_or(0)),
            (Some(_), Some(ttl_s)) if self.outcome == Outcome::Stale => {
                cache_status::hit_with(out, ttl_s, self.detail);
            }
            (Some(forward), _) => cache_status::forwarded(out, forward, &self.forwarded()),
        }
        if let Some(key) = key {
            cache_status::key(out, &key.full);
        }
    }

    fn forwarded(&self) -> Forwarded<'static> {
        let detail = match self.storing {
            Storing::NotStored(word) => Some(word),
            _ if self.outcome == Outcome::Pass => Some(self.detail),
            _ => None,
        };
        Forwarded {
            status: self.fwd_status,
            is_stored: matches!(self.storing, Storing::Stored { .. }),
            is_collapsed: self.collapsed == Collapsed::Yes,
            ttl_s: self.ttl_s,
            detail,
        }
    }
}
