//! The bodies there are: nothing, bytes at hand, a held generation, the tail of a running fill, an
//! origin's stream, several parts of a held or running one. They must not look at heads.

use std::sync::Arc;

use bytes::Bytes;
use weir_observe::Counters;
use weir_policy::Interval;
use weir_store::{BLOCK_BYTES, Generation, Piece, Place, Read};
use weir_upstream::OriginBody;

use super::multipart::Multipart;
use super::{Body, Cut, bytes_of};
use crate::fill::tail::Tail;
use crate::parts::{Next, Refill};
use crate::plan::Route;

/// Where a response's bytes come from.
pub(crate) enum Source {
    /// No body.
    Empty,
    /// Bytes at hand.
    Bytes(Bytes),
    /// A generation: whole, in part, or while its fill runs.
    Held(Held),
    /// Several parts of one.
    Parts(Box<Multipart>),
    /// An origin's response that is passed on.
    Origin(Box<Passed>),
}

/// An origin's response, passed on by a route, which says what of its trailers goes out.
pub(crate) struct Passed {
    pub(crate) body: OriginBody,
    pub(crate) route: Arc<Route>,
    /// Where what comes is counted.
    pub(crate) counters: Arc<Counters>,
}

impl Source {
    /// Goes on with other bytes `of` the same generation; bytes that belong to none stay as they are.
    pub(crate) fn turn_to(&mut self, of: Interval) {
        match self {
            Source::Held(held) => held.turn_to(of),
            Source::Empty | Source::Bytes(_) | Source::Parts(_) | Source::Origin(..) => {}
        }
    }
}

/// An interval of a generation that is whole, or whose missing parts can be brought.
pub(crate) struct Held {
    generation: Arc<Generation>,
    rest: Interval,
    place: Place,
    refill: Option<Box<Refill>>,
    /// A running fill that it goes on with.
    tail: Option<Box<Tail>>,
}

impl Held {
    /// The bytes `of` a generation.
    pub(crate) fn new(generation: Arc<Generation>, of: Interval, refill: Option<Box<Refill>>) -> Held {
        Held { generation, rest: of, place: Place::default(), refill, tail: None }
    }

    fn turn_to(&mut self, of: Interval) {
        self.rest = of;
        match (&mut self.refill, &mut self.tail) {
            // Whether the fill is waited for is decided anew.
            (Some(refill), tail) => {
                *tail = None;
                refill.turn();
            }
            (None, Some(tail)) => tail.turn_to(of),
            (None, None) => {}
        }
    }

    /// The generation's blocks from here on, and how many of their bytes are wanted; none while it is not
    /// sealed, or when all is sent.
    pub(crate) fn blocks(&self) -> Option<(&[Bytes], usize, u64)> {
        let blocks = self.generation.blocks()?;
        let block = usize::try_from(self.rest.start / BLOCK_BYTES as u64).ok()?;
        let within = (self.rest.start % BLOCK_BYTES as u64) as usize;
        Some((blocks.get(block..)?, within, self.rest.end - self.rest.start))
    }

    /// Notes that so many bytes were sent.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.rest.start += bytes;
    }

    /// The bytes `of` a generation that a fill brings, and what brings the rest where that stops before its end.
    pub(crate) fn filling(
        generation: Arc<Generation>,
        of: Interval,
        tail: Tail,
        refill: Option<Box<Refill>>,
    ) -> Held {
        Held { generation, rest: of, place: Place::default(), refill, tail: Some(Box::new(tail)) }
    }

    /// The next piece; waits for the volume, and for an origin where something is missing.
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Piece>, Cut> {
        loop {
            if let Some(tail) = &mut self.tail {
                match tail.next(bytes_max).await {
                    Ok(Some(piece)) => return Ok(Some(self.take(piece))),
                    Ok(None) => return Ok(None),
                    // Its fill has stopped at what others fetch: what is missing is brought as that of any part.
                    Err(_) if self.refill.is_some() && tail.is_stopped() => self.tail = None,
                    Err(cut) => return Err(cut),
                }
            }
            let left = self.rest.end - self.rest.start;
            if left == 0 {
                return Ok(None);
            }
            let bytes_max = usize::try_from(left).map_or(bytes_max, |left| left.min(bytes_max));
            if let Some(piece) = self.at_hand(bytes_max).await {
                return Ok(Some(self.take(piece)));
            }
            let gone = Cut { word: "generation-gone" };
            match self.refill.as_mut().ok_or(gone)?.next(&self.generation, self.rest, bytes_max).await? {
                Next::Piece(piece) => return Ok(Some(self.take(piece))),
                Next::Look => {}
                Next::Tail(tail) => self.tail = Some(tail),
            }
        }
    }

    /// What is held from here on, in memory or on the volume.
    async fn at_hand(&mut self, bytes_max: usize) -> Option<Piece> {
        match self.generation.read(self.rest.start, bytes_max) {
            Read::Piece(piece) => Some(piece),
            // What a transfer may yet come to others can have brought already, and it may be on the volume alone by now.
            Read::NotYet if self.is_held_below() => self.below(bytes_max).await,
            Read::Gone if self.generation.is_below() => self.below(bytes_max).await,
            Read::End | Read::NotYet | Read::Gone => None,
        }
    }

    fn is_held_below(&self) -> bool {
        let first = Interval::new(self.rest.start, self.rest.start + 1);
        self.generation.is_below() && self.generation.gap(first).is_none()
    }

    async fn below(&mut self, bytes_max: usize) -> Option<Piece> {
        self.generation.fetch(&mut self.place, self.rest.start, bytes_max).await.ok().flatten()
    }

    fn take(&mut self, piece: Piece) -> Piece {
        self.rest.start += bytes_of(&piece).len() as u64;
        if let Some(refill) = &mut self.refill {
            refill.moved(&self.generation, self.rest);
        }
        piece
    }
}

impl Source {
    /// Whether a connection to an origin waits for whoever reads this.
    pub(crate) fn holds_origin(&self) -> bool {
        match self {
            Source::Origin(..) => true,
            Source::Held(held) => held.tail.as_ref().is_some_and(|tail| tail.is_waited_for()),
            Source::Empty | Source::Bytes(_) | Source::Parts(_) => false,
        }
    }
}

impl Body for Source {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Piece>, Cut> {
        match self {
            Source::Empty => Ok(None),
            Source::Bytes(bytes) if bytes.is_empty() => Ok(None),
            Source::Bytes(bytes) => Ok(Some(Piece::Bytes(bytes.split_to(bytes.len().min(bytes_max))))),
            Source::Held(held) => held.next(bytes_max).await,
            Source::Parts(parts) => parts.next(bytes_max).await,
            Source::Origin(passed) => match passed.body.next().await {
                Ok(bytes) => {
                    passed.counters.origin_bytes(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64));
                    Ok(bytes.map(Piece::Bytes))
                }
                Err(error) => Err(Cut { word: error.word() }),
            },
        }
    }
}
