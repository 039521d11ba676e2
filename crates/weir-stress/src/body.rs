//! A body that is being received: where it ends, and the checks of its bytes.

use aws_lc_rs::digest::{Context, SHA256};
use xxhash_rust::xxh3::Xxh3;

use crate::head::Framing;
use crate::{offsets, seeded};

/// The most bytes of a body that are kept to be looked at as a whole.
pub(crate) const KEPT_BYTES_MAX: u64 = 64 << 20;

/// What bodies are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Only counted.
    Counted,
    /// Discarded inside the kernel, and only counted.
    Discarded,
    /// Hashed: all bodies of one URL must be equal.
    Same,
    /// The offset pattern.
    Offsets,
    /// The seeded body of this key.
    Seeded(u64),
    /// Hashed by SHA-256.
    Digest,
    /// Kept, to be looked at as a whole.
    Kept,
}

/// What the last bytes have done to the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    /// The body has ended after this many of the bytes.
    End(usize),
    /// The chunked coding is broken.
    Broken,
}

/// What the scenario's own origin has under a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The key of the seeded body.
    pub(crate) key: u64,
    /// The length of the whole body.
    pub(crate) bytes: u64,
    /// Whether this version may not be served any more, or never was.
    pub(crate) is_old: bool,
}

/// A body being received.
pub(crate) struct Body {
    place: Place,
    /// Bytes of content so far.
    pub(crate) received: u64,
    /// The offset of its first byte in the offset pattern.
    begin: u64,
    content: Content,
    right: bool,
    /// How many bytes it must have, where its path says so.
    pub(crate) expected_bytes: Option<u64>,
    /// Whether its head says a version that may not be served any more.
    pub(crate) is_old: bool,
    /// The place of the first wrong byte of a seeded body.
    pub(crate) wrong_at: Option<u64>,
    hash: Option<Box<Xxh3>>,
    sha256: Option<Box<Context>>,
    pub(crate) kept: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// This many bytes are left.
    Length(u64),
    Close,
    /// In a chunk's size line: the number so far, and whether its digits are complete.
    Size {
        bytes: u64,
        digits: u8,
        over: bool,
    },
    Data(u64),
    AfterData,
    /// In the trailers: the bytes of the current line.
    Trailers(usize),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body({:?}, {} received)", self.place, self.received)
    }
}

impl Body {
    pub(crate) fn new(framing: Framing, begin: u64, content: Content) -> Self {
        let place = match framing {
            Framing::Length(bytes) => Place::Length(bytes),
            Framing::Chunked => Place::Size { bytes: 0, digits: 0, over: false },
            Framing::Close => Place::Close,
        };
        let hash = (content == Content::Same).then(|| Box::new(Xxh3::new()));
        let sha256 = (content == Content::Digest).then(|| Box::new(Context::new(&SHA256)));
        Self {
            place,
            received: 0,
            begin,
            content,
            right: true,
            expected_bytes: None,
            is_old: false,
            wrong_at: None,
            hash,
            sha256,
            kept: Vec::new(),
        }
    }

    /// A body that is compared with what the scenario's own origin made; one that is discarded by its length
    /// alone.
    pub(crate) fn expecting(framing: Framing, begin: u64, expected: Expected, content: Content) -> Self {
        let content = match content {
            Content::Discarded => Content::Discarded,
            _ => Content::Seeded(expected.key),
        };
        let body = Self::new(framing, begin, content);
        Self { expected_bytes: Some(expected.bytes), is_old: expected.is_old, ..body }
    }

    /// How many bytes may be discarded unread: the rest of a body of declared length.
    pub(crate) fn blind_bytes(&self) -> Option<u64> {
        match self.place {
            Place::Length(bytes) if self.content == Content::Discarded && bytes > 0 => Some(bytes),
            _ => None,
        }
    }

    /// Counts `bytes` that were discarded. Returns whether that was the end.
    pub(crate) fn skip(&mut self, bytes: u64) -> Progress {
        let Place::Length(left) = &mut self.place else { return Progress::Broken };
        *left = left.saturating_sub(bytes);
        self.received += bytes;
        if *left == 0 { Progress::End(0) } else { Progress::More }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Progress {
        match self.place {
            Place::Length(left) => {
                let taken = (bytes.len() as u64).min(left);
                self.take(&bytes[..taken as usize]);
                self.place = Place::Length(left - taken);
                if taken == left { Progress::End(taken as usize) } else { Progress::More }
            }
            Place::Close => {
                self.take(bytes);
                Progress::More
            }
            _ => self.feed_chunked(bytes),
        }
    }

    /// Whether the end of the connection ends the body.
    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(self.place, Place::Close)
    }

    pub(crate) fn is_right(&self) -> bool {
        self.right
    }

    pub(crate) fn digest(&self) -> Option<u64> {
        self.hash.as_ref().map(|hash| hash.digest())
    }

    /// The SHA-256 of what has come, in hexadecimal digits, where it is asked for.
    pub(crate) fn sha256(&self) -> Option<String> {
        let digest = self.sha256.as_ref()?.as_ref().clone().finish();
        Some(digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn take(&mut self, bytes: &[u8]) {
        match self.content {
            Content::Counted | Content::Discarded => {}
            Content::Offsets => self.right &= offsets::matches(self.begin + self.received, bytes),
            Content::Seeded(key) => {
                if self.right {
                    self.wrong_at = seeded::difference(key, self.begin + self.received, bytes);
                    self.right = self.wrong_at.is_none();
                }
            }
            Content::Digest => {
                if let Some(sha256) = &mut self.sha256 {
                    sha256.update(bytes);
                }
            }
            Content::Kept => {
                if self.received + bytes.len() as u64 <= KEPT_BYTES_MAX {
                    self.kept.extend_from_slice(bytes);
                } else {
                    self.right = false;
                }
            }
            Content::Same => {
                if let Some(hash) = &mut self.hash {
                    hash.update(bytes);
                }
            }
        }
        self.received += bytes.len() as u64;
    }

    /// RFC 9112 §7.1.
    fn feed_chunked(&mut self, bytes: &[u8]) -> Progress {
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            match self.place {
                Place::Size { bytes: size, digits, over } => {
                    at += 1;
                    let Some(next) = size_byte(byte, size, digits, over) else { return Progress::Broken };
                    self.place = next;
                }
                Place::Data(left) => {
                    let taken = ((bytes.len() - at) as u64).min(left) as usize;
                    self.take(&bytes[at..at + taken]);
                    at += taken;
                    let left = left - taken as u64;
                    self.place = if left == 0 { Place::AfterData } else { Place::Data(left) };
                }
                Place::AfterData => {
                    at += 1;
                    match byte {
                        b'\r' => {}
                        b'\n' => self.place = Place::Size { bytes: 0, digits: 0, over: false },
                        _ => return Progress::Broken,
                    }
                }
                Place::Trailers(line_bytes) => {
                    at += 1;
                    match byte {
                        b'\n' if line_bytes == 0 => return Progress::End(at),
                        b'\n' => self.place = Place::Trailers(0),
                        b'\r' => {}
                        _ => self.place = Place::Trailers(line_bytes + 1),
                    }
                }
                Place::Length(_) | Place::Close => return Progress::Broken,
            }
        }
        Progress::More
    }
}

/// The state after one more byte of a chunk's size line.
fn size_byte(byte: u8, size: u64, digits: u8, over: bool) -> Option<Place> {
    match byte {
        b'\n' if digits == 0 => None,
        b'\n' if size == 0 => Some(Place::Trailers(0)),
        b'\n' => Some(Place::Data(size)),
        _ if over => Some(Place::Size { bytes: size, digits, over }),
        b'\r' | b';' | b' ' => Some(Place::Size { bytes: size, digits, over: true }),
        _ => {
            let digit = char::from(byte).to_digit(16)?;
            let more = digits < 15;
            more.then_some(Place::Size {
                bytes: size << 4 | u64::from(digit),
                digits: digits + 1,
                over: false,
            })
        }
    }
}
