//! The retry table: whether a failed request is sent again, and where (RFC 9110 §9.2.2, RFC 9112 §9.3.1).
//! Pure.
//!
//! | failed | request | then |
//! |---|---|---|
//! | not connected | any | another origin, three tried at most |
//! | a connection that took not a byte | any | a fresh connection, once |
//! | reused connection ended before a byte came | idempotent, body replayable | a fresh connection, once |
//! | fresh connection ended before a response byte | idempotent, body replayable | another origin, once |
//! | the time ran out before a response byte | idempotent, body replayable | another origin, once |
//! | a response of status 502, 503 or 504 | idempotent, body replayable | another origin, once |
//! | a response byte came, but no whole head | any | never |
//! | all connections in use, or the body broken off | any | never |
//!
//! Each row is one of [`RetryOn`], and holds where [`Retries::on`] has it: by default the first four do.
//! "Once" is [`Retries::times`]; it is counted over all rows but the first. Where there is no other origin,
//! the same one is asked again. What an origin has seen is sent again only within the
//! [budget](crate::again::budget).

use weir_client::{ExchangeError, Failure, Kind, Stage};

use crate::request::Retry;
use crate::settings::{Retries, RetryOn};

/// The most origins that one request tries.
pub(crate) const ORIGINS_MAX: u32 = 3;

/// What has been done for a request so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tries {
    /// Origins that could not be connected to.
    pub(crate) unconnected: u32,
    /// How often the request was sent again.
    pub(crate) resent: u32,
}

impl Tries {
    /// One attempt more that was not the last.
    pub(crate) fn with<R, B>(self, done: &Result<R, Box<(Failure, B)>>) -> Tries {
        match done {
            Err(failed) if failed.0.stage == Stage::NotConnected => {
                Tries { unconnected: self.unconnected + 1, ..self }
            }
            _ => Tries { resent: self.resent + 1, ..self },
        }
    }
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The error is final.
    GiveUp,
    /// The same origin on a connection made for it.
    Fresh,
    /// An origin that was not tried. The error is final if there is none.
    Elsewhere,
    /// An origin that was not tried, else the same one on a connection made for it.
    ElsewhereOrFresh,
}

/// Reads the table.
pub(crate) fn decide(
    failure: &Failure,
    allowed: Retry,
    replayable: bool,
    tries: Tries,
    rules: &Retries,
) -> Next {
    let Some(reason) = reason(failure).filter(|reason| rules.on.contains(reason)) else {
        return Next::GiveUp;
    };
    if failure.stage == Stage::NotConnected {
        let more = replayable && tries.unconnected + 1 < ORIGINS_MAX;
        return if more { Next::Elsewhere } else { Next::GiveUp };
    }
    if !replayable || tries.resent >= rules.times {
        return Next::GiveUp;
    }
    if reason == RetryOn::Timeout {
        let may_follow = failure.stage == Stage::Sent && allowed == Retry::Once;
        return if may_follow { Next::ElsewhereOrFresh } else { Next::GiveUp };
    }
    match (failure.stage, failure.kind) {
        (Stage::NothingSent, Kind::Reused) => Next::Fresh,
        (Stage::NothingSent, Kind::Fresh) => Next::ElsewhereOrFresh,
        (Stage::Sent, kind) if allowed == Retry::Once => match kind {
            Kind::Reused => Next::Fresh,
            Kind::Fresh => Next::ElsewhereOrFresh,
        },
        _ => Next::GiveUp,
    }
}

/// What a failure is, of those after which a request may be sent again.
pub(crate) fn reason(failure: &Failure) -> Option<RetryOn> {
    match &failure.error {
        ExchangeError::Busy { .. } | ExchangeError::BodyAborted => None,
        _ if failure.stage == Stage::NotConnected => Some(RetryOn::Connect),
        ExchangeError::Terminated => Some(RetryOn::Closed),
        ExchangeError::FirstByteTimeout | ExchangeError::WriteTimeout => Some(RetryOn::Timeout),
        _ => None,
    }
}

/// Whether a request may be sent again after a response of this status, and why.
pub(crate) fn after_status(
    status: http::StatusCode,
    allowed: Retry,
    tries: Tries,
    rules: &Retries,
) -> Option<RetryOn> {
    let reason = RetryOn::of_status(status).filter(|reason| rules.on.contains(reason))?;
    (allowed == Retry::Once && tries.resent < rules.times).then_some(reason)
}
