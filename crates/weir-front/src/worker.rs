//! One core's worker: a single-threaded runtime with its own listeners, its connections and its bell.
//! It must not share anything mutable with another worker except what `weir_edge::shared` names.
//!
//! States of its gate: *open*; *shut* while a new process takes over (no request begins); *left* once the
//! takeover has succeeded (each connection goes to the new process when its next request would begin), or
//! *open* again if it has failed.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, LocalSet};

use weir_clock as clock;
use weir_share::Client;
use weir_tls::Certificates;

use crate::entrance::{Beginning, Protocol, enter};
use crate::h1;
use crate::h2;
use crate::handover::{Departure, HandedOver, HandoverSender};
use crate::handshakes::Handshakes;
use crate::listen::{Arrival, Arrivals, Bound, Held, Idle, Peer, Plain, Seat, Slot};
use crate::message::Service;
use crate::mode::ListenerMode;
use crate::tunnel;

/// What the edge tells its workers.
pub enum Order {
    /// Listen at one more address.
    Listen(usize, Bound, ListenerMode),
    /// Change the mode of a listener for the connections that it accepts from now on.
    Greet(usize, ListenerMode),
    /// Close a listener.
    Deafen(usize),
    /// Accept no more connections, close the idle ones, confirm over the sender, and finish the rest.
    Drain(std::sync::mpsc::Sender<()>),
    /// Begin no request until `Open` or `Leave`, and confirm over the sender.
    Shut(std::sync::mpsc::Sender<()>),
    /// Begin requests again.
    Open,
    /// Accept no more connections, and hand over each open one to the new process when its next request would
    /// begin.
    Leave(HandoverSender),
    /// Continue a connection that another process accepted.
    Adopt(Box<HandedOver>),
    /// End all connections, and what is under way on them, with a last word where there is one: a close frame
    /// over a WebSocket, GOAWAY over HTTP/2.
    End,
}

/// Whether requests may begin.
enum Gate {
    Open,
    Shut,
    Left(HandoverSender),
}

/// The state of the gate without the handover's sender: what a connection does before its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateState {
    /// The connection reads its next request.
    Open,
    /// The connection waits to be woken.
    Shut,
    /// The connection goes to the new process.
    Left,
}

/// A connection as its worker sees it.
pub(crate) struct ConnectionState {
    idle: Cell<bool>,
    /// Its place in the worker's list of idle connections.
    slot: Slot,
    /// Whether it has had a request.
    used: Cell<bool>,
    /// The waker of its task while the task waits for a request to begin.
    waker: RefCell<Option<Waker>>,
    /// Whether it ends by itself once the worker is over.
    says_farewell: Cell<bool>,
}

impl ConnectionState {
    /// Registers the task of `cx`: it is woken when the gate changes.
    pub(crate) fn wake_by(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Notes that it ends by itself once the worker is over.
    pub(crate) fn set_says_farewell(&self) {
        self.says_farewell.set(true);
    }

    /// Notes that its first request has arrived.
    pub(crate) fn set_used(&self) {
        self.used.set(true);
    }
}

/// The connections of one core.
pub(crate) struct Worker<S> {
    service: Rc<S>,
    handshakes: Handshakes,
    connections: RefCell<HashMap<u64, (AbortHandle, Rc<ConnectionState>)>>,
    idle: RefCell<Idle>,
    /// When the worker last logged that `connections_max` is reached.
    crowded_at: Cell<Option<Instant>>,
    /// When the worker last logged that a client has reached its limit of connections.
    turned_away_at: Cell<Option<Instant>>,
    next_connection: Cell<u64>,
    /// Whether free memory is about to be given back.
    gives_back: Cell<bool>,
    gate: RefCell<Gate>,
    /// The state of `gate`, kept apart from it so that a request costs one read.
    gate_state: Cell<GateState>,
    /// Whether all connections are to end at once.
    is_over: Cell<bool>,
}

impl<S: Service> Worker<S> {
    fn new(service: Rc<S>, handshakes: Handshakes) -> Worker<S> {
        Worker {
            service,
            handshakes,
            connections: RefCell::default(),
            idle: RefCell::default(),
            crowded_at: Cell::new(None),
            turned_away_at: Cell::new(None),
            next_connection: Cell::new(0),
            gives_back: Cell::new(false),
            gate: RefCell::new(Gate::Open),
            gate_state: Cell::new(GateState::Open),
            is_over: Cell::new(false),
        }
    }

    /// The service that answers its requests.
    pub(crate) fn service(&self) -> &S {
        &self.service
    }

    /// The TLS handshakes of new connections.
    pub(crate) fn handshakes(&self) -> &Handshakes {
        &self.handshakes
    }

    /// The state of the gate: what a connection does before its next request.
    pub(crate) fn gate_state(&self) -> GateState {
        self.gate_state.get()
    }

    /// Whether all connections are to end at once.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    fn move_gate(&self, gate: Gate) {
        self.gate_state.set(match gate {
            Gate::Open => GateState::Open,
            Gate::Shut => GateState::Shut,
            Gate::Left(_) => GateState::Left,
        });
        self.gate.replace(gate);
        self.wake_all();
    }

    /// Has each connection see that something has changed for it.
    fn wake_all(&self) {
        for (_, state) in self.connections.borrow().values() {
            if let Some(waker) = state.waker.borrow_mut().take() {
                waker.wake();
            }
        }
    }

    /// Sends a connection to the new process; closes it if the gate has not been left.
    fn hand_over(&self, handed_over: HandedOver) {
        if let Gate::Left(handover) = &*self.gate.borrow() {
            // If the new process is gone, the connection can only be closed: the failed send drops it.
            let _ = handover.send(handed_over);
        }
    }

    /// Sets since when a connection is idle: between two requests, nothing received yet. `None`: it is busy.
    /// Whether that is news.
    pub(crate) fn set_idle(&self, state: &ConnectionState, since: Option<Instant>) -> bool {
        if state.idle.replace(since.is_some()) == since.is_some() {
            return false;
        }
        let mut idle = self.idle.borrow_mut();
        match since {
            Some(since) => idle.push(state.slot, since),
            None => idle.remove(state.slot),
        }
        true
    }

    /// Closes the connection that has been idle for the longest; false if none has been idle for `at_least`.
    fn displace(&self, at_least: Duration) -> bool {
        let Some((longest, since)) = self.idle.borrow().longest() else { return false };
        let connections = self.connections.borrow();
        let Some((handle, state)) = connections.get(&longest) else { return false };
        if clock::mono().saturating_duration_since(since) < at_least {
            return false;
        }
        // The connection ends when its task next runs.
        self.set_idle(state, None);
        self.service.observer().counters().connection_displaced();
        handle.abort();
        true
    }

    /// Whether all workers together hold more than `connections_max` connections.
    fn is_crowded(&self, arrivals: &Arrivals) -> bool {
        arrivals.seat().held_by_all() > self.service.limits().connections_max
    }

    /// Admits a new connection; when the process is full, closes an idle one for it. Without an idle one
    /// here, the connection is passed on to another worker, or closed once all were tried: then `None`.
    fn admit(&self, arrivals: &Arrivals, arrival: Arrival) -> Option<Arrival> {
        if !self.is_crowded(arrivals) {
            return Some(arrival);
        }
        if is_time_to_say(&self.crowded_at) {
            let most = self.service.limits().connections_max;
            tracing::warn!(most, "connections of clients are at their limit: the longest idle are closed");
        }
        // Until all workers were tried: another may have a connection that has been idle for longer.
        let at_least = if arrivals.is_last(&arrival) { Duration::ZERO } else { LONG_IDLE };
        if self.displace(at_least) {
            return Some(arrival);
        }
        if !arrivals.pass_on(arrival) {
            self.service.observer().counters().connection_refused();
        }
        None
    }

    /// Has the allocator look for memory to give back, a while after a connection has ended or given up its
    /// buffers. It looks only when it is asked for memory: a worker that nobody asks would keep what a burst
    /// has held.
    pub(crate) fn give_back_later(self: &Rc<Self>) {
        if self.gives_back.replace(true) {
            return;
        }
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            // The first look finds what is free, the second what has been free for a while.
            for look in 1.. {
                tokio::time::sleep(GIVE_BACK_AFTER).await;
                worker.shrink();
                let is_settled = !worker.service.settle();
                drop(std::hint::black_box(Vec::<u8>::with_capacity(GIVE_BACK_LOOK_BYTES)));
                if look >= 2 && is_settled {
                    break;
                }
            }
            worker.gives_back.set(false);
        });
    }

    /// Shortens lists that were longer, and gives up spare buffers.
    fn shrink(&self) {
        h2::shrink();
        let mut connections = self.connections.borrow_mut();
        if connections.capacity() / 4 > connections.len() {
            connections.shrink_to_fit();
        }
        self.idle.borrow_mut().shrink();
    }

    /// Counts and logs a connection that is refused because its client has reached its limit.
    pub(crate) fn turn_away(&self, client: Client, most: usize) {
        self.service.observer().counters().connection_refused();
        if is_time_to_say(&self.turned_away_at) {
            tracing::warn!(
                %client,
                most,
                "a client has limits.connections_per_client connections: more of it are turned away"
            );
        }
    }

    /// Ends the connections that are between two requests; with `fresh`, also those that wait for their first
    /// request.
    fn close_idle(&self, fresh: bool) {
        for (handle, state) in self.connections.borrow().values() {
            if state.idle.get() && (fresh || state.used.get()) {
                handle.abort();
            }
        }
    }
}

/// Ends all connections: the tunnels first, which say more than others.
async fn end<S: Service>(worker: Rc<Worker<S>>) {
    tunnel::end_all();
    let until = clock::mono() + tunnel::FAREWELL_TIME_MAX;
    while tunnel::are_any() && clock::mono() < until {
        tokio::time::sleep(FAREWELL_LOOK).await;
    }
    worker.is_over.set(true);
    worker.wake_all();
    for (handle, state) in worker.connections.borrow().values() {
        if !state.says_farewell.get() {
            handle.abort();
        }
    }
}

/// Between two looks whether the tunnels have ended.
const FAREWELL_LOOK: Duration = Duration::from_millis(10);

/// The pause before each look for memory to give back.
const GIVE_BACK_AFTER: Duration = Duration::from_secs(2);
/// More than the allocator has ready in any of its pages, so that it has to look. It is not written to.
const GIVE_BACK_LOOK_BYTES: usize = 4 << 20;

/// A worker closes a connection that has been idle for less only if no other worker closed one.
const LONG_IDLE: Duration = Duration::from_secs(1);

/// The least time between two log lines that a limit of connections is reached.
const CROWDED_PAUSE: Duration = Duration::from_secs(60);

/// Whether a warning is due again; if so, the next one is due after [`CROWDED_PAUSE`].
fn is_time_to_say(said_at: &Cell<Option<Instant>>) -> bool {
    let now = clock::mono();
    let is_time = said_at.get().is_none_or(|at| now >= at + CROWDED_PAUSE);
    if is_time {
        said_at.set(Some(now));
    }
    is_time
}

/// How long a connection without a request stays open once the process drains: a client that has just
/// connected must not lose the request that it is sending.
const FIRST_REQUEST_TIME_MAX: Duration = Duration::from_secs(1);

/// What a worker's thread needs to begin.
pub struct Start {
    /// The worker's number.
    pub core: usize,
    /// Its sockets, each with its listener's number.
    pub bound: Vec<(usize, Bound)>,
    /// How the connections of each listener begin.
    pub modes: Vec<ListenerMode>,
    /// The certificates for connections over TLS.
    pub certificates: Certificates,
    /// Its place among the workers.
    pub seat: Seat,
    /// The edge's orders to it.
    pub orders: mpsc::UnboundedReceiver<Order>,
    /// The number of connections that this worker holds; the process ends once every worker's is 0.
    pub held: watch::Sender<usize>,
}

/// Starts a worker's thread; `service` is called on that thread, within its runtime.
///
/// # Errors
/// The thread or its runtime cannot be made.
pub fn start<S: Service>(
    start: Start,
    service: impl FnOnce() -> Rc<S> + Send + 'static,
) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(format!("weir-worker-{}", start.core)).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return tracing::error!(%error, "worker has no runtime"),
        };
        let local = LocalSet::new();
        local.block_on(&runtime, async { run(start, service()).await });
    })
}

/// Serves a connection that has just been accepted, if [`Worker::admit`] admits it.
fn meet<S: Service>(
    worker: &Rc<Worker<S>>,
    held: &Rc<watch::Sender<usize>>,
    arrivals: &Arrivals,
    modes: &HashMap<usize, ListenerMode>,
    arrival: Arrival,
) {
    let mode = modes.get(&arrival.listener).copied().unwrap_or(ListenerMode::PLAIN);
    if let Some(arrival) = worker.admit(arrivals, arrival) {
        receive_stream(worker, held, arrival, Beginning::accepted(mode));
    }
}

/// Runs a worker until the sender of its orders is dropped.
pub async fn run<S: Service>(start: Start, service: Rc<S>) {
    let Start { core, bound, modes, certificates, seat, mut orders, held } = start;
    let worker = Rc::new(Worker::new(service, Handshakes::new(core, certificates)));
    let mut modes: HashMap<usize, ListenerMode> = modes.into_iter().enumerate().collect();
    let mut arrivals = Arrivals::new(seat);
    for (index, bound) in bound {
        if let Err(error) = arrivals.add(index, bound) {
            return tracing::error!(%error, "worker cannot listen");
        }
    }
    let held = Rc::new(held);
    loop {
        tokio::select! {
            arrival = arrivals.next(), if worker.gate_state() != GateState::Shut => {
                meet(&worker, &held, &arrivals, &modes, arrival);
                if worker.is_crowded(&arrivals) {
                    // Let the displaced connection end before another is accepted.
                    tokio::task::yield_now().await;
                }
            }
            order = orders.recv() => match order {
                Some(Order::Listen(index, bound, mode)) => {
                    modes.insert(index, mode);
                    if let Err(error) = arrivals.add(index, bound) {
                        tracing::error!(%error, "worker cannot listen");
                    }
                }
                Some(Order::Greet(index, mode)) => drop(modes.insert(index, mode)),
                Some(Order::Deafen(index)) => arrivals.remove(index),
                Some(Order::Drain(closed)) => {
                    arrivals.close();
                    worker.close_idle(false);
                    // One of HTTP/2 tells its client at once, also while a response of it is under way.
                    worker.wake_all();
                    let worker = worker.clone();
                    tokio::task::spawn_local(async move {
                        tokio::time::sleep(FIRST_REQUEST_TIME_MAX).await;
                        worker.close_idle(true);
                    });
                    // The edge may have stopped waiting.
                    let _ = closed.send(());
                }
                Some(Order::Shut(shut)) => {
                    worker.move_gate(Gate::Shut);
                    // The edge may have stopped waiting.
                    let _ = shut.send(());
                }
                Some(Order::Open) => worker.move_gate(Gate::Open),
                Some(Order::Leave(handover)) => {
                    arrivals.close();
                    worker.move_gate(Gate::Left(handover));
                    // The cache is given back meanwhile.
                    worker.give_back_later();
                }
                Some(Order::End) => {
                    arrivals.close();
                    tokio::task::spawn_local(end(worker.clone()));
                }
                Some(Order::Adopt(handed_over)) => adopt(&worker, &held, &arrivals, *handed_over),
                None => return,
            },
        }
    }
}

/// Starts the task of a connection from another process; its PROXY header has been read there.
fn adopt<S: Service>(
    worker: &Rc<Worker<S>>,
    held: &Rc<watch::Sender<usize>>,
    arrivals: &Arrivals,
    handed_over: HandedOver,
) {
    let HandedOver { socket, family, peer, port, input, relayed, .. } = handed_over;
    let carrier = Plain::new(socket, family);
    let seat = arrivals.seat();
    let arrival = Arrival { carrier, peer, listener: usize::MAX, held: seat.hold(seat.worker()), tried: 0 };
    let mode = ListenerMode { port, ..ListenerMode::PLAIN };
    let input = BytesMut::from(&input[..]);
    receive_stream(worker, held, arrival, Beginning { mode, input, relayed, is_adopted: true });
}

/// Starts the task of a new connection over a socket.
fn receive_stream<S: Service>(
    worker: &Rc<Worker<S>>,
    held: &Rc<watch::Sender<usize>>,
    arrival: Arrival,
    beginning: Beginning,
) {
    receive(worker, held, arrival, |worker, stream, peer, state| {
        let entered = worker.clone();
        // In memory of its own with all that it is given: nothing of it is held afterwards.
        let entering = Box::pin(async move { enter(&entered, stream, peer, beginning).await });
        async move {
            let entered = entering.await?;
            match entered.protocol {
                // In memory of its own: a connection of one version needs no room for the other's.
                Protocol::Http1 => Box::pin(h1::serve(worker, entered, state)).await,
                Protocol::Http2 => {
                    Box::pin(h2::serve(worker, entered, state)).await;
                    None
                }
            }
        }
    });
}

/// Starts the task of a new connection, on whatever it comes; the task ends with the worker. `serve` answers
/// its requests, and returns what goes to another process.
fn receive<S: Service, C, F: Future<Output = Option<Box<Departure>>> + 'static>(
    worker: &Rc<Worker<S>>,
    held: &Rc<watch::Sender<usize>>,
    arrival: Arrival<C>,
    serve: impl FnOnce(Rc<Worker<S>>, C, Peer, Rc<ConnectionState>) -> F,
) {
    let number = worker.next_connection.get();
    worker.next_connection.set(number + 1);
    let slot = worker.idle.borrow_mut().slot(number);
    let state = Rc::new(ConnectionState {
        idle: Cell::new(false),
        slot,
        used: Cell::new(false),
        waker: RefCell::default(),
        says_farewell: Cell::new(false),
    });
    // The connection counts as idle even before its task has run.
    worker.set_idle(&state, Some(clock::mono()));
    worker.service.observer().counters().connection_accepted();
    held.send_modify(|held| *held += 1);
    let leaving = Leaving { worker: worker.clone(), held: held.clone(), number, slot };
    let Arrival { carrier, peer, held: counted, .. } = arrival;
    let serving = serve(worker.clone(), carrier, peer, state.clone());
    let task = tokio::task::spawn_local(async move {
        let leaving = leaving;
        if let Some(departure) = serving.await {
            // In memory of its own: few connections ever leave.
            Box::pin(depart(&leaving.worker, *departure, counted)).await;
        }
        leaving.worker.give_back_later();
    });
    worker.connections.borrow_mut().insert(number, (task.abort_handle(), state));
}

/// Sends a connection to the new process, and relays its bytes where that is needed.
async fn depart<S: Service>(worker: &Worker<S>, departure: Departure, counted: Held) {
    let Departure { handed_over, relay } = departure;
    worker.hand_over(HandedOver { held: Some(counted), ..handed_over });
    if let Some(relay) = relay {
        relay.run().await;
    }
}

/// Removes a connection from its worker's lists when dropped, however the connection ended.
struct Leaving<S: Service> {
    worker: Rc<Worker<S>>,
    held: Rc<watch::Sender<usize>>,
    number: u64,
    slot: Slot,
}

impl<S: Service> Drop for Leaving<S> {
    fn drop(&mut self) {
        self.worker.idle.borrow_mut().leave(self.slot);
        self.worker.connections.borrow_mut().remove(&self.number);
        self.worker.service.observer().counters().connection_closed();
        if thread::panicking() {
            self.worker.service.observer().counters().panicked();
        }
        self.held.send_modify(|held| *held -= 1);
    }
}

/// How long the end of the process waits for a worker's thread.
pub const JOIN_TIME_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
