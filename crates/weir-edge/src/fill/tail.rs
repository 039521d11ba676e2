//! Reading a generation while its fill runs. A reader that fell behind the window goes on with a request
//! of its own (`Range` with `If-Range`), where the generation has a strong validator; otherwise it is cut.
//! It must never mix two versions of a body.

use std::sync::Arc;
use std::time::Duration;

use weir_clock as clock;
use weir_policy::Interval;
use weir_store::{Generation, Piece, Place, Read, Store};
use weir_upstream::OriginBody;

use super::again::{Again, Rest};
use super::machine::{End, State};
use super::{Fill, Seat, is_windowed};
use crate::deliver::{Body, Cut, bytes_of};

/// How long a reader waits at most for what is being written to the volume.
const BELOW_WAIT_MAX: Duration = Duration::from_secs(2);

/// An interval of a generation that is being filled.
pub(crate) struct Tail {
    /// None once the reader goes on by itself.
    seat: Option<Seat>,
    generation: Arc<Generation>,
    rest: Interval,
    again: Arc<Again>,
    own: Option<OriginBody>,
    store: Store,
    place: Place,
}

impl Tail {
    /// Reads the interval `of` a generation; `of.end` is `u64::MAX` where the length is not known.
    pub(crate) fn new(
        seat: Seat,
        generation: Arc<Generation>,
        of: Interval,
        again: Arc<Again>,
        store: Store,
    ) -> Tail {
        Tail { seat: Some(seat), generation, rest: of, again, own: None, store, place: Place::default() }
    }

    /// Goes on with other bytes `of` the same generation.
    pub(crate) fn turn_to(&mut self, of: Interval) {
        (self.rest, self.own) = (of, None);
    }

    /// Whether its fill has stopped where others go on.
    pub(crate) fn is_stopped(&self) -> bool {
        let state = self.seat.as_ref().map(|seat| seat.fill().machine().state());
        matches!(state, Some(State::Ended(End::Stopped)))
    }

    /// Whether a connection to an origin waits for this reader: its own, or that of a fill that only a window is kept of and that
    /// nobody else reads.
    pub(crate) fn is_waited_for(&self) -> bool {
        let is_alone = |seat: &Seat| seat.fill().machine().readers() == 1;
        self.own.is_some() || is_windowed(&self.generation) && self.seat.as_ref().is_some_and(is_alone)
    }

    fn take(&mut self, piece: Piece) -> Piece {
        self.rest.start += bytes_of(&piece).len() as u64;
        if let Some(seat) = &self.seat {
            seat.fill().advance(self.rest.start, &self.generation);
        }
        piece
    }

    async fn wait(&self, bytes_max: usize) -> Read {
        let (generation, start) = (&self.generation, self.rest.start);
        let Some(seat) = &self.seat else { return Read::Gone };
        // A reader whose interval lies ahead of a window pulls it on, as one does that has read everything.
        seat.fill().advance(start, generation);
        seat.fill().wait(seat.core(), || look(seat.fill(), generation, start, bytes_max)).await
    }

    fn is_held_below(&self) -> bool {
        let first = Interval::new(self.rest.start, self.rest.start + 1);
        self.generation.is_below() && self.generation.gap(first).is_none()
    }

    async fn fetch(&mut self, bytes_max: usize) -> Option<Piece> {
        self.generation.fetch(&mut self.place, self.rest.start, bytes_max).await.ok().flatten()
    }

    /// What the window has left behind, from the volume. What was written to it a moment ago is waited for.
    async fn below(&mut self, bytes_max: usize) -> Option<Piece> {
        if !self.generation.is_stored_below() {
            return None;
        }
        let until = clock::mono() + BELOW_WAIT_MAX;
        loop {
            let (store, at) = (&self.store, self.rest.start);
            // Listened for first: what is written from here on wakes.
            let more = store.writing(&self.generation).map(|writing| writing.more());
            if let Ok(Some(piece)) = store.fetch_below(&self.generation, &mut self.place, at, bytes_max).await
            {
                return Some(piece);
            }
            let left = until.saturating_duration_since(clock::mono());
            tokio::time::timeout(left, more?).await.ok()?;
        }
    }

    /// The rest from the origin, if it still has the same version.
    async fn ask_again(&mut self) -> Result<OriginBody, Cut> {
        // The fill need not go on for a reader that it has lost.
        self.seat = None;
        let rest = self.again.rest(&self.generation, self.rest.start).await;
        let Rest { body, length } = rest.ok_or(Cut { word: "reader-behind" })?;
        self.rest.end = self.rest.end.min(length);
        Ok(body)
    }

    async fn next_own(&mut self) -> Result<Option<Piece>, Cut> {
        let Some(own) = &mut self.own else { return Ok(None) };
        let bytes = own.next().await.map_err(|error| Cut { word: error.word() })?;
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut bytes = bytes.ok_or(Cut { word: "rest-too-short" })?;
        let left = usize::try_from(self.rest.end - self.rest.start).unwrap_or(usize::MAX);
        bytes.truncate(left);
        self.rest.start += bytes.len() as u64;
        Ok(Some(Piece::Bytes(bytes)))
    }

    fn failure(&self) -> Cut {
        Cut { word: self.seat.as_ref().map_or("reader-behind", |seat| seat.fill().failure_word()) }
    }
}

/// What a reader finds at an offset; nothing where it has to wait.
pub(super) fn look(fill: &Fill, generation: &Generation, start: u64, bytes_max: usize) -> Option<Read> {
    // In this order: what has come before the end is seen. What others bring is not waited for here.
    let has_ended = matches!(fill.machine().state(), State::Ended(_));
    match generation.read(start, bytes_max) {
        Read::NotYet => has_ended.then_some(Read::Gone),
        read => Some(read),
    }
}

impl Body for Tail {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Piece>, Cut> {
        loop {
            let left = self.rest.end - self.rest.start;
            if left == 0 {
                return Ok(None);
            }
            if self.own.is_some() {
                return self.next_own().await;
            }
            let bytes_max = usize::try_from(left).map_or(bytes_max, |left| left.min(bytes_max));
            let read = match self.generation.read(self.rest.start, bytes_max) {
                // What others have brought beside the fill leaves memory once it is on the volume, and what it has brought too.
                Read::NotYet | Read::Gone if self.is_held_below() => match self.fetch(bytes_max).await {
                    Some(piece) => return Ok(Some(self.take(piece))),
                    None => self.wait(bytes_max).await,
                },
                Read::NotYet => self.wait(bytes_max).await,
                read => read,
            };
            match read {
                Read::Piece(piece) => return Ok(Some(self.take(piece))),
                Read::End => return Ok(None),
                Read::NotYet => {}
                Read::Gone if is_windowed(&self.generation) => match self.below(bytes_max).await {
                    Some(piece) => return Ok(Some(self.take(piece))),
                    None => self.own = Some(self.ask_again().await?),
                },
                Read::Gone => return Err(self.failure()),
            }
        }
    }
}
