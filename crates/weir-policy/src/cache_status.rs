//! The field Cache-Status, written (RFC 9211). It only appends bytes; nothing here decides.

use http::StatusCode;

/// The name of this cache in the field.
const CACHE: &[u8] = b"weir";

/// Why a request went forward (RFC 9211 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forward {
    /// The cache was configured not to handle it.
    Bypass,
    /// The method's semantics.
    Method,
    /// Nothing is stored under the key.
    UriMiss,
    /// No stored variant fits the request's fields.
    VaryMiss,
    /// The stored response is stale, or may not be used without validation.
    Stale,
    /// The client's directives refuse the stored response.
    Request,
    /// Something is stored, but not the requested range.
    Partial,
    /// No stored response could be used, and the reason is not known.
    Miss,
}

impl Forward {
    /// The token in the field.
    pub fn word(self) -> &'static str {
        match self {
            Forward::Bypass => "bypass",
            Forward::Method => "method",
            Forward::UriMiss => "uri-miss",
            Forward::VaryMiss => "vary-miss",
            Forward::Stale => "stale",
            Forward::Request => "request",
            Forward::Partial => "partial",
            Forward::Miss => "miss",
        }
    }
}

impl From<crate::PassReason> for Forward {
    fn from(reason: crate::PassReason) -> Forward {
        use crate::PassReason::{
            Body, BypassClient, BypassCookie, BypassHeader, BypassMap, BypassMethod, BypassPath, BypassQuery,
            DotSegment, EarlyData, HostInPath, Login, Method, NoStore, RouteNoStore, Session, Signed,
            Uncacheable,
        };
        match reason {
            Method | Body => Forward::Method,
            NoStore => Forward::Request,
            BypassClient | BypassCookie | BypassHeader | BypassMap | BypassMethod | BypassPath
            | BypassQuery | DotSegment | EarlyData | HostInPath | Login | Session | Signed => Forward::Bypass,
            RouteNoStore | Uncacheable => Forward::UriMiss,
        }
    }
}

impl From<crate::MissReason> for Forward {
    fn from(reason: crate::MissReason) -> Forward {
        match reason {
            crate::MissReason::Uri => Forward::UriMiss,
            crate::MissReason::Vary => Forward::VaryMiss,
            crate::MissReason::Gone => Forward::Miss,
        }
    }
}

impl From<crate::RevalidateReason> for Forward {
    fn from(reason: crate::RevalidateReason) -> Forward {
        use crate::RevalidateReason::{NoCache, Purged, Refresh, Request, Stale, Suspect};
        match reason {
            Stale | Purged | NoCache | Suspect => Forward::Stale,
            Request => Forward::Request,
            Refresh => Forward::Bypass,
        }
    }
}

/// What the field says of a request that went forward.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forwarded<'a> {
    /// The origin's status, if it differs from the one that was sent or is worth saying.
    pub status: Option<StatusCode>,
    /// Whether the response was stored.
    pub is_stored: bool,
    /// Whether the request was answered from another request's response.
    pub is_collapsed: bool,
    /// How long the response stays fresh, in seconds.
    pub ttl_s: Option<i64>,
    /// A further detail: a word.
    pub detail: Option<&'a str>,
}

/// Writes `weir; hit; ttl=58`. A negative `ttl_s` says that a stale response was sent.
pub fn hit(out: &mut Vec<u8>, ttl_s: i64) {
    out.extend_from_slice(CACHE);
    out.extend_from_slice(b"; hit");
    parameter_number(out, "ttl", ttl_s);
}

/// Writes `weir; hit; ttl=-3; detail=...`.
pub fn hit_with(out: &mut Vec<u8>, ttl_s: i64, detail: &str) {
    hit(out, ttl_s);
    parameter_word(out, "detail", detail);
}

/// Writes `weir; fwd=uri-miss; fwd-status=200; stored; collapsed; ttl=60; detail=...`, leaving out what
/// `said` does not have.
pub fn forwarded(out: &mut Vec<u8>, forward: Forward, said: &Forwarded<'_>) {
    out.extend_from_slice(CACHE);
    out.extend_from_slice(b"; fwd=");
    out.extend_from_slice(forward.word().as_bytes());
    if let Some(status) = said.status {
        parameter_number(out, "fwd-status", i64::from(status.as_u16()));
    }
    if let Some(ttl_s) = said.ttl_s {
        parameter_number(out, "ttl", ttl_s);
    }
    if said.is_stored {
        out.extend_from_slice(b"; stored");
    }
    if said.is_collapsed {
        out.extend_from_slice(b"; collapsed");
    }
    if let Some(detail) = said.detail {
        parameter_word(out, "detail", detail);
    }
}

/// Writes `weir; detail=...` for a response that came from neither a cache nor an origin.
pub fn local(out: &mut Vec<u8>, detail: &str) {
    out.extend_from_slice(CACHE);
    parameter_word(out, "detail", detail);
}

/// Adds `; key="..."` to a member (RFC 9211 §2.7). Bytes that a string cannot have become `?`.
pub fn key(out: &mut Vec<u8>, key: &[u8]) {
    parameter_string(out, "key", key);
}

fn parameter_number(out: &mut Vec<u8>, name: &str, number: i64) {
    name_of(out, name);
    if number < 0 {
        out.push(b'-');
    }
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    // Integers of structured fields have at most 15 digits (RFC 8941 §3.3.1).
    let mut rest = number.unsigned_abs().min(999_999_999_999_999);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes a token if the text is one, a string otherwise.
fn parameter_word(out: &mut Vec<u8>, name: &str, text: &str) {
    let is_token = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '*')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte));
    if is_token {
        name_of(out, name);
        out.extend_from_slice(text.as_bytes());
    } else {
        parameter_string(out, name, text.as_bytes());
    }
}

/// Writes a string (RFC 8941 §3.3.3). Bytes that a string cannot have become `?`.
fn parameter_string(out: &mut Vec<u8>, name: &str, text: &[u8]) {
    name_of(out, name);
    out.push(b'"');
    for byte in text.iter().copied() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x20..=0x7e => out.push(byte),
            _ => out.push(b'?'),
        }
    }
    out.push(b'"');
}

fn name_of(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b"; ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
}

#[cfg(test)]
mod tests;
