//! What the rules see of a request. It borrows; it must not own or change anything.

use http::{HeaderMap, Method};

/// A request as the rules see it: parsed and normalised by the edge.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// The client's method.
    pub method: &'a Method,
    /// `http` or `https`, as the client used it (or as a trusted proxy in front said).
    pub scheme: &'a str,
    /// The authority, normalised: lower case, no trailing dot, no default port.
    pub host: &'a str,
    /// Path and query as received, never normalised.
    pub path_and_query: &'a str,
    /// The client's fields.
    pub headers: &'a HeaderMap,
    /// Whether the request has content (a Content-Length above zero or a transfer coding).
    pub has_body: bool,
    /// Whether the peer is one of `trusted_proxies`; asked where the route says
    /// [`ClientDirectives::Trusted`](crate::ClientDirectives::Trusted).
    pub is_trusted: bool,
}

impl RequestView<'_> {
    /// The host without its port.
    pub fn hostname(&self) -> &str {
        split_port(self.host).0
    }

    /// The path without the query.
    pub fn path(&self) -> &str {
        match self.path_and_query.find('?') {
            Some(at) => &self.path_and_query[..at],
            None => self.path_and_query,
        }
    }
}

/// A normalised authority as host and port.
pub(crate) fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    }
}
