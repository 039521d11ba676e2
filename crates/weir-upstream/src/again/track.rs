//! One attempt of a request at one origin, as a log shows it: where it went, what came back, how it ended. It
//! must not wait. A request without a log makes none of this.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use weir_client::{AttemptEnd, Link, Trace};
use weir_wire::ResponseHead;

use crate::choice::pick::Picked;
use crate::clock;

/// Is told of the attempts of one request, one after another.
pub trait AttemptLog: Debug + Send + Sync {
    /// An attempt has begun, has a connection, or has the head of its response: so far has it come. As
    /// [`AttemptLog::ended`].
    fn under_way(&self, attempt: &Attempt);

    /// An attempt has ended. Called on the runtime that used the connection; it must not wait.
    fn ended(&self, attempt: Attempt);
}

/// An attempt that has ended.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Which attempt of its request it was, from 1 on.
    pub number: u32,
    /// Why the request was sent again: the word of the failure before.
    pub retry: Option<&'static str>,
    /// The origin's name.
    pub origin: Arc<str>,
    /// The address and port, or the path of the unix socket; `None` where none is known.
    pub address: Option<String>,
    /// The connection; `None` where there was none.
    pub connection: Option<Link>,
    /// Why this origin; `None` for a connection that no request asked for.
    pub picked: Option<Picked>,
    /// When it began.
    pub begun: Instant,
    /// From the request's first byte to the first byte of a response.
    pub first_byte: Option<Duration>,
    /// When it ended.
    pub ended: Instant,
    /// The status of the final response.
    pub status: Option<StatusCode>,
    /// Its `Content-Type`.
    pub content_type: Option<HeaderValue>,
    /// Bytes of the request that were sent, inside TLS.
    pub sent_bytes: u64,
    /// Bytes that were received, inside TLS: heads, framing and body, or what came through a tunnel.
    pub received_bytes: u64,
    /// How it ended.
    pub end: AttemptEnd,
}

/// Which attempt of a request comes next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) number: u32,
    pub(crate) retry: Option<&'static str>,
    /// Why its origin was picked.
    pub(crate) picked: Option<Picked>,
}

impl Turn {
    pub(crate) const FIRST: Turn = Turn { number: 1, retry: None, picked: None };

    /// The turn after what this word says.
    pub(crate) fn after(self, word: &'static str) -> Turn {
        Turn { number: self.number + 1, retry: Some(word), ..self }
    }
}

/// An attempt under way. Dropped, it has ended; one that has sent nothing is not told.
#[derive(Debug)]
pub(crate) struct Track {
    log: Arc<dyn AttemptLog>,
    attempt: Option<Attempt>,
    /// When its first byte was sent.
    asked: Option<Instant>,
    /// How it ends where it is dropped.
    if_dropped: AttemptEnd,
}

impl Track {
    /// An attempt began then, at an origin of this name, and of this address if there is only one.
    pub(crate) fn begin(
        log: &Arc<dyn AttemptLog>,
        (origin, address): (&Arc<str>, Option<String>),
        (turn, begun): (Turn, Instant),
    ) -> Box<dyn Trace> {
        let attempt = Attempt {
            number: turn.number,
            retry: turn.retry,
            origin: origin.clone(),
            address,
            connection: None,
            picked: turn.picked,
            begun,
            first_byte: None,
            ended: begun,
            status: None,
            content_type: None,
            sent_bytes: 0,
            received_bytes: 0,
            end: AttemptEnd::Whole,
        };
        log.under_way(&attempt);
        let (log, if_dropped) = (log.clone(), AttemptEnd::Abandoned);
        Box::new(Track { log, attempt: Some(attempt), asked: None, if_dropped })
    }

    fn tell(&mut self, end: AttemptEnd) {
        if let Some(attempt) = self.attempt.take() {
            self.log.ended(Attempt { end, ended: clock::now(), ..attempt });
        }
    }
}

impl Trace for Track {
    fn connected(&mut self, address: Option<String>, link: Link) {
        if let Some(attempt) = &mut self.attempt {
            attempt.address = address.or(attempt.address.take());
            attempt.connection = Some(link);
            self.log.under_way(attempt);
        }
    }

    fn sent(&mut self, bytes: u64) {
        if let Some(attempt) = self.attempt.as_mut().filter(|_| bytes > 0) {
            attempt.sent_bytes += bytes;
            self.asked.get_or_insert_with(clock::now);
        }
    }

    fn received(&mut self, bytes: u64) {
        if let Some(attempt) = self.attempt.as_mut().filter(|_| bytes > 0) {
            attempt.received_bytes += bytes;
            if attempt.first_byte.is_none() {
                let now = clock::now();
                attempt.first_byte = Some(now.saturating_duration_since(self.asked.unwrap_or(now)));
            }
        }
    }

    fn answered(&mut self, head: &ResponseHead) {
        if let Some(attempt) = &mut self.attempt {
            attempt.status = Some(head.status);
            attempt.content_type = head.headers.get(CONTENT_TYPE).cloned();
            self.log.under_way(attempt);
        }
    }

    fn lasts(&mut self) {
        self.if_dropped = AttemptEnd::Whole;
    }

    fn ended(mut self: Box<Self>, end: AttemptEnd) {
        self.tell(end);
    }
}

impl Drop for Track {
    fn drop(&mut self) {
        if self.asked.is_some() {
            self.tell(self.if_dropped);
        }
    }
}
