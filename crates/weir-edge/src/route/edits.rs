//! Changes to the fields of a head. Pure.

use std::time::Duration;

use http::header::{CACHE_CONTROL, EXPIRES};
use http::{HeaderMap, HeaderValue};
use weir_config::Edits;

/// Removes, then sets.
pub(super) fn apply(edits: &Edits, headers: &mut HeaderMap) {
    for name in &edits.remove {
        headers.remove(name);
    }
    for (name, value) in &edits.set {
        headers.insert(name, value.clone());
    }
}

/// Tells browsers another lifetime (`max-age`, RFC 9111 §5.2.2.1) than the origin does. What must not be kept, or not
/// without asking, stays so.
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
