//! The content of a message, in either direction (RFC 9112 sections 6 and 7).
//!
//! States: `Length` and `Close` pass on what is there. Chunked goes `Line` → `Data` → `DataEnd` → `Line` …,
//! and after the chunk of size zero through `Trailers` to `Done`. A malformed body ends in `Failed`, for
//! good.

use crate::chunk;
use crate::fault::{Fault, Malformed};
use crate::fields;
use crate::framing::Framing;
use crate::limits::Limits;
use crate::scan::{Opening, Progress, Scan};
use bytes::{Buf, Bytes, BytesMut};
use http::header::HeaderMap;
use memchr::memchr;

/// The most bytes of one [`BodyPart::Data`].
pub const DATA_BYTES_MAX: usize = 256 * 1024;

/// The longest chunk line in bytes, extensions included.
const CHUNK_LINE_BYTES_MAX: usize = 1024;

/// The most bytes of all extensions of a body. No limit on the content would count them.
const EXTENSION_BYTES_MAX: usize = 16 * 1024;

/// The next part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPart {
    /// More bytes are needed.
    More,
    /// Content, at most [`DATA_BYTES_MAX`] bytes, shared with the buffer; never empty.
    Data(Bytes),
    /// The body is whole. Has its trailers, if any are allowed as trailers.
    End(Option<HeaderMap>),
}

/// Takes the content of a message off the front of a buffer.
#[derive(Debug)]
pub struct BodyReader {
    state: State,
    limits: Limits,
    extension_bytes: usize,
}

#[derive(Debug)]
enum State {
    Length(u64),
    Close,
    Line { scanned: usize },
    Data(u64),
    DataEnd,
    Trailers(Scan),
    Done,
    Failed(Fault),
}

impl BodyReader {
    /// A reader for the content that follows a head. `limits` bound the trailers.
    #[must_use]
    pub fn new(framing: Framing, limits: &Limits) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(left) => State::Length(left),
            Framing::Chunked => State::Line { scanned: 0 },
            Framing::Close => State::Close,
        };
        Self { state, limits: *limits, extension_bytes: 0 }
    }

    /// Takes the next part off the front of `buf`. After the end, each call returns the end again, without
    /// trailers, and takes nothing.
    ///
    /// # Errors
    /// Malformed chunked coding; each further call returns the same. The connection must be closed.
    pub fn read(&mut self, buf: &mut BytesMut) -> Result<BodyPart, Malformed> {
        self.advance(buf).map_err(|fault| {
            self.state = State::Failed(fault);
            fault.into()
        })
    }

    fn advance(&mut self, buf: &mut BytesMut) -> Result<BodyPart, Fault> {
        loop {
            match &mut self.state {
                State::Failed(fault) => return Err(*fault),
                State::Done => return Ok(BodyPart::End(None)),
                State::Close => return Ok(take(buf, u64::MAX).map_or(BodyPart::More, BodyPart::Data)),
                State::Length(left) => {
                    let Some(data) = take(buf, *left) else { return Ok(BodyPart::More) };
                    *left -= data.len() as u64;
                    if *left == 0 {
                        self.state = State::Done;
                    }
                    return Ok(BodyPart::Data(data));
                }
                State::Data(left) => {
                    let Some(data) = take(buf, *left) else { return Ok(BodyPart::More) };
                    *left -= data.len() as u64;
                    if *left == 0 {
                        self.state = State::DataEnd;
                    }
                    return Ok(BodyPart::Data(data));
                }
                State::DataEnd => match buf.as_ref() {
                    [b'\r', b'\n', ..] => {
                        buf.advance(2);
                        self.state = State::Line { scanned: 0 };
                    }
                    [] | [b'\r'] => return Ok(BodyPart::More),
                    _ => return Err(Fault::ChunkEnd),
                },
                State::Line { .. } => {
                    if !self.read_line(buf)? {
                        return Ok(BodyPart::More);
                    }
                }
                State::Trailers(scan) => {
                    let Progress::Whole(bytes) = scan.advance(buf, &self.limits)? else {
                        return Ok(BodyPart::More);
                    };
                    let trailers = trailers(&Bytes::copy_from_slice(&buf[..bytes]), scan.ends())?;
                    buf.advance(bytes);
                    self.state = State::Done;
                    return Ok(BodyPart::End(trailers));
                }
            }
        }
    }

    /// Notes that the sender closed its side.
    ///
    /// # Errors
    /// The body is not whole. One that is delimited by close always is.
    pub fn end_of_input(&mut self) -> Result<(), Malformed> {
        match self.state {
            State::Failed(fault) => Err(fault.into()),
            State::Done => Ok(()),
            State::Close => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(Fault::Truncated.into()),
        }
    }

    /// Whether the whole body was taken, its trailers included.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// The content bytes still to come, if the length was declared.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// Reads a chunk's line. False if it has not arrived.
    fn read_line(&mut self, buf: &mut BytesMut) -> Result<bool, Fault> {
        let State::Line { scanned } = &mut self.state else { return Ok(true) };
        let Some(found) = memchr(b'\n', &buf[*scanned..]) else {
            *scanned = buf.len();
            return if buf.len() > CHUNK_LINE_BYTES_MAX {
                Err(Fault::ChunkExtensionsLarge)
            } else {
                Ok(false)
            };
        };
        let line_feed = *scanned + found;
        if line_feed > CHUNK_LINE_BYTES_MAX {
            return Err(Fault::ChunkExtensionsLarge);
        }
        let line = buf[..line_feed].strip_suffix(b"\r").ok_or(Fault::BareLf)?;
        let line = chunk::parse(line)?;
        self.extension_bytes += line.extension_bytes;
        if self.extension_bytes > EXTENSION_BYTES_MAX {
            return Err(Fault::ChunkExtensionsLarge);
        }
        buf.advance(line_feed + 1);
        self.state =
            if line.size == 0 { State::Trailers(Scan::new(Opening::Fields)) } else { State::Data(line.size) };
        Ok(true)
    }
}

/// Up to `left` bytes, as far as they have arrived.
fn take(buf: &mut BytesMut, left: u64) -> Option<Bytes> {
    let most = usize::try_from(left).unwrap_or(usize::MAX).min(DATA_BYTES_MAX);
    let bytes = buf.len().min(most);
    (bytes > 0).then(|| buf.split_to(bytes).freeze())
}

/// The allowed trailers; `None` if there are none.
fn trailers(block: &Bytes, ends: &[usize]) -> Result<Option<HeaderMap>, Fault> {
    if ends.is_empty() {
        return Ok(None);
    }
    let mut all = fields::map_for(ends.len());
    fields::read(block, 0, ends, &mut all)?;
    let allowed: HeaderMap = all
        .iter()
        .filter(|(name, _)| !is_forbidden(name.as_str()))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect();
    Ok(if allowed.is_empty() { None } else { Some(allowed) })
}

/// Whether RFC 9110 section 6.5.1 forbids a trailer: framing, routing, modifiers, authentication, and what
/// says how to read the content have no meaning behind it. They are dropped.
fn is_forbidden(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "age",
        "authorization",
        "cache-control",
        "cdn-loop",
        "connection",
        "cookie",
        "date",
        "expect",
        "expires",
        "forwarded",
        "host",
        "keep-alive",
        "location",
        "max-forwards",
        "pragma",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "range",
        "retry-after",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "vary",
        "via",
        "warning",
        "www-authenticate",
    ];
    name.starts_with("content-")
        || name.starts_with("if-")
        || name.starts_with("x-forwarded-")
        || NAMES.contains(&name)
}
