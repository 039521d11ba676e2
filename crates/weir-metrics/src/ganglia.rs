//! The document that gmond and gmetad send: hosts with their metrics, in clusters, in grids (`ganglia.dtd`).
//!
//! It is read as a stream. Only the hosts that are wanted are kept. Its inline DTD is skipped, and no entity
//! is expanded but those that XML itself defines. A document that does not end as it must counts for nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use quick_xml::Reader;
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesStart, Event};
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use crate::hosts::Best;
use crate::samples::{NAMES_MAX, Samples, Times};

/// The largest document, in bytes: that of some thousand hosts.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;
/// The longest tag, text or DTD, in bytes.
const PIECE_BYTES_MAX: usize = 256 << 10;
/// The most metrics of all hosts that are kept. Each origin has as many of them as any other, but not less
/// than [`HOST_METRICS`].
const METRICS_MAX: usize = 256 << 10;
/// What a host may have, however many origins there are.
const HOST_METRICS: usize = 128;
/// How deep elements stand in each other at most.
const DEPTH_MAX: usize = 32;
/// What is read at once, in bytes.
const CHUNK_BYTES: usize = 16 << 10;

/// Why a document counts for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DocumentError {
    /// The connection broke.
    #[error("cannot read: {0}")]
    Read(String),
    /// It goes on and on.
    #[error("a document of more than {} MiB", DOCUMENT_BYTES_MAX >> 20)]
    Huge,
    /// A tag or text is too long.
    #[error("byte {at}: a piece of more than {} KiB", PIECE_BYTES_MAX >> 10)]
    LongPiece { at: u64 },
    /// It is not XML, or has an entity of its own.
    #[error("byte {at}: {why}")]
    Malformed { at: u64, why: String },
    /// It is XML of something else.
    #[error("this is `{0}`, not a document of Ganglia")]
    Other(String),
    /// It ends in the middle.
    #[error("byte {at}: the document ends in the middle")]
    Truncated { at: u64 },
}

/// A host that was found.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) ip: String,
    pub(crate) samples: Samples,
}

impl Host {
    /// By what it is known between two reads.
    pub(crate) fn key(&self) -> String {
        format!("{} {}", self.name, self.ip)
    }
}

/// The origins that a host may be by its `NAME` and `IP`: their numbers, and how good the name is (0 is
/// best).
pub(crate) type Origins<'o> = dyn Fn(&str, &str) -> Vec<(usize, usize)> + Sync + 'o;

/// Reads a document. Of each of `count` origins the best host is kept.
///
/// # Errors
/// The document counts for nothing.
///
/// # Cancel safety
/// Dropped, what was read is lost.
pub(crate) async fn read(
    stream: impl AsyncRead + Unpin,
    (origins, count): (&Origins<'_>, usize),
    now: Instant,
) -> Result<Best<Host>, DocumentError> {
    let mut reader = Reader::from_reader(Input::new(stream));
    reader.config_mut().check_end_names = true;
    let mut buffer = Vec::new();
    let most = (METRICS_MAX / count.max(1)).clamp(HOST_METRICS, NAMES_MAX);
    let mut walk = Walk { origins, most, now, depth: 0, is_begun: false, host: None, best: Best::new() };
    loop {
        buffer.clear();
        reader.get_mut().piece_left = PIECE_BYTES_MAX;
        let event = reader.read_event_into_async(&mut buffer).await;
        let at = reader.buffer_position();
        match event {
            Ok(Event::Start(tag)) => walk.open(&tag, at)?,
            Ok(Event::Empty(tag)) => {
                walk.open(&tag, at)?;
                walk.close();
            }
            Ok(Event::End(_)) => walk.close(),
            Ok(Event::Eof) if walk.is_begun && walk.depth == 0 => break,
            Ok(Event::Eof) => return Err(DocumentError::Truncated { at }),
            Ok(_) => {}
            Err(error) => return Err(fault(&reader, error, at)),
        }
    }
    Ok(walk.best)
}

fn fault<R>(reader: &Reader<Input<R>>, error: quick_xml::Error, at: u64) -> DocumentError {
    let input = reader.get_ref();
    match error {
        _ if input.left_bytes == 0 => DocumentError::Huge,
        _ if input.piece_left == 0 => DocumentError::LongPiece { at },
        _ if input.is_ended => DocumentError::Truncated { at },
        quick_xml::Error::Io(error) => DocumentError::Read(error.to_string()),
        error => DocumentError::Malformed { at: reader.error_position(), why: shown(&error.to_string()) },
    }
}

/// Foreign text for a message.
fn shown(text: &str) -> String {
    text.chars().take(120).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// Where in the document the reader is.
struct Walk<'w> {
    origins: &'w Origins<'w>,
    /// The most metrics of a host.
    most: usize,
    now: Instant,
    depth: usize,
    is_begun: bool,
    /// The host that is being read.
    host: Option<Begun>,
    best: Best<Host>,
}

/// A host whose end has not come.
struct Begun {
    host: Host,
    /// How deep it stands.
    depth: usize,
    /// What it may be.
    origins: Vec<(usize, usize)>,
}

impl Walk<'_> {
    fn open(&mut self, tag: &BytesStart<'_>, at: u64) -> Result<(), DocumentError> {
        let name = tag.name();
        if !self.is_begun {
            if name.as_ref() != "GANGLIA_XML" {
                return Err(DocumentError::Other(shown(name.as_ref())));
            }
            self.is_begun = true;
        }
        if self.depth >= DEPTH_MAX {
            let why = "elements stand too deep in each other".to_owned();
            return Err(DocumentError::Malformed { at, why });
        }
        self.depth += 1;
        match (name.as_ref(), &mut self.host) {
            ("HOST", None) => {
                let [name, ip] = texts(tag, ["NAME", "IP"], at)?;
                let origins = (self.origins)(&name, &ip);
                if self.best.wants(&origins) {
                    let host = Host { name, ip, samples: Samples::with_names(self.most, self.now) };
                    self.host = Some(Begun { host, depth: self.depth, origins });
                }
            }
            ("METRIC", Some(Begun { host, .. })) => {
                let [name, value, age, most, ends] = texts(tag, ["NAME", "VAL", "TN", "TMAX", "DMAX"], at)?;
                // A host has each metric once.
                if host.samples.get(&name).is_none()
                    && let Ok(value) = value.trim().parse::<f64>()
                {
                    let age = seconds(&age).unwrap_or_default();
                    let ends_in = seconds(&ends).filter(|ends| !ends.is_zero());
                    let ends_in = ends_in.map(|ends| ends.saturating_sub(age));
                    // gmond does not send what has hardly changed before `TMAX`.
                    let overdue = age.saturating_sub(seconds(&most).unwrap_or_default());
                    host.samples.add(&name, Some(Vec::new()), value, Times { age, overdue, ends_in });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self) {
        if let Some(begun) = self.host.take_if(|begun| begun.depth == self.depth) {
            self.best.add(&begun.origins, begun.host);
        }
        // quick-xml refuses an end without its start.
        self.depth = self.depth.saturating_sub(1);
    }
}

/// The values of attributes; empty where there is none.
fn texts<const N: usize>(
    tag: &BytesStart<'_>,
    names: [&str; N],
    at: u64,
) -> Result<[String; N], DocumentError> {
    let mut found = names.map(|_| String::new());
    for attribute in tag.attributes().with_checks(false) {
        let attribute =
            attribute.map_err(|error| DocumentError::Malformed { at, why: shown(&error.to_string()) })?;
        if let Some(place) = names.iter().position(|name| *name == attribute.key.as_ref()) {
            found[place] = text(&attribute, at)?;
        }
    }
    Ok(found)
}

fn text(attribute: &Attribute<'_>, at: u64) -> Result<String, DocumentError> {
    let text = quick_xml::escape::unescape(&attribute.value);
    let text = text.map_err(|error| DocumentError::Malformed { at, why: shown(&error.to_string()) })?;
    Ok(text.into_owned())
}

/// Whole seconds, as Ganglia counts them.
fn seconds(text: &str) -> Option<Duration> {
    text.trim().parse::<u32>().ok().map(|seconds| Duration::from_secs(seconds.into()))
}

/// The bytes of a document as UTF-8, no more than may come.
struct Input<R> {
    inner: R,
    /// What was read, as UTF-8.
    ready: Vec<u8>,
    taken: usize,
    /// Before the declaration has come it is not known.
    is_latin1: Option<bool>,
    left_bytes: u64,
    /// What the piece that is being read may still have.
    piece_left: usize,
    is_ended: bool,
}

impl<R> Input<R> {
    fn new(inner: R) -> Input<R> {
        Input {
            inner,
            ready: Vec::new(),
            taken: 0,
            is_latin1: None,
            left_bytes: DOCUMENT_BYTES_MAX,
            piece_left: PIECE_BYTES_MAX,
            is_ended: false,
        }
    }
}

impl<R: AsyncRead + Unpin> Input<R> {
    /// Reads more.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut chunk = [0; CHUNK_BYTES];
        let most = usize::try_from(self.left_bytes).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        if most == 0 {
            return Poll::Ready(Err(io::Error::other("too large")));
        }
        let mut read = ReadBuf::new(&mut chunk[..most]);
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut read))?;
        let bytes = read.filled();
        self.left_bytes -= bytes.len() as u64;
        self.is_ended = bytes.is_empty();
        match self.is_latin1 {
            Some(true) => self.ready.extend(bytes.iter().flat_map(|byte| utf8(*byte))),
            _ => self.ready.extend_from_slice(bytes),
        }
        Poll::Ready(Ok(()))
    }

    /// Whether the declaration has come, or there is none; then what was read is UTF-8.
    fn is_declared(&mut self) -> bool {
        if self.is_latin1.is_some() {
            return true;
        }
        let begin = &self.ready[..self.ready.len().min(CHUNK_BYTES)];
        let end = begin.windows(2).position(|two| two == b"?>");
        let could_be = begin.starts_with(&b"<?xml"[..begin.len().min(5)]);
        if could_be && end.is_none() && !self.is_ended && begin.len() < 1024 {
            return false;
        }
        let declaration = begin[..end.unwrap_or(0)].to_ascii_uppercase();
        let is_latin1 = declaration.windows(10).any(|some| some == b"ISO-8859-1");
        self.is_latin1 = Some(is_latin1);
        if is_latin1 {
            self.ready = self.ready.iter().flat_map(|byte| utf8(*byte)).collect();
        }
        true
    }
}

/// A character of ISO-8859-1 as UTF-8.
fn utf8(byte: u8) -> impl Iterator<Item = u8> {
    let (first, second) = match byte {
        0..=0x7f => (byte, None),
        _ => (0xc0 | (byte >> 6), Some(0x80 | (byte & 0x3f))),
    };
    std::iter::once(first).chain(second)
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes = ready!(self.as_mut().poll_fill_buf(cx))?;
        let count = bytes.len().min(out.remaining());
        out.put_slice(&bytes[..count]);
        self.consume(count);
        Poll::Ready(Ok(()))
    }
}

impl<R: AsyncRead + Unpin> AsyncBufRead for Input<R> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.taken == this.ready.len() {
            this.ready.clear();
            this.taken = 0;
        }
        while !this.is_ended && (this.ready.is_empty() || !this.is_declared()) {
            ready!(this.poll_more(cx))?;
        }
        this.is_declared();
        let left = &this.ready[this.taken..];
        if this.piece_left == 0 && !left.is_empty() {
            return Poll::Ready(Err(io::Error::other("too long")));
        }
        Poll::Ready(Ok(&left[..left.len().min(this.piece_left)]))
    }

    fn consume(self: Pin<&mut Self>, count: usize) {
        let this = self.get_mut();
        this.taken += count;
        this.piece_left -= count.min(this.piece_left);
    }
}

/// Promises of the parser, for fuzz targets.
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing {
    use super::{Host, Origins, read};
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// Reads a document that is there, for so many origins.
    pub(crate) fn of(
        document: &[u8],
        origins: (&Origins<'_>, usize),
    ) -> Result<Vec<Host>, super::DocumentError> {
        let mut work = pin!(read(document, origins, crate::clock::now()));
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(read) => {
                let mut hosts: Vec<Host> = read?.all().into_iter().cloned().collect();
                hosts.sort_by(|one, other| (&one.name, &one.ip).cmp(&(&other.name, &other.ip)));
                Ok(hosts)
            }
            Poll::Pending => unreachable!("bytes in memory are there"),
        }
    }

    /// The same where each host is an origin.
    pub(crate) fn now(document: &[u8]) -> Result<Vec<Host>, super::DocumentError> {
        let number = |name: &str, ip: &str| {
            let mut hasher = DefaultHasher::new();
            (name, ip).hash(&mut hasher);
            vec![(hasher.finish() as usize, 0)]
        };
        of(document, (&number, 1))
    }

    /// A document that is taken whole is not taken cut.
    pub fn ganglia(document: &[u8]) {
        if let Ok(hosts) = now(document) {
            assert!(hosts.iter().all(|host| host.samples.names().len() <= 4096));
            let end = document.iter().rposition(|byte| *byte == b'<').unwrap_or(0);
            let is_last = document[end..].starts_with(b"</GANGLIA_XML");
            assert!(!is_last || now(&document[..end]).is_err(), "cut at {end}");
        }
    }
}

#[cfg(test)]
mod tests;
