//! What a route says by status: lifetimes, and other choices in the same form. A status beats its class, and
//! a class beats `any`. Pure; it must not know a response.

use http::StatusCode;
use std::time::Duration;

/// Some statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statuses {
    /// One status.
    One(StatusCode),
    /// The hundred statuses that begin with this digit, 1 to 5.
    Class(u8),
    /// All.
    Any,
}

/// Lifetimes by status. Empty: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes(pub Vec<(Statuses, Duration)>);

/// The statuses that a lifetime without statuses is for: content, and redirects that last.
const PLAIN: [StatusCode; 5] = [
    StatusCode::OK,
    StatusCode::NON_AUTHORITATIVE_INFORMATION,
    StatusCode::PARTIAL_CONTENT,
    StatusCode::MOVED_PERMANENTLY,
    StatusCode::PERMANENT_REDIRECT,
];

impl Lifetimes {
    /// One lifetime for content (200, 203, 206) and for redirects that last (301, 308).
    pub fn plain(lifetime: Duration) -> Lifetimes {
        Lifetimes(PLAIN.iter().map(|status| (Statuses::One(*status), lifetime)).collect())
    }

    /// The lifetime of a response with this status. A class and [`Statuses::Any`] leave out statuses that
    /// the fields of one request may cause: such a response is stored only where the status itself is named.
    pub fn of(&self, status: StatusCode) -> Option<Duration> {
        let found = nearest(&self.0, status)?;
        (matches!(found.0, Statuses::One(_)) || !is_for_one(status.as_u16())).then_some(found.1)
    }
}

/// Times after the end of freshness by status of the origin. Empty: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows(pub Vec<(Statuses, Duration)>);

impl Windows {
    /// The window while the origin answers with this status.
    pub fn of(&self, status: StatusCode) -> Option<Duration> {
        nearest(&self.0, status).map(|(_, window)| window)
    }
}

/// The entry for a status: that of the status itself, else of its class, else of all.
pub(crate) fn nearest<T: Copy>(entries: &[(Statuses, T)], status: StatusCode) -> Option<(Statuses, T)> {
    let class = u8::try_from(status.as_u16() / 100).unwrap_or_default();
    let find = |wanted| entries.iter().find(|(statuses, _)| *statuses == wanted).copied();
    find(Statuses::One(status)).or_else(|| find(Statuses::Class(class))).or_else(|| find(Statuses::Any))
}

/// Whether a status finds fault with one request, as it was too long, odd or badly framed, and says nothing
/// about the resource.
pub(crate) fn is_of_request(code: u16) -> bool {
    matches!(code, 400 | 408 | 411..=417 | 421 | 422 | 425 | 426 | 428 | 429 | 431 | 501 | 505)
}

/// Whether the fields of one request may be the cause of a status, though others get the resource: what
/// finds fault with it, asks for credentials, or refuses its client (403, by a firewall), its method (405, by
/// a field that overrides it) or its form (406, 506, 510); and the words of some servers for all that (430,
/// 494 to 499).
fn is_for_one(code: u16) -> bool {
    is_of_request(code) || matches!(code, 401 | 403 | 405..=407 | 430 | 494..=499 | 506 | 510)
}

/// Whether a status is never stored, whatever a response and a route say: interim ones, parts (206), answers
/// to a precondition (304, 412), those that RFC 6585 keeps out of caches (428, 429, 431, 511), and refusals
/// of one request for its framing, type, target or moment, which all clients would get. A route may allow 400
/// and 414.
pub fn is_never_stored(status: StatusCode) -> bool {
    match status.as_u16() {
        0..200 | 206 | 304 | 511 => true,
        400 | 414 | 501 | 505 => false,
        code => is_of_request(code),
    }
}

#[cfg(test)]
mod tests;
