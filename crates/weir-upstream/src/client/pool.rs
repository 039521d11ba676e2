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
//! waited longest. A tunnel or an event stream leaves the pool and counts against a bound of its own. Where
//! the queue is full, or as many streams are open as may be, the latest of the client that has most gives way
//! to one with fewer (ADR 0103).
//!
//! There is one lock, held for the bookkeeping alone: no socket is opened, closed or read under it, and no
//! waiter woken. Dropping a permit takes the lock, so it must not be dropped under it.

use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::client::connection::{Connection, Home};
use crate::client::login::stage::Stage;
use crate::clock;
use crate::error::Bound;
use crate::origin::Busy;
use crate::request::{Hurry, Share};

mod bounds;
mod state;

pub(crate) use bounds::PoolBounds;
use bounds::SharedBounds;
pub(crate) use state::{Client, Demand};
use state::{Count, Entered, Free, Idle, State, Waiter};

/// How long a request that no client waits for waits for a connection.
const SPARE_WAIT_MAX: Duration = Duration::from_secs(600);

/// The right to have one connection open. Dropped, it goes to a waiter, or back to the pool.
#[derive(Debug)]
pub(crate) struct Permit {
    pool: Option<Arc<Pool>>,
    client: Client,
    kind: Held,
}

/// What a permit is for.
#[derive(Debug)]
enum Held {
    /// Requests, one after another.
    Requests,
    /// A tunnel, or a response that lasts for as long as its client likes: its ticket, and what says that it
    /// gives way.
    Stream(u64, oneshot::Receiver<()>),
    /// It has given way to another client's.
    Gone,
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
        let Some(pool) = self.pool.as_ref().filter(|_| matches!(self.kind, Held::Requests)) else {
            return Ok(());
        };
        let entered = pool.state.lock().enter_stream(self.client, &pool.bounds());
        let Entered { ticket, is_gone, .. } = entered?;
        self.kind = Held::Stream(ticket, is_gone);
        pool.clone().pass_on(self.client);
        Ok(())
    }

    /// Ready once a stream has given way to another client's: its connection is to be closed.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.kind {
            Held::Requests => return Poll::Pending,
            Held::Stream(_, is_gone) => std::task::ready!(Pin::new(is_gone).poll(cx).map(drop)),
            Held::Gone => {}
        }
        self.kind = Held::Gone;
        Poll::Ready(())
    }

    /// Whether it is a stream's, which may give way.
    pub(crate) fn is_stream(&self) -> bool {
        !matches!(self.kind, Held::Requests)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        match self.kind {
            Held::Requests => pool.pass_on(self.client),
            Held::Stream(ticket, _) => {
                let stream = pool.state.lock().leave_stream(ticket);
                drop(stream);
            }
            Held::Gone => {}
        }
    }
}

/// A connection with its permit.
#[derive(Debug)]
pub(crate) struct Lease {
    // Fields drop in this order: the socket is closed before its permit frees.
    pub(crate) connection: Box<Connection>,
    /// What it has beside `permit` where it belongs to a client.
    pub(crate) own: Option<Own>,
    pub(crate) permit: Permit,
    /// The request that it serves.
    pub(crate) busy: Option<Busy>,
}

/// What a connection has on which a client has begun to log in ([`crate::client::login`]).
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) stage: Stage,
    /// Its place among the streams.
    pub(crate) permit: Permit,
}

impl Lease {
    /// As [`Permit::outlast`]. What has a place among the streams goes on with that one.
    pub(crate) fn outlast(&mut self) -> Result<(), Bound> {
        if let Some(own) = self.own.take() {
            self.permit = own.permit;
        }
        self.permit.outlast()
    }
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

/// Where a request got something.
pub(crate) enum Took<T> {
    /// Here.
    Here(Grant),
    /// It was served elsewhere meanwhile.
    There(T),
}

/// An origin's connections.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<State<Grant>>,
    bounds: SharedBounds,
}

enum Step {
    Free(Free),
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
    pub(crate) fn rebind(self: &Arc<Self>, bounds: PoolBounds) {
        let before = self.open_max();
        self.bounds.write(bounds);
        self.give_out(before, self.open_max());
    }

    /// Counts for metrics.
    pub(crate) fn usage(&self) -> Usage {
        let state = self.state.lock();
        let (idle, waiting) = (state.idle.len(), state.waiting.len());
        Usage { open: state.open, idle, waiting, streams: state.streams.len() }
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
        let (bounds, state) = (self.bounds(), self.state.lock());
        !state.may_open(client, &bounds, bounds.open_max.saturating_sub(state.busy()))
    }

    /// Whether a request that no client waits for may have a connection: nobody waits, and some are left.
    pub(crate) fn has_spare(&self) -> bool {
        let state = self.state.lock();
        state.waiting.is_empty() && state.busy() < self.bounds().spare_from()
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
        self.give_out(before, open_max);
    }

    /// A request that waits gets each of the further connections, like one that has just been freed.
    fn give_out(self: &Arc<Self>, before: usize, open_max: usize) {
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

    /// A quiet idle connection or a permit for a client, if there is one without waiting.
    pub(crate) fn try_acquire(self: &Arc<Self>, who: (Client, Share)) -> Option<Grant> {
        let home = Home::current();
        loop {
            let free = self.free(&mut self.state.lock(), (home, Demand::Any), who);
            if let Some(grant) = self.grant(free.ok()?, who.0, home) {
                return Some(grant);
            }
        }
    }

    /// A connection with its permit; `None` where it is not quiet any more.
    fn grant(self: &Arc<Self>, free: Free, client: Client, home: Home) -> Option<Grant> {
        let permit = self.permit(client);
        match free {
            Free::Permit(closed) => {
                drop(closed);
                Some(Grant::Fresh(permit))
            }
            Free::Idle(connection) => {
                settled(Lease { connection, own: None, permit, busy: None }, home).map(Grant::Idle)
            }
        }
    }

    /// A quiet idle connection or a permit for a client, after waiting if need be. A request that waits does
    /// so until `elsewhere` is ready. With [`Share::Counted`] the request never waits
    /// because its client has used up its share.
    ///
    /// # Errors
    /// The [`Bound`] at which the queue is full or the wait was too long.
    ///
    /// # Cancel safety
    /// Dropped, it leaves the queue, and passes on what it was given.
    pub(crate) async fn acquire<T>(
        self: &Arc<Self>,
        demand: Demand,
        (client, mut share): (Client, Share),
        (elsewhere, hurry): (impl Future<Output = T>, Option<&Hurry>),
    ) -> Result<Took<T>, Bound> {
        let home = Home::current();
        let mut elsewhere = pin!(elsewhere);
        loop {
            let step = self.step(home, demand, (client, share));
            let (granted, ticket) = match step {
                Step::Free(free) => match self.grant(free, client, home) {
                    Some(grant) => return Ok(Took::Here(grant)),
                    None => continue,
                },
                Step::Full(bound) => return Err(bound),
                Step::Wait(granted, ticket) => (granted, ticket),
            };
            let _place = Place { pool: self, ticket };
            let patience = if share == Share::Spare { SPARE_WAIT_MAX } else { self.bounds().wait_max };
            let granted = tokio::time::timeout(patience, granted);
            let hurry = hurry.filter(|_| share == Share::Spare);
            let hurried = async {
                match hurry {
                    Some(hurry) => hurry.told().await,
                    None => pending().await,
                }
            };
            let granted = tokio::select! {
                biased;
                granted = granted => granted,
                moved = &mut elsewhere => return Ok(Took::There(moved)),
                // A client waits for it by now, and may find what was left for clients.
                () = hurried => {
                    share = Share::Bounded;
                    continue;
                }
            };
            let grant = match granted {
                Ok(Ok(grant)) => grant,
                // It gave way to another client's.
                Ok(Err(_)) => return Err(Bound::ClientShare),
                Err(_) => {
                    let is_spent = share == Share::Bounded && self.is_spent(client);
                    return Err(if is_spent { Bound::ClientShare } else { Bound::Connections });
                }
            };
            return Ok(Took::Here(match grant {
                Grant::Idle(lease) => match or_permit(lease, home) {
                    Ok(lease) => Grant::Idle(lease),
                    Err(permit) => Grant::Fresh(permit),
                },
                fresh => fresh,
            }));
        }
    }

    /// Keeps a connection for the next request, for `keep` at most, or hands it to a waiting one. Called in
    /// the runtime that the connection lives in.
    pub(crate) fn put(self: &Arc<Self>, mut lease: Lease, keep: Duration) {
        // Dropped last: once its origin has room, there is a connection.
        let _busy = lease.busy.take();
        let until = clock::now() + keep;
        let home = lease.connection.home;
        let is_surplus = self.bounds.is_limited() && self.state.lock().open > self.open_max();
        if home != Home::current() || lease.permit.is_stream() || is_surplus {
            return drop(lease);
        }
        let movable = lease.connection.transport.is_movable();
        let mut offered = Grant::Idle(lease);
        loop {
            let mut state = self.state.lock();
            // It counts against no client until another one gets it.
            let client = offered.permit().client.take();
            state.change(client, |count| count.open -= 1);
            let Some(waiter) = state.next(&self.bounds()) else {
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

    /// What a request can have at once, or whether its client has used up its share.
    fn free(
        &self,
        state: &mut State<Grant>,
        (home, demand): (Home, Demand),
        (client, share): (Client, Share),
    ) -> Result<Free, bool> {
        let open_max = self.open_max();
        let free = open_max.saturating_sub(state.busy());
        let is_spent = share == Share::Bounded && !state.may_open(client, &self.bounds(), free);
        let is_late = share == Share::Spare
            && (!state.waiting.is_empty() || state.busy() >= self.bounds().spare_from());
        let free = if is_spent || is_late { None } else { state.free(home, demand, open_max) };
        state.change(client.filter(|_| free.is_some()), |count| count.open += 1);
        free.ok_or(is_spent)
    }

    fn step(&self, home: Home, demand: Demand, (client, share): (Client, Share)) -> Step {
        // Dropped once the lock is free: that wakes the request.
        let _gone;
        let mut state = self.state.lock();
        let is_spent = match self.free(&mut state, (home, demand), (client, share)) {
            Ok(free) => return Step::Free(free),
            Err(is_spent) => is_spent,
        };
        let waiting_max = self.bounds().waiting_max;
        if !state.may_have(client, Count::waiting, self.share_of(waiting_max)) {
            return Step::Full(Bound::ClientShare);
        }
        if share != Share::Spare && state.waiting_in_turn() >= waiting_max {
            let Some(gone) = state.give_way(client) else {
                return Step::Full(if is_spent { Bound::ClientShare } else { Bound::Connections });
            };
            _gone = gone;
        }
        let (grant, granted) = oneshot::channel();
        let ticket = state.ticket();
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
            let Some(waiter) = state.next(&self.bounds()) else {
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
        Ok(connection) => Ok(Lease { connection, own: None, permit: lease.permit, busy: None }),
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
