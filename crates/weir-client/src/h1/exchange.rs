//! One exchange up to the response head: sends the request, passes interim responses on, reads the final
//! head.
//!
//! Sending and reading go on at the same time in one task, so that an early response is seen while the body
//! is still being sent (RFC 9112 §9.5). Anything unexpected ends in a [`Failure`], after which the connection
//! is dropped.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::{CONNECTION, EXPECT, UPGRADE};
use weir_wire::{Limits, Malformed, Persistence, ResponseHead, ResponseReader};

use crate::clock;
use crate::connection::{Connection, Want};
use crate::error::ExchangeError;
use crate::exchange::{Failure, Kind, Stage, Terms};
use crate::h1::outgoing::{Outgoing, SendError, Sending};
use crate::message::{Interim, RequestHead};
use crate::settings::Bounds;

/// The limits of a head and of trailers.
pub(crate) fn limits(bounds: &Bounds) -> Limits {
    let origin = Limits::origin();
    Limits { head_bytes_max: bounds.head_bytes_max, fields_max: bounds.fields_max, ..origin }
}

/// Sends the request, and reads up to the final response head. What is not sent by then stays in `outgoing`.
/// Returns the head with the time that it took from the last byte sent.
///
/// # Errors
/// The failure says how far the exchange came, which the retry table asks for.
///
/// # Cancel safety
/// The connection must be dropped if this is.
pub(crate) async fn exchange(
    connection: &mut Connection,
    outgoing: &mut Outgoing,
    terms: &Terms<'_>,
) -> Result<(ResponseHead, Duration), Failure> {
    let mut state = State {
        kind: if connection.served == 0 { Kind::Fresh } else { Kind::Reused },
        reader: ResponseReader::new(limits(terms.bounds)),
        answered: false,
        sending: Progress::Sending,
        interims: 0,
        moved_at: clock::now(),
    };
    match poll_fn(|cx| state.poll(cx, connection, outgoing, terms)).await {
        Ok(head) => Ok((head, clock::now().saturating_duration_since(state.moved_at))),
        Err(error) => Err(Failure { error, stage: stage(&state, outgoing), kind: state.kind }),
    }
}

fn stage(state: &State, outgoing: &Outgoing) -> Stage {
    match (state.answered, outgoing.sent_bytes) {
        (true, _) => Stage::Answered,
        (false, 0) => Stage::NothingSent,
        (false, _) => Stage::Sent,
    }
}

enum Progress {
    Sending,
    Sent,
    /// The stream failed, but a response may be there to be read.
    Broken,
}

struct State {
    kind: Kind,
    reader: ResponseReader,
    answered: bool,
    sending: Progress,
    interims: usize,
    moved_at: Instant,
}

impl State {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        outgoing: &mut Outgoing,
        terms: &Terms<'_>,
    ) -> Poll<Result<ResponseHead, ExchangeError>> {
        let blocked = match self.send(cx, connection, outgoing) {
            Ok(sending) => sending,
            Err(error) => return Poll::Ready(Err(error)),
        };
        match self.read(cx, connection, terms) {
            Ok(Some(head)) => return Poll::Ready(Ok(head)),
            Err(error) => return Poll::Ready(Err(error)),
            Ok(None) => {}
        }
        let (limit, late) = match blocked {
            Sending::Done => (terms.timeouts.first_byte, ExchangeError::FirstByteTimeout),
            Sending::Blocked => (terms.timeouts.between_bytes, ExchangeError::WriteTimeout),
            // The client that sends the body has a limit of its own.
            Sending::Starved => return Poll::Pending,
        };
        connection.timer.poll(cx, self.moved_at + limit).map(|()| Err(late))
    }

    fn send(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        outgoing: &mut Outgoing,
    ) -> Result<Sending, ExchangeError> {
        if !matches!(self.sending, Progress::Sending) {
            return Ok(Sending::Done);
        }
        let before = outgoing.sent_bytes;
        let result = outgoing.poll_send(cx, &mut connection.transport);
        if outgoing.sent_bytes > before {
            self.moved_at = clock::now();
            connection.sent(outgoing.sent_bytes - before);
        }
        if let Some(tally) = connection.tally.as_ref().filter(|_| before == 0 && outgoing.sent_bytes > 0) {
            tally.sent();
        }
        match result {
            Ok(Sending::Done) => {
                self.sending = Progress::Sent;
                Ok(Sending::Done)
            }
            Ok(Sending::Starved) => {
                // Waiting for the client does not count against the origin: its time begins again with the
                // next byte.
                self.moved_at = clock::now();
                Ok(Sending::Starved)
            }
            Ok(Sending::Blocked) => Ok(Sending::Blocked),
            Err(SendError::Aborted) => Err(ExchangeError::BodyAborted),
            Err(SendError::Stream) => {
                self.sending = Progress::Broken;
                Ok(Sending::Done)
            }
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        terms: &Terms<'_>,
    ) -> Result<Option<ResponseHead>, ExchangeError> {
        loop {
            while let Some(mut head) =
                self.reader.read(&mut connection.incoming, terms.request.method).map_err(malformed)?
            {
                if matches!(self.sending, Progress::Broken) {
                    head.persistence = Persistence::Close;
                }
                if self.is_final(&head, terms)? {
                    return Ok(Some(head));
                }
            }
            match connection.poll_fill(cx, Want::Head) {
                Poll::Pending => return Ok(None),
                Poll::Ready(Ok(0)) => return Err(self.ended(connection)),
                Poll::Ready(Ok(_)) => {
                    self.answered = true;
                    terms.answers.into_iter().for_each(|answers| answers.store(true, Ordering::Relaxed));
                }
                Poll::Ready(Err(error)) => return Err(broken(error, || self.ended(connection))),
            }
        }
    }

    /// The stream ended: before a response, or inside its head.
    fn ended(&self, connection: &Connection) -> ExchangeError {
        if self.answered || !connection.incoming.is_empty() {
            ExchangeError::Incomplete
        } else {
            ExchangeError::Terminated
        }
    }

    /// Whether this is the final response. Interim ones are passed on (RFC 9110 §15.2).
    fn is_final(&mut self, head: &ResponseHead, terms: &Terms<'_>) -> Result<bool, ExchangeError> {
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let whole = matches!(self.sending, Progress::Sent);
            return if whole && is_asked_for(head, &terms.request) {
                Ok(true)
            } else {
                Err(ExchangeError::Upgrade)
            };
        }
        if !head.status.is_informational() {
            return Ok(true);
        }
        self.interims += 1;
        if self.interims > terms.bounds.interim_max {
            return Err(ExchangeError::Malformed { reason: "too-many-interim-responses" });
        }
        let expected = head.status != StatusCode::CONTINUE || terms.request.headers.contains_key(EXPECT);
        if expected && let Some(to) = terms.interim {
            // Where nobody listens any more, the final response still matters.
            let _ = to.send(Box::new(Interim { status: head.status, headers: head.headers.clone() }));
        }
        Ok(false)
    }
}

/// RFC 9110 §7.8: the origin switches to a protocol that was named, and says to which.
fn is_asked_for(head: &ResponseHead, request: &RequestHead<'_>) -> bool {
    let Some(wanted) = request.upgrade.and_then(|value| value.to_str().ok()) else { return false };
    let Some(chosen) = head.headers.get(UPGRADE).and_then(|value| value.to_str().ok()) else { return false };
    let named = head.headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named =
        named.flat_map(|value| value.split(',')).any(|name| name.trim().eq_ignore_ascii_case("upgrade"));
    let mut chosen = chosen.split(',').map(str::trim);
    named && chosen.all(|one| wanted.split(',').any(|other| other.trim().eq_ignore_ascii_case(one)))
}

/// The error of a head or body that the codec refuses.
pub(crate) fn malformed(fault: Malformed) -> ExchangeError {
    let reason = fault.reason();
    match reason {
        "head-too-large" | "too-many-fields" | "line-too-long" => ExchangeError::HeadTooLarge { reason },
        _ if fault.is_truncation() => ExchangeError::Incomplete,
        _ => ExchangeError::Malformed { reason },
    }
}

/// The error of a failed read: that of TLS, or `ended` where the connection was reset.
pub(crate) fn broken(error: io::Error, ended: impl FnOnce() -> ExchangeError) -> ExchangeError {
    let tls = error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
    if tls { crate::connect::handshake(error) } else { ended() }
}
