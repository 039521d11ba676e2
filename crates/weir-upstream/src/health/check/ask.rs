//! One check of one origin: a connection of its own, a request on it, and what comes back compared with what
//! is expected. It must not use the connections of requests, nor hold more of a response than its head and
//! a window of its body.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use tokio::time::{Instant, timeout_at};
use weir_client::{AttemptEnd, BodyFault, ExchangeError, Single};

use crate::again::track::{AttemptLog, Turn};
use crate::clock;
use crate::origin::Origin;
use crate::request::OriginRequest;
use crate::settings::{Bounds, CheckAsk, CheckRequest};

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
    Origin(ExchangeError),
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
    let mut trace = log.map(|log| origin.track(&log, Turn::FIRST, clock::now()));
    let connecting = timeout_at(deadline, origin.server.single(limit, &mut trace)).await;
    let mut single = match connecting.unwrap_or(Err(ExchangeError::ConnectTimeout)) {
        Ok(single) => single,
        Err(error) => {
            trace.into_iter().for_each(|trace| trace.ended(AttemptEnd::Failed(error.word())));
            return Err(Fault::Origin(error));
        }
    };
    let Some((wanted, request)) = request else {
        single.end();
        return Ok(());
    };
    let bounds = Bounds { head_bytes_max: bounds.head_bytes_max.min(HEAD_BYTES_MAX), ..*bounds };
    let work = response(&mut single, (&request, wanted), &bounds, limit);
    let result = timeout_at(deadline, work).await.unwrap_or(Err(Fault::Late(limit)));
    match &result {
        Err(Fault::Origin(error)) => single.fail(error),
        Err(Fault::Late(_)) => single.fail(&ExchangeError::ReadTimeout),
        // Weir ends it.
        Err(Fault::Huge) => {}
        Ok(()) | Err(Fault::Status(_) | Fault::Body) => single.end(),
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
    single: &mut Single,
    (request, wanted): (&OriginRequest, &CheckRequest),
    bounds: &Bounds,
    limit: Duration,
) -> Result<(), Fault> {
    let head = single.ask(request.head(), bounds, limit).await.map_err(Fault::Origin)?;
    let mut search = Search::new(&wanted.body);
    let mut feed = |data: &[u8]| {
        search.feed(data);
        true
    };
    let read = single.read(&head, (bounds, BODY_BYTES_MAX), &mut feed).await;
    read.map_err(|fault| match fault {
        BodyFault::Exchange(error) => Fault::Origin(error),
        BodyFault::Huge | BodyFault::Refused => Fault::Huge,
    })?;
    let status = head.status.as_u16();
    if !wanted.statuses.iter().any(|range| range.contains(&status)) {
        return Err(Fault::Status(status));
    }
    if search.is_found { Ok(()) } else { Err(Fault::Body) }
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
