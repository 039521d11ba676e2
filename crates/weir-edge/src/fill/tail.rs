//! Reading a generation while its fill runs. A reader that fell behind the window goes on with a request
//! of its own (`Range` with `If-Range`), where the generation has a strong validator; otherwise it is cut.
//! It must never mix two versions of a body.

use std::sync::Arc;

use http::header::{CONTENT_RANGE, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, StatusCode};
use weir_policy::Interval;
use weir_store::{Generation, Piece, Read};
use weir_upstream::{OriginBody, OriginRequest, Upstream};

use super::machine::Event;
use super::{Seat, is_windowed};
use crate::deliver::{Body, Cut, bytes_of};

/// How to ask the origin for the rest.
#[derive(Clone)]
pub(crate) struct Again {
    /// Whom to ask.
    pub(crate) upstream: Arc<Upstream>,
    /// Path and query as sent.
    pub(crate) target: String,
    /// The fill's request fields.
    pub(crate) headers: HeaderMap,
}

/// An interval of a generation that is being filled.
pub(crate) struct Tail {
    seat: Seat,
    generation: Arc<Generation>,
    rest: Interval,
    again: Again,
    own: Option<OriginBody>,
}

impl Tail {
    /// Reads the interval `of` a generation; `of.end` is `u64::MAX` where the length is not known.
    pub(crate) fn new(seat: Seat, generation: Arc<Generation>, of: Interval, again: Again) -> Tail {
        Tail { seat, generation, rest: of, again, own: None }
    }

    fn take(&mut self, piece: Piece) -> Piece {
        self.rest.start += bytes_of(&piece).len() as u64;
        if is_windowed(&self.generation) {
            self.seat.fill().apply(Event::Advanced(self.rest.start));
        }
        piece
    }

    async fn wait(&self, bytes_max: usize) -> Read {
        let (generation, start) = (&self.generation, self.rest.start);
        let fill = self.seat.fill();
        fill.wait(self.seat.core(), || match generation.read(start, bytes_max) {
            Read::NotYet => None,
            read => Some(read),
        })
        .await
    }

    /// The rest from the origin, if it still has the same version.
    async fn ask_again(&self) -> Result<OriginBody, Cut> {
        let behind = Cut { word: "reader-behind" };
        let head = self.generation.head();
        let etag = head.stored.headers.get(ETAG).filter(|etag| !etag.as_bytes().starts_with(b"W/"));
        let mut headers = self.again.headers.clone();
        headers.insert(IF_RANGE, etag.ok_or(behind)?.clone());
        let range = HeaderValue::try_from(format!("bytes={}-", self.rest.start)).map_err(|_| behind)?;
        headers.insert(RANGE, range);
        let request = OriginRequest::new(http::Method::GET, self.again.target.clone(), headers);
        let answer = self.again.upstream.send(request, None).await.map_err(|_| behind)?;
        let same = answer.headers.get(ETAG).is_none_or(|now| Some(now) == etag);
        let from_here = answer.headers.get(CONTENT_RANGE).is_some_and(|value| {
            value.as_bytes().starts_with(format!("bytes {}-", self.rest.start).as_bytes())
        });
        if answer.status == StatusCode::PARTIAL_CONTENT && same && from_here {
            Ok(answer.body)
        } else {
            Err(behind)
        }
    }

    async fn next_own(&mut self) -> Result<Option<Piece>, Cut> {
        let Some(own) = &mut self.own else { return Ok(None) };
        let bytes = own.next().await.map_err(|error| Cut { word: error.word() })?;
        let Some(mut bytes) = bytes else { return Ok(None) };
        let left = usize::try_from(self.rest.end - self.rest.start).unwrap_or(usize::MAX);
        bytes.truncate(left);
        self.rest.start += bytes.len() as u64;
        Ok(if bytes.is_empty() { None } else { Some(Piece::Bytes(bytes)) })
    }
}

impl Body for Tail {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Piece>, Cut> {
        loop {
            if self.own.is_some() {
                return self.next_own().await;
            }
            let left = self.rest.end - self.rest.start;
            if left == 0 {
                return Ok(None);
            }
            let bytes_max = usize::try_from(left).map_or(bytes_max, |left| left.min(bytes_max));
            let read = match self.generation.read(self.rest.start, bytes_max) {
                Read::NotYet => self.wait(bytes_max).await,
                read => read,
            };
            match read {
                Read::Piece(piece) => return Ok(Some(self.take(piece))),
                Read::End => return Ok(None),
                Read::NotYet => {}
                Read::Gone if is_windowed(&self.generation) => self.own = Some(self.ask_again().await?),
                Read::Gone => return Err(Cut { word: self.seat.fill().failure_word() }),
            }
        }
    }
}
