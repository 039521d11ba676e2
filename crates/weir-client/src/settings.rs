//! The settings of the exchanges with an origin: where it is, limits, times and TLS, as plain values with the
//! defaults of the reference.
//!
//! It must not read files or look up names: [`crate::Server::new`] does.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::error::SetupError;

/// The longest host, and the longest path of a unix socket.
const HOST_BYTES_MAX: usize = 253;
const SOCKET_BYTES_MAX: usize = 103;
/// How much is shown of a text that is no address.
const SHOWN_MAX: usize = 100;

/// Where an origin is: `http://host[:port]`, `https://host[:port]` or `unix:/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginAddress {
    /// Plain HTTP over TCP.
    Http {
        /// DNS name or IP address; an IPv6 address without brackets.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// HTTP over TLS.
    Https {
        /// DNS name or IP address; an IPv6 address without brackets.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// Plain HTTP over a unix socket.
    Unix {
        /// The socket's path.
        path: PathBuf,
    },
}

impl OriginAddress {
    /// The authority for a `Host` field: the name, and the port where it is not the scheme's default.
    ///
    /// `None` for a unix socket, which has no name.
    pub fn authority(&self) -> Option<String> {
        let (host, port, default) = match self {
            Self::Http { host, port } => (host, *port, 80),
            Self::Https { host, port } => (host, *port, 443),
            Self::Unix { .. } => return None,
        };
        let host = bracketed(host);
        Some(if port == default { host } else { format!("{host}:{port}") })
    }

    /// The host and the port; `None` for a unix socket.
    pub fn host_and_port(&self) -> Option<(&str, u16)> {
        match self {
            Self::Http { host, port } | Self::Https { host, port } => Some((host, *port)),
            Self::Unix { .. } => None,
        }
    }

    /// The host without its port; `None` for a unix socket.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Http { host, .. } | Self::Https { host, .. } => Some(host),
            Self::Unix { .. } => None,
        }
    }

    /// Whether the host is a DNS name, which decides the default `Host` of `weir run --origin`.
    pub fn is_named(&self) -> bool {
        self.host().is_some_and(|host| host.parse::<std::net::IpAddr>().is_err())
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

impl fmt::Display for OriginAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { host, port } => write!(f, "http://{}:{port}", bracketed(host)),
            Self::Https { host, port } => write!(f, "https://{}:{port}", bracketed(host)),
            Self::Unix { path } => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for OriginAddress {
    type Err = SetupError;

    fn from_str(text: &str) -> Result<Self, SetupError> {
        // Its beginning says enough of a text that is no address.
        let bad = |why| SetupError::Address { text: text.chars().take(SHOWN_MAX).collect(), why };
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') {
                return Err(bad("the path of a unix socket must be absolute"));
            }
            if path.len() > SOCKET_BYTES_MAX {
                return Err(bad("the path of a unix socket has at most 103 bytes"));
            }
            if path.contains(char::is_control) {
                return Err(bad("the path of a unix socket has no control characters"));
            }
            return Ok(Self::Unix { path: PathBuf::from(path) });
        }
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| bad("expected http://host, https://host or unix:/path"))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#']) {
            return Err(bad("an origin has no path"));
        }
        if rest.contains('@') {
            return Err(bad("an origin has no user name"));
        }
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(bad("the scheme must be http, https or unix")),
        };
        let (host, port) = split_port(rest).map_err(bad)?;
        let host = host.to_ascii_lowercase();
        Ok(if secure {
            Self::Https { host, port: port.unwrap_or(443) }
        } else {
            Self::Http { host, port: port.unwrap_or(80) }
        })
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("an IPv6 address needs its closing bracket")?;
        host.parse::<std::net::Ipv6Addr>().map_err(|_| "not an IPv6 address")?;
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return Err("expected a port after the bracket"),
        }
    } else {
        match authority.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err("an IPv6 address needs brackets"),
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    if host.is_empty() {
        return Err("the host is empty");
    }
    // As in the file.
    if host.strip_suffix('.').unwrap_or(host).len() > HOST_BYTES_MAX {
        return Err("a host name has at most 253 characters");
    }
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    if !host.bytes().all(legal) {
        return Err("the host has a character that no host has");
    }
    match port {
        None => Ok((host, None)),
        Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            match digits.parse() {
                Ok(0) | Err(_) => Err("the port must be 1 to 65535"),
                Ok(port) => Ok((host, Some(port))),
            }
        }
        Some(_) => Err("the port must be a number"),
    }
}

/// How long each step of an exchange may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP and TLS set-up together, per address.
    pub connect: Duration,
    /// From the request's last byte to the end of the response head.
    pub first_byte: Duration,
    /// Between two reads of a body, and between two writes of a request.
    pub between_bytes: Duration,
    /// How long an idle connection is kept, unless the origin's `Keep-Alive` says otherwise.
    pub pool_idle: Duration,
    /// How long a request waits for a connection before it is answered 503.
    pub queue: Duration,
    /// How long a tunnel may stand without a byte either way. The tunnel's user enforces it.
    pub tunnel_idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(3),
            first_byte: Duration::from_secs(30),
            between_bytes: Duration::from_secs(30),
            pool_idle: Duration::from_secs(4),
            queue: Duration::from_secs(5),
            tunnel_idle: Duration::from_secs(3600),
        }
    }
}

/// Ceilings of what is held for one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Open connections to one origin, in use or idle.
    pub connections_max: usize,
    /// Requests that wait for a connection to one origin.
    pub queue_max: usize,
    /// Tunnels and event streams of one origin, which do not count among its connections.
    pub streams_max: usize,
    /// What one client may use of connections, queue and streams, in percent.
    pub client_share_percent: usize,
    /// Bytes of a response head, and of a trailer section.
    pub head_bytes_max: usize,
    /// Fields of a response head.
    pub fields_max: usize,
    /// Interim (1xx) responses before the final one.
    pub interim_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections_max: 256,
            queue_max: 1000,
            streams_max: 1024,
            client_share_percent: 50,
            head_bytes_max: 64 * 1024,
            fields_max: 200,
            interim_max: 16,
        }
    }
}

/// How `https` origins are spoken to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Which certificates are trusted.
    pub verify: Verify,
    /// The name sent (SNI) and verified, where it is not the origin's host.
    pub server_name: Option<String>,
    /// The certificate that Weir shows.
    pub client_certificate: Option<ClientCertificate>,
}

/// Which certificates of origins are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Those that the system's roots vouch for.
    #[default]
    Native,
    /// Those that the certificates of this PEM file vouch for.
    CaFile(PathBuf),
    /// Any. The transfer is encrypted, but it is not known with whom.
    Nothing,
}

/// A client certificate, both files PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

#[cfg(test)]
mod tests;
