//! The kinds of bodies: none, bytes at hand, a generation that is held or being filled, an origin's stream,
//! several parts of a generation. They must not look at heads.

use std::sync::Arc;

use bytes::Bytes;
use weir_files::{Broken, GaveWay, ListText, Reading};
use weir_front::SealedPart;
use weir_observe::Counters;
use weir_policy::Interval;
use weir_store::{Blocks, Generation, InUse, Read};
use weir_upstream::{ExchangeError, OriginBody, OriginError};

use super::multipart::Multipart;
use super::{Body, Cut};
use crate::plan::Route;
use weir_fill::reader::refill::Refill;
use weir_fill::reader::{Reader, blocks_from};

/// Where a response's bytes come from.
pub(crate) enum Source {
    /// No body.
    Empty,
    /// Bytes at hand.
    Bytes(Bytes),
    /// A generation whose body is whole in memory, in blocks or in a file.
    Whole(Whole),
    /// A generation whose body is not, or whose fill still runs.
    Held(Box<Reader>),
    /// A file.
    File(Box<Reading>),
    /// The list of a folder.
    List(Box<ListText>),
    /// Several parts of a generation, or of a file.
    Parts(Box<Multipart>),
    /// An origin's response that bypasses the store.
    Origin(Box<Passed>),
}

/// Bytes of a generation that is whole in memory. It holds only what a hit needs.
pub(crate) struct Whole {
    /// The blocks of a body that has several, until it is in a file.
    blocks: Option<Blocks>,
    rest: Interval,
    /// How the rest is had where a client that reads slowly goes on from a volume, and the volume fails.
    refill: Option<Box<Refill>>,
    generation: InUse,
}

impl Whole {
    /// The bytes `of` a generation.
    pub(crate) fn new(generation: Arc<Generation>, of: Interval, refill: Option<Box<Refill>>) -> Whole {
        Whole { blocks: generation.blocks(), rest: of, refill, generation: InUse::new(generation) }
    }

    /// As [`weir_front::Body::at_hand`].
    pub(crate) fn at_hand(&self) -> Option<(&[Bytes], usize, u64)> {
        let blocks = match &self.blocks {
            Some(blocks) => blocks,
            None => self.generation.block()?,
        };
        blocks_from(blocks, self.rest)
    }

    /// As [`weir_front::Body::sealed`].
    pub(crate) fn sealed(&self) -> Option<SealedPart<'_>> {
        self.generation.file()?.part(self.rest.start..self.rest.end)
    }

    /// Notes that so many bytes were sent.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.rest.start += bytes;
        if self.blocks.is_some() && self.generation.file().is_some() {
            // A slow client does not keep them beside the file.
            self.blocks = None;
        }
    }

    /// The next bytes; an error where they are no longer in memory.
    fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, ()> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let bytes_max = usize::try_from(self.rest.length()).map_or(bytes_max, |left| left.min(bytes_max));
        let Read::Piece(piece) = self.generation.read(self.rest.start, bytes_max) else { return Err(()) };
        self.rest.start += piece.len() as u64;
        Ok(Some(piece))
    }
}

/// An origin's response, passed on by a route. The route says which of its trailers go out.
pub(crate) struct Passed {
    pub(crate) body: OriginBody,
    pub(crate) route: Arc<Route>,
    /// The counters for received bytes.
    pub(crate) counters: Arc<Counters>,
    pub(crate) lasts: Lasts,
}

/// Whether a body that ends before its origin ends it is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasts {
    /// It is not.
    ToItsEnd,
    /// It is a stream of events, which has no end of its own: its reader asks for it again.
    UntilItEnds,
}

impl Source {
    /// Continues with another range `of` the same generation. A source without a generation stays as it is.
    pub(crate) fn turn_to(&mut self, of: Interval) {
        match self {
            Source::Whole(whole) => whole.rest = of,
            Source::Held(reader) => reader.turn_to(of),
            Source::File(reading) => reading.turn_to((of.start, of.end)),
            Source::Empty | Source::Bytes(_) | Source::List(_) | Source::Parts(_) | Source::Origin(..) => {}
        }
    }
}

impl Source {
    /// Whether a connection to an origin waits for the client of this body.
    pub(crate) fn holds_origin(&self) -> bool {
        match self {
            Source::Origin(..) => true,
            Source::Held(reader) => reader.is_waited_for(),
            Source::Empty
            | Source::Bytes(_)
            | Source::Whole(_)
            | Source::File(_)
            | Source::List(_)
            | Source::Parts(_) => false,
        }
    }
}

impl Source {
    /// As [`weir_front::Body::let_go`].
    pub(crate) fn let_go(&mut self, unsent: Bytes) -> Option<Bytes> {
        let kept = |unsent: Bytes| Some(unsent).filter(|unsent| !unsent.is_empty());
        match self {
            Source::Whole(whole) if whole.generation.is_stored_on_disk() => {
                let rest = Interval::new(whole.rest.start - unsent.len() as u64, whole.rest.end);
                let mut reader = Reader::new(Arc::clone(&whole.generation), rest, whole.refill.take());
                reader.let_go(Bytes::new());
                *self = Source::Held(Box::new(reader));
                None
            }
            Source::Held(reader) => reader.let_go(unsent),
            Source::Parts(parts) => {
                // Which of the parts the bytes are of is not kept. They may be a slice of a whole body.
                parts.let_go();
                kept(Bytes::copy_from_slice(&unsent))
            }
            Source::Origin(passed) => kept(passed.body.let_go(unsent)),
            _ => kept(unsent),
        }
    }

    /// Whether all bytes of a generation were given out.
    pub(crate) fn is_sent(&self) -> bool {
        match self {
            Source::Whole(whole) => whole.rest.is_empty(),
            Source::Held(reader) => reader.is_sent(),
            Source::Empty
            | Source::Bytes(_)
            | Source::File(_)
            | Source::List(_)
            | Source::Parts(_)
            | Source::Origin(_) => false,
        }
    }

    /// As [`weir_front::Body::may_let_go`].
    pub(crate) fn may_let_go(&self) -> bool {
        match self {
            Source::Whole(whole) => whole.generation.is_stored_on_disk(),
            Source::Held(reader) => reader.may_let_go(),
            Source::Parts(parts) => parts.may_let_go(),
            Source::Origin(passed) => passed.body.may_give_way(),
            Source::Empty | Source::Bytes(_) | Source::File(_) | Source::List(_) => false,
        }
    }
}

impl Body for Source {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        match self {
            Source::Empty => Ok(None),
            Source::Bytes(bytes) if bytes.is_empty() => Ok(None),
            Source::Bytes(bytes) => Ok(Some(bytes.split_to(bytes.len().min(bytes_max)))),
            Source::Whole(whole) => match whole.next(bytes_max) {
                Ok(piece) => Ok(piece),
                Err(()) => {
                    let refill = whole.refill.take();
                    let mut reader = Box::new(Reader::new(Arc::clone(&whole.generation), whole.rest, refill));
                    let piece = reader.next(bytes_max).await;
                    *self = Source::Held(reader);
                    piece
                }
            },
            Source::Held(reader) => reader.next(bytes_max).await,
            Source::File(reading) => reading.next(bytes_max).await.map_err(|broken| match broken {
                Broken::Changed => Cut { word: "file-changed" },
                Broken::System => Cut { word: "file-failed" },
                Broken::Hangs => Cut { word: "file-hangs" },
            }),
            Source::List(text) => text.next(bytes_max).map_err(|GaveWay| Cut { word: "client-share" }),
            Source::Parts(parts) => parts.next(bytes_max).await,
            Source::Origin(passed) => match passed.body.next().await {
                Ok(bytes) => {
                    passed.counters.origin_bytes(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64));
                    Ok(bytes)
                }
                // It gives way to the stream of another client.
                Err(error @ OriginError::Exchange(ExchangeError::Busy { .. }))
                    if passed.lasts == Lasts::UntilItEnds =>
                {
                    passed.counters.error(error.word());
                    Ok(None)
                }
                Err(error) => Err(Cut { word: error.word() }),
            },
        }
    }
}
