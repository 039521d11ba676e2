//! Warming: a URL is walked like a client's request, without a client: its response is stored and goes
//! nowhere. Clients go first. What is not for the cache is told, and no origin is asked for it. It counts as
//! nobody's request: only what origins send is charged.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use weir_front::listen::Peer;
use weir_front::{
    Body as _, Client, ContentError, ContentLimits, LocalFuture, Part, PeerInfo, Request, Trust,
};
use weir_observe::{Outcome, SiteId, Storing};
use weir_upstream::{Hurry, Upstream};
use weir_wire::{ListedContent, Pseudo, of_list};

use crate::cache_status::CacheStatus;
use crate::core::Core;
use crate::edge::Edge;
use crate::exchange::{Exchange, Note};
use crate::lookup;
use crate::plan::Route;
use crate::response::{self, Response};
use crate::{service, walk};
use weir_clock as clock;

/// URLs that are walked at a time, of all warmings.
const WALKS_MAX: usize = 64;
/// The longest walk of one URL. A fill that is stored goes on without it.
const WALK_TIME_MAX: Duration = Duration::from_secs(3600);
/// The size of the pieces in which a body is read, in bytes.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// So much is read of a response that is not stored, so that its connection can be used again.
const PASSED_BYTES_MAX: usize = 64 << 10;
/// Pieces of a document that wait for its reader.
const PIECES_MAX: usize = 4;
/// The word where clients go first.
const GAVE_WAY: &str = "gave-way";

/// A URL to be warmed.
#[derive(Clone, Debug)]
pub struct Warm {
    /// An absolute URL of http or https.
    pub url: String,
    /// Fields of the request.
    pub headers: HeaderMap,
    /// Whether what is fresh is fetched as well.
    pub refresh: bool,
    /// What answers in place of the origin, and its path there.
    pub instead: Option<(Arc<Upstream>, String)>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warmed {
    /// It was fetched and is held.
    Stored,
    /// It was held, and the origin has confirmed it.
    Confirmed,
    /// It was held and fresh.
    Fresh,
    /// It is not stored: the reason's word.
    NotStored(&'static str),
    /// There was no response: the reason's word.
    Failed(&'static str),
    /// The origin failed: its status.
    Status(StatusCode),
    /// Clients go first: to be asked for again.
    GaveWay,
}

/// The content of a URL: pieces, and an error where it breaks off.
pub type Document = mpsc::Receiver<Result<Bytes, &'static str>>;

/// A walk that a worker is to do.
pub(crate) enum Errand {
    Warm(Box<Warm>, Box<dyn FnOnce(Warmed) + Send>),
    Read(Box<Warm>, mpsc::Sender<Result<Bytes, &'static str>>, Box<dyn FnOnce(Warmed) + Send>),
}

/// What a walk without a client is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// That the response is held.
    Store,
    /// Its content, stored or not.
    Read,
}

/// What a walk without a client knows of its warming.
#[derive(Debug)]
pub(crate) struct Warming {
    pub(crate) aim: Aim,
    pub(crate) refresh: bool,
    pub(crate) instead: Option<(Arc<Upstream>, String)>,
    /// Told when a client joins its fill.
    pub(crate) hurry: Arc<Hurry>,
}

/// The walks of all workers.
#[derive(Default)]
pub(crate) struct Walks {
    /// One for each worker.
    errands: Mutex<Vec<mpsc::UnboundedSender<Errand>>>,
    under_way: Arc<AtomicUsize>,
    turn: AtomicUsize,
    /// While an upgrade is under way none begins.
    stops: AtomicBool,
}

/// Counts a walk until it is dropped.
struct Walk(Arc<AtomicUsize>);

impl Drop for Walk {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Walks {
    fn begin(&self) -> Option<Walk> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let walk = Walk(self.under_way.clone());
        (before < WALKS_MAX && !self.stops.load(Ordering::Relaxed)).then_some(walk)
    }

    /// Lets none begin, or lets them begin again.
    fn stop(&self, stops: bool) {
        self.stops.store(stops, Ordering::Relaxed);
    }

    fn send(&self, errand: Errand) -> Result<(), Errand> {
        let errands = self.errands.lock();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % errands.len().max(1);
        let Some(worker) = errands.get(turn) else { return Err(errand) };
        worker.send(errand).map_err(|unsent| unsent.0)
    }
}

impl Edge {
    /// Warms a URL. `done` is called with what came of it, from any thread, perhaps at once.
    pub fn warm(&self, warm: Warm, done: Box<dyn FnOnce(Warmed) + Send>) {
        if let Err(Errand::Warm(_, done)) = self.shared.walks.send(Errand::Warm(Box::new(warm), done)) {
            done(Warmed::GaveWay);
        }
    }

    /// Lets no URL be warmed until [`Edge::resume_warming`].
    pub fn stop_warming(&self) {
        self.shared.walks.stop(true);
    }

    /// Lets URLs be warmed again.
    pub fn resume_warming(&self) {
        self.shared.walks.stop(false);
    }

    /// Reads the content of a URL, stored or fetched, as a client would get it. `done` is called with what
    /// came of its head before the first piece comes: anything but [`Warmed::Stored`] means that none will.
    pub fn read(&self, warm: Warm, done: Box<dyn FnOnce(Warmed) + Send>) -> Document {
        let (pieces, document) = mpsc::channel(PIECES_MAX);
        if let Err(Errand::Read(_, _, done)) =
            self.shared.walks.send(Errand::Read(Box::new(warm), pieces, done))
        {
            done(Warmed::GaveWay);
        }
        document
    }
}

/// Does the walks of a worker until the process ends.
pub(crate) async fn attend(core: Rc<Core>) {
    let (sender, mut errands) = mpsc::unbounded_channel();
    core.shared.walks.errands.lock().push(sender);
    while let Some(errand) = errands.recv().await {
        let Some(walk) = core.shared.walks.begin() else {
            match errand {
                Errand::Warm(_, done) | Errand::Read(_, _, done) => done(Warmed::GaveWay),
            }
            continue;
        };
        let core = core.clone();
        tokio::task::spawn_local(async move {
            let _walk = walk;
            match errand {
                Errand::Warm(warm, done) => {
                    let walked = Box::pin(self::warm(&core, *warm));
                    let walked = tokio::time::timeout(WALK_TIME_MAX, walked).await;
                    done(walked.unwrap_or(Warmed::Failed("too-slow")));
                }
                Errand::Read(warm, pieces, done) => Box::pin(read(&core, *warm, &pieces, done)).await,
            }
        });
    }
}

/// Warms a URL on this core.
async fn warm(core: &Core, warm: Warm) -> Warmed {
    let Warm { url, headers, refresh, instead } = warm;
    let plan = core.running();
    let mut request = match request(&url, headers, plan.limits.clone()) {
        Ok(request) => request,
        Err(word) => return Warmed::Failed(word),
    };
    let warming = Warming { refresh, instead, aim: Aim::Store, hurry: Arc::default() };
    let shown = service::prepare(&plan, &mut request);
    let mut note = Note::warming(core, &plan, (&request, shown), &warming);
    let mut client = Nobody;
    let response = walk::walk(&mut note, &mut client).await;
    ended(&mut Exchange { note: &mut note, client: &mut client }, response).await
}

/// Reads a document on this core.
async fn read(
    core: &Core,
    warm: Warm,
    pieces: &mpsc::Sender<Result<Bytes, &'static str>>,
    done: Box<dyn FnOnce(Warmed) + Send>,
) {
    let plan = core.running();
    let mut request = match request(&warm.url, warm.headers, plan.limits.clone()) {
        Ok(request) => request,
        Err(word) => return done(Warmed::Failed(word)),
    };
    let warming = Warming { refresh: false, instead: None, aim: Aim::Read, hurry: Arc::default() };
    let shown = service::prepare(&plan, &mut request);
    let mut note = Note::warming(core, &plan, (&request, shown), &warming);
    let Response { head, mut body, .. } = walk::walk(&mut note, &mut Nobody).await;
    done(match head.status() {
        _ if note.facts.detail == GAVE_WAY => Warmed::GaveWay,
        Some(StatusCode::OK) => Warmed::Stored,
        Some(status) => Warmed::Status(status),
        None => Warmed::Failed(note.facts.detail),
    });
    while head.status() == Some(StatusCode::OK) {
        let piece = match body.next(PIECE_BYTES_MAX).await {
            Ok(Some(piece)) => Ok(piece),
            Ok(None) => return,
            Err(cut) => Err(cut.word),
        };
        let is_cut = piece.is_err();
        if pieces.send(piece).await.is_err() || is_cut {
            return;
        }
    }
}

/// What came of a walk: its response is taken in, as far as that is needed.
async fn ended(exchange: &mut Exchange<'_, '_>, response: Response) -> Warmed {
    let Response { head, mut body, .. } = response;
    let facts = &exchange.facts;
    let (detail, storing) = (facts.detail, facts.storing);
    if detail == GAVE_WAY {
        return Warmed::GaveWay;
    }
    let Some(status) = head.status() else {
        return match (facts.outcome, storing) {
            (Outcome::Pass, Storing::NotStored(word)) => Warmed::NotStored(word),
            (Outcome::Pass, _) => Warmed::NotStored(detail),
            _ => Warmed::Failed(detail),
        };
    };
    let is_of_origin = exchange.answered.is_some();
    match facts.outcome {
        Outcome::Hit => return Warmed::Fresh,
        Outcome::Revalidated => return Warmed::Confirmed,
        Outcome::Stale | Outcome::Refused => return Warmed::Failed(detail),
        Outcome::Local => return Warmed::NotStored(detail),
        Outcome::Miss | Outcome::Pass if status.is_server_error() && is_of_origin => {
            return Warmed::Status(status);
        }
        Outcome::Miss if status.is_server_error() => return Warmed::Failed(detail),
        Outcome::Miss | Outcome::Pass => {}
    }
    let not_stored = match (exchange.facts.outcome, storing) {
        (_, Storing::NotStored(word)) => Some(word),
        (Outcome::Pass, _) => Some(detail),
        _ => None,
    };
    let most = if not_stored.is_some() { PASSED_BYTES_MAX } else { usize::MAX };
    let mut read = 0usize;
    while read < most {
        match body.next(PIECE_BYTES_MAX).await {
            Ok(Some(piece)) => read = read.saturating_add(piece.len()),
            Ok(None) => break,
            Err(cut) if not_stored.is_none() => return Warmed::Failed(cut.word),
            Err(_) => break,
        }
    }
    drop(body);
    match not_stored {
        Some(word) => Warmed::NotStored(word),
        None if is_held(exchange).await => Warmed::Stored,
        // There was no room for it, or it was purged meanwhile.
        None => Warmed::NotStored("not-kept"),
    }
}

async fn is_held(exchange: &Exchange<'_, '_>) -> bool {
    match exchange.route {
        Some(route) => lookup::find(exchange, route).await.generation.is_some(),
        None => false,
    }
}

/// The request for a URL, held to what HTTP/1 allows.
fn request(
    url: &str,
    mut headers: HeaderMap,
    limits: Arc<weir_front::ClientLimits>,
) -> Result<Request, &'static str> {
    let uri = Uri::try_from(url).map_err(|_| "malformed-url")?;
    let authority = uri.authority().ok_or("malformed-url")?.as_str().to_owned();
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let host = HeaderValue::try_from(authority.as_str()).map_err(|_| "malformed-url")?;
    headers.insert(http::header::HOST, host);
    let pseudo = Pseudo {
        method: Method::GET,
        scheme: uri.scheme_str().map(|scheme| Bytes::copy_from_slice(scheme.as_bytes())),
        authority: Some(authority.into()),
        path: path.into(),
        protocol: None,
    };
    let head = of_list(pseudo, headers, ListedContent::None, &weir_wire::Limits::default());
    let head = head.map_err(|_| "malformed-url")?;
    let is_https = uri.scheme_str() == Some("https");
    let port = head.host.port().or(Some(if is_https { 443 } else { 80 }));
    let mut peer = PeerInfo::new(Peer::Unix, Trust::Untrusted, limits, None).at_port(port);
    peer.scheme = if is_https { "https" } else { "http" };
    Ok(Request::of_head(head, Rc::new(peer), clock::now()))
}

/// Answers that clients go first; the URL is to be asked for again.
pub(crate) fn gave_way(exchange: &mut Exchange<'_, '_>) -> Response {
    exchange.outcome(Outcome::Local, GAVE_WAY);
    response::none()
}

/// Answers that a warming stores nothing here, so that no origin is asked.
pub(crate) fn not_stored(exchange: &mut Exchange<'_, '_>, cache_status: CacheStatus) -> Response {
    cache_status.note(&mut exchange.facts);
    exchange.facts.outcome = Outcome::Pass;
    response::none()
}

/// Whether a warming may go to the origins of a route now. Always true of a client's request.
pub(crate) fn may_ask(note: &Note<'_>, route: &Route) -> bool {
    let Some(warming) = note.warming else { return true };
    let Some(upstream) = note.running.upstream(route).filter(|_| warming.instead.is_none()) else {
        return true;
    };
    // One that is down is tried now and then, and not by each URL.
    upstream.has_spare() && note.core.shared.inflight.upstreams.may_try(upstream.name(), note.now.mono)
}

/// Nobody: it has sent everything, and waits for as long as it takes.
struct Nobody;

impl Client for Nobody {
    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn content(&mut self) -> LocalFuture<'_, Result<Part, ContentError>> {
        Box::pin(std::future::ready(Ok(Part::End)))
    }

    fn bound_content(&mut self, _: ContentLimits) {}

    fn interim<'f>(
        &'f mut self,
        _: StatusCode,
        _: &'f HeaderMap,
    ) -> LocalFuture<'f, Result<(), ContentError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn moved(&mut self) {}

    fn count_for(&mut self, _: SiteId) {}
}
