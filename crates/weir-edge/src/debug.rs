//! `Weir-Debug: 1`: a client that `debug.allow` names sees in the fields of a response how it came about. No
//! origin gets the field, no key and no variant depends on it, and nothing of what it shows is stored.

use http::{HeaderMap, HeaderName};
use weir_front::Request;

use crate::shared::Running;
use crate::transform::client::client_of;

/// The field of the request.
const FIELD: HeaderName = HeaderName::from_static("weir-debug");
/// What the fields of the response begin with.
const PREFIX: &str = "weir-debug-";

/// Whether the response's fields show how it came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    No,
    InFields,
}

/// Takes the field out of a request: whether its client wants to see, and may.
pub(crate) fn take(running: &Running, request: &mut Request) -> Shown {
    let Some(value) = request.headers.remove(FIELD) else { return Shown::No };
    let is_asked = value.as_bytes().trim_ascii() == b"1";
    let Some(allowed) = running.debug.as_ref().filter(|_| is_asked) else { return Shown::No };
    match client_of(request.peer.peer, &running.trusted, &request.headers) {
        Some(client) if allowed.contains(&client) => Shown::InFields,
        _ => Shown::No,
    }
}

/// Removes what an origin says in these names.
pub(crate) fn strip(fields: &mut HeaderMap) {
    let is_ours = |name: &&HeaderName| name.as_str().starts_with(PREFIX);
    if fields.keys().any(|name| is_ours(&name)) {
        let names: Vec<HeaderName> = fields.keys().filter(is_ours).cloned().collect();
        names.iter().for_each(|name| drop(fields.remove(name)));
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_an_origin_says_in_these_names_goes() {
        let mut fields = HeaderMap::new();
        for name in ["weir-debug-key", "weir-debug-x", "weir-debugger", "etag"] {
            fields.append(name, HeaderValue::from_static("1"));
        }
        fields.append("weir-debug-key", HeaderValue::from_static("2"));
        strip(&mut fields);
        let mut left: Vec<&str> = fields.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["etag", "weir-debugger"]);
    }
}
