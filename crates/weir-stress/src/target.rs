//! The target of the load: a URL, parsed, resolved, and refused if it is not the caller's.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::plan::StressError;

/// A server and a path on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) scheme: Scheme,
    pub(crate) address: SocketAddr,
    pub(crate) host: String,
    /// The path and query before the object's number.
    pub(crate) before: String,
    /// What follows the number; `None` if the URL has no `{}`.
    pub(crate) after: Option<String>,
}

/// Whether the server speaks TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// Which hosts may be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Loopback,
    Anywhere,
}

impl Target {
    /// Parses `http://host:port/path`, or https, and resolves the host.
    pub(crate) fn new(url: &str, reach: Reach) -> Result<Self, StressError> {
        let unreadable = || StressError::Url(url.to_owned());
        let http = url.strip_prefix("http://").map(|rest| (Scheme::Http, 80, rest));
        let https = || url.strip_prefix("https://").map(|rest| (Scheme::Https, 443, rest));
        let (scheme, port, rest) = http.or_else(https).ok_or_else(unreadable)?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = if path.is_empty() { "/" } else { path };
        let bad = |b: u8| !(0x21..0x7f).contains(&b) || b == b'#';
        if host.is_empty() || host.contains('@') || path.bytes().any(bad) {
            return Err(unreadable());
        }
        let with_port = match host.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => host.to_owned(),
            _ => format!("{host}:{port}"),
        };
        let resolved = with_port
            .to_socket_addrs()
            .map_err(|source| StressError::Resolve { host: host.to_owned(), source })?;
        let address = resolved.into_iter().next().ok_or_else(unreadable)?;
        if reach == Reach::Loopback && !address.ip().to_canonical().is_loopback() {
            return Err(StressError::Foreign(host.to_owned()));
        }
        let (before, after) = match path.split_once("{}") {
            Some((before, after)) => (before.to_owned(), Some(after.to_owned())),
            None => (path.to_owned(), None),
        };
        Ok(Self { url: url.to_owned(), scheme, address, host: host.to_owned(), before, after })
    }
}
