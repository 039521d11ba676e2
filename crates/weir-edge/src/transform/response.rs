//! The fields of a response towards the client: without hop-by-hop fields, with `Via`, and with `Location`
//! rewritten to the name that the client used. RFC 9110 §7.6, §10.2.2.

use std::borrow::Cow;

use http::header::{CONTENT_LENGTH, LOCATION, VIA};
use http::{HeaderMap, HeaderValue};
use weir_policy::strip_hop_by_hop;

use super::request::Own;

/// The fields of an origin's response for the client. The connection writes `Content-Length`.
pub fn towards_client(headers: &mut HeaderMap, own: &Own) {
    strip_hop_by_hop(headers);
    headers.remove(CONTENT_LENGTH);
    headers.append(VIA, own.via("HTTP/1.1"));
}

/// A scheme and an authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host and, where it is not the scheme's default, port.
    pub authority: &'a str,
}

/// Rewrites a `Location` that names the origin to the name that the client used.
///
/// Its scheme must be the origin's, or the client's own, which the origin knows from `X-Forwarded-Proto`. An
/// origin on `http` may send its clients to its `https`: if that were rewritten, the redirect would lead to
/// itself.
pub fn location_back(headers: &mut HeaderMap, origin: Place<'_>, client: Place<'_>) {
    let Some(location) = headers.get(LOCATION).and_then(|value| value.to_str().ok()) else { return };
    if let Some(back) = back(location, origin, client).and_then(|back| HeaderValue::try_from(back).ok()) {
        headers.insert(LOCATION, back);
    }
}

/// The URL with the client's name in place of the origin's; none where it has another.
pub(crate) fn back(location: &str, origin: Place<'_>, client: Place<'_>) -> Option<String> {
    let (scheme, after) = split(location, origin.scheme)?;
    if !scheme.eq_ignore_ascii_case(origin.scheme) && !scheme.eq_ignore_ascii_case(client.scheme) {
        return None;
    }
    let (authority, rest) = after.split_at(authority_bytes(after));
    let named = without_default_port(scheme, authority);
    let own = without_default_port(origin.scheme, origin.authority);
    named.eq_ignore_ascii_case(own).then(|| format!("{}://{}{rest}", client.scheme, client.authority))
}

/// A reference made of parts of a request or response. Where it begins with `//`, or with a `\` that browsers
/// take for `/`, scheme and authority of the client are put before it: what follows would else be a host.
pub(crate) fn of_client(mut reference: Vec<u8>, client: Place<'_>) -> Vec<u8> {
    if let [b'/' | b'\\', b'/' | b'\\', ..] = reference.as_slice() {
        let own = format!("{}://{}", client.scheme, client.authority);
        reference.splice(..0, own.into_bytes());
    }
    reference
}

/// The authority that browsers take a reference to name, in lower case; empty where it names none.
pub(crate) fn authority_of(reference: &str) -> String {
    let slash = ['/', '\\'];
    let relative = reference.strip_prefix(slash).and_then(|rest| rest.strip_prefix(slash));
    let after = relative.or_else(|| split(reference, "").map(|(_, after)| after)).unwrap_or_default();
    after[..authority_bytes(after)].to_ascii_lowercase()
}

/// How long the authority is that a text begins with.
fn authority_bytes(text: &str) -> usize {
    text.find(['/', '?', '#', '\\']).unwrap_or(text.len())
}

/// A reference without the dot segments of its path (RFC 3986 §5.2.4), as browsers resolve it: they read
/// `%2e` as a dot and `\` as a slash. None where the result would name another host.
pub(crate) fn without_dots(reference: &str) -> Option<Cow<'_, str>> {
    let own = match split(reference, "") {
        Some((_, after)) => reference.len() - after.len() + authority_bytes(after),
        None => 0,
    };
    let (head, rest) = reference.split_at(own);
    let (path, tail) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    if !path.starts_with('/') || !path.split(['/', '\\']).any(|segment| dots(segment) > 0) {
        return Some(Cow::Borrowed(reference));
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path[1..].split(['/', '\\']).peekable();
    while let Some(segment) = segments.next() {
        let dots = dots(segment);
        if dots == 2 {
            kept.pop();
        }
        match dots {
            0 => kept.push(segment),
            // The last one names a folder.
            _ if segments.peek().is_none() => kept.push(""),
            _ => {}
        }
    }
    let is_another_host = head.is_empty() && kept.len() > 1 && kept[0].is_empty();
    (!is_another_host).then(|| Cow::Owned(format!("{head}/{}{tail}", kept.join("/"))))
}

/// 1 for the segment `.`, 2 for `..`, 0 for others.
fn dots(segment: &str) -> usize {
    if segment.len() > 6 || !segment.starts_with(['.', '%']) {
        return 0;
    }
    match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
        "." => 1,
        ".." => 2,
        _ => 0,
    }
}

/// The scheme, and what follows `//`. A reference without a scheme has the origin's.
fn split<'a>(location: &'a str, default: &'a str) -> Option<(&'a str, &'a str)> {
    match location.strip_prefix("//") {
        Some(after) => Some((default, after)),
        None => location.split_once("://").filter(|(scheme, _)| !scheme.contains(['/', '?', '#'])),
    }
}

fn without_default_port<'a>(scheme: &str, authority: &'a str) -> &'a str {
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    authority.strip_suffix(port).or_else(|| authority.strip_suffix(':')).unwrap_or(authority)
}
