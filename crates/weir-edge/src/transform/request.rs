//! The fields of a request towards the origin: only what was parsed, without hop-by-hop fields, without
//! the fields by which one client could poison what others get, with who it came from and through whom.
//! RFC 9110 §7.6, RFC 8586, RFC 7239 by name only.

use std::fmt::Write;
use std::net::IpAddr;

use http::header::{
    ACCEPT_ENCODING, EXPECT, HOST, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    RANGE, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use weir_policy::strip_hop_by_hop;

use super::Trust;

/// Fields that are never forwarded: they name another URL, host or method than the request's own, so an
/// origin that obeys them answers for what is not in the key.
pub const STRIPPED: [&str; 13] = [
    "x-original-url",
    "x-rewrite-url",
    "x-host",
    "x-original-host",
    "x-forwarded-server",
    "x-forwarded-scheme",
    "x-forwarded-prefix",
    "x-forwarded-path",
    "x-http-host-override",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "forwarded",
];

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
/// The request's name in all logs.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

/// Who sent the request.
#[derive(Clone, Copy, Debug)]
pub struct From<'a> {
    /// The peer's address; none over a unix socket.
    pub address: Option<IpAddr>,
    /// Whether its word counts.
    pub trust: Trust,
    /// The scheme the client used.
    pub scheme: &'a str,
    /// The request's normalised authority.
    pub host: &'a str,
    /// The request's id.
    pub request_id: &'a str,
    /// Our own id in `CDN-Loop` and `Via`.
    pub own_id: &'a str,
}

/// Whether the request has been here before: our own id in `CDN-Loop`, or our own name in `Via`.
pub fn is_loop(headers: &HeaderMap, own_id: &str) -> bool {
    let tokens = |name: &HeaderName| {
        headers
            .get_all(name)
            .into_iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
    };
    let in_loop = tokens(&CDN_LOOP).any(|entry| entry.split(';').next().map(str::trim) == Some(own_id));
    in_loop || tokens(&VIA).any(|entry| entry.split_whitespace().nth(1) == Some(own_id))
}

/// The scheme the client used: the listener's, or what a trusted proxy says.
pub fn scheme(headers: &HeaderMap, trust: Trust, listener: &'static str) -> &'static str {
    if trust == Trust::Untrusted {
        return listener;
    }
    match headers.get(X_FORWARDED_PROTO).map(HeaderValue::as_bytes) {
        Some(b"https") => "https",
        Some(b"http") => "http",
        _ => listener,
    }
}

/// The request id of a trusted peer, if it sent a sane one.
pub fn known_id(headers: &HeaderMap, trust: Trust) -> Option<&str> {
    let id = headers.get(X_REQUEST_ID)?.to_str().ok()?;
    let sane = (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    (trust == Trust::Trusted && sane).then_some(id)
}

/// The fields to send to an origin, `Host` still the client's.
pub fn towards_origin(headers: &HeaderMap, from: &From<'_>) -> HeaderMap {
    let mut out = headers.clone();
    strip_hop_by_hop(&mut out);
    for name in STRIPPED {
        out.remove(name);
    }
    out.remove(EXPECT);
    if out
        .get(X_FORWARDED_HOST)
        .is_some_and(|host| !host.as_bytes().eq_ignore_ascii_case(from.host.as_bytes()))
    {
        out.remove(X_FORWARDED_HOST);
    }
    forwarded_for(&mut out, headers, from);
    if from.trust == Trust::Untrusted {
        out.remove(X_FORWARDED_PORT);
    }
    put(&mut out, X_FORWARDED_PROTO, from.scheme);
    put(&mut out, X_REQUEST_ID, from.request_id);
    append_list(&mut out, VIA, &format!("1.1 {}", from.own_id));
    append_list(&mut out, CDN_LOOP, from.own_id);
    put(&mut out, HOST, from.host);
    out
}

/// What a fill's request does not carry on: it belongs to one client alone.
pub fn for_fill(headers: &mut HeaderMap) {
    for name in [RANGE, IF_RANGE, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE] {
        headers.remove(name);
    }
    if let Some(normal) = weir_policy::accept_encoding(headers) {
        headers.insert(ACCEPT_ENCODING, normal);
    }
}

fn forwarded_for(out: &mut HeaderMap, headers: &HeaderMap, from: &From<'_>) {
    let mut chain = String::new();
    if from.trust == Trust::Trusted {
        for value in headers.get_all(X_FORWARDED_FOR).into_iter().filter_map(|value| value.to_str().ok()) {
            let separator = if chain.is_empty() { "" } else { ", " };
            let _ = write!(chain, "{separator}{value}");
        }
    }
    if let Some(address) = from.address {
        let separator = if chain.is_empty() { "" } else { ", " };
        let _ = write!(chain, "{separator}{address}");
    }
    if chain.is_empty() {
        out.remove(X_FORWARDED_FOR);
    } else {
        put(out, X_FORWARDED_FOR, &chain);
    }
}

fn append_list(out: &mut HeaderMap, name: HeaderName, member: &str) {
    let mut list = String::new();
    for value in out.get_all(&name).into_iter().filter_map(|value| value.to_str().ok()) {
        list.push_str(value);
        list.push_str(", ");
    }
    list.push_str(member);
    put(out, name, &list);
}

fn put(out: &mut HeaderMap, name: HeaderName, value: &str) {
    match HeaderValue::from_str(value) {
        Ok(value) => drop(out.insert(name, value)),
        Err(_) => drop(out.remove(name)),
    }
}
