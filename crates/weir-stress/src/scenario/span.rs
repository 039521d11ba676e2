//! What of a turn is measured, where it is not all of it: from where its preparation is over to where its
//! work is done. Warming a cache, and asking later what it has kept, is not what a server is compared by.

use crate::scenario::process::Usage;

/// What was used and sent until a moment of a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    /// Of the server, where its process is known.
    pub(crate) usage: Option<Usage>,
    /// Requests to the origin, and bytes of content from it.
    pub(crate) origin: (u64, u64),
}

/// The measured part of a turn.
#[derive(Debug, Default)]
pub(crate) struct Span {
    begun: Option<Point>,
    ended: Option<Point>,
}

impl Span {
    pub(crate) fn begin(&mut self, now: Point) {
        *self = Self { begun: Some(now), ended: None };
    }

    pub(crate) fn end(&mut self, now: Point) {
        self.ended = self.begun.map(|_| now);
    }

    /// Its beginning and its end, if the module has said both.
    pub(crate) fn points(&self) -> Option<(Point, Point)> {
        self.begun.zip(self.ended)
    }
}
