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

/// The content of chunks that have arrived together is joined up to so many bytes: each part costs its reader
/// more than a chunk of one byte costs here.
pub const JOINED_BYTES_MAX: usize = 64 * 1024;

/// The longest chunk line in bytes, extensions included.
const CHUNK_LINE_BYTES_MAX: usize = 1024;

/// The most bytes of all extensions of a body. No limit on the content would count them.
const EXTENSION_BYTES_MAX: usize = 16 * 1024;

/// The next part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPart {
    /// More bytes are needed.
    More,
    /// Content, at most [`DATA_BYTES_MAX`] bytes, shared with the buffer; never empty. Of chunks that have
    /// arrived it is that of all of them, up to [`JOINED_BYTES_MAX`]: how a peer cuts its content into chunks
    /// does not say how many parts there are.
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
                State::Data(_) => return Ok(self.join(buf).map_or(BodyPart::More, BodyPart::Data)),
                State::DataEnd | State::Line { .. } => match self.reach_content(buf)? {
                    0 => return Ok(BodyPart::More),
                    bytes => buf.advance(bytes),
                },
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

    /// Takes the content of chunks off the front of `buf`, as far as it has arrived, without what is between.
    /// A fault behind it is for the next call.
    fn join(&mut self, buf: &mut BytesMut) -> Option<Bytes> {
        // So much of `buf` was read, and so much of that is content, which lies at the front.
        let (mut read, mut joined) = (0, 0);
        while let State::Data(left) = &mut self.state {
            let most = if joined == 0 { DATA_BYTES_MAX } else { JOINED_BYTES_MAX.saturating_sub(joined) };
            let most = usize::try_from(*left).unwrap_or(usize::MAX).min(most);
            let bytes = most.min(buf.len() - read);
            if read > joined {
                buf.copy_within(read..read + bytes, joined);
            }
            (read, joined, *left) = (read + bytes, joined + bytes, *left - bytes as u64);
            if *left > 0 {
                break;
            }
            self.state = State::DataEnd;
            while joined < JOINED_BYTES_MAX && matches!(self.state, State::DataEnd | State::Line { .. }) {
                match self.reach_content(&buf[read..]) {
                    Ok(0) => break,
                    Ok(bytes) => read += bytes,
                    Err(fault) => self.state = State::Failed(fault),
                }
            }
        }
        if joined == 0 {
            return None;
        }
        let mut content = buf.split_to(read);
        content.truncate(joined);
        Some(content.freeze())
    }

    /// Takes one step from the end of a chunk's content to the next. How many bytes that takes; 0 if they
    /// have not arrived.
    fn reach_content(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        if let State::DataEnd = self.state {
            return match bytes {
                [b'\r', b'\n', ..] => {
                    self.state = State::Line { scanned: 0 };
                    Ok(2)
                }
                [] | [b'\r'] => Ok(0),
                _ => Err(Fault::ChunkEnd),
            };
        }
        let State::Line { scanned } = &mut self.state else { return Ok(0) };
        let Some(found) = memchr(b'\n', &bytes[*scanned..]) else {
            *scanned = bytes.len();
            return if bytes.len() > CHUNK_LINE_BYTES_MAX { Err(Fault::ChunkExtensionsLarge) } else { Ok(0) };
        };
        let line_feed = *scanned + found;
        if line_feed > CHUNK_LINE_BYTES_MAX {
            return Err(Fault::ChunkExtensionsLarge);
        }
        let line = bytes[..line_feed].strip_suffix(b"\r").ok_or(Fault::BareLf)?;
        let line = chunk::parse(line)?;
        self.extension_bytes += line.extension_bytes;
        if self.extension_bytes > EXTENSION_BYTES_MAX {
            return Err(Fault::ChunkExtensionsLarge);
        }
        self.state =
            if line.size == 0 { State::Trailers(Scan::new(Opening::Fields)) } else { State::Data(line.size) };
        Ok(line_feed + 1)
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
