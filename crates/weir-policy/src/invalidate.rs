//! Which objects a response to an unsafe method makes invalid (RFC 9111 §4.4).

use crate::request::RequestView;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use smallvec::SmallVec;

/// Path and query of the objects to invalidate, all of the request's own scheme and host.
pub type InvalidationTargets = SmallVec<[String; 2]>;

/// The targets to invalidate after this response. Empty if the method is safe or the response is not a
/// success. The first is the request's own target; Location and Content-Location follow if they lie on the
/// same origin. The edge marks the key of each in the ledger.
pub fn invalidation(
    request: &RequestView<'_>,
    status: StatusCode,
    headers: &HeaderMap,
) -> InvalidationTargets {
    let mut targets = InvalidationTargets::new();
    let is_non_error = status.is_success() || status.is_redirection();
    if is_safe(request.method) || !is_non_error {
        return targets;
    }
    targets.push(request.path_and_query.to_owned());
    for name in [header::LOCATION, header::CONTENT_LOCATION] {
        for value in headers.get_all(name) {
            if let Some(target) = same_origin_target(request, value)
                && !targets.contains(&target)
                && targets.len() < 8
            {
                targets.push(target);
            }
        }
    }
    targets
}

/// Whether a method asks for no change (RFC 9110 §9.2.1). An unknown method is not safe.
pub fn is_safe(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(method)
        || matches!(method.as_str(), "PROPFIND" | "REPORT" | "SEARCH" | "QUERY")
}

/// Resolves a URI reference against the request (RFC 3986 §5.2). `None` if it is not one, or lies on another
/// origin.
pub(crate) fn same_origin_target(request: &RequestView<'_>, reference: &HeaderValue) -> Option<String> {
    let reference = reference.to_str().ok()?.trim();
    let reference = &reference[..reference.find('#').unwrap_or(reference.len())];
    if let Some(rest) = reference.strip_prefix("//") {
        return target_of(request, &format!("{}://{rest}", request.scheme));
    }
    if has_scheme(reference) {
        return target_of(request, reference);
    }
    let base = request.path();
    let (path, query) = match reference.find('?') {
        Some(at) => (&reference[..at], &reference[at..]),
        None => (reference, ""),
    };
    if path.is_empty() {
        return Some(if query.is_empty() {
            request.path_and_query.to_owned()
        } else {
            format!("{base}{query}")
        });
    }
    let merged =
        if path.starts_with('/') { path.to_owned() } else { format!("{}{path}", &base[..=base.rfind('/')?]) };
    Some(format!("{}{query}", without_dots(&merged)))
}

/// Whether a reference begins with `scheme:`.
fn has_scheme(reference: &str) -> bool {
    let end = reference.find([':', '/', '?']).unwrap_or(reference.len());
    reference[end..].starts_with(':')
        && reference[..end].starts_with(|first: char| first.is_ascii_alphabetic())
}

/// Path and query of an absolute URI on the request's own scheme and host.
fn target_of(request: &RequestView<'_>, absolute: &str) -> Option<String> {
    let uri: Uri = absolute.parse().ok()?;
    let scheme = uri.scheme_str()?;
    let is_same = scheme.eq_ignore_ascii_case(request.scheme) && is_host(request, uri.authority()?, scheme);
    is_same.then(|| uri.path_and_query().map_or("/", |target| target.as_str()).to_owned())
}

fn is_host(request: &RequestView<'_>, authority: &Authority, scheme: &str) -> bool {
    let default_port = if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 };
    let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
    if authority.as_str().contains('@') {
        return false;
    }
    match authority.port_u16().filter(|port| *port != default_port) {
        Some(port) => request.host == format!("{host}:{port}"),
        None => request.host == host,
    }
}

/// Removes `.` and `..` segments (RFC 3986 §5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests;
