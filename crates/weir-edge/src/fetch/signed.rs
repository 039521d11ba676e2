//! Requests that may be signed: a fill changes fields that the signature covers, and the origin refuses it.
//! So they go as they came until it is known that the answer is for all. It must not check a signature.

use weir_fill::cold::Cold;
use weir_policy::{AskKind, CacheKey, changes_fields, may_be_signed};

use crate::exchange::Asked;
use crate::job::Job;

/// Whether a request goes past the cache as it came, since no answer for its key was public yet.
pub(super) fn goes_as_it_came(asked: &Asked<'_>, job: &Job, key: &CacheKey) -> bool {
    job.validating.is_none()
        && (changes_fields(&asked.view()) || job.ask.kind == AskKind::Head)
        && may_be_signed(&asked.view())
        && !asked.core.shared.inflight.recent.was_storable(key.digest, asked.now.mono)
}

/// What a fill asks, beside what its client has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// The same, or nobody can have signed it.
    Alike,
    /// Otherwise, and the client may have signed what it asks.
    Otherwise,
}

/// What a fill asks that begins with these chunks.
pub(super) fn asks(asked: &Asked<'_>, job: &Job, cold: Option<Cold>) -> Asks {
    let is_other = || {
        cold.is_some()
            || job.validating.is_some()
            || job.ask.kind == AskKind::Head
            || changes_fields(&asked.view())
    };
    match may_be_signed(&asked.view()) && is_other() {
        true => Asks::Otherwise,
        false => Asks::Alike,
    }
}
