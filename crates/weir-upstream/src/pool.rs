//! An origin's connections: at most so many open, the idle ones kept for the runtime they live in, and a bounded queue
//! of those who wait for one.
//!
//! Every open connection holds a [`Permit`], or lies idle in the pool, which then holds the permit for it. A permit
//! that frees goes to the longest waiting. A wait therefore ends when any connection of the origin ends or falls idle,
//! in whatever runtime: idle connections of other runtimes are moved here (TCP, unix) or closed for their permit (TLS).
//!
//! There is one lock, held for the bookkeeping alone: no socket is opened, closed or read and no waiter is woken under
//! it, and dropping a permit takes it anew. So nothing is ever waited for with the lock held.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::clock;
use crate::connection::{Connection, Home};

/// The right to have one connection open. Gives itself to a waiter, or back, when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    pool: Option<Arc<Pool>>,
}

impl Permit {
    /// Ends the permit without giving it back: the pool counts it on.
    fn surrender(mut self) {
        self.pool = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.pass_on();
        }
    }
}

/// A connection with its permit.
#[derive(Debug)]
pub(crate) struct Lease {
    // Fields drop in this order: the socket is closed before its permit frees.
    pub(crate) connection: Box<Connection>,
    pub(crate) permit: Permit,
}

/// What a request is given.
#[derive(Debug)]
pub(crate) enum Grant {
    /// A connection that has served before and is quiet.
    Idle(Lease),
    /// The right to make one.
    Fresh(Permit),
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// An idle connection if there is one.
    Any,
    /// The right to make one, after an idle one has just failed.
    Fresh,
}

/// No connection within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crowded {
    /// The queue was full.
    QueueFull,
    /// Waited as long as allowed.
    Waited,
}

/// An origin's connections.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<State>,
    open_max: usize,
    waiting_max: usize,
    wait_max: Duration,
}

#[derive(Debug, Default)]
struct State {
    /// Permits given out and idle connections.
    open: usize,
    /// The one used last at the end.
    idle: Vec<Idle>,
    waiting: VecDeque<Waiter>,
    tickets: u64,
    /// Runtimes in which a task closes idle connections when their time is over.
    reaped: HashSet<Home>,
}

#[derive(Debug)]
struct Idle {
    connection: Box<Connection>,
    until: Instant,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    home: Home,
    demand: Demand,
    grant: oneshot::Sender<Grant>,
}

enum Step {
    Idle(Box<Connection>),
    Fresh,
    Wait(oneshot::Receiver<Grant>, u64),
    Full,
}

/// Connection counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) open: usize,
    pub(crate) idle: usize,
    pub(crate) waiting: usize,
}

impl Pool {
    /// An empty pool.
    pub(crate) fn new(open_max: usize, waiting_max: usize, wait_max: Duration) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), open_max, waiting_max, wait_max })
    }

    /// Counts for metrics.
    pub(crate) fn usage(&self) -> Usage {
        let state = self.state.lock();
        Usage { open: state.open, idle: state.idle.len(), waiting: state.waiting.len() }
    }

    /// Whether a request would get a connection without waiting.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.state.lock();
        state.open < self.open_max || !state.idle.is_empty()
    }

    /// A quiet idle connection or a permit, after waiting if need be.
    ///
    /// # Errors
    /// [`Crowded`] when the queue is full or the wait too long.
    ///
    /// # Cancel safety
    /// A waiter that is dropped leaves the queue, and passes on what it was given.
    pub(crate) async fn acquire(self: &Arc<Self>, demand: Demand) -> Result<Grant, Crowded> {
        let home = Home::current();
        loop {
            let mut closed = None;
            let step = self.step(home, demand, &mut closed);
            drop(closed);
            match step {
                Step::Fresh => return Ok(Grant::Fresh(self.permit())),
                Step::Idle(connection) => {
                    let lease = Lease { connection, permit: self.permit() };
                    if let Some(lease) = settled(lease, home) {
                        return Ok(Grant::Idle(lease));
                    }
                }
                Step::Full => return Err(Crowded::QueueFull),
                Step::Wait(granted, ticket) => {
                    let _place = Place { pool: self, ticket };
                    let Ok(Ok(grant)) = tokio::time::timeout(self.wait_max, granted).await else {
                        return Err(Crowded::Waited);
                    };
                    return Ok(match grant {
                        Grant::Idle(lease) => match or_permit(lease, home) {
                            Ok(lease) => Grant::Idle(lease),
                            Err(permit) => Grant::Fresh(permit),
                        },
                        fresh => fresh,
                    });
                }
            }
        }
    }

    /// Keeps a connection for the next request, for `keep` at most, or hands it to the longest waiting. Called in the
    /// runtime that the connection lives in.
    pub(crate) fn put(self: &Arc<Self>, lease: Lease, keep: Duration) {
        let until = clock::now() + keep;
        let home = lease.connection.home;
        if home != Home::current() {
            return drop(lease);
        }
        let movable = lease.connection.transport.is_movable();
        let mut offered = Grant::Idle(lease);
        loop {
            let mut state = self.state.lock();
            let Some(waiter) = state.waiting.pop_front() else {
                match offered {
                    Grant::Idle(Lease { connection, permit }) => {
                        state.idle.push(Idle { connection, until });
                        let unattended = state.reaped.insert(home);
                        drop(state);
                        permit.surrender();
                        if unattended {
                            tokio::spawn(reap(Reaper { pool: Arc::downgrade(self), home }));
                        }
                    }
                    Grant::Fresh(permit) => {
                        drop(state);
                        drop(permit);
                    }
                }
                return;
            };
            drop(state);
            let fits = waiter.demand == Demand::Any && (waiter.home == home || movable);
            offered = match offered {
                Grant::Idle(lease) if !fits => Grant::Fresh(lease.permit),
                other => other,
            };
            match waiter.grant.send(offered) {
                Ok(()) => return,
                Err(back) => offered = back,
            }
        }
    }

    fn permit(self: &Arc<Self>) -> Permit {
        Permit { pool: Some(self.clone()) }
    }

    fn step(&self, home: Home, demand: Demand, closed: &mut Option<Idle>) -> Step {
        let mut state = self.state.lock();
        if demand == Demand::Any {
            let own = state.idle.iter().rposition(|idle| idle.connection.home == home);
            let found =
                own.or_else(|| state.idle.iter().rposition(|idle| idle.connection.transport.is_movable()));
            if let Some(index) = found {
                return Step::Idle(state.idle.remove(index).connection);
            }
        }
        if state.open < self.open_max {
            state.open += 1;
            return Step::Fresh;
        }
        if !state.idle.is_empty() {
            *closed = Some(state.idle.remove(0));
            return Step::Fresh;
        }
        if state.waiting.len() >= self.waiting_max {
            return Step::Full;
        }
        let (grant, granted) = oneshot::channel();
        state.tickets += 1;
        let ticket = state.tickets;
        state.waiting.push_back(Waiter { ticket, home, demand, grant });
        Step::Wait(granted, ticket)
    }

    /// A permit has ended: it goes to the longest waiting who is still there, else back.
    fn pass_on(self: Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            let Some(waiter) = state.waiting.pop_front() else {
                state.open -= 1;
                return;
            };
            drop(state);
            match waiter.grant.send(Grant::Fresh(self.permit())) {
                Ok(()) => return,
                Err(Grant::Fresh(permit)) => permit.surrender(),
                // What comes back is what was sent.
                Err(Grant::Idle(lease)) => drop(lease),
            }
        }
    }

    /// Takes the idle connections of a runtime that are over or no longer quiet; says when to look again.
    fn expired(&self, home: Home, now: Instant) -> (Vec<Idle>, Option<Instant>) {
        let mut state = self.state.lock();
        let over = |idle: &mut Idle| idle.connection.home == home && idle.until <= now;
        let gone: Vec<Idle> = state.idle.extract_if(.., over).collect();
        // Nobody waits while connections are idle, so these permits end here.
        state.open -= gone.len();
        let next = state.idle.iter().filter(|idle| idle.connection.home == home).map(|idle| idle.until).min();
        if next.is_none() {
            state.reaped.remove(&home);
        }
        (gone, next)
    }
}

/// A place in the queue, left when dropped.
struct Place<'a> {
    pool: &'a Pool,
    ticket: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        let found = state.waiting.iter().position(|waiter| waiter.ticket == self.ticket);
        let waiter = found.and_then(|index| state.waiting.remove(index));
        drop(state);
        drop(waiter);
    }
}

/// The connection, if it is still quiet and can be used in this runtime.
fn settled(lease: Lease, home: Home) -> Option<Lease> {
    or_permit(lease, home).ok()
}

/// The connection as [`settled`], or its permit.
fn or_permit(mut lease: Lease, home: Home) -> Result<Lease, Permit> {
    if !lease.connection.is_quiet() {
        return Err(lease.permit);
    }
    if lease.connection.home == home {
        return Ok(lease);
    }
    match lease.connection.moved_here() {
        Ok(connection) => Ok(Lease { connection, permit: lease.permit }),
        Err(_) => Err(lease.permit),
    }
}

/// The task that closes a runtime's idle connections in time. Ends when there are none.
struct Reaper {
    pool: Weak<Pool>,
    home: Home,
}

impl Drop for Reaper {
    fn drop(&mut self) {
        // After a regular end this finds nothing; it matters when the runtime goes away under the task.
        if let Some(pool) = self.pool.upgrade() {
            pool.state.lock().reaped.remove(&self.home);
        }
    }
}

async fn reap(reaper: Reaper) {
    loop {
        let Some(pool) = reaper.pool.upgrade() else { return };
        let (gone, next) = pool.expired(reaper.home, clock::now());
        drop(gone);
        drop(pool);
        let Some(next) = next else { return };
        tokio::time::sleep_until(tokio::time::Instant::from_std(next)).await;
    }
}
