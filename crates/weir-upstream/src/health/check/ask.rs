//! One check of one origin: a connection of its own, a request on it, and what comes back compared with what
//! is expected. It must not use the connections of requests, nor hold more of a response than its head and
//! a window of its body.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use tokio::time::{Instant, timeout_at};
use weir_wire::{BodyPart, BodyReader, ResponseHead};

use crate::again::attempt::new_connection;
use crate::again::track::{AttemptEnd, AttemptLog, Turn};
use crate::client::connection::{Connection, Want};
use crate::client::exchange::{Terms, broken, exchange, limits, malformed};
use crate::client::outgoing::Outgoing;
use crate::clock;
use crate::error::OriginError;
use crate::health::ejection::Suspect;
use crate::origin::Origin;
use crate::request::OriginRequest;
use crate::settings::{Bounds, CheckAsk, CheckRequest, Timeouts};

/// The largest body of a response that passes.
pub(crate) const BODY_BYTES_MAX: u64 = 256 * 1024;
/// The largest head that passes, where the upstream allows more.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Makes the log of a check; `None` where nobody reads it. It is given the request, if the check sends one.
pub type CheckLog = Arc<dyn Fn(Option<&OriginRequest>) -> Option<Arc<dyn AttemptLog>> + Send + Sync>;

/// Why a check has failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// No response, or not a whole one.
    Origin(OriginError),
    /// It took too long.
    Late(Duration),
    /// A status that does not pass.
    Status(u16),
    /// The body does not contain what it must.
    Body,
    /// The body is too large.
    Huge,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Origin(error) => out.write_str(error.word()),
            Fault::Late(limit) => write!(out, "no whole response within {} ms", limit.as_millis()),
            Fault::Status(status) => write!(out, "status {status}"),
            Fault::Body => out.write_str("the body lacks the expected text"),
            Fault::Huge => write!(out, "a body of more than {} KiB", BODY_BYTES_MAX / 1024),
        }
    }
}

/// Checks an origin.
///
/// # Errors
/// Why the check has failed.
///
/// # Cancel safety
/// Dropped, it closes its connection.
pub(crate) async fn ask(
    origin: &Origin,
    (ask, limit): (&CheckAsk, Duration),
    bounds: &Bounds,
    log: &CheckLog,
) -> Result<(), Fault> {
    let deadline = Instant::now() + limit;
    let request = match ask {
        CheckAsk::Connect => None,
        CheckAsk::Request(wanted) => Some((wanted, request(origin, wanted))),
    };
    let log = log(request.as_ref().map(|(_, request)| request));
    let mut track = log.map(|log| origin.track(&log, Turn::FIRST, clock::now()));
    let connecting = timeout_at(deadline, new_connection(origin, limit, &mut track)).await;
    let mut connection = match connecting.unwrap_or(Err(OriginError::ConnectTimeout)) {
        Ok(connection) => connection,
        Err(error) => {
            track.into_iter().for_each(|track| track.fail(&error));
            return Err(Fault::Origin(error));
        }
    };
    let Some((wanted, request)) = request else {
        track.into_iter().for_each(|track| track.end(AttemptEnd::Whole));
        return Ok(());
    };
    connection.track = track;
    let bounds = Bounds { head_bytes_max: bounds.head_bytes_max.min(HEAD_BYTES_MAX), ..*bounds };
    let work = response(&mut connection, (&request, wanted), &bounds, limit);
    let result = timeout_at(deadline, work).await.unwrap_or(Err(Fault::Late(limit)));
    match &result {
        Err(Fault::Origin(error)) => connection.fail_attempt(error),
        Err(Fault::Late(_)) => connection.fail_attempt(&OriginError::ReadTimeout),
        // Weir ends it.
        Err(Fault::Huge) => {}
        Ok(()) | Err(Fault::Status(_) | Fault::Body) => connection.end_attempt(),
    }
    result
}

/// The request of a check at this origin.
fn request(origin: &Origin, wanted: &CheckRequest) -> OriginRequest {
    let mut headers = HeaderMap::with_capacity(wanted.headers.len() + 2);
    headers.insert(USER_AGENT, HeaderValue::from_static("Weir-Check"));
    headers.extend(wanted.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
    let own = || origin.address().authority().unwrap_or_else(|| "localhost".to_owned());
    let host = wanted.host.clone().unwrap_or_else(own);
    if let Ok(host) = HeaderValue::try_from(host) {
        headers.insert(HOST, host);
    }
    OriginRequest::new(wanted.method.clone(), wanted.target.clone(), headers)
}

/// Sends the request and reads the whole response.
async fn response(
    connection: &mut Connection,
    (request, wanted): (&OriginRequest, &CheckRequest),
    bounds: &Bounds,
    limit: Duration,
) -> Result<(), Fault> {
    let timeouts = Timeouts { first_byte: limit, between_bytes: limit, ..Timeouts::default() };
    let terms = Terms {
        request,
        login: None,
        suspect: Suspect::of(request),
        interim: None,
        timeouts: &timeouts,
        bounds,
        turn: Turn::FIRST,
        answers: None,
    };
    let mut outgoing = Outgoing::last(request);
    let head = exchange(connection, &mut outgoing, &terms).await;
    let ResponseHead { status, framing, .. } = match head {
        Ok((head, _)) => {
            if let Some(track) = &mut connection.track {
                track.answered(&head);
            }
            head
        }
        Err(failure) => return Err(Fault::Origin(failure.error)),
    };
    let mut reader = BodyReader::new(framing, &limits(bounds));
    let mut search = Search::new(&wanted.body);
    body(connection, &mut reader, &mut search).await?;
    let status = status.as_u16();
    if !wanted.statuses.iter().any(|range| range.contains(&status)) {
        return Err(Fault::Status(status));
    }
    if search.is_found { Ok(()) } else { Err(Fault::Body) }
}

/// Reads a body to its end.
async fn body(
    connection: &mut Connection,
    reader: &mut BodyReader,
    search: &mut Search<'_>,
) -> Result<(), Fault> {
    let mut seen_bytes = 0_u64;
    loop {
        if seen_bytes.saturating_add(reader.left().unwrap_or(0)) > BODY_BYTES_MAX {
            return Err(Fault::Huge);
        }
        match reader.read(&mut connection.incoming).map_err(|fault| Fault::Origin(malformed(fault)))? {
            BodyPart::Data(data) => {
                seen_bytes += data.len() as u64;
                search.feed(&data);
            }
            BodyPart::End(_) => return Ok(()),
            BodyPart::More => {
                let read = poll_fn(|cx| connection.poll_fill(cx, Want::Body(Some(0)))).await;
                match read {
                    Ok(0) => {
                        reader.end_of_input().map_err(|fault| Fault::Origin(malformed(fault)))?;
                        return Ok(());
                    }
                    Ok(_) => {}
                    Err(error) => return Err(Fault::Origin(broken(error, || OriginError::Incomplete))),
                }
            }
        }
    }
}

/// Looks for a text in a body that comes in pieces.
struct Search<'w> {
    wanted: &'w [u8],
    /// The last bytes, one fewer than `wanted` has.
    window: Vec<u8>,
    is_found: bool,
}

impl Search<'_> {
    fn new(wanted: &[u8]) -> Search<'_> {
        Search { wanted, window: Vec::new(), is_found: wanted.is_empty() }
    }

    fn feed(&mut self, data: &[u8]) {
        if self.is_found {
            return;
        }
        self.window.extend_from_slice(data);
        self.is_found = self.window.windows(self.wanted.len()).any(|some| some == self.wanted);
        let kept = self.window.len().min(self.wanted.len() - 1);
        self.window.drain(..self.window.len() - kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_wherever_the_pieces_break() {
        for size in 1..=9 {
            let mut search = Search::new(b"ok: yes");
            b"status ok: ok: yes!".chunks(size).for_each(|piece| search.feed(piece));
            assert!(search.is_found, "{size}");
            let mut search = Search::new(b"ok: yes");
            b"ok: ok: ye s".chunks(size).for_each(|piece| search.feed(piece));
            assert!(!search.is_found, "{size}");
            assert!(search.window.len() < 7);
        }
        assert!(Search::new(b"").is_found);
    }
}
