//! Response heads of origins (RFC 9112 section 4), held to the same grammar as requests.
//!
//! The fields are copied out of the buffer: a response may be stored for long, and must not keep a whole read
//! buffer alive for its head.
//!
//! Lenient in one point: the space before an absent reason phrase may be missing, as it is with many servers.
//! A status below 100 or above 599 is malformed, which makes it a 502, as RFC 9110 section 15 asks for a 5xx.

use crate::fault::{Fault, Malformed};
use crate::fields;
use crate::framing::{self, Framing, Persistence, Side, Version};
use crate::limits::Limits;
use crate::scan::{Opening, Progress, Scan};
use bytes::{Buf, Bytes, BytesMut};
use http::header::HeaderMap;
use http::{Method, StatusCode};

/// One parsed and checked response head. The reason phrase is dropped.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// 100 to 599. A 1xx is followed by another head, but for 101, after which HTTP ends.
    pub status: StatusCode,
    /// The version of the origin.
    pub version: Version,
    /// All fields as received, the hop-by-hop ones included.
    pub headers: HeaderMap,
    /// How long the content is.
    pub framing: Framing,
    /// Whether the connection may be used again after the content was read.
    pub persistence: Persistence,
    /// Bytes of the head on the wire, with its empty line.
    pub head_bytes: usize,
}

/// Takes response heads off the front of a buffer.
#[derive(Debug)]
pub struct ResponseReader {
    limits: Limits,
    scan: Scan,
    line: Option<(Version, StatusCode)>,
    failed: Option<Fault>,
}

impl ResponseReader {
    /// A reader for one connection.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, scan: Scan::new(Opening::StartLine), line: None, failed: None }
    }

    /// Takes one head, the answer to a request of method `to`, off the front of `buf`. `None`: more bytes are
    /// needed.
    ///
    /// # Errors
    /// A malformed head; each further call returns the same. The connection must be closed.
    pub fn read(&mut self, buf: &mut BytesMut, to: &Method) -> Result<Option<ResponseHead>, Malformed> {
        if let Some(fault) = self.failed {
            return Err(fault.into());
        }
        self.advance(buf, to).map_err(|fault| {
            self.failed = Some(fault);
            fault.into()
        })
    }

    fn advance(&mut self, buf: &mut BytesMut, to: &Method) -> Result<Option<ResponseHead>, Fault> {
        loop {
            match self.scan.advance(buf, &self.limits)? {
                Progress::More => return Ok(None),
                Progress::StartLine(end) => self.line = Some(status_line(&buf[..end])?),
                Progress::Whole(head_bytes) => {
                    let line = self.line.take().ok_or(Fault::EmptyLines)?;
                    let head = Bytes::copy_from_slice(&buf[..head_bytes]);
                    buf.advance(head_bytes);
                    let head = assemble(&head, line, self.scan.ends(), to)?;
                    self.scan.reset();
                    return Ok(Some(head));
                }
            }
        }
    }
}

fn assemble(
    head: &Bytes,
    (version, status): (Version, StatusCode),
    lines: &[usize],
    to: &Method,
) -> Result<ResponseHead, Fault> {
    let mut headers = fields::map_for(lines.len());
    let seen = fields::read(head, lines[0] + 2, &lines[1..], &mut headers)?.seen;
    let declared = framing::declared(&headers, seen, version)?;
    let (framing, forced) = framing::of_response(to, status, declared)?;
    let wished = framing::wishes(&headers, seen, version, Side::Response)?.persistence;
    let persistence = if wished == Persistence::Close { wished } else { forced };
    Ok(ResponseHead { status, version, headers, framing, persistence, head_bytes: head.len() })
}

/// RFC 9112 section 4: `HTTP-version SP status-code SP [ reason-phrase ]`.
fn status_line(line: &[u8]) -> Result<(Version, StatusCode), Fault> {
    let Some((version, rest)) = line.split_at_checked(8) else {
        return Err(Fault::StartLine);
    };
    let version = Version::parse(version)?;
    let code = match rest {
        [b' ', code @ ..] if code.len() == 3 => code,
        [b' ', a, b, c, b' ', reason @ ..] => {
            check_reason(reason)?;
            &[*a, *b, *c]
        }
        _ => return Err(Fault::StartLine),
    };
    if !code.iter().all(u8::is_ascii_digit) {
        return Err(Fault::StatusCode);
    }
    let status = StatusCode::from_bytes(code).map_err(|_| Fault::StatusCode)?;
    if status.as_u16() > 599 {
        return Err(Fault::StatusCode);
    }
    Ok((version, status))
}

fn check_reason(reason: &[u8]) -> Result<(), Fault> {
    match reason.iter().find(|byte| byte.is_ascii_control() && **byte != b'\t') {
        None => Ok(()),
        Some(b'\0') => Err(Fault::Nul),
        Some(b'\r') => Err(Fault::BareCr),
        Some(_) => Err(Fault::Control),
    }
}
