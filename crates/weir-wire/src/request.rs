//! Request heads of clients (RFC 9112 section 3).
//!
//! States of the reader: it skips empty lines before a head; it checks the request line as soon as that is
//! whole, so that nonsense is refused without waiting for its end; then it reads the fields up to the empty
//! line.

use crate::fault::{Fault, Refusal};
use crate::fields::{self, Notes, Seen};
use crate::framing::{self, Expect, Framing, Persistence, Scheme, Side, Version};
use crate::host::{self, Host};
use crate::limits::Limits;
use crate::scan::{Opening, Progress, Scan};
use crate::syntax::{is_ows, is_tchar};
use crate::target::{self, Target};
use bytes::{Buf, Bytes, BytesMut};
use http::Method;
use http::header::{EXPECT, HOST, HeaderMap, HeaderValue, UPGRADE};
use memchr::{memchr, memrchr};

/// The most empty lines that are skipped before a request line.
const EMPTY_LINES_MAX: u8 = 2;

/// A parsed and checked request head.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// The method: any token but CONNECT and TRACE.
    pub method: Method,
    /// The target.
    pub target: Target,
    /// The scheme, if the target is in absolute form.
    pub scheme: Option<Scheme>,
    /// The host of the absolute form, or else of `Host`. Empty only on HTTP/1.0.
    pub host: Host,
    /// The version of the client.
    pub version: Version,
    /// All fields as received, hop-by-hop ones included. `Host` always names [`RequestHead::host`].
    pub headers: HeaderMap,
    /// The length of the content; never [`Framing::Close`].
    pub framing: Framing,
    /// Whether the client keeps the connection.
    pub persistence: Persistence,
    /// Whether the client waits for a 100 (Continue). It never does without content.
    pub expect: Expect,
    /// The requested protocols, if this is HTTP/1.1 and `Connection` names `upgrade`.
    pub upgrade: Option<HeaderValue>,
    /// Bytes of the head on the wire, with its empty line.
    pub head_bytes: usize,
}

/// Takes request heads off the front of a buffer, one after another.
#[derive(Debug)]
pub struct RequestReader {
    limits: Limits,
    scan: Scan,
    empty_lines: u8,
    line: Option<RequestLine>,
    spare: HeaderMap,
    failed: Option<Fault>,
}

#[derive(Clone, Debug)]
struct RequestLine {
    method: Method,
    target: std::ops::Range<usize>,
    version: Version,
    end: usize,
}

impl RequestReader {
    /// A reader for one connection.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            scan: Scan::new(Opening::StartLine),
            empty_lines: 0,
            line: None,
            spare: HeaderMap::new(),
            failed: None,
        }
    }

    /// Returns the map of a finished request, so that the next head reuses its allocation.
    pub fn recycle(&mut self, mut headers: HeaderMap) {
        headers.clear();
        self.spare = headers;
    }

    /// Gives back the memory that is kept for the next head.
    pub fn shrink(&mut self) {
        self.spare = HeaderMap::new();
    }

    /// Whether a head has begun to arrive in `buf`. From then on a client that stalls is late (408) and not
    /// idle.
    #[must_use]
    pub fn has_begun(&self, buf: &BytesMut) -> bool {
        buf.iter().any(|byte| !matches!(byte, b'\r' | b'\n'))
    }

    /// Takes one head off the front of `buf` and leaves what follows. `None`: more bytes are needed; call
    /// again with them appended to the same buffer. All calls together look at each byte once.
    ///
    /// # Errors
    /// A refused head; each further call returns the same. The connection must be answered and closed.
    pub fn read(&mut self, buf: &mut BytesMut) -> Result<Option<RequestHead>, Refusal> {
        if let Some(fault) = self.failed {
            return Err(fault.into());
        }
        self.advance(buf).map_err(|fault| {
            self.failed = Some(fault);
            fault.into()
        })
    }

    fn advance(&mut self, buf: &mut BytesMut) -> Result<Option<RequestHead>, Fault> {
        if self.line.is_none() && !self.skip_empty_lines(buf)? {
            return Ok(None);
        }
        loop {
            match self.scan.advance(buf, &self.limits)? {
                Progress::More => return Ok(None),
                Progress::StartLine(end) => self.line = Some(request_line(&buf[..end])?),
                Progress::Whole(head_bytes) => {
                    let head = buf.split_to(head_bytes).freeze();
                    let line = self.line.take().ok_or(Fault::StartLine)?;
                    let head = self.assemble(&head, line)?;
                    self.scan.reset();
                    self.empty_lines = 0;
                    return Ok(Some(head));
                }
            }
        }
    }

    /// Skips empty lines; true once a line has begun. RFC 9112 section 2.2: at least one empty line before a
    /// request line should be ignored.
    fn skip_empty_lines(&mut self, buf: &mut BytesMut) -> Result<bool, Fault> {
        loop {
            match buf.as_ref() {
                [] => return Ok(false),
                [b'\r', ..] if self.empty_lines == EMPTY_LINES_MAX => return Err(Fault::EmptyLines),
                [b'\r'] => return Ok(false),
                [b'\r', b'\n', ..] => {
                    self.empty_lines += 1;
                    buf.advance(2);
                }
                [b'\r', ..] => return Err(Fault::BareCr),
                [b'\n', ..] => return Err(Fault::BareLf),
                [byte, ..] if is_tchar(*byte) => return Ok(true),
                [byte, ..] if is_ows(*byte) => return Err(Fault::LeadingWhitespace),
                [..] => return Err(Fault::MethodToken),
            }
        }
    }

    fn assemble(&mut self, head: &Bytes, line: RequestLine) -> Result<RequestHead, Fault> {
        let RequestLine { method, target, version, end } = line;
        let mut headers = std::mem::take(&mut self.spare);
        let notes = fields::read(head, end + 2, &self.scan.ends()[1..], &mut headers)?;
        fields::check_singletons(&headers)?;
        let seen = notes.seen;
        let parsed = target::parse(&method, head.slice(target))?;
        let scheme = parsed.authority.as_ref().map(|(scheme, _)| *scheme);
        let named = host_of_fields(head, notes, version, scheme)?;
        let host = match (parsed.authority, named) {
            (None, named) => named.unwrap_or_default(),
            (Some((_, host)), None) => host,
            (Some((_, host)), Some(named)) => {
                if host != named {
                    replace_host(&mut headers, &host)?;
                }
                host
            }
        };
        let wishes = framing::wishes(&headers, seen, version, Side::Request)?;
        let framing = framing::of_request(&method, framing::declared(&headers, seen, version)?)?;
        let expect = expect(&headers, seen, version, framing)?;
        let upgrade = if wishes.upgrade && seen.has(Seen::UPGRADE) { upgrade(&headers)? } else { None };
        Ok(RequestHead {
            method,
            target: parsed.target,
            scheme,
            host,
            version,
            headers,
            framing,
            persistence: wishes.persistence,
            expect,
            upgrade,
            head_bytes: head.len(),
        })
    }
}

/// RFC 9112 section 3: `method SP request-target SP HTTP-version`, single spaces, nothing around.
fn request_line(line: &[u8]) -> Result<RequestLine, Fault> {
    let method_end = memchr(b' ', line).ok_or(Fault::StartLine)?;
    let version_start = memrchr(b' ', line).ok_or(Fault::StartLine)? + 1;
    let method = Method::from_bytes(&line[..method_end]).map_err(|_| Fault::MethodToken)?;
    if version_start <= method_end + 1 {
        return Err(Fault::StartLine);
    }
    let target = method_end + 1..version_start - 1;
    let version = Version::parse(&line[version_start..])?;
    if method == Method::CONNECT || method == Method::TRACE {
        return Err(Fault::MethodRefused);
    }
    target::check_bytes(&line[target.clone()])?;
    Ok(RequestLine { method, target, version, end: line.len() })
}

/// RFC 9112 section 3.2: exactly one `Host`, on HTTP/1.0 at most one.
fn host_of_fields(
    head: &Bytes,
    Notes { seen, host }: Notes,
    version: Version,
    scheme: Option<Scheme>,
) -> Result<Option<Host>, Fault> {
    if seen.has(Seen::HOST_TWICE) {
        return Err(Fault::HostTwice);
    }
    if seen.has(Seen::HOST) {
        return host::parse(head.slice(host), scheme).map(Some);
    }
    if version == Version::Http11 { Err(Fault::HostMissing) } else { Ok(None) }
}

/// RFC 9112 section 3.2.2: beside the absolute form `Host` is ignored, and replaced.
#[cold]
fn replace_host(headers: &mut HeaderMap, host: &Host) -> Result<(), Fault> {
    let value = HeaderValue::from_str(host.as_str()).map_err(|_| Fault::HostForm)?;
    headers.insert(HOST, value);
    Ok(())
}

/// RFC 9110 section 10.1.1: `100-continue`, or an expectation that Weir cannot meet. Ignored on HTTP/1.0.
pub(crate) fn expect(
    headers: &HeaderMap,
    seen: Seen,
    version: Version,
    framing: Framing,
) -> Result<Expect, Fault> {
    if !seen.has(Seen::EXPECT) || version == Version::Http10 {
        return Ok(Expect::Nothing);
    }
    let known = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if !headers.get_all(EXPECT).iter().all(known) {
        return Err(Fault::ExpectUnknown);
    }
    Ok(if framing == Framing::None { Expect::Nothing } else { Expect::Continue })
}

/// The requested protocols. `h2c` is not accepted: its upgrade is obsolete (RFC 9113 §3.1), and requests to
/// an origin that followed it would bypass every rule of this proxy.
fn upgrade(headers: &HeaderMap) -> Result<Option<HeaderValue>, Fault> {
    let values =
        headers.get_all(UPGRADE).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let protocols: Vec<&[u8]> = values
        .map(<[u8]>::trim_ascii)
        .filter(|protocol| !protocol.is_empty() && !protocol.eq_ignore_ascii_case(b"h2c"))
        .collect();
    if protocols.is_empty() {
        return Ok(None);
    }
    HeaderValue::from_bytes(&protocols.join(b", ".as_slice())).map(Some).map_err(|_| Fault::Control)
}
