//! Requests to origins as their log shows them: for which request of a client, what for, and what they became
//! in the cache. While there is no such log, none of this is made. It must not decide anything.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use http::header::{HOST, RANGE};
use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;
use smallvec::SmallVec;
use weir_clock::{self as clock, Now};
use weir_observe::trace::{Moment, TRIES_MAX};
use weir_observe::{Asked, AskedId, AskedObject, Observer, Purpose, text};
use weir_store::{Generation, Retirement};
use weir_upstream::{Attempt, AttemptLog, CheckLog, Link, OriginRequest, Picked};

use super::tries::{Tries, end_of};

/// The most transfers that the record of one request of a client names.
const TRANSFERS_MAX: usize = 64;

/// A request of a client that makes Weir ask origins.
pub struct Cause {
    client: Arc<ClientRequest>,
    transfers: Mutex<SmallVec<[Arc<Asks>; 1]>>,
}

/// What the log of requests to origins says of the client's request.
struct ClientRequest {
    observer: Observer,
    request_id: String,
    host: String,
    site: Arc<str>,
}

impl Cause {
    /// The request of this id for this host and site, on the core of this observer.
    pub fn new(observer: &Observer, request_id: &str, host: &str, site: Arc<str>) -> Arc<Cause> {
        let (observer, request_id, host) = (observer.clone(), request_id.to_owned(), host.to_owned());
        let client = Arc::new(ClientRequest { observer, request_id, host, site });
        Arc::new(Cause { client, transfers: Mutex::default() })
    }

    /// The client's response comes by this transfer.
    pub fn reads(&self, asks: &Arc<Asks>) {
        let mut transfers = self.transfers.lock();
        if transfers.len() < TRANSFERS_MAX && !transfers.iter().any(|known| Arc::ptr_eq(known, asks)) {
            transfers.push(asks.clone());
        }
    }

    /// The last transfer that [`Cause::reads`] named.
    pub fn last(&self) -> Option<Arc<Asks>> {
        self.transfers.lock().last().cloned()
    }

    /// The requests to origins that the client's response came by until now.
    pub fn asked(&self) -> Vec<AskedId> {
        let transfers = self.transfers.lock();
        transfers.iter().flat_map(|asks| asks.ids.lock().clone()).collect()
    }

    /// The attempts at origins that the client's response came by until now, as steps of a request whose
    /// head had been read at `since`: at most [`TRIES_MAX`].
    pub fn tries(&self, since: Instant) -> Vec<Moment> {
        let mut moments = Vec::new();
        self.transfers.lock().iter().for_each(|asks| asks.tries.write(since, &mut moments));
        moments.truncate(TRIES_MAX);
        moments
    }
}

/// The requests to origins of one transfer.
#[derive(Default)]
pub struct Asks {
    ids: Mutex<SmallVec<[AskedId; 1]>>,
    /// The id of the first request, while that is still to be sent.
    expected: Mutex<Option<AskedId>>,
    /// The last one, until it is known what it became.
    last: Mutex<Option<Arc<Ask>>>,
    tries: Arc<Tries>,
}

impl Asks {
    /// A task will soon send the first request: its id is known from now on.
    pub(super) fn expect(&self) {
        let id = made_id();
        self.ids.lock().push(id);
        *self.expected.lock() = Some(id);
    }

    /// A request is about to be sent. What it returns is to be told of its attempts.
    pub fn begin(
        &self,
        cause: &Cause,
        upstream: &str,
        purpose: Purpose,
        request: &OriginRequest,
    ) -> Arc<dyn AttemptLog> {
        let sent = Sent::of(request);
        let id = self.expected.lock().take().unwrap_or_else(|| {
            let id = made_id();
            self.ids.lock().push(id);
            id
        });
        let (client, tries) = (cause.client.clone(), self.tries.clone());
        let mut ask = Ask::new(client, id, (upstream, purpose), sent);
        ask.tries = tries;
        let ask = Arc::new(ask);
        *self.last.lock() = Some(ask.clone());
        ask
    }

    /// The transfer has ended: with this generation, if there is one.
    pub(super) fn end(&self, generation: Option<&Generation>) {
        let ask = self.last.lock().take();
        if let (Some(ask), Some(generation)) = (ask, generation) {
            ask.state.lock().object = object(generation);
        }
    }
}

/// A log of connections at the start.
pub fn probe(observer: &Observer, upstream: &str) -> Arc<dyn AttemptLog> {
    let (observer, none) = (observer.clone(), String::new());
    let client = ClientRequest { observer, request_id: none.clone(), host: none, site: Arc::from("") };
    Arc::new(Ask::new(Arc::new(client), made_id(), (upstream, Purpose::Probe), Sent::default()))
}

/// Makes the log of each check of an upstream, while there is a log.
pub fn checks(observer: &Observer, upstream: &str) -> CheckLog {
    let (observer, upstream) = (observer.clone(), upstream.to_owned());
    Arc::new(move |request| {
        if !observer.wants_asked() {
            return None;
        }
        let (observer, none) = (observer.clone(), String::new());
        let client = ClientRequest { observer, request_id: none.clone(), host: none, site: Arc::from("") };
        let sent = request.map_or_else(Sent::default, Sent::of);
        Some(Arc::new(Ask::new(Arc::new(client), made_id(), (&upstream, Purpose::Check), sent)))
    })
}

/// One request to an origin. A line is written for each attempt; for the last one when nobody needs to say
/// any more what it became.
struct Ask {
    client: Arc<ClientRequest>,
    id: AskedId,
    purpose: Purpose,
    upstream: String,
    sent: Sent,
    begun: Now,
    state: Mutex<State>,
    tries: Arc<Tries>,
}

/// What the log says of the request that is sent.
#[derive(Default)]
struct Sent {
    method: String,
    target: String,
    host: String,
    range: String,
}

impl Sent {
    fn of(request: &OriginRequest) -> Sent {
        Sent {
            method: request.method.as_str().to_owned(),
            target: text(&request.target),
            host: field(&request.headers, &HOST),
            range: field(&request.headers, &RANGE),
        }
    }
}

#[derive(Default)]
struct State {
    /// The last attempt that has ended.
    attempt: Option<Attempt>,
    object: Option<AskedObject>,
}

impl fmt::Debug for Ask {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Ask({}, {})", self.id, self.purpose.word())
    }
}

impl Ask {
    fn new(client: Arc<ClientRequest>, id: AskedId, (upstream, purpose): (&str, Purpose), sent: Sent) -> Ask {
        Ask {
            client,
            id,
            purpose,
            upstream: upstream.to_owned(),
            sent,
            begun: clock::now(),
            state: Mutex::default(),
            tries: Arc::default(),
        }
    }

    fn write(&self, attempt: Attempt, object: Option<AskedObject>) {
        let (connection, connect) = match attempt.connection {
            None => ("", None),
            Some(Link::New(took)) => ("new", Some(took)),
            Some(Link::Reused) => ("reused", None),
        };
        let end = end_of(&attempt);
        self.client.observer.asked(Asked {
            begun: self.begun.wall + attempt.begun.saturating_duration_since(self.begun.mono),
            purpose: self.purpose,
            id: self.id,
            attempt: attempt.number,
            retry: attempt.retry.unwrap_or_default(),
            request_id: self.client.request_id.clone(),
            site: self.client.site.clone(),
            upstream: self.upstream.clone(),
            origin: attempt.origin,
            pick: attempt.picked.map(Picked::words).unwrap_or_default(),
            address: attempt.address.unwrap_or_default(),
            connection,
            connect,
            method: self.sent.method.clone(),
            host: self.client.host.clone(),
            target: self.sent.target.clone(),
            origin_host: self.sent.host.clone(),
            range: self.sent.range.clone(),
            status: attempt.status.map(|status| status.as_u16()),
            content_type: attempt.content_type.map_or_else(String::new, |value| text(value.as_bytes())),
            object,
            sent_bytes: attempt.sent_bytes,
            received_bytes: attempt.received_bytes,
            first_byte: attempt.first_byte,
            total: attempt.ended.saturating_duration_since(attempt.begun),
            end,
        });
    }
}

impl AttemptLog for Ask {
    fn under_way(&self, attempt: &Attempt) {
        self.tries.under_way((self.id, self.purpose), attempt);
    }

    fn ended(&self, attempt: Attempt) {
        self.tries.ended((self.id, self.purpose), &attempt);
        // Another one follows the one before, so that one became nothing.
        let before = self.state.lock().attempt.replace(attempt);
        if let Some(before) = before {
            self.write(before, None);
        }
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        self.tries.over(self.id, clock::mono());
        let State { attempt, object } = std::mem::take(self.state.get_mut());
        if let Some(attempt) = attempt {
            self.write(attempt, object);
        }
    }
}

fn made_id() -> AskedId {
    AskedId(fastrand::u64(..))
}

fn field(headers: &HeaderMap, name: &HeaderName) -> String {
    headers.get(name).map_or_else(String::new, |value| text(value.as_bytes()))
}

/// What is kept of a generation; `None` where nothing is.
fn object(generation: &Generation) -> Option<AskedObject> {
    let volume = generation.volume();
    let is_kept = match generation.retirement() {
        Some(Retirement::Abandoned) => false,
        Some(Retirement::Outgrown) => volume.is_some(),
        _ => true,
    };
    is_kept.then(|| AskedObject { key: text(&generation.key().full), volume })
}
