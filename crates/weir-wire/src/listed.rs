//! Request heads that arrive as pseudo-fields and fields, one by one (RFC 9113 section 8.3, RFC 9114 section
//! 4.3). They are held to the grammar and the limits of HTTP/1, so that nothing reaches an origin that an
//! HTTP/1 client could not have said. It must not know how the fields were encoded.

use bytes::Bytes;
use http::Method;
use http::header::{
    CONNECTION, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};

use crate::fault::{Fault, Refusal};
use crate::fields::{self, Notes, Seen};
use crate::framing::{self, Expect, Framing, Persistence, Scheme, Version};
use crate::host::{self, Host};
use crate::limits::Limits;
use crate::request::{self, RequestHead};
use crate::syntax::{is_ows, is_token};
use crate::target;

/// The fields that only HTTP/1 has (RFC 9113 section 8.2.2).
const OF_CONNECTIONS: [HeaderName; 5] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// The pseudo-fields of a request, before any check.
#[derive(Clone, Debug)]
pub struct Pseudo {
    /// `:method`
    pub method: Method,
    /// `:scheme`; `None` where it is not known.
    pub scheme: Option<Bytes>,
    /// `:authority`
    pub authority: Option<Bytes>,
    /// `:path`
    pub path: Bytes,
    /// `:protocol` of an extended CONNECT (RFC 8441).
    pub protocol: Option<Bytes>,
}

/// Whether content follows the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedContent {
    /// The message ends with its head.
    None,
    /// Content follows, or may follow.
    Some,
}

/// Makes the request of a list of fields. Its version is that of HTTP/1 which means the same, its length in
/// bytes that of the HTTP/1 head. The crumbs of a cookie are counted as fields, then joined (RFC 9113 section
/// 8.2.3). An extended CONNECT becomes the `GET` that asks for the same protocol.
///
/// # Errors
/// What HTTP/1 refuses, and what RFC 9113 section 8 calls malformed.
pub fn of_list(
    pseudo: Pseudo,
    mut headers: HeaderMap,
    content: ListedContent,
    limits: &Limits,
) -> Result<RequestHead, Refusal> {
    let head_bytes = check_size(&pseudo, &headers, limits)?;
    let upgrade = match (&pseudo.method, &pseudo.protocol) {
        (&Method::TRACE, _) | (&Method::CONNECT, None) => return Err(Fault::MethodRefused.into()),
        (&Method::CONNECT, Some(protocol)) => Some(protocol_value(protocol)?),
        (_, Some(_)) => return Err(Fault::Pseudo.into()),
        (_, None) => None,
    };
    target::check_bytes(&pseudo.path)?;
    if !matches!(pseudo.path.first(), Some(b'/' | b'*')) {
        return Err(Fault::TargetForm.into());
    }
    let seen = check_fields(&headers)?;
    fields::check_singletons(&headers)?;
    let scheme = match &pseudo.scheme {
        Some(scheme) => Some(Scheme::parse(scheme).ok_or(Fault::TargetScheme)?),
        None => None,
    };
    let method = if upgrade.is_some() { Method::GET } else { pseudo.method };
    let target = target::parse(&method, pseudo.path)?.target;
    let host = host_of(pseudo.authority, &mut headers, seen, scheme)?;
    let framing = match upgrade {
        Some(_) => Framing::None,
        None => framing_of(&method, &headers, seen, content)?,
    };
    let expect = match seen.has(Seen::EXPECT) {
        true => request::expect(&headers, seen, Version::Http11, framing)?,
        false => Expect::Nothing,
    };
    join_cookies(&mut headers)?;
    Ok(RequestHead {
        method,
        target,
        scheme,
        host,
        version: Version::Http11,
        headers,
        framing,
        persistence: Persistence::KeepAlive,
        expect,
        upgrade,
        head_bytes,
    })
}

/// The bytes of the head as HTTP/1 would write it.
fn check_size(pseudo: &Pseudo, headers: &HeaderMap, limits: &Limits) -> Result<usize, Fault> {
    const REST_OF_LINE: usize = "  HTTP/1.1".len();
    let line = pseudo.method.as_str().len() + pseudo.path.len() + REST_OF_LINE;
    if line > limits.start_line_bytes_max() {
        return Err(Fault::LineLong);
    }
    let authority = pseudo.authority.as_ref().map_or(0, |authority| "host: \r\n".len() + authority.len());
    let fields: usize =
        headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len()).sum();
    let bytes = line + 2 + authority + fields + 2;
    if bytes > limits.head_bytes_max {
        return Err(Fault::HeadLarge);
    }
    // `:authority` is the `Host` of HTTP/1.
    if headers.len() + usize::from(pseudo.authority.is_some()) > limits.fields_max {
        return Err(Fault::FieldsMany);
    }
    Ok(bytes)
}

/// The value of `Upgrade` for `:protocol`. Only WebSockets go on to origins.
fn protocol_value(protocol: &Bytes) -> Result<HeaderValue, Fault> {
    match protocol.eq_ignore_ascii_case(b"websocket") {
        true => Ok(HeaderValue::from_static("websocket")),
        false => Err(Fault::ProtocolUnknown),
    }
}

fn check_fields(headers: &HeaderMap) -> Result<Seen, Fault> {
    let mut notes = Notes::default();
    for (name, value) in headers {
        // The type's constructor for HTTP/2 takes a quote.
        if !is_token(name.as_str().as_bytes()) {
            return Err(Fault::FieldName);
        }
        if OF_CONNECTIONS.contains(name) || (*name == TE && value != "trailers") {
            return Err(Fault::ConnectionField);
        }
        if value.as_bytes().first().is_some_and(|byte| is_ows(*byte))
            || value.as_bytes().last().is_some_and(|byte| is_ows(*byte))
        {
            return Err(Fault::SpaceAround);
        }
        fields::note(name, 0..0, &mut notes)?;
    }
    Ok(notes.seen)
}

/// RFC 9113 section 8.3.1: `:authority`, and a `Host` that says the same.
fn host_of(
    authority: Option<Bytes>,
    headers: &mut HeaderMap,
    seen: Seen,
    scheme: Option<Scheme>,
) -> Result<Host, Fault> {
    if seen.has(Seen::HOST_TWICE) {
        return Err(Fault::HostTwice);
    }
    let named = match headers.get(HOST).filter(|_| seen.has(Seen::HOST)) {
        Some(named) => Some(host::parse(Bytes::copy_from_slice(named.as_bytes()), scheme)?),
        None => None,
    };
    let Some(authority) = authority else { return named.ok_or(Fault::HostMissing) };
    let host = host::parse(authority.clone(), scheme)?;
    match named {
        Some(named) if named.as_str() != host.as_str() => return Err(Fault::HostDiffers),
        Some(_) => {}
        None => {
            let value = HeaderValue::from_maybe_shared(authority).map_err(|_| Fault::HostForm)?;
            headers.try_insert(HOST, value).map_err(|_| Fault::FieldsMany)?;
        }
    }
    Ok(host)
}

/// The length of the content. `Content-Length` must not contradict the end of the message.
fn framing_of(
    method: &Method,
    headers: &HeaderMap,
    seen: Seen,
    content: ListedContent,
) -> Result<Framing, Fault> {
    let declared = framing::declared(headers, seen, Version::Http11)?;
    let declared = match (declared, content) {
        (Some(Framing::Length(length)), ListedContent::None) if length > 0 => return Err(Fault::Truncated),
        (None, ListedContent::Some) => Some(Framing::Chunked),
        (declared, _) => declared,
    };
    framing::of_request(method, declared)
}

fn join_cookies(headers: &mut HeaderMap) -> Result<(), Fault> {
    let crumbs = headers.get_all(COOKIE);
    if crumbs.iter().nth(1).is_none() {
        return Ok(());
    }
    let crumbs: Vec<&[u8]> = crumbs.iter().map(HeaderValue::as_bytes).collect();
    let joined = crumbs.join(b"; ".as_slice());
    let joined = HeaderValue::from_maybe_shared(Bytes::from(joined)).map_err(|_| Fault::Control)?;
    headers.try_insert(COOKIE, joined).map_err(|_| Fault::FieldsMany)?;
    Ok(())
}

#[cfg(test)]
mod tests;
