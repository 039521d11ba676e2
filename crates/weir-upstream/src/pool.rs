//! An origin's connections: a bounded number of open ones, the idle ones by the runtime that they live in,
//! and a bounded queue of requests that wait for one.
//!
//! Each open connection holds a [`Permit`], or lies idle in the pool, which then holds the permit for it. A
//! permit that is given back goes to a waiting request. So a wait ends when any connection of the origin ends
//! or becomes idle, in whatever runtime: idle connections of other runtimes are moved to the waiter's (TCP,
//! unix) or closed for their permit (TLS).
//!
//! One client may use a share of the connections and of the queue, so that some are left for others. Of the
//! waiting requests, one whose client has the fewest connections comes first, and of these the one that has
//! waited longest. A tunnel or an event stream leaves the pool and counts against a bound of its own.
//!
//! There is one lock, held for the bookkeeping alone: no socket is opened, closed or read under it, and no
//! waiter woken. Dropping a permit takes the lock, so it must not be dropped under it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::clock;
use crate::connection::{Connection, Home};
use crate::error::Bound;
use crate::origin::Busy;
use crate::request::Share;

mod bounds;

pub(crate) use bounds::PoolBounds;
use bounds::SharedBounds;

/// The right to have one connection open. Dropped, it goes to a waiter, or back to the pool.
#[derive(Debug)]
pub(crate) struct Permit {
    pool: Option<Arc<Pool>>,
    client: Client,
    kind: Held,
}

/// The client that something counts against; `None` where that is not known.
pub(crate) type Client = Option<IpAddr>;

/// What a permit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Requests, one after another.
    Requests,
    /// A tunnel, or a response that lasts for as long as its client likes.
    Stream,
}

impl Permit {
    /// Ends the permit without giving it back: the pool goes on counting it.
    fn surrender(mut self) {
        self.pool = None;
    }

    /// Leaves the connections that requests share.
    ///
    /// # Errors
    /// The bound is reached, for all clients or for this one.
    pub(crate) fn outlast(&mut self) -> Result<(), Bound> {
        let Some(pool) = self.pool.as_ref().filter(|_| self.kind == Held::Requests) else { return Ok(()) };
        {
            let mut state = pool.state.lock();
            if state.streams >= pool.bounds().streams_max {
                return Err(Bound::Streams);
            }
            if state.count(self.client).streams >= pool.bounds().share_of(pool.bounds().streams_max) {
                return Err(Bound::ClientShare);
            }
            state.streams += 1;
            state.change(self.client, |count| count.streams += 1);
        }
        self.kind = Held::Stream;
        pool.clone().pass_on(self.client);
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        match self.kind {
            Held::Requests => pool.pass_on(self.client),
            Held::Stream => {
                let mut state = pool.state.lock();
                state.streams -= 1;
                state.change(self.client, |count| count.streams -= 1);
            }
        }
    }
}

/// What a client uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    open: usize,
    waiting: usize,
    streams: usize,
}

/// A connection with its permit.
#[derive(Debug)]
pub(crate) struct Lease {
    // Fields drop in this order: the socket is closed before its permit frees.
    pub(crate) connection: Box<Connection>,
    pub(crate) permit: Permit,
    /// The request that it serves.
    pub(crate) busy: Option<Busy>,
}

/// What a request gets.
#[derive(Debug)]
pub(crate) enum Grant {
    /// A connection that has served before and is quiet.
    Idle(Lease),
    /// The right to make a connection.
    Fresh(Permit),
}

impl Grant {
    fn permit(&mut self) -> &mut Permit {
        match self {
            Grant::Idle(lease) => &mut lease.permit,
            Grant::Fresh(permit) => permit,
        }
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// An idle connection if there is one.
    Any,
    /// The right to make a connection, after an idle one has just failed.
    Fresh,
}

/// An origin's connections.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<State>,
    bounds: SharedBounds,
}

#[derive(Debug, Default)]
struct State {
    /// Permits given out and idle connections.
    open: usize,
    /// The last used one at the end.
    idle: Vec<Idle>,
    waiting: VecDeque<Waiter>,
    /// Permits given out that have left the pool.
    streams: usize,
    /// What each client uses of all these, without clients that use nothing.
    clients: HashMap<IpAddr, Count>,
    tickets: u64,
    /// The runtimes in which a task closes idle connections in time.
    reaped: HashSet<Home>,
}

impl State {
    /// A connection that a request can have at once.
    fn free(
        &mut self,
        home: Home,
        demand: Demand,
        open_max: usize,
        closed: &mut Option<Idle>,
    ) -> Option<Step> {
        if demand == Demand::Any {
            let own = self.idle.iter().rposition(|idle| idle.connection.home == home);
            let movable = |idle: &Idle| idle.connection.transport.is_movable();
            if let Some(index) = own.or_else(|| self.idle.iter().rposition(movable)) {
                return Some(Step::Idle(self.idle.remove(index).connection));
            }
        }
        if self.open < open_max {
            self.open += 1;
            return Some(Step::Fresh);
        }
        if self.idle.is_empty() {
            return None;
        }
        *closed = Some(self.idle.remove(0));
        Some(Step::Fresh)
    }

    fn count(&self, client: Client) -> Count {
        client.and_then(|client| self.clients.get(&client)).copied().unwrap_or_default()
    }

    fn change(&mut self, client: Client, by: impl FnOnce(&mut Count)) {
        let Some(client) = client else { return };
        let count = self.clients.entry(client).or_default();
        by(count);
        if *count == Count::default() {
            self.clients.remove(&client);
        }
    }

    /// Takes the next request out of the queue and counts a connection for it: of those whose clients may
    /// have more connections, one whose client has the fewest.
    fn next(&mut self, open_max: usize) -> Option<Waiter> {
        let mut best = None;
        for (at, waiter) in self.waiting.iter().enumerate() {
            let open = self.count(waiter.client).open;
            let is_within = waiter.client.is_none() || waiter.share == Share::Counted || open < open_max;
            if is_within && best.is_none_or(|(fewest, _)| open < fewest) {
                best = Some((open, at));
                if open == 0 {
                    break;
                }
            }
        }
        let waiter = self.waiting.remove(best?.1)?;
        self.change(waiter.client, |count| {
            count.waiting -= 1;
            count.open += 1;
        });
        Some(waiter)
    }
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
    client: Client,
    share: Share,
    grant: oneshot::Sender<Grant>,
}

enum Step {
    Idle(Box<Connection>),
    Fresh,
    Wait(oneshot::Receiver<Grant>, u64),
    Full(Bound),
}

/// Connection counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) open: usize,
    pub(crate) idle: usize,
    pub(crate) waiting: usize,
    pub(crate) streams: usize,
}

impl Pool {
    /// An empty pool.
    pub(crate) fn new(bounds: PoolBounds) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), bounds: SharedBounds::new(bounds) })
    }

    fn bounds(&self) -> PoolBounds {
        self.bounds.read()
    }

    /// Gives it other ceilings. What is above a lower one ends by itself.
    pub(crate) fn rebind(&self, bounds: PoolBounds) {
        self.bounds.write(bounds);
    }

    /// Counts for metrics.
    pub(crate) fn usage(&self) -> Usage {
        let state = self.state.lock();
        let (idle, waiting) = (state.idle.len(), state.waiting.len());
        Usage { open: state.open, idle, waiting, streams: state.streams }
    }

    /// What one client may use of so many.
    pub(crate) fn share_of(&self, all: usize) -> usize {
        self.bounds().share_of(all)
    }

    /// How many connections one client may have.
    pub(crate) fn client_max(&self) -> usize {
        self.share_of(self.bounds().open_max)
    }

    /// Whether a client has used up its share of the connections.
    pub(crate) fn is_spent(&self, client: Client) -> bool {
        client.is_some()
            && self.state.lock().count(client).open >= self.bounds().share_of(self.bounds().open_max)
    }

    /// How many connections requests may have open.
    pub(crate) fn open_max(&self) -> usize {
        self.bounds.open_max()
    }

    /// Changes how many connections requests may have open, or goes back to what is configured. Those beyond
    /// it end with their requests.
    pub(crate) fn limit(self: &Arc<Self>, open_max: Option<u32>) {
        let (before, open_max) = self.bounds.limit(open_max.map(|open_max| open_max as usize));
        if open_max < before {
            drop(self.surplus(open_max));
        }
        // A request that waits gets each of the further connections, like one that has just been freed.
        for _ in before..open_max {
            let mut state = self.state.lock();
            if state.waiting.is_empty() || state.open >= open_max {
                return;
            }
            state.open += 1;
            drop(state);
            self.clone().pass_on(None);
        }
    }

    /// Takes out idle connections beyond a bound.
    fn surplus(&self, open_max: usize) -> Vec<Idle> {
        let mut state = self.state.lock();
        let count = state.open.saturating_sub(open_max).min(state.idle.len());
        state.open -= count;
        state.idle.drain(..count).collect()
    }

    /// A quiet idle connection or a permit for a client, after waiting if need be. With [`Share::Counted`]
    /// the request never waits because its client has used up its share.
    ///
    /// # Errors
    /// The [`Bound`] at which the queue is full or the wait was too long.
    ///
    /// # Cancel safety
    /// Dropped, it leaves the queue, and passes on what it was given.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        demand: Demand,
        (client, share): (Client, Share),
    ) -> Result<Grant, Bound> {
        let home = Home::current();
        loop {
            let mut closed = None;
            let step = self.step(home, demand, (client, share), &mut closed);
            drop(closed);
            match step {
                Step::Fresh => return Ok(Grant::Fresh(self.permit(client))),
                Step::Idle(connection) => {
                    let lease = Lease { connection, permit: self.permit(client), busy: None };
                    if let Some(lease) = settled(lease, home) {
                        return Ok(Grant::Idle(lease));
                    }
                }
                Step::Full(bound) => return Err(bound),
                Step::Wait(granted, ticket) => {
                    let _place = Place { pool: self, ticket };
                    let Ok(Ok(grant)) = tokio::time::timeout(self.bounds().wait_max, granted).await else {
                        let is_spent = share == Share::Bounded && self.is_spent(client);
                        return Err(if is_spent { Bound::ClientShare } else { Bound::Connections });
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

    /// Keeps a connection for the next request, for `keep` at most, or hands it to a waiting one. Called in
    /// the runtime that the connection lives in.
    pub(crate) fn put(self: &Arc<Self>, mut lease: Lease, keep: Duration) {
        lease.busy = None;
        let until = clock::now() + keep;
        let home = lease.connection.home;
        let is_surplus = self.bounds.is_limited() && self.state.lock().open > self.open_max();
        if home != Home::current() || lease.permit.kind == Held::Stream || is_surplus {
            return drop(lease);
        }
        let movable = lease.connection.transport.is_movable();
        let mut offered = Grant::Idle(lease);
        loop {
            let mut state = self.state.lock();
            // It counts against no client until another one gets it.
            let client = offered.permit().client.take();
            state.change(client, |count| count.open -= 1);
            let Some(waiter) = state.next(self.bounds().share_of(self.bounds().open_max)) else {
                match offered {
                    Grant::Idle(Lease { connection, permit, .. }) => {
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
            offered.permit().client = waiter.client;
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

    fn permit(self: &Arc<Self>, client: Client) -> Permit {
        Permit { pool: Some(self.clone()), client, kind: Held::Requests }
    }

    fn step(
        &self,
        home: Home,
        demand: Demand,
        (client, share): (Client, Share),
        closed: &mut Option<Idle>,
    ) -> Step {
        let mut state = self.state.lock();
        let PoolBounds { open_max, waiting_max, .. } = self.bounds();
        let of_client = state.count(client);
        let is_spent =
            client.is_some() && share == Share::Bounded && of_client.open >= self.bounds().share_of(open_max);
        let free = if is_spent { None } else { state.free(home, demand, open_max, closed) };
        if let Some(free) = free {
            state.change(client, |count| count.open += 1);
            return free;
        }
        if state.waiting.len() >= waiting_max {
            return Step::Full(if is_spent { Bound::ClientShare } else { Bound::Connections });
        }
        if client.is_some() && of_client.waiting >= self.bounds().share_of(waiting_max) {
            return Step::Full(Bound::ClientShare);
        }
        let (grant, granted) = oneshot::channel();
        state.tickets += 1;
        let ticket = state.tickets;
        state.change(client, |count| count.waiting += 1);
        state.waiting.push_back(Waiter { ticket, home, demand, client, share, grant });
        Step::Wait(granted, ticket)
    }

    /// A permit of a client has ended: it goes to the next waiter that is still there, or back to the pool.
    fn pass_on(self: Arc<Self>, mut client: Client) {
        loop {
            let mut state = self.state.lock();
            state.change(client.take(), |count| count.open -= 1);
            if state.open > self.open_max() {
                state.open -= 1;
                return;
            }
            let Some(waiter) = state.next(self.bounds().share_of(self.bounds().open_max)) else {
                state.open -= 1;
                return;
            };
            drop(state);
            match waiter.grant.send(Grant::Fresh(self.permit(waiter.client))) {
                Ok(()) => return,
                Err(Grant::Fresh(permit)) => {
                    client = permit.client;
                    permit.surrender();
                }
                // What comes back is what was sent.
                Err(Grant::Idle(lease)) => drop(lease),
            }
        }
    }

    /// Takes out the idle connections of a runtime whose time is over, and says when to look again.
    fn expired(&self, home: Home, now: Instant) -> (Vec<Idle>, Option<Instant>) {
        let mut state = self.state.lock();
        let over = |idle: &mut Idle| idle.connection.home == home && idle.until <= now;
        let gone: Vec<Idle> = state.idle.extract_if(.., over).collect();
        // Requests that wait while connections are idle have used up their share, so these permits end here.
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
        if let Some(waiter) = &waiter {
            state.change(waiter.client, |count| count.waiting -= 1);
        }
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
        Ok(connection) => Ok(Lease { connection, permit: lease.permit, busy: None }),
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
        // Only needed where the runtime ends before the task.
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
