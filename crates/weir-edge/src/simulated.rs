//! The data plane on its caller's own runtime, so that tests can run it whole on virtual time: one worker
//! that listens, walks, fills and stores as it does on a core of its own. No part of the product calls it.

use std::collections::HashMap;
use std::future::Future;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use tokio::sync::{mpsc, watch};
use weir_content::Shelf;
use weir_policy::Now;
use weir_store::{Mark, Scope, Store, Usage};
use weir_upstream::Upstream;

use weir_body::Body as _;
use weir_front::{
    Client, ContentError, ContentLimits, Done, End, LocalFuture, Part, Request, Sent, Service as _, Trust,
    Way,
};
use weir_observe::SiteId;

use crate::response::Response;

use crate::content::laid::Content;
use crate::content::orders::{self as content, ContentOrder, ContentUpload};
use crate::core::Core;
use crate::edge::StartError;
use crate::explain::{self, Explanation, Question};
use crate::list::{self, CachedPage, ListOrder};
use crate::plan::Plan;
use crate::proofs::HttpProofs;
use crate::purge::{self, PurgeOrder};
use crate::shared::{Running, Shared};
use weir_front::Certificates;
use weir_front::listen::{Peer, bind, seats};
use weir_front::worker::{self, Order, Start};

use crate::service;
use weir_clock as clock;
use weir_observe::{Observatory, Snapshot};

/// A data plane of one worker.
pub struct Server {
    shared: Arc<Shared>,
    orders: mpsc::UnboundedSender<Order>,
    held: watch::Receiver<usize>,
}

impl Server {
    /// Binds the plan's listeners. The future is the worker; run it in a `LocalSet` until the server is
    /// dropped.
    ///
    /// # Errors
    /// An address that cannot be bound, an upstream that cannot be made.
    pub fn begin(
        plan: Plan,
        observatory: Arc<Observatory>,
    ) -> Result<(Server, impl Future<Output = ()> + use<>), StartError> {
        let mut bound = Vec::new();
        let mut modes = Vec::new();
        for (number, (address, mode)) in plan.listeners().iter().enumerate() {
            bound.extend(bind(address, 1)?.into_iter().map(|bound| (number, bound)));
            modes.push(*mode);
        }
        let shared = Arc::new(shared(plan, observatory)?);
        let (orders, receiver) = mpsc::unbounded_channel();
        let (count, held) = watch::channel(0);
        // Invariant: one worker has one place among the listeners.
        let seat = seats(1).remove(0);
        let certificates = Certificates::default();
        let start = Start { core: 0, bound, modes, certificates, seat, orders: receiver, held: count };
        let own = shared.clone();
        let worker = async move { worker::run(start, service::of_worker(0, own)).await };
        Ok((Server { shared, orders, held }, worker))
    }

    /// What the store holds.
    pub fn usage(&self) -> Usage {
        self.shared.store.usage()
    }

    /// Fills under way.
    pub fn fills(&self) -> usize {
        self.shared.inflight.running()
    }

    /// Connections of clients.
    pub fn connections(&self) -> usize {
        *self.held.borrow()
    }

    /// The counters so far.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.observatory.snapshot()
    }

    /// Invalidates all that is held and gives its space back.
    pub fn clear(&self) {
        self.shared.store.invalidate(Scope::All, clock::now());
        while self.shared.store.sweep() {}
    }

    /// Takes no more connections and closes the idle ones.
    pub fn drain(&self) {
        self.shared.begin_draining();
        let _ = self.orders.send(Order::Drain(std::sync::mpsc::channel().0));
    }

    /// What would happen to a request; nothing is sent.
    ///
    /// # Errors
    /// A sentence, where the question is not a request.
    pub fn explain(&self, question: &Question) -> Result<Explanation, String> {
        explain::explain(&self.shared, question)
    }
}

/// A data plane without listeners: a request goes in as a value, and its response comes out as one. It shows
/// that another protocol is one more caller of the walk and changes nothing in it.
pub struct Alone {
    shared: Arc<Shared>,
    core: Rc<Core>,
}

/// The outcome of a request.
#[derive(Debug)]
pub struct Answer {
    /// Status and fields of each interim response before it.
    pub interim: Vec<(StatusCode, HeaderMap)>,
    /// The status; `None` where there was no response.
    pub status: Option<StatusCode>,
    /// All fields.
    pub headers: HeaderMap,
    /// Bytes of the content, or of the content that a GET would have had; `None` where that is not known.
    pub length: Option<u64>,
    /// The body as far as it arrived.
    pub body: Vec<u8>,
    /// Why it was cut, where it was.
    pub cut: Option<&'static str>,
}

impl Alone {
    /// Makes the plan's upstreams and no listener. What is laid by hand lies in the folder `content`. Call it
    /// within a `LocalSet`, which runs the tasks that it starts.
    ///
    /// # Errors
    /// An upstream that cannot be made.
    pub fn begin(
        plan: Plan,
        observatory: Arc<Observatory>,
        (shelf, content): (Shelf, PathBuf),
    ) -> Result<Alone, StartError> {
        let content = Content::of(shelf, content);
        let shared = Arc::new(shared(plan, observatory)?.showing(HttpProofs::default(), content));
        Ok(Alone { core: service::of_worker(0, shared.clone()), shared })
    }

    /// Answers a complete request: `content` is all of its body.
    pub async fn ask(&self, mut request: Request, content: Bytes) -> Answer {
        let (core, plan) = (&*self.core, self.core.plan());
        let content = Some(content).filter(|content| !content.is_empty());
        let mut client = Nobody { content, interim: Vec::new() };
        let mut note = core.begin(&plan, &mut request);
        let response = core.call(&mut note, &mut client).await;
        let Response { head, late, length, mut body, .. } = response;
        let status = head.status();
        let headers = head.fields(&late);
        let (mut bytes, mut cut) = (Vec::new(), None);
        loop {
            match body.next(PIECE_BYTES_MAX).await {
                Ok(Some(piece)) => bytes.extend_from_slice(&piece),
                Ok(None) => break,
                Err(broken) => {
                    cut = Some(broken.word);
                    break;
                }
            }
        }
        let end = cut.map_or(End::Whole, End::Cut);
        let sent = Sent { body_bytes: bytes.len() as u64, first_byte: None, last_byte: None, end };
        core.done(note, &Done { status, sent, ended: clock::mono() });
        Answer { interim: client.interim, status, headers, length, body: bytes, cut }
    }

    /// Begins to lay content. Blocks.
    ///
    /// # Errors
    /// See [`ContentError`](crate::ContentError).
    pub fn lay(&self, order: &ContentOrder) -> Result<ContentUpload, crate::ContentError> {
        content::lay(&self.shared, order)
    }

    /// The name of a host's site.
    pub fn site_of(&self, host: &str) -> Option<String> {
        self.shared.running.load().plan.site(host).map(|site| site.name.to_string())
    }

    /// The number of a site in the counters.
    pub fn site(&self, name: &str) -> SiteId {
        self.shared.observatory.site(name)
    }

    /// Puts another plan in force, with upstreams of its own.
    ///
    /// # Errors
    /// An upstream that cannot be made.
    pub fn reload(&self, plan: Plan) -> Result<(), StartError> {
        let upstreams = upstreams(&plan)?;
        self.shared.put_in_force(Running::new(plan, upstreams));
        Ok(())
    }

    /// As [`Alone::reload`], without marking what lies under names that the plan does not give: a fault for
    /// tests of tests.
    ///
    /// # Errors
    /// An upstream that cannot be made.
    pub fn reload_unmarked(&self, plan: Plan) -> Result<(), StartError> {
        let upstreams = upstreams(&plan)?;
        self.shared.running.store(Arc::new(Running::new(plan, upstreams)));
        Ok(())
    }

    /// Makes these marks, whatever they mean.
    pub fn mark(&self, marks: &[Mark]) {
        self.shared.store.purge(marks, clock::now(), Box::new(|_| ()));
    }

    /// Purges, or orders lifetimes. Returns how the URLs begin that are concerned in place of fewer.
    ///
    /// # Errors
    /// A sentence, where an order makes no sense; then none is carried out.
    pub fn order(&self, orders: &[PurgeOrder]) -> Result<Vec<String>, String> {
        let marks = purge::marks_of(&self.shared.running.load().plan, orders)?;
        self.shared.store.purge(&marks.all, clock::now(), Box::new(|_| ()));
        Ok(marks.wider)
    }

    /// Lists what is cached.
    ///
    /// # Errors
    /// A sentence, where the order makes no sense.
    pub fn list(&self, order: &ListOrder) -> Result<CachedPage, String> {
        list::list(&self.shared, order, &|| ControlFlow::Continue(()))
    }

    /// What would happen to a request. Blocks.
    ///
    /// # Errors
    /// A sentence, where the question is not a request.
    pub fn explain(&self, question: &Question) -> Result<Explanation, String> {
        explain::explain(&self.shared, question)
    }

    /// Whether this client's statements about other clients are trusted.
    pub fn trust(&self, peer: &Peer) -> Trust {
        let trusted = self.shared.running.load().trusted.contains(peer);
        if trusted { Trust::Trusted } else { Trust::Untrusted }
    }

    /// What the store holds.
    pub fn usage(&self) -> Usage {
        self.shared.store.usage()
    }

    /// Fills under way. They go on while the caller's runtime runs.
    pub fn fills(&self) -> usize {
        self.shared.inflight.running()
    }

    /// The counters so far.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.observatory.snapshot()
    }
}

/// The size of the pieces in which a body is read, in bytes.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// A client that has sent everything and waits for as long as it takes.
struct Nobody {
    content: Option<Bytes>,
    interim: Vec<(StatusCode, HeaderMap)>,
}

impl Client for Nobody {
    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn content(&mut self) -> LocalFuture<'_, Result<Part, ContentError>> {
        let part = self.content.take().map_or(Part::End, Part::Data);
        Box::pin(std::future::ready(Ok(part)))
    }

    fn bound_content(&mut self, _: ContentLimits) {}

    fn interim(&mut self, status: StatusCode, fields: &HeaderMap) -> Result<(), ContentError> {
        self.interim.push((status, fields.clone()));
        Ok(())
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn moved(&mut self) {}

    fn way(&self) -> Way {
        Way::Plain
    }

    fn count_for(&mut self, _: SiteId) {}
}

/// The shared parts of a data plane of one core.
fn shared(plan: Plan, observatory: Arc<Observatory>) -> Result<Shared, StartError> {
    let upstreams = upstreams(&plan)?;
    let store = Store::new(plan.memory_bytes());
    Ok(Shared::new(store, 1, Running::new(plan, upstreams), observatory))
}

fn upstreams(plan: &Plan) -> Result<HashMap<String, Arc<Upstream>>, StartError> {
    let mut upstreams = HashMap::new();
    for settings in plan.upstreams() {
        let name = settings.name.clone();
        let made = Upstream::new(settings);
        let upstream = made.map_err(|source| StartError::Upstream { name: name.clone(), source })?;
        upstreams.insert(name, upstream);
    }
    Ok(upstreams)
}

/// Both clocks of this thread.
pub fn now() -> Now {
    clock::now()
}

/// Sets this thread's wall clock. From now on it advances with the runtime's time.
pub fn set_wall(to: SystemTime) {
    clock::set_wall(to);
}
