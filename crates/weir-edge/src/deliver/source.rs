//! The kinds of bodies: bytes at hand, what is kept (a generation that is held or being filled, a file), an
//! origin's stream, and any other. They must not look at heads.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use weir_body::{AnyBody, Body, Cut, Ready, SealedPart, kept};
use weir_files::Reading;
use weir_observe::Counters;
use weir_policy::Interval;
use weir_store::{Blocks, Generation, InUse, Read};
use weir_upstream::{ExchangeError, OriginBody, OriginError};

use super::multipart::Turn;
use crate::plan::Route;
use weir_fill::reader::refill::Refill;
use weir_fill::reader::{Reader, blocks_from};

/// Where a response's bytes come from.
pub(crate) enum Source {
    /// Bytes at hand, or none.
    Ready(Ready),
    /// Bytes that are kept.
    Kept(Kept),
    /// An origin's response that bypasses the store.
    Origin(Box<Passed>),
    /// Any other body. What goes out often has a kind of its own: each piece of this one costs an allocation.
    Made(Box<dyn AnyBody>),
}

/// Bytes that are kept, so that any interval of them can be sent.
pub(crate) enum Kept {
    /// A generation whose body is whole in memory, in blocks or in a file.
    Whole(Whole),
    /// A generation whose body is not, or whose fill still runs.
    Reader(Box<Reader>),
    /// A file.
    File(Box<Reading>),
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

    fn at_hand(&self) -> Option<(&[Bytes], usize, u64)> {
        let blocks = match &self.blocks {
            Some(blocks) => blocks,
            None => self.generation.block()?,
        };
        blocks_from(blocks, self.rest)
    }

    fn sealed(&self) -> Option<SealedPart<'_>> {
        self.generation.file()?.part(self.rest.start..self.rest.end)
    }

    fn advance(&mut self, bytes: u64) {
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

    /// Reads on, `unsent` bytes before, from wherever they are.
    fn reader(&mut self, unsent: u64) -> Box<Reader> {
        let rest = Interval::new(self.rest.start - unsent, self.rest.end);
        Box::new(Reader::new(Arc::clone(&self.generation), rest, self.refill.take()))
    }
}

/// An origin's response, passed on by a route. The route says which of its trailers go out.
pub(crate) struct Passed {
    body: OriginBody,
    /// What has come of it and was not asked for yet.
    came: Bytes,
    route: Arc<Route>,
    /// The counters for received bytes.
    counters: Arc<Counters>,
    lasts: Lasts,
}

impl Passed {
    pub(crate) fn new(body: OriginBody, route: Arc<Route>, counters: Arc<Counters>, lasts: Lasts) -> Passed {
        Passed { body, came: Bytes::new(), route, counters, lasts }
    }
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
    /// No body.
    #[inline]
    pub(crate) const fn empty() -> Source {
        Source::Ready(Ready(Bytes::new()))
    }

    fn body(&self) -> &dyn AnyBody {
        match self {
            Source::Ready(ready) => ready,
            Source::Kept(kept) => kept,
            Source::Origin(passed) => &**passed,
            Source::Made(made) => &**made,
        }
    }

    fn body_mut(&mut self) -> &mut dyn AnyBody {
        match self {
            Source::Ready(ready) => ready,
            Source::Kept(kept) => kept,
            Source::Origin(passed) => &mut **passed,
            Source::Made(made) => &mut **made,
        }
    }
}

impl Body for Source {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        match self {
            Source::Ready(ready) => ready.next(bytes_max).await,
            Source::Kept(kept) => kept.next(bytes_max).await,
            Source::Origin(passed) => passed.next(bytes_max).await,
            Source::Made(made) => made.next_boxed(bytes_max).await,
        }
    }

    fn at_hand(&self) -> Option<(&[Bytes], usize, u64)> {
        self.body().at_hand()
    }

    fn sealed(&self) -> Option<SealedPart<'_>> {
        self.body().sealed()
    }

    fn advance(&mut self, bytes: u64) {
        self.body_mut().advance(bytes);
    }

    fn let_go(&mut self, unsent: Bytes) -> Option<Bytes> {
        let unsent = self.body_mut().let_go(unsent);
        if unsent.is_none() && matches!(self, Source::Kept(kept) if kept.is_sent()) {
            *self = Source::empty();
        }
        unsent
    }

    fn may_let_go(&self) -> bool {
        self.body().may_let_go()
    }

    fn holds_origin(&self) -> bool {
        self.body().holds_origin()
    }

    fn trailers(&mut self) -> Option<HeaderMap> {
        self.body_mut().trailers()
    }
}

impl Kept {
    /// Whether all bytes of a generation were given out.
    fn is_sent(&self) -> bool {
        match self {
            Kept::Whole(whole) => whole.rest.is_empty(),
            Kept::Reader(reader) => reader.is_sent(),
            Kept::File(_) => false,
        }
    }
}

impl Turn for Kept {
    fn turn_to(&mut self, of: Interval) {
        match self {
            Kept::Whole(whole) => whole.rest = of,
            Kept::Reader(reader) => reader.turn_to(of),
            Kept::File(reading) => reading.turn_to((of.start, of.end)),
        }
    }
}

impl Body for Kept {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        loop {
            match self {
                Kept::Whole(whole) => match whole.next(bytes_max) {
                    Ok(piece) => return Ok(piece),
                    Err(()) => *self = Kept::Reader(whole.reader(0)),
                },
                Kept::Reader(reader) => return reader.next(bytes_max).await,
                Kept::File(reading) => return reading.next(bytes_max).await,
            }
        }
    }

    fn at_hand(&self) -> Option<(&[Bytes], usize, u64)> {
        match self {
            Kept::Whole(whole) => whole.at_hand(),
            Kept::Reader(reader) => reader.at_hand(),
            Kept::File(reading) => reading.at_hand(),
        }
    }

    fn sealed(&self) -> Option<SealedPart<'_>> {
        match self {
            Kept::Whole(whole) => whole.sealed(),
            Kept::Reader(reader) => reader.sealed(),
            Kept::File(reading) => reading.sealed(),
        }
    }

    fn advance(&mut self, bytes: u64) {
        match self {
            Kept::Whole(whole) => whole.advance(bytes),
            Kept::Reader(reader) => reader.advance(bytes),
            Kept::File(reading) => reading.advance(bytes),
        }
    }

    fn let_go(&mut self, unsent: Bytes) -> Option<Bytes> {
        match self {
            Kept::Whole(whole) if whole.generation.is_stored_on_disk() => {
                let mut reader = whole.reader(unsent.len() as u64);
                reader.let_go(Bytes::new());
                *self = Kept::Reader(reader);
                None
            }
            Kept::Whole(_) => kept(unsent),
            Kept::Reader(reader) => reader.let_go(unsent),
            Kept::File(reading) => reading.let_go(unsent),
        }
    }

    fn may_let_go(&self) -> bool {
        match self {
            Kept::Whole(whole) => whole.generation.is_stored_on_disk(),
            Kept::Reader(reader) => reader.may_let_go(),
            Kept::File(reading) => reading.may_let_go(),
        }
    }

    fn holds_origin(&self) -> bool {
        matches!(self, Kept::Reader(reader) if reader.holds_origin())
    }
}

impl Body for Passed {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        if self.came.is_empty() {
            match self.body.next().await {
                Ok(None) => return Ok(None),
                Ok(Some(bytes)) => self.came = bytes,
                // It gives way to the stream of another client.
                Err(error @ OriginError::Exchange(ExchangeError::Busy { .. }))
                    if self.lasts == Lasts::UntilItEnds =>
                {
                    self.counters.error(error.word());
                    return Ok(None);
                }
                Err(error) => return Err(Cut { word: error.word() }),
            }
            self.counters.origin_bytes(self.came.len() as u64);
        }
        Ok(Some(self.came.split_to(self.came.len().min(bytes_max))))
    }

    fn let_go(&mut self, unsent: Bytes) -> Option<Bytes> {
        if self.came.is_empty() {
            return kept(self.body.let_go(unsent));
        }
        self.came = self.body.let_go(std::mem::take(&mut self.came));
        // It may be a small part of the same buffer.
        kept(Bytes::copy_from_slice(&unsent))
    }

    fn may_let_go(&self) -> bool {
        self.body.may_give_way()
    }

    fn holds_origin(&self) -> bool {
        true
    }

    fn trailers(&mut self) -> Option<HeaderMap> {
        let mut trailers = self.body.trailers()?;
        self.route.strip_response(&mut trailers);
        Some(trailers)
    }
}
