//! The fields of a response towards the client: without hop-by-hop fields, with `Via`. RFC 9110 §7.6.

use http::header::{CONTENT_LENGTH, LOCATION, VIA};
use http::{HeaderMap, HeaderValue};
use weir_policy::strip_hop_by_hop;

/// The fields of an origin's response for the client. `Content-Length` is left to the delivery.
pub fn towards_client(headers: &mut HeaderMap, own_id: &str) {
    strip_hop_by_hop(headers);
    headers.remove(CONTENT_LENGTH);
    if let Ok(via) = HeaderValue::try_from(format!("1.1 {own_id}")) {
        headers.append(VIA, via);
    }
}

/// Writes a `Location` that names the origin back to the name that the client used.
pub fn location_back(headers: &mut HeaderMap, origin: &str, scheme: &str, host: &str) {
    let Some(location) = headers.get(LOCATION).and_then(|value| value.to_str().ok()) else { return };
    let Some((_, after)) = location.split_once("://") else { return };
    let end = after.find(['/', '?', '#']).unwrap_or(after.len());
    let (authority, rest) = after.split_at(end);
    if !authority.eq_ignore_ascii_case(origin) {
        return;
    }
    if let Ok(back) = HeaderValue::try_from(format!("{scheme}://{host}{rest}")) {
        headers.insert(LOCATION, back);
    }
}
