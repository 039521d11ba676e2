//! The request target (RFC 9112 section 3.2): which resource of which host.

use crate::fault::Fault;
use crate::framing::Scheme;
use crate::host::{self, Host};
use crate::syntax::{is_target, is_visible};
use bytes::Bytes;
use bytestring::ByteString;
use http::Method;
use memchr::{memchr, memchr2};

/// A path with its query, byte for byte as received: visible ASCII without `#`, beginning with `/`.
///
/// Nothing is decoded, joined or removed; what a `%2e` or a `//` means is for the origin to say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathAndQuery(ByteString);

impl PathAndQuery {
    /// The whole, as it goes into a request line.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before the first `?`.
    #[must_use]
    pub fn path(&self) -> &str {
        let text = self.as_str();
        memchr(b'?', text.as_bytes()).map_or(text, |at| &text[..at])
    }

    /// What stands behind the first `?`, if there is one.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        let text = self.as_str();
        memchr(b'?', text.as_bytes()).map(|at| &text[at + 1..])
    }

    /// The bytes, shared with the head they came in.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        self.0.as_bytes()
    }

    /// From bytes that were checked.
    fn new(raw: Bytes) -> Result<Self, Fault> {
        ByteString::try_from(raw).map(Self).map_err(|_| Fault::TargetBytes)
    }
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A resource of the host.
    Path(PathAndQuery),
    /// `OPTIONS *`: the server as a whole.
    Asterisk,
}

impl Target {
    /// The target as it goes into a request line.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Path(path) => path.as_str(),
            Self::Asterisk => "*",
        }
    }
}

/// A target as its own line says it: the absolute form also names scheme and host.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) target: Target,
    pub(crate) authority: Option<(Scheme, Host)>,
}

/// Reads a target whose bytes were checked, in origin, absolute or asterisk form; the authority form belongs
/// to CONNECT, refused before.
pub(crate) fn parse(method: &Method, raw: Bytes) -> Result<Parsed, Fault> {
    if raw.first() == Some(&b'/') {
        return Ok(Parsed { target: Target::Path(PathAndQuery::new(raw)?), authority: None });
    }
    if raw.as_ref() == b"*" {
        let target = Target::Asterisk;
        return if *method == Method::OPTIONS {
            Ok(Parsed { target, authority: None })
        } else {
            Err(Fault::TargetForm)
        };
    }
    parse_absolute(method, &raw)
}

/// The bytes of a target, looked at as soon as its line is whole.
pub(crate) fn check_bytes(raw: &[u8]) -> Result<(), Fault> {
    if raw.is_empty() {
        Err(Fault::StartLine)
    } else if is_target(raw) {
        Ok(())
    } else if is_visible(raw) {
        Err(Fault::TargetFragment)
    } else {
        Err(Fault::TargetBytes)
    }
}

fn parse_absolute(method: &Method, raw: &Bytes) -> Result<Parsed, Fault> {
    let colon = memchr(b':', raw).ok_or(Fault::TargetForm)?;
    let rest_at = colon + 3;
    if raw.get(colon..rest_at) != Some(b"://") {
        return Err(Fault::TargetForm);
    }
    let scheme = Scheme::parse(&raw[..colon]).ok_or(Fault::TargetScheme)?;
    let rest = &raw[rest_at..];
    let authority_end = memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    let host = host::parse(raw.slice(rest_at..rest_at + authority_end), Some(scheme))?;
    let path = raw.slice(rest_at + authority_end..);
    let target = match path.first() {
        Some(b'/') => Target::Path(PathAndQuery::new(path)?),
        None if *method == Method::OPTIONS => Target::Asterisk,
        None => Target::Path(PathAndQuery(ByteString::from_static("/"))),
        Some(_) => Target::Path(PathAndQuery::new([b"/", path.as_ref()].concat().into())?),
    };
    Ok(Parsed { target, authority: Some((scheme, host)) })
}
