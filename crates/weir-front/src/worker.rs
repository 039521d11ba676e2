//! One core's worker: a single-threaded runtime with its own listeners, its connections and its bell.
//! It must not share anything mutable with another worker but what `weir_edge::shared` names.
//!
//! States of its gate: *open* → *shut* while a new process takes over (no request begins) → *left* once it
//! has (each connection goes to it where a request would begin), or *open* again where it has not.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, LocalSet};

use weir_clock as clock;

use crate::h1;
use crate::handover::{HandedOver, HandoverSender};
use crate::listen::{self, Arrival, Arrivals, Bound, Form, Idle, Peer, Seat, Slot, Stream};
use crate::message::Service;

/// How a listener's connections begin.
#[derive(Clone, Debug)]
pub struct ListenerMode {
    /// The PROXY protocol version demanded, if one is.
    pub greeting: Option<Form>,
}

/// What the edge tells its workers.
pub enum Order {
    /// Listen at one more address.
    Listen(usize, Bound, ListenerMode),
    /// Changes the mode of a listener for the connections that come from now on.
    Greet(usize, ListenerMode),
    /// Stop listening by a listener.
    Deafen(usize),
    /// Take no more connections and say so, close the idle ones, finish the rest.
    Drain(std::sync::mpsc::Sender<()>),
    /// Begin no request until further notice, and say so.
    Shut(std::sync::mpsc::Sender<()>),
    /// Begin requests again.
    Open,
    /// Take no more connections, and give those that are there to the new process, each where a request would
    /// begin.
    Leave(HandoverSender),
    /// Go on with a connection that another process has begun.
    Adopt(Box<HandedOver>),
}

/// Whether requests may begin.
enum Gate {
    Open,
    Shut,
    Left(HandoverSender),
}

/// The gate's state, without what it holds: what a connection does where a request would begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateState {
    /// The connection goes on.
    Open,
    /// The connection waits to be woken.
    Shut,
    /// The connection goes to the new process.
    Left,
}

/// A connection as its worker sees it.
pub(crate) struct ConnectionState {
    idle: Cell<bool>,
    /// Its place among the idle.
    slot: Slot,
    /// It has had a request.
    used: Cell<bool>,
    /// Who waits for a request to begin.
    waker: RefCell<Option<Waker>>,
}

impl ConnectionState {
    /// Has the connection woken when the gate moves.
    pub(crate) fn wake_by(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Its first request has come.
    pub(crate) fn set_used(&self) {
        self.used.set(true);
    }
}

/// The connections of one core.
pub(crate) struct Worker<S> {
    service: Rc<S>,
    connections: RefCell<HashMap<u64, (AbortHandle, Rc<ConnectionState>)>>,
    idle: RefCell<Idle>,
    /// When it was last said that there is no room.
    crowded_at: Cell<Option<Instant>>,
    /// When it was last said that one client has as many connections as it may.
    turned_away_at: Cell<Option<Instant>>,
    next_connection: Cell<u64>,
    gate: RefCell<Gate>,
    /// What the gate says to a connection; apart from it, so that a request costs one read.
    gate_state: Cell<GateState>,
}

impl<S: Service> Worker<S> {
    fn new(service: Rc<S>) -> Worker<S> {
        Worker {
            service,
            connections: RefCell::default(),
            idle: RefCell::default(),
            crowded_at: Cell::new(None),
            turned_away_at: Cell::new(None),
            next_connection: Cell::new(0),
            gate: RefCell::new(Gate::Open),
            gate_state: Cell::new(GateState::Open),
        }
    }

    /// What answers its requests.
    pub(crate) fn service(&self) -> &S {
        &self.service
    }

    /// What a connection does where a request would begin.
    pub(crate) fn gate_state(&self) -> GateState {
        self.gate_state.get()
    }

    fn move_gate(&self, gate: Gate) {
        self.gate_state.set(match gate {
            Gate::Open => GateState::Open,
            Gate::Shut => GateState::Shut,
            Gate::Left(_) => GateState::Left,
        });
        self.gate.replace(gate);
        for (_, state) in self.connections.borrow().values() {
            if let Some(waker) = state.waker.borrow_mut().take() {
                waker.wake();
            }
        }
    }

    /// Gives a connection to the new process; without one it is closed.
    fn hand_over(&self, handed_over: HandedOver) {
        if let Gate::Left(handover) = &*self.gate.borrow() {
            // A new process that is gone leaves nothing to do but close.
            let _ = handover.send(handed_over);
        }
    }

    /// Since when a connection is between two requests, with nothing received yet.
    pub(crate) fn set_idle(&self, state: &ConnectionState, since: Option<Instant>) {
        if state.idle.replace(since.is_some()) == since.is_some() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        match since {
            Some(since) => idle.push(state.slot, since),
            None => idle.remove(state.slot),
        }
    }

    /// Closes the connection that has been idle for the longest, `at_least` so long; false where none has.
    fn displace(&self, at_least: Duration) -> bool {
        let Some((longest, since)) = self.idle.borrow().longest() else { return false };
        let connections = self.connections.borrow();
        let Some((handle, state)) = connections.get(&longest) else { return false };
        if clock::mono().saturating_duration_since(since) < at_least {
            return false;
        }
        // It ends when its task next runs.
        self.set_idle(state, None);
        self.service.observer().counters().connection_displaced();
        handle.abort();
        true
    }

    /// Whether there are more connections than there may be.
    fn is_crowded(&self, arrivals: &Arrivals) -> bool {
        arrivals.seat().held_by_all() > self.service.limits().connections_max
    }

    /// Makes room for a new connection where there are as many as there may be, here or at another worker;
    /// none where it goes there or, for want of any that is idle, is closed.
    fn admit(&self, arrivals: &Arrivals, arrival: Arrival) -> Option<Arrival> {
        if !self.is_crowded(arrivals) {
            return Some(arrival);
        }
        if is_time_to_say(&self.crowded_at) {
            let most = self.service.limits().connections_max;
            tracing::warn!(most, "no room for more connections of clients: the longest idle are closed");
        }
        // Another worker may have one that has been idle for longer.
        let at_least = if arrivals.is_last(&arrival) { Duration::ZERO } else { LONG_IDLE };
        if self.displace(at_least) {
            return Some(arrival);
        }
        if !arrivals.pass_on(arrival) {
            self.service.observer().counters().connection_refused();
        }
        None
    }

    /// A client has as many connections as it may: one more of it is turned away.
    pub(crate) fn turn_away(&self, client: IpAddr, most: usize) {
        self.service.observer().counters().connection_refused();
        if is_time_to_say(&self.turned_away_at) {
            tracing::warn!(
                %client,
                most,
                "a client has limits.connections_per_client connections: more of it are turned away"
            );
        }
    }

    /// Ends the connections that are between two requests, and also those that wait for their first one where
    /// `fresh`.
    fn close_idle(&self, fresh: bool) {
        for (handle, state) in self.connections.borrow().values() {
            if state.idle.get() && (fresh || state.used.get()) {
                handle.abort();
            }
        }
    }
}

/// A worker closes one that has been idle for less only where no other worker closes one.
const LONG_IDLE: Duration = Duration::from_secs(1);

/// How often it is said that clients have all the connections that they may.
const CROWDED_PAUSE: Duration = Duration::from_secs(60);

/// Whether it is time to say it again; from now on it is not for a while.
fn is_time_to_say(said_at: &Cell<Option<Instant>>) -> bool {
    let now = clock::mono();
    let is_time = said_at.get().is_none_or(|at| now >= at + CROWDED_PAUSE);
    if is_time {
        said_at.set(Some(now));
    }
    is_time
}

/// How long a client that has just connected may take to send its request when the process is to end: one
/// that was accepted a moment before must not lose what is already under way.
const FIRST_REQUEST_TIME_MAX: Duration = Duration::from_secs(1);

/// What a worker's thread needs to begin.
pub struct Start {
    /// Its number.
    pub core: usize,
    /// Its sockets, each with its listener's number.
    pub bound: Vec<(usize, Bound)>,
    /// How the connections of each listener begin.
    pub modes: Vec<ListenerMode>,
    /// Its place among the workers.
    pub seat: Seat,
    /// What it is told.
    pub orders: mpsc::UnboundedReceiver<Order>,
    /// Connections this worker still holds; whoever ends the process waits for all to come to nothing.
    pub held: watch::Sender<usize>,
}

/// Starts a worker's thread; `service` is called on it, within its runtime.
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

/// Serves a connection that has just come, if there is room for it.
fn meet<S: Service>(
    worker: &Rc<Worker<S>>,
    held: &Rc<watch::Sender<usize>>,
    arrivals: &Arrivals,
    modes: &HashMap<usize, ListenerMode>,
    arrival: Arrival,
) {
    let mode = modes.get(&arrival.listener).cloned();
    if let Some(arrival) = worker.admit(arrivals, arrival) {
        receive(worker, held, arrival, mode, BytesMut::new());
    }
}

/// A worker, until there is nobody left to give it orders.
pub async fn run<S: Service>(start: Start, service: Rc<S>) {
    let Start { bound, modes, seat, mut orders, held, .. } = start;
    let worker = Rc::new(Worker::new(service));
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
                    // What made room gives it back before more is accepted.
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
                    let worker = worker.clone();
                    tokio::task::spawn_local(async move {
                        tokio::time::sleep(FIRST_REQUEST_TIME_MAX).await;
                        worker.close_idle(true);
                    });
                    // Who asked may have lost patience.
                    let _ = closed.send(());
                }
                Some(Order::Shut(shut)) => {
                    worker.move_gate(Gate::Shut);
                    // Who asked may have lost patience.
                    let _ = shut.send(());
                }
                Some(Order::Open) => worker.move_gate(Gate::Open),
                Some(Order::Leave(handover)) => {
                    arrivals.close();
                    worker.move_gate(Gate::Left(handover));
                }
                Some(Order::Adopt(handed_over)) => adopt(&worker, &held, &arrivals, *handed_over),
                None => return,
            },
        }
    }
}

/// Gives a connection of another process its task; it is past its greeting.
fn adopt<S: Service>(
    worker: &Rc<Worker<S>>,
    held: &Rc<watch::Sender<usize>>,
    arrivals: &Arrivals,
    handed_over: HandedOver,
) {
    let HandedOver { socket, family, peer, input, .. } = handed_over;
    let stream = match Stream::of_socket(socket, family) {
        Ok(stream) => stream,
        Err(error) => return tracing::warn!(%error, "connection lost on its way from another process"),
    };
    let seat = arrivals.seat();
    let arrival = Arrival { stream, peer, listener: usize::MAX, held: seat.hold(seat.worker()), tried: 0 };
    receive(worker, held, arrival, None, BytesMut::from(&input[..]));
}

/// Gives a new connection its task; the task ends with the worker. `input` is what was already read of it.
fn receive<S: Service>(
    worker: &Rc<Worker<S>>,
    held: &Rc<watch::Sender<usize>>,
    arrival: Arrival,
    mode: Option<ListenerMode>,
    mut input: BytesMut,
) {
    let number = worker.next_connection.get();
    worker.next_connection.set(number + 1);
    let slot = worker.idle.borrow_mut().slot(number);
    let state = Rc::new(ConnectionState {
        idle: Cell::new(false),
        slot,
        used: Cell::new(false),
        waker: RefCell::default(),
    });
    // It waits for its first request also before its task has run.
    worker.set_idle(&state, Some(clock::mono()));
    worker.service.observer().counters().connection_accepted();
    held.send_modify(|held| *held += 1);
    let leaving = Leaving { worker: worker.clone(), held: held.clone(), number, slot };
    let present = state.clone();
    let task = tokio::task::spawn_local(async move {
        let leaving = leaving;
        let Arrival { stream, mut peer, held: counted, .. } = arrival;
        if let Some(greeting) = mode.and_then(|mode| mode.greeting) {
            match greet(&leaving.worker, &stream, peer, greeting, &mut input).await {
                Some(announced) => peer = announced,
                None => return leaving.worker.service.observer().counters().connection_refused(),
            }
        }
        if let Some(handed_over) = h1::serve(leaving.worker.clone(), stream, input, peer, present).await {
            leaving.worker.hand_over(HandedOver { held: Some(counted), ..handed_over });
        }
    });
    worker.connections.borrow_mut().insert(number, (task.abort_handle(), state));
}

/// Reads the PROXY header that the listener demands.
async fn greet<S: Service>(
    worker: &Worker<S>,
    stream: &Stream,
    peer: Peer,
    form: Form,
    input: &mut BytesMut,
) -> Option<Peer> {
    let trusted = worker.service.trusted();
    let greeted = listen::greet(stream, peer, &trusted, form, input);
    match tokio::time::timeout(worker.service.limits().head_time_max, greeted).await {
        Ok(Ok(peer)) => Some(peer),
        Ok(Err(error)) => {
            tracing::debug!(%error, %peer, ?form, "connection without a PROXY header");
            None
        }
        Err(_) => None,
    }
}

/// Takes a connection out of its worker's book, however it ended.
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

/// How long a worker's thread is waited for when the process ends.
pub const JOIN_TIME_MAX: Duration = Duration::from_secs(1);
