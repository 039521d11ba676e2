//! The data plane as the rest of the program holds it: it is started with a plan, given new plans, asked what
//! it holds and does, and drained at the end. It must not serve anything itself.

mod purging;
mod retention;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use weir_content::Shelf;
use weir_store::volume::EachDone;
use weir_store::{LedgerState, Store, Usage};
use weir_upstream::{
    Adjustments, CarriedOrigin, Upstream, UpstreamError, UpstreamSettings, UpstreamSnapshot,
};

use crate::content::laid::Content;
use crate::content::orders as content;
use crate::explain::{self, Explanation, Question};
use crate::list::{self, CachedPage, ListOrder};
use crate::plan::Plan;
use crate::proofs::HttpProofs;
use crate::purge;
use crate::shared::{Running, Shared};
use weir_fill::asks;
use weir_fill::events::EvictionEvents;
use weir_front::listen::{Address, BindError, Bound, Kept, PassedListener, Table, bind, seats};
use weir_front::worker::{self, JOIN_TIME_MAX, Order, Start};
use weir_front::{Certificates, ListenerMode};

pub use self::purging::Purging;
pub use self::retention::Unretained;
use crate::service;
use weir_observe::{Observatory, Observer, Snapshot};

/// Time between two searches for space that invalidations left behind.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Time between two checks whether connections on their way have arrived.
const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// Why the data plane cannot start, or cannot take a plan.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener's address cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// An upstream cannot be made from its settings.
    #[error("upstream {name}: {source}")]
    Upstream {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: UpstreamError,
    },
    /// A worker's thread cannot be started.
    #[error("cannot start a worker thread")]
    Thread(#[source] io::Error),
}

/// The running data plane.
pub struct Edge {
    pub(crate) shared: Arc<Shared>,
    pub(crate) workers: Vec<WorkerHandle>,
    /// Counts the workers' connections, those on their way included.
    pub(crate) table: Table,
    pub(crate) state: Mutex<State>,
    /// Connections taken from another process so far.
    pub(crate) adopted: AtomicUsize,
    /// Another process has taken over.
    pub(crate) has_left: AtomicBool,
    /// Tends upstreams: resolves their names again and closes idle connections.
    keeper: Keeper,
}

/// The edge's side of a worker.
pub(crate) struct WorkerHandle {
    pub(crate) orders: mpsc::UnboundedSender<Order>,
    pub(crate) held: watch::Receiver<usize>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What changes with a plan.
pub(crate) struct State {
    /// The listeners in use.
    pub(crate) listening: Vec<Post>,
    next_listener: usize,
    settings: HashMap<String, UpstreamSettings>,
    /// What operators have changed of origins whose upstreams the plan does not have.
    pub(crate) adjustments: HashMap<String, Adjustments>,
}

/// A listener in use.
pub(crate) struct Post {
    number: usize,
    address: Address,
    /// A copy of its sockets, until no more connections are taken.
    pub(crate) kept: Option<Kept>,
}

/// What the edge begins with from outside.
#[derive(Default)]
pub struct FromOutside {
    /// Sockets from another process, or from the service manager.
    pub passed: Vec<PassedListener>,
    /// The certificates of those that speak TLS.
    pub certificates: Certificates,
    /// The answers to a certificate authority, which may ask as soon as they listen.
    pub proofs: HttpProofs,
    /// What operators have changed of the origins, by upstream.
    pub adjustments: HashMap<String, Adjustments>,
    /// What another process knew of the origins, by upstream.
    pub carried: HashMap<String, Vec<CarriedOrigin>>,
    /// Content by hand, and its folder.
    pub content: Option<(Shelf, PathBuf)>,
}

/// A listener's sockets: one for each worker, and the copies that are kept.
struct Opened {
    kept: Kept,
    of_workers: Vec<Vec<Bound>>,
}

impl Edge {
    /// Binds the plan's listeners, except those that are inherited, and starts `workers` workers over that
    /// store.
    ///
    /// # Errors
    /// An address that cannot be bound, an upstream that cannot be made, a thread that cannot be started.
    pub fn start(
        plan: Plan,
        workers: usize,
        observatory: Arc<Observatory>,
        store: Store,
        from_outside: FromOutside,
    ) -> Result<Edge, StartError> {
        let FromOutside { mut passed, certificates, proofs, mut adjustments, carried, content } =
            from_outside;
        let workers = workers.max(1);
        let listeners = plan.listeners().to_vec();
        let mut bound: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
        let mut listening = Vec::with_capacity(listeners.len());
        for (number, (address, _)) in listeners.iter().enumerate() {
            let Opened { kept, of_workers } = open(address, workers, &mut passed)?;
            for (bound, own) in bound.iter_mut().zip(of_workers) {
                bound.extend(own.into_iter().map(|socket| (number, socket)));
            }
            listening.push(Post { number, address: address.clone(), kept: Some(kept) });
        }
        for left in &passed {
            tracing::warn!(
                "no listener is configured for {} now; connections that wait there are closed",
                left.address
            );
        }
        let keeper = Keeper::start(observatory.observer(0)).map_err(StartError::Thread)?;
        let mut settings = HashMap::new();
        let before = Before::Start(&carried);
        let upstreams = make_upstreams(&plan, before, &mut settings, &mut adjustments, &keeper)?;
        store.watch(Arc::new(EvictionEvents(observatory.clone())));
        let content = content.map(|(shelf, folder)| Content::of(shelf, folder)).unwrap_or_default();
        let running = Running::new(plan, upstreams).showing(&content);
        let shared = Shared::new(store, workers, running, observatory);
        let shared = Arc::new(shared.showing(proofs, content));
        keeper.sweep(shared.clone());
        let modes: Vec<ListenerMode> = listeners.iter().map(|(_, mode)| *mode).collect();
        let mut handles = Vec::with_capacity(workers);
        let seats = seats(workers);
        let table = seats[0].table();
        for (core, (bound, seat)) in bound.into_iter().zip(seats).enumerate() {
            let (orders, receiver) = mpsc::unbounded_channel();
            let (count, held) = watch::channel(0);
            let (modes, certificates) = (modes.clone(), certificates.clone());
            let start = Start { core, bound, modes, certificates, seat, orders: receiver, held: count };
            let shared = shared.clone();
            let thread =
                worker::start(start, move || service::of_worker(core, shared)).map_err(StartError::Thread)?;
            handles.push(WorkerHandle { orders, held, thread: Mutex::new(Some(thread)) });
        }
        let state = State { next_listener: listening.len(), listening, settings, adjustments };
        let state = Mutex::new(state);
        let (adopted, has_left) = (AtomicUsize::new(0), AtomicBool::new(false));
        Ok(Edge { shared, workers: handles, table, state, adopted, has_left, keeper })
    }

    /// Puts a plan in force for all requests that begin from now on. Upstreams whose settings did not change
    /// keep their connections and what is known of their health. New listeners are opened and removed ones
    /// closed.
    ///
    /// # Errors
    /// As [`Edge::start`]; the old plan then stays in force.
    pub fn swap(&self, plan: Plan) -> Result<(), StartError> {
        let mut state = self.state.lock();
        let old = self.shared.running.load_full();
        let (mut settings, mut adjustments) = (state.settings.clone(), state.adjustments.clone());
        let before = Before::Plan(&old.upstreams);
        let upstreams = make_upstreams(&plan, before, &mut settings, &mut adjustments, &self.keeper)?;
        let listeners = plan.listeners().to_vec();
        let mut added = Vec::new();
        for (address, mode) in &listeners {
            if !state.listening.iter().any(|post| &post.address == address) {
                added.push((address.clone(), *mode, open(address, self.workers.len(), &mut Vec::new())?));
            }
        }
        self.shared.files.limit(plan.hot_limits());
        let still = self.shared.content.still();
        let running = Running::new(plan, upstreams).showing(&self.shared.content);
        self.shared.put_in_force(running);
        drop(still);
        for Post { number, address, .. } in &state.listening {
            let Some((_, mode)) = listeners.iter().find(|(kept, _)| kept == address) else { continue };
            for worker in &self.workers {
                let _ = worker.orders.send(Order::Greet(*number, *mode));
            }
        }
        for (address, mode, Opened { kept, of_workers }) in added {
            let number = state.next_listener;
            state.next_listener += 1;
            for (worker, own) in self.workers.iter().zip(of_workers) {
                for bound in own {
                    let _ = worker.orders.send(Order::Listen(number, bound, mode));
                }
            }
            state.listening.push(Post { number, address, kept: Some(kept) });
        }
        let gone = |address: &Address| !listeners.iter().any(|(kept, _)| kept == address);
        for post in state.listening.iter().filter(|post| gone(&post.address)) {
            for worker in &self.workers {
                let _ = worker.orders.send(Order::Deafen(post.number));
            }
        }
        state.listening.retain(|post| !gone(&post.address));
        (state.settings, state.adjustments) = (settings, adjustments);
        Ok(())
    }

    /// The plan in force.
    pub fn plan(&self) -> Arc<Plan> {
        self.shared.running.load().plan.clone()
    }

    /// The counters so far.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.observatory.snapshot()
    }

    /// The store, for the code that deals with its volumes.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Lists what is cached. Calls `each` for each object looked at; a break ends it. Blocks for as long as
    /// that takes.
    ///
    /// # Errors
    /// A sentence.
    pub fn list(&self, order: &ListOrder, each: EachDone<'_>) -> Result<CachedPage, String> {
        list::list(&self.shared, order, each)
    }

    /// What the store holds.
    pub fn usage(&self) -> Usage {
        self.shared.store.usage()
    }

    /// Fills under way.
    pub fn fills(&self) -> usize {
        self.shared.inflight.running()
    }

    /// The upstreams of the plan in force, themselves, by name.
    pub fn running_upstreams(&self) -> Vec<Arc<Upstream>> {
        let running = self.shared.running.load();
        let mut all: Vec<Arc<Upstream>> = running.upstreams.values().cloned().collect();
        all.sort_by(|one, other| one.name().cmp(other.name()));
        all
    }

    /// The upstreams of the plan in force.
    pub fn upstreams(&self) -> Vec<UpstreamSnapshot> {
        let running = self.shared.running.load();
        let mut all: Vec<_> = running.upstreams.values().map(|upstream| upstream.snapshot()).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Worker threads.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Where clients connect.
    pub fn listening(&self) -> Vec<Address> {
        self.state.lock().listening.iter().map(|post| post.address.clone()).collect()
    }

    /// What would happen to a request; nothing is sent anywhere.
    ///
    /// # Errors
    /// A sentence, where the question is not a request.
    pub fn explain(&self, question: &Question) -> Result<Explanation, String> {
        explain::explain(&self.shared, question)
    }

    /// The name of the site that has this name or this host.
    pub fn site_named(&self, name: &str) -> Option<String> {
        purge::site(&self.plan(), name).ok().map(|site| site.name.to_string())
    }

    /// Says that no site has this name or this host, and which there are.
    pub fn unknown_site(&self, name: &str) -> String {
        purge::site(&self.plan(), name).err().unwrap_or_default()
    }

    /// The name of the site that a URL leads to, as [`Edge::purge`] reads it.
    pub fn site_of_url(&self, url: &str) -> Option<String> {
        purge::site_of_url(&self.plan(), url).map(|site| site.name.to_string())
    }

    /// The ledger's state.
    pub fn ledger(&self) -> LedgerState {
        self.shared.store.ledger().state()
    }

    /// Returns when all marks made so far are durable, or the patience is over. Blocks.
    pub fn finish_ledger(&self, patience: Duration) {
        let (done, finished) = std::sync::mpsc::channel();
        let acknowledge = move |_| {
            // A caller that has stopped waiting need not know.
            let _ = done.send(());
        };
        self.shared.store.purge(&[], weir_clock::now(), Box::new(acknowledge));
        let _ = finished.recv_timeout(patience);
    }

    /// Whether requests are still taken.
    pub fn is_draining(&self) -> bool {
        self.shared.is_draining()
    }

    /// Takes no more connections, and lets open ones finish for at most `patience`; what is under way then is
    /// for [`Edge::end_requests`]. Blocks.
    pub fn drain(&self, patience: Duration) {
        self.shared.begin_draining();
        self.state.lock().listening.iter_mut().for_each(|post| drop(post.kept.take()));
        let until = weir_clock::mono() + patience;
        let left = || until.saturating_duration_since(weir_clock::mono());
        let (closed, done) = std::sync::mpsc::channel();
        for worker in &self.workers {
            let _ = worker.orders.send(Order::Drain(closed.clone()));
        }
        drop(closed);
        // Until it has answered, a worker may still accept a connection.
        let _ = self.workers.iter().all(|_| done.recv_timeout(left()).is_ok());
        self.await_readers(left());
    }

    /// Asks no origin any more whether it is up.
    pub(crate) fn stop_checks(&self) {
        self.keeper.stop_checks();
    }

    /// Blocks until no connection is left, or the patience is over. Connections on their way to another
    /// worker or process are waited for, since a process that ends before they arrive closes them.
    pub(crate) fn await_readers(&self, patience: Duration) {
        let until = weir_clock::mono() + patience;
        self.keeper.wait(patience, self.workers.iter().map(|worker| worker.held.clone()).collect());
        while self.table.held() > 0 && weir_clock::mono() < until {
            std::thread::sleep(LOOK_PAUSE);
        }
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let (closed, _) = mpsc::unbounded_channel();
            worker.orders = closed;
        }
        let until = weir_clock::mono() + JOIN_TIME_MAX;
        for worker in &self.workers {
            let Some(thread) = worker.thread.lock().take() else { continue };
            while !thread.is_finished() && weir_clock::mono() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Binds a listener, or takes its inherited sockets.
fn open(address: &Address, workers: usize, passed: &mut Vec<PassedListener>) -> Result<Opened, StartError> {
    let lost = |source| BindError::Kernel { address: address.clone(), source };
    let known = passed.iter().position(|passed| passed.address.is_same_place(address));
    let (kept, of_workers) = match known {
        Some(at) => Kept::of_passed(passed.swap_remove(at), workers).map_err(lost)?,
        None => {
            let bound = bind(address, workers)?;
            let kept = Kept::of_bound(address, &bound).map_err(lost)?;
            (kept, bound.into_iter().map(|bound| vec![bound]).collect())
        }
    };
    Ok(Opened { kept, of_workers })
}

/// What there was before a plan.
#[derive(Clone, Copy)]
enum Before<'a> {
    /// Nothing, or another process, which knew this of origins.
    Start(&'a HashMap<String, Vec<CarriedOrigin>>),
    /// Another plan, with these upstreams.
    Plan(&'a HashMap<String, Arc<Upstream>>),
}

impl Before<'_> {
    fn upstream(&self, name: &str) -> Option<&Arc<Upstream>> {
        match self {
            Before::Start(_) => None,
            Before::Plan(upstreams) => upstreams.get(name),
        }
    }

    /// An upstream of these settings that there was not.
    fn new_one(
        &self,
        wanted: UpstreamSettings,
        adjustments: Adjustments,
    ) -> Result<Arc<Upstream>, UpstreamError> {
        match self {
            Before::Plan(_) => Upstream::added(wanted, adjustments),
            Before::Start(carried) => {
                let name = wanted.name.clone();
                let upstream = Upstream::adjusted(wanted, adjustments)?;
                carried.get(&name).into_iter().for_each(|known| upstream.carry(known));
                Ok(upstream)
            }
        }
    }
}

/// The plan's upstreams: those of before where the settings are the same, new ones elsewhere.
fn make_upstreams(
    plan: &Plan,
    before: Before<'_>,
    settings: &mut HashMap<String, UpstreamSettings>,
    adjustments: &mut HashMap<String, Adjustments>,
    keeper: &Keeper,
) -> Result<HashMap<String, Arc<Upstream>>, StartError> {
    let mut upstreams = HashMap::new();
    let mut kept = HashMap::new();
    for wanted in plan.upstreams() {
        let name = wanted.name.clone();
        let same = settings.get(&name).is_some_and(|known| known == &wanted);
        let upstream = match before.upstream(&name).filter(|_| same) {
            Some(upstream) => upstream.clone(),
            None => {
                let made = match before.upstream(&name) {
                    Some(old) => Upstream::succeed(old, wanted.clone()),
                    None => before.new_one(wanted.clone(), adjustments.remove(&name).unwrap_or_default()),
                };
                let upstream = made.map_err(|source| StartError::Upstream { name: name.clone(), source })?;
                keeper.tend(&upstream);
                upstream
            }
        };
        kept.insert(name.clone(), wanted);
        upstreams.insert(name, upstream);
    }
    let old = match before {
        Before::Start(_) => None,
        Before::Plan(upstreams) => Some(upstreams),
    };
    let old = old.into_iter().flatten();
    for (name, gone) in old.filter(|(name, _)| !upstreams.contains_key(*name)) {
        adjustments.insert(name.clone(), gone.adjustments());
    }
    *settings = kept;
    Ok(upstreams)
}

/// Starts a thread with a runtime for work that belongs to no core.
struct Keeper {
    runtime: tokio::runtime::Handle,
    /// Only for the log of requests to origins.
    observer: Observer,
    /// The tasks that ask origins whether they are up.
    checks: Mutex<Vec<AbortHandle>>,
    _end: mpsc::Sender<()>,
}

impl Keeper {
    fn start(observer: Observer) -> io::Result<Keeper> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, mut ended) = mpsc::channel(1);
        std::thread::Builder::new().name("weir-keeper".to_owned()).spawn(move || {
            runtime.block_on(ended.recv());
        })?;
        Ok(Keeper { runtime: handle, observer, checks: Mutex::default(), _end: end })
    }

    /// Tends an upstream until it is dropped. Logs at the start where an origin cannot be reached.
    fn tend(&self, upstream: &Arc<Upstream>) {
        self.runtime.spawn(upstream.tend());
        let checks = self.runtime.spawn(upstream.watch(asks::checks(&self.observer, upstream.name())));
        let mut all = self.checks.lock();
        all.retain(|task| !task.is_finished());
        all.push(checks.abort_handle());
        drop(all);
        if upstream.is_checked() {
            return;
        }
        let upstream = upstream.clone();
        let log = self.observer.wants_asked().then(|| asks::probe(&self.observer, upstream.name()));
        self.runtime.spawn(async move { upstream.probe(log).await });
    }

    /// Asks no origin any more whether it is up: the process that has taken over does.
    fn stop_checks(&self) {
        self.checks.lock().drain(..).for_each(|task| task.abort());
    }

    /// Gives back the space of what was invalidated, step by step, and that of content by hand which has
    /// ended; and logs where the ledger cannot be written.
    fn sweep(&self, shared: Arc<Shared>) {
        self.runtime.spawn(async move {
            let (store, mut failure) = (shared.store.clone(), None);
            loop {
                tokio::time::sleep(SWEEP_EVERY).await;
                content::remove_over(&shared).await;
                let now = store.ledger().state().failure;
                match (&failure, &now) {
                    (None, Some(why)) => {
                        tracing::error!("{why}; purges and invalidations are in force until a restart only");
                    }
                    (Some(_), None) => tracing::info!("the ledger is on disk again"),
                    _ => {}
                }
                failure = now;
                while store.sweep() {
                    tokio::task::yield_now().await;
                }
            }
        });
    }

    /// Blocks until all counts are zero, or the patience is over.
    fn wait(&self, patience: Duration, counts: Vec<watch::Receiver<usize>>) {
        let (done, finished) = std::sync::mpsc::channel();
        self.runtime.spawn(async move {
            for mut count in counts {
                let _ = count.wait_for(|held| *held == 0).await;
            }
            let _ = done.send(());
        });
        let _ = finished.recv_timeout(patience);
    }
}
