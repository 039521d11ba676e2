//! Who is told what happens on a connection. None of it may wait, and all is called on the runtime that uses
//! the connection. Bytes are counted inside TLS.

use std::fmt::Debug;
use std::time::Duration;

use weir_wire::ResponseHead;

/// Charges traffic with an origin to somebody while it happens.
pub trait Tally: Debug + Send + Sync {
    /// The first byte of a request was sent. Each retry counts.
    fn sent(&self);

    /// So many bytes were read: heads, framing and body of a response, or what comes through a tunnel.
    fn received(&self, bytes: u64);
}

/// Counts the bytes of one origin, both ways.
pub trait Meter: Debug + Send + Sync {
    /// So many were sent or received.
    fn moved(&self, bytes: u64);
}

/// Follows one attempt of a request. Dropped, it takes the attempt for abandoned.
pub trait Trace: Debug + Send + Sync {
    /// It has a connection, to this address if that is known.
    fn connected(&mut self, address: Option<String>, link: Link);

    /// So many bytes were sent.
    fn sent(&mut self, bytes: u64);

    /// So many bytes were received.
    fn received(&mut self, bytes: u64);

    /// The head of the final response.
    fn answered(&mut self, head: &ResponseHead);

    /// From here on it ends well whenever it is dropped.
    fn lasts(&mut self);

    /// It has ended.
    fn ended(self: Box<Self>, end: AttemptEnd);
}

/// The connection of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// It was made for the attempt, and that took so long.
    New(Duration),
    /// It had served other requests.
    Reused,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The response came whole. Or a tunnel has ended.
    Whole,
    /// It failed: the word of [`crate::ExchangeError::word`].
    Failed(&'static str),
    /// Weir ended it: nobody needs the rest.
    Abandoned,
}
