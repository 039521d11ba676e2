//! Changes to the fields of a head. Pure.

use std::time::Duration;

use http::header::{CACHE_CONTROL, EXPIRES};
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;
use weir_config::Edits;
use weir_policy::is_respelled;

/// Removes, then sets.
pub(super) fn apply(edits: &Edits, headers: &mut HeaderMap) {
    strip(edits, headers);
    for (name, value) in &edits.set {
        headers.insert(name, value.clone());
    }
}

/// Removes all fields that are removed or set, in any spelling: programs behind CGI read `X_Country` as
/// `X-Country`.
pub(super) fn strip(edits: &Edits, headers: &mut HeaderMap) {
    if edits.remove.is_empty() && edits.set.is_empty() && edits.values.is_empty() {
        return;
    }
    let set = || edits.set.iter().map(|(name, _)| name).chain(edits.values.iter().map(|(name, _)| name));
    let names = || edits.remove.iter().chain(set());
    for name in names() {
        headers.remove(name);
    }
    let respelled: SmallVec<[HeaderName; 2]> =
        headers.keys().filter(|name| names().any(|edited| is_respelled(name, edited))).cloned().collect();
    for name in &respelled {
        headers.remove(name);
    }
}

/// Removes all fields that are set to values with placeholders, in any spelling.
pub(super) fn strip_values(edits: &Edits, headers: &mut HeaderMap) {
    let names = || edits.values.iter().map(|(name, _)| name);
    let gone = |name: &&HeaderName| names().any(|edited| *name == edited || is_respelled(name, edited));
    let gone: SmallVec<[HeaderName; 4]> = headers.keys().filter(gone).cloned().collect();
    for name in &gone {
        headers.remove(name);
    }
}

/// Tells browsers another lifetime (`max-age`, RFC 9111 §5.2.2.1) than the origin does. A response that must
/// not be stored, or must be validated before each use, stays so.
pub(super) fn browser_ttl(headers: &mut HeaderMap, ttl: Duration) {
    let mut kept = Vec::new();
    for value in headers.get_all(CACHE_CONTROL) {
        let Ok(text) = value.to_str() else { return };
        for directive in text.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
            let name = directive.split('=').next().unwrap_or_default().trim().to_ascii_lowercase();
            match name.as_str() {
                "no-store" | "no-cache" | "private" => return,
                "max-age" => {}
                _ => kept.push(directive.to_owned()),
            }
        }
    }
    kept.push(format!("max-age={}", ttl.as_secs()));
    if let Ok(value) = HeaderValue::try_from(kept.join(", ")) {
        headers.insert(CACHE_CONTROL, value);
        headers.remove(EXPIRES);
    }
}
