//! The request target (RFC 9112 section 3.2): which resource of which host.

use crate::fault::Fault;
use crate::framing::Scheme;
use crate::host::{self, Host};
use crate::syntax::{is_target, is_visible};
use bytes::Bytes;
use bytestring::ByteString;
use http::Method;
use memchr::{memchr, memchr_iter, memchr2};
use std::borrow::Cow;

/// A path with its query, byte for byte as received: visible ASCII without `#`, beginning with `/`.
///
/// As it is read, nothing is decoded, joined or removed. The origin decides what a `%2e` or a `//` means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathAndQuery(ByteString);

impl PathAndQuery {
    /// Path and query, as they go into a request line.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path before the first `?`.
    #[must_use]
    pub fn path(&self) -> &str {
        let text = self.as_str();
        memchr(b'?', text.as_bytes()).map_or(text, |at| &text[..at])
    }

    /// The query behind the first `?`, if there is one.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        let text = self.as_str();
        memchr(b'?', text.as_bytes()).map(|at| &text[at + 1..])
    }

    /// The same without its segments `.`, as [`without_dots`] says; `None` where it has none.
    #[must_use]
    pub fn without_dots(&self) -> Option<Self> {
        match without_dots(self.as_str()) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(Self(text.into())),
        }
    }

    /// The bytes, shared with the head that they came in.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        self.0.as_bytes()
    }

    /// A path from checked bytes.
    fn new(raw: Bytes) -> Result<Self, Fault> {
        ByteString::try_from(raw).map(Self).map_err(|_| Fault::TargetBytes)
    }
}

/// A target without the segments `.` of its path: each `/./` becomes `/` (RFC 3986 §5.2.4).
///
/// Only dots and slashes as they are count, and only whole segments with a slash behind them. What is
/// encoded, a segment `..` and a last segment `.` stay as they are, and so does the query.
#[must_use]
pub fn without_dots(path_and_query: &str) -> Cow<'_, str> {
    let bytes = path_and_query.as_bytes();
    let is_segment = |at: usize| at > 0 && bytes[at - 1] == b'/' && bytes.get(at + 1) == Some(&b'/');
    let mut dots = memchr_iter(b'.', bytes).filter(|at| is_segment(*at)).peekable();
    let Some(first) = dots.peek() else { return Cow::Borrowed(path_and_query) };
    let end = memchr(b'?', bytes).unwrap_or(bytes.len());
    if *first >= end {
        return Cow::Borrowed(path_and_query);
    }
    let mut out = String::with_capacity(path_and_query.len());
    let mut kept = 0;
    for at in dots.take_while(|at| *at < end) {
        out.push_str(&path_and_query[kept..at]);
        kept = at + 2;
    }
    out.push_str(&path_and_query[kept..]);
    Cow::Owned(out)
}

/// The target of a request.
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

/// A target with what its line says; the absolute form also names scheme and host.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) target: Target,
    pub(crate) authority: Option<(Scheme, Host)>,
}

/// Reads a target of checked bytes, in origin, absolute or asterisk form. The authority form belongs to
/// CONNECT, which is refused before.
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

/// Checks the bytes of a target as soon as its line is whole.
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
