//! The bodies there are: nothing, bytes at hand, a generation that is held or running, an
//! origin's stream, several parts of a generation. They must not look at heads.

use std::sync::Arc;

use bytes::Bytes;
use weir_observe::Counters;
use weir_policy::Interval;
use weir_store::Piece;
use weir_upstream::OriginBody;

use super::multipart::Multipart;
use super::{Body, Cut};
use crate::fill::reader::Reader;
use crate::plan::Route;

/// Where a response's bytes come from.
pub(crate) enum Source {
    /// No body.
    Empty,
    /// Bytes at hand.
    Bytes(Bytes),
    /// A generation: whole, in part, or while its fill runs.
    Held(Reader),
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
            Source::Held(reader) => reader.turn_to(of),
            Source::Empty | Source::Bytes(_) | Source::Parts(_) | Source::Origin(..) => {}
        }
    }
}

impl Source {
    /// Whether a connection to an origin waits for whoever reads this.
    pub(crate) fn holds_origin(&self) -> bool {
        match self {
            Source::Origin(..) => true,
            Source::Held(reader) => reader.is_waited_for(),
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
            Source::Held(reader) => reader.next(bytes_max).await,
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
