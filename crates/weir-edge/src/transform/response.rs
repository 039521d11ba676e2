//! The fields of a response towards the client: without hop-by-hop fields, with `Via`, and with `Location`
//! rewritten to the name that the client used. RFC 9110 §7.6, §10.2.2.

use http::header::{CONTENT_LENGTH, LOCATION, VIA};
use http::{HeaderMap, HeaderValue};
use weir_policy::strip_hop_by_hop;

/// The fields of an origin's response for the client. The connection writes `Content-Length`.
pub fn towards_client(headers: &mut HeaderMap, own_id: &str) {
    strip_hop_by_hop(headers);
    headers.remove(CONTENT_LENGTH);
    if let Ok(via) = HeaderValue::try_from(format!("1.1 {own_id}")) {
        headers.append(VIA, via);
    }
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
    let Some((scheme, after)) = split(location, origin.scheme) else { return };
    if !scheme.eq_ignore_ascii_case(origin.scheme) && !scheme.eq_ignore_ascii_case(client.scheme) {
        return;
    }
    let end = after.find(['/', '?', '#', '\\']).unwrap_or(after.len());
    let (authority, rest) = after.split_at(end);
    let named = without_default_port(scheme, authority);
    let own = without_default_port(origin.scheme, origin.authority);
    if !named.eq_ignore_ascii_case(own) {
        return;
    }
    if let Ok(back) = HeaderValue::try_from(format!("{}://{}{rest}", client.scheme, client.authority)) {
        headers.insert(LOCATION, back);
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
