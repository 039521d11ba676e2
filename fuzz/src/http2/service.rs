//! The small service that answers in place of the edge: by the path, with bodies that are at hand, come
//! piece by piece or break off. It does not look at frames.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use weir_body::{Body, Cut, kept};
use weir_front::listen::{Clients, Peer, Trusted, UnixPeers};
use weir_front::{
    Client, ClientLimits, Done, Fields, Head, Late, Pace, Part, Refused, Request, Response, Service, Turn,
};
use weir_observe::Observer;

/// Requests at once: the streams of a connection, and those that were reset and have not noticed it.
const RUNNING_MAX: usize = 400;
/// Bytes of a large body.
const LARGE: u64 = 3 << 20;

/// Answers by the path.
pub struct Small {
    observer: Observer,
    clients: Arc<Clients>,
    running: Cell<usize>,
}

/// A request under way.
pub struct Note<'c> {
    service: &'c Small,
    request: &'c mut Request,
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        self.service.running.set(self.service.running.get() - 1);
    }
}

/// A body that is at hand, or comes piece by piece and may break off.
pub struct Content {
    blocks: Vec<Bytes>,
    at: usize,
    left: u64,
    breaks_off: bool,
}

impl Body for Content {
    fn at_hand(&self) -> Option<(&[Bytes], usize, u64)> {
        let held = self.blocks.first()?.len() - self.at;
        Some((&self.blocks, self.at, held as u64))
    }

    fn advance(&mut self, bytes: u64) {
        self.at += bytes as usize;
    }

    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        if self.breaks_off && self.left < LARGE / 2 {
            return Err(Cut { word: "fuzzed" });
        }
        let now = self.left.min(bytes_max as u64).min(50_000);
        self.left -= now;
        Ok((now > 0).then(|| vec![b'b'; now as usize].into()))
    }

    fn holds_origin(&self) -> bool {
        self.breaks_off
    }

    fn let_go(&mut self, unsent: Bytes) -> Option<Bytes> {
        if !self.blocks.is_empty() {
            return kept(unsent);
        }
        self.left += unsent.len() as u64;
        None
    }
}

/// No field differs between responses.
pub struct NoLate;

impl Late for NoLate {
    fn write(&self, _to: &mut impl Fields) {}
}

/// No rate is limited.
pub enum NoPace {}

impl Pace for NoPace {
    async fn look(&mut self) {
        match *self {}
    }

    fn turn(&mut self, _now: std::time::Instant, _wanted: u64, _least: u64) -> Turn {
        match *self {}
    }

    fn took(&mut self, _bytes: u64) {
        match *self {}
    }
}

impl Small {
    /// One that nothing runs on yet.
    pub fn new(observer: Observer) -> Small {
        Small { observer, clients: Arc::default(), running: Cell::new(0) }
    }

    fn respond(status: StatusCode, length: Option<u64>, body: Content) -> Response<Small> {
        Response {
            head: Head::Made(status, Box::default()),
            late: NoLate,
            length,
            body,
            pace: None,
            upload: None,
            switch: None,
            must_close: false,
        }
    }

    fn whole(status: StatusCode, bytes: impl Into<Bytes>) -> Response<Small> {
        let bytes = bytes.into();
        let length = bytes.len() as u64;
        let blocks = if bytes.is_empty() { Vec::new() } else { vec![bytes] };
        Small::respond(status, Some(length), Content { blocks, at: 0, left: 0, breaks_off: false })
    }

    fn large(breaks_off: bool) -> Response<Small> {
        let body = Content { blocks: Vec::new(), at: 0, left: LARGE, breaks_off };
        Small::respond(StatusCode::OK, Some(LARGE), body)
    }
}

impl Service for Small {
    type Plan = ();
    type Body = Content;
    type Pace = NoPace;
    type Late = NoLate;
    type Note<'c> = Note<'c>;

    fn plan(&self) {}

    fn charge_piece(&self, _client: Option<weir_share::Client>) -> Option<Box<dyn std::any::Any>> {
        Some(Box::new(()))
    }

    fn begin<'c>(&'c self, _plan: &'c (), request: &'c mut Request) -> Note<'c> {
        self.running.set(self.running.get() + 1);
        assert!(self.running.get() <= RUNNING_MAX, "{} requests at once", self.running.get());
        Note { service: self, request }
    }

    async fn call<'c>(&'c self, note: &mut Note<'c>, client: &mut dyn Client) -> Response<Small> {
        match note.request.target.as_str() {
            "/small" => Small::whole(StatusCode::OK, vec![b's'; 1000]),
            "/large" => Small::large(false),
            "/cut" => Small::large(true),
            "/slow" => {
                weir_front::message::gone(client).await;
                Response { head: Head::None, ..Small::whole(StatusCode::OK, "") }
            }
            "/early" => {
                let _ = client.interim(StatusCode::EARLY_HINTS, &HeaderMap::new());
                Small::whole(StatusCode::OK, "early")
            }
            "/echo" => {
                let mut all = Vec::new();
                loop {
                    match client.content().await {
                        Ok(Part::Data(bytes)) if all.len() < 1 << 20 => all.extend_from_slice(&bytes),
                        Ok(Part::Data(_)) => {}
                        Ok(Part::End) => return Small::whole(StatusCode::OK, all),
                        Err(_) => return Small::whole(StatusCode::BAD_REQUEST, ""),
                    }
                }
            }
            _ => Small::whole(StatusCode::NOT_FOUND, ""),
        }
    }

    fn done(&self, note: Note<'_>, _done: &Done) {
        drop(note);
    }

    fn named(&self, _request: &Request) -> Option<weir_share::Client> {
        None
    }

    fn refuse(&self, why: &Refused) -> Response<Small> {
        let status = match why {
            Refused::Malformed(refusal) => refusal.status(),
            Refused::Late => StatusCode::REQUEST_TIMEOUT,
        };
        Small::whole(status, "refused")
    }

    fn refused(&self, _why: &Refused, _peer: Peer, _done: &Done) {}

    fn limits(&self) -> Arc<ClientLimits> {
        Arc::default()
    }

    fn trusted(&self) -> Arc<Trusted> {
        Arc::new(Trusted::new(Vec::new(), UnixPeers::Untrusted))
    }

    fn clients(&self) -> &Arc<Clients> {
        &self.clients
    }

    fn observer(&self) -> &Observer {
        &self.observer
    }

    fn is_draining(&self) -> bool {
        false
    }
}
