//! The host of a request (RFC 9110 section 7.2, RFC 3986 section 3.2.2).

use crate::fault::Fault;
use crate::framing::Scheme;
use crate::syntax::{Spelling, host_name};
use bytes::Bytes;
use bytestring::ByteString;
use memchr::memchr;
use std::net::Ipv6Addr;

/// The longest name in bytes, which is that of DNS.
const NAME_BYTES_MAX: usize = 255;

/// A validated host and port, in the one spelling that Weir compares, keys and logs.
///
/// Lower case, without a trailing dot, IPv6 in its shortest form, without the default port. Empty for an
/// HTTP/1.0 request without a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Host {
    text: ByteString,
    name_bytes: usize,
    port: Option<u16>,
}

impl Host {
    /// Reads `name`, `name:port`, `[v6]` or `[v6]:port`; the port may be empty. Drops port 80 unless `scheme`
    /// is https, and port 443 only if it is.
    ///
    /// # Errors
    /// Userinfo, an empty or overlong name, an empty label, a byte that no host name has, a port that is not
    /// 1 to 65535 in plain digits, an IPv6 literal that is invalid or has a zone.
    pub fn parse(authority: &Bytes, scheme: Option<Scheme>) -> Result<Self, crate::Refusal> {
        parse(authority.clone(), scheme).map_err(Into::into)
    }

    /// The normalised host, with its port unless that is the default one.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The normalised host without a port; an IPv6 literal keeps its brackets.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.as_str()[..self.name_bytes]
    }

    /// The port as received, also if [`Host::as_str`] leaves it out.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Whether there is no host: HTTP/1.0 without a `Host`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The same host under a `scheme` that is known later than the head (TLS, a trusted `X-Forwarded-Proto`):
    /// its default port is left out, and another scheme's is not (RFC 9110 §4.2.3).
    #[must_use]
    pub fn under(self, scheme: Scheme) -> Self {
        let Some(port) = self.port else { return self };
        let shows = self.text.len() > self.name_bytes;
        let text = match port != scheme.default_port() {
            is_shown if is_shown == shows => return self,
            true => format!("{}:{port}", self.name()).into(),
            false => self.text.slice_ref(self.name()),
        };
        Self { text, ..self }
    }
}

pub(crate) fn parse(mut authority: Bytes, scheme: Option<Scheme>) -> Result<Host, Fault> {
    if authority.first() == Some(&b'[') {
        return parse_literal(&authority, scheme);
    }
    let (spelling, name_end, port) = parse_name(&authority).map_err(|fault| {
        // Neither a name nor a port has an at sign. The search only finds out what is wrong.
        if memchr(b'@', &authority).is_some() { Fault::HostUserinfo } else { fault }
    })?;
    let name = &authority[..name_end];
    let name = name.strip_suffix(b".").unwrap_or(name);
    let name_bytes = name.len();
    let shown = shown_port(port, scheme);
    if spelling == Spelling::Other {
        let text = joined(&name.to_ascii_lowercase(), shown)?;
        return Ok(Host { text, name_bytes, port });
    }
    if shown.is_none() {
        authority.truncate(name_end);
    }
    let text = ByteString::try_from(authority).map_err(|_| Fault::HostForm)?;
    Ok(Host { text, name_bytes, port })
}

/// The spelling of the name, where it ends, and the port behind it.
fn parse_name(authority: &[u8]) -> Result<(Spelling, usize, Option<u16>), Fault> {
    let colon = memchr(b':', authority);
    let name_end = colon.unwrap_or(authority.len());
    let name = &authority[..name_end];
    let spelling = host_name(name).ok_or(Fault::HostForm)?;
    if name.strip_suffix(b".").unwrap_or(name).len() > NAME_BYTES_MAX {
        return Err(Fault::HostForm);
    }
    let port = colon.map(|at| parse_port(&authority[at + 1..])).transpose()?.flatten();
    Ok((spelling, name_end, port))
}

fn parse_literal(authority: &Bytes, scheme: Option<Scheme>) -> Result<Host, Fault> {
    let end = memchr(b']', authority).ok_or(Fault::HostForm)?;
    let address = str::from_utf8(&authority[1..end]).map_err(|_| Fault::HostForm)?;
    let address: Ipv6Addr = address.parse().map_err(|_| Fault::HostForm)?;
    let port = match &authority[end + 1..] {
        [] => None,
        [b':', digits @ ..] => parse_port(digits)?,
        _ => return Err(Fault::HostForm),
    };
    let name = format!("[{address}]");
    Ok(Host { text: joined(name.as_bytes(), shown_port(port, scheme))?, name_bytes: name.len(), port })
}

/// The port behind the colon. An empty one is the default (RFC 3986 section 3.2.3). Leading zeros are
/// refused, though the RFC allows them, since peers differ on them.
fn parse_port(digits: &[u8]) -> Result<Option<u16>, Fault> {
    if digits.is_empty() {
        return Ok(None);
    }
    if digits.len() > 5 || digits[0] == b'0' {
        return Err(Fault::HostPort);
    }
    let number = crate::syntax::decimal(digits).ok_or(Fault::HostPort)?;
    u16::try_from(number).map(Some).map_err(|_| Fault::HostPort)
}

fn shown_port(port: Option<u16>, scheme: Option<Scheme>) -> Option<u16> {
    let default = scheme.unwrap_or(Scheme::Http).default_port();
    port.filter(|port| *port != default)
}

fn joined(name: &[u8], port: Option<u16>) -> Result<ByteString, Fault> {
    let mut text = name.to_vec();
    if let Some(port) = port {
        text.push(b':');
        crate::print::number(&mut text, u64::from(port));
    }
    ByteString::try_from(Bytes::from(text)).map_err(|_| Fault::HostForm)
}
