//! The host a request is for (RFC 9110 section 7.2, RFC 3986 section 3.2.2).

use crate::fault::Fault;
use crate::framing::Scheme;
use crate::syntax::is_host_name;
use bytes::Bytes;
use memchr::memchr;
use std::net::Ipv6Addr;

/// Bytes of the longest name that DNS can hold, and the limit here.
const NAME_BYTES_MAX: usize = 255;

/// A validated host and port, in the one spelling that Weir compares, keys and logs.
///
/// Lower case, without a trailing dot, IPv6 in its shortest form, without the default port. An HTTP/1.0 request
/// may have none: then it is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Host {
    text: Bytes,
    name_bytes: usize,
    port: Option<u16>,
}

impl Host {
    /// Reads `name`, `name:port`, `[v6]` or `[v6]:port`. Port 80 is dropped unless `scheme` is https, port 443
    /// only if it is.
    ///
    /// # Errors
    /// Userinfo, an empty or overlong name, an empty label, a byte that no host name holds, a port that is not 1
    /// to 65535 in plain digits, an IPv6 literal that is not one or has a zone.
    pub fn parse(authority: &Bytes, scheme: Option<Scheme>) -> Result<Self, crate::Refusal> {
        parse(authority.clone(), scheme).map_err(Into::into)
    }

    /// The normalised host with its port where it has one that is not the default.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.text).unwrap_or_default()
    }

    /// The normalised host without a port; an IPv6 literal keeps its brackets.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.as_str()[..self.name_bytes]
    }

    /// The port as received, also where [`Host::as_str`] leaves it out as the default.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Whether there is none: HTTP/1.0 without a `Host`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The same host as seen under `scheme`, known later than the head (TLS, a trusted `X-Forwarded-Proto`).
    #[must_use]
    pub fn under(self, scheme: Scheme) -> Self {
        let text = match self.port {
            Some(port) if port != scheme.default_port() => Bytes::from(format!("{}:{port}", self.name())),
            _ => self.text.slice(..self.name_bytes),
        };
        Self { text, ..self }
    }
}

pub(crate) fn parse(mut authority: Bytes, scheme: Option<Scheme>) -> Result<Host, Fault> {
    if authority.first() == Some(&b'[') {
        return parse_literal(&authority, scheme);
    }
    let colon = memchr(b':', &authority);
    let name_end = colon.unwrap_or(authority.len());
    let name = &authority[..name_end];
    if memchr(b'@', &authority).is_some() {
        return Err(Fault::HostUserinfo);
    }
    if !is_host_name(name) {
        return Err(Fault::HostForm);
    }
    let port = colon.map(|at| parse_port(&authority[at + 1..])).transpose()?;
    let name = name.strip_suffix(b".").unwrap_or(name);
    let empty_label = name.first() == Some(&b'.') || name.windows(2).any(|pair| pair == b"..");
    if name.is_empty() || name.len() > NAME_BYTES_MAX || empty_label || name.ends_with(b".") {
        return Err(Fault::HostForm);
    }
    let shown = shown_port(port, scheme);
    let name_bytes = name.len();
    if name_bytes < name_end || name.iter().any(u8::is_ascii_uppercase) {
        let text = joined(&name.to_ascii_lowercase(), shown);
        return Ok(Host { text, name_bytes, port });
    }
    if shown.is_none() {
        authority.truncate(name_end);
    }
    Ok(Host { text: authority, name_bytes, port })
}

fn parse_literal(authority: &Bytes, scheme: Option<Scheme>) -> Result<Host, Fault> {
    let end = memchr(b']', authority).ok_or(Fault::HostForm)?;
    let address = str::from_utf8(&authority[1..end]).map_err(|_| Fault::HostForm)?;
    let address: Ipv6Addr = address.parse().map_err(|_| Fault::HostForm)?;
    let port = match &authority[end + 1..] {
        [] => None,
        [b':', digits @ ..] => Some(parse_port(digits)?),
        _ => return Err(Fault::HostForm),
    };
    let name = format!("[{address}]");
    Ok(Host { text: joined(name.as_bytes(), shown_port(port, scheme)), name_bytes: name.len(), port })
}

/// RFC 3986 section 3.2.3 allows an empty port and leading zeros; both are refused here, as peers differ on them.
fn parse_port(digits: &[u8]) -> Result<u16, Fault> {
    if digits.is_empty() || digits.len() > 5 || digits[0] == b'0' {
        return Err(Fault::HostPort);
    }
    let number = crate::syntax::decimal(digits).ok_or(Fault::HostPort)?;
    u16::try_from(number).map_err(|_| Fault::HostPort)
}

fn shown_port(port: Option<u16>, scheme: Option<Scheme>) -> Option<u16> {
    let default = scheme.unwrap_or(Scheme::Http).default_port();
    port.filter(|port| *port != default)
}

fn joined(name: &[u8], port: Option<u16>) -> Bytes {
    let mut text = name.to_vec();
    if let Some(port) = port {
        text.push(b':');
        crate::print::number(&mut text, u64::from(port));
    }
    text.into()
}
