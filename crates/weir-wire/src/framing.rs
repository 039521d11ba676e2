//! The length of a message, and whether its connection goes on (RFC 9112 sections 6 and 9).

use crate::fault::Fault;
use crate::fields::Seen;
use crate::syntax::{decimal, elements, is_token};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use http::{Method, StatusCode};

/// The versions that Weir speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

impl Version {
    /// `HTTP/1.0` or `HTTP/1.1`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }

    /// RFC 9112 section 2.3: case-sensitive, one digit, a dot, one digit.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        match bytes {
            b"HTTP/1.1" => Ok(Self::Http11),
            b"HTTP/1.0" => Ok(Self::Http10),
            [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
                if major.is_ascii_digit() && minor.is_ascii_digit() =>
            {
                Err(Fault::VersionUnsupported)
            }
            _ => Err(Fault::VersionForm),
        }
    }
}

/// The scheme of an absolute-form target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

impl Scheme {
    /// `http` or `https`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// 80 or 443.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.eq_ignore_ascii_case(b"http") {
            Some(Self::Http)
        } else if bytes.eq_ignore_ascii_case(b"https") {
            Some(Self::Https)
        } else {
            None
        }
    }
}

/// How the end of a message's content is found (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// There is no content.
    None,
    /// Content of this many bytes.
    Length(u64),
    /// The chunked coding.
    Chunked,
    /// Content until the sender closes; responses only. Whether it is whole is not known.
    Close,
}

/// Whether the connection may carry another message (RFC 9112 section 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Persistence {
    /// It may.
    KeepAlive,
    /// It ends with this message.
    Close,
}

/// What the client waits for before it sends its content (RFC 9110 section 10.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expect {
    /// For nothing.
    Nothing,
    /// For a 100 (Continue).
    Continue,
}

/// The fields of a request that no `Connection` may name. Removing one as hop-by-hop would change what is
/// requested, by whom, or where a message ends.
const NEEDED_OF_REQUESTS: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-language",
    "authorization",
    "cache-control",
    "cdn-loop",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "max-forwards",
    "origin",
    "pragma",
    "range",
    "transfer-encoding",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-real-ip",
    "x-request-id",
];

/// The same for responses. `Transfer-Encoding` is not in the list: several public origins name it, in vain.
const NEEDED_OF_RESPONSES: &[&str] = &[
    "age",
    "cache-control",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "etag",
    "expires",
    "location",
    "set-cookie",
    "vary",
];

/// The direction of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Response,
}

/// What `Connection` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) persistence: Persistence,
    pub(crate) upgrade: bool,
}

/// Reads all `Connection` fields (RFC 9110 section 7.6.1).
pub(crate) fn wishes(fields: &HeaderMap, seen: Seen, version: Version, side: Side) -> Result<Wishes, Fault> {
    let (mut close, mut keep_alive, mut upgrade) = (false, false, false);
    if seen.has(Seen::CONNECTION) {
        let needed = match side {
            Side::Request => NEEDED_OF_REQUESTS,
            Side::Response => NEEDED_OF_RESPONSES,
        };
        for option in fields.get_all(CONNECTION).iter().flat_map(|value| elements(value.as_bytes())) {
            if option.eq_ignore_ascii_case(b"keep-alive") {
                keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"close") {
                close = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                upgrade = true;
            } else if needed.iter().any(|name| option.eq_ignore_ascii_case(name.as_bytes())) {
                return Err(Fault::ConnectionNames);
            } else if !option.is_empty() && !is_token(option) {
                return Err(Fault::ConnectionForm);
            }
        }
    }
    let persistent = !close && (version == Version::Http11 || keep_alive);
    let persistence = if persistent { Persistence::KeepAlive } else { Persistence::Close };
    Ok(Wishes { persistence, upgrade: upgrade && version == Version::Http11 })
}

/// What the fields say about the length of the content, whatever the kind of message. `None` if they say
/// nothing.
pub(crate) fn declared(fields: &HeaderMap, seen: Seen, version: Version) -> Result<Option<Framing>, Fault> {
    if seen.has(Seen::CODING) {
        if version == Version::Http10 {
            return Err(Fault::CodingOnHttp10);
        }
        if seen.has(Seen::LENGTH) {
            return Err(Fault::LengthAndCoding);
        }
        check_codings(fields)?;
        return Ok(Some(Framing::Chunked));
    }
    if seen.has(Seen::LENGTH_TWICE) {
        return Err(Fault::LengthTwice);
    }
    if !seen.has(Seen::LENGTH) {
        return Ok(None);
    }
    let value = fields.get(CONTENT_LENGTH).ok_or(Fault::LengthForm)?;
    decimal(value.as_bytes()).map(|length| Some(Framing::Length(length))).ok_or(Fault::LengthForm)
}

/// RFC 9112 section 6.1: chunked once, last, and alone, since Weir decodes no other coding.
fn check_codings(fields: &HeaderMap) -> Result<(), Fault> {
    let mut chunked = 0_usize;
    let mut others = 0_usize;
    let mut chunked_last = false;
    for coding in fields.get_all(TRANSFER_ENCODING).iter().flat_map(|value| elements(value.as_bytes())) {
        let name = coding.split(|byte| *byte == b';').next().unwrap_or_default();
        if !is_token(crate::syntax::trim(name)) {
            return Err(Fault::CodingForm);
        }
        chunked_last = coding.eq_ignore_ascii_case(b"chunked");
        if chunked_last {
            chunked += 1;
        } else if crate::syntax::trim(name).eq_ignore_ascii_case(b"chunked") {
            return Err(Fault::CodingForm);
        } else {
            others += 1;
        }
    }
    match (chunked_last, chunked, others) {
        (false, _, _) => Err(Fault::CodingNotChunked),
        (true, 1, 0) => Ok(()),
        (true, 1, _) => Err(Fault::CodingUnknown),
        (true, _, _) => Err(Fault::CodingChunkedTwice),
    }
}

/// The content of a request (RFC 9112 section 6.3, items 6 and 7).
pub(crate) fn of_request(method: &Method, declared: Option<Framing>) -> Result<Framing, Fault> {
    let framing = match declared {
        None | Some(Framing::Length(0)) => Framing::None,
        Some(framing) => framing,
    };
    if framing != Framing::None && (*method == Method::GET || *method == Method::HEAD) {
        return Err(Fault::ContentOnGet);
    }
    Ok(framing)
}

/// The content of a response to `to` (RFC 9112 section 6.3, items 1 to 5 and 8), and whether the declaration
/// contradicts it, so that the connection must not be used again.
pub(crate) fn of_response(
    to: &Method,
    status: StatusCode,
    declared: Option<Framing>,
) -> Result<(Framing, Persistence), Fault> {
    let content = !matches!(declared, None | Some(Framing::Length(0)));
    if status.is_informational() {
        return if content {
            Err(Fault::InterimFraming)
        } else {
            Ok((Framing::None, Persistence::KeepAlive))
        };
    }
    if status == StatusCode::NO_CONTENT {
        let persistence = if content { Persistence::Close } else { Persistence::KeepAlive };
        return Ok((Framing::None, persistence));
    }
    if *to == Method::HEAD || status == StatusCode::NOT_MODIFIED {
        return Ok((Framing::None, Persistence::KeepAlive));
    }
    Ok(match declared {
        None => (Framing::Close, Persistence::Close),
        Some(framing) => (framing, Persistence::KeepAlive),
    })
}
