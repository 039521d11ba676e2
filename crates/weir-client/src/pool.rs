//! An origin's connections as slots: a bounded number of requests under way, the idle connections by the
//! runtime that they live in, and a bounded queue of requests that wait.
//!
//! A [`slot::Permit`] is the right to one request. A request has its own, on a connection that carries one
//! after another, or several at once; an idle connection lies in the pool with the permit of one request. A
//! permit that is given back goes to a waiting request. So a wait ends when any request of the origin ends,
//! in whatever runtime: idle connections of other runtimes are moved to the waiter's (TCP, unix) or closed
//! for their permit (TLS, and what carries several).
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
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::clock;
use crate::connection::Home;
use crate::error::{Bound, ExchangeError};
use crate::share::{Hurry, Share};

mod bounds;
pub(crate) mod carrier;
pub(crate) mod slot;
mod state;

pub use bounds::PoolBounds;
use bounds::SharedBounds;
use carrier::Carrier;
use slot::{Grant, Held, Permit, Slot, Took};
pub use state::{Client, Demand};
use state::{Count, Free, Idle, State, Waiter};

/// How long a request that no client waits for waits for a connection.
const SPARE_WAIT_MAX: Duration = Duration::from_secs(600);

/// An origin's connections.
#[derive(Debug)]
pub struct Pool {
    state: Mutex<State<Grant>>,
    bounds: SharedBounds,
    pub(crate) counts: Counts,
}

/// What happened since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    connects: AtomicU64,
    reuses: AtomicU64,
    busy: AtomicU64,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

enum Step {
    Free(Free),
    Wait(oneshot::Receiver<Grant>, u64),
    Full(Bound),
}

/// What there is at one moment, and what happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Requests under way, and idle connections.
    pub open: usize,
    /// Idle connections.
    pub idle: usize,
    /// Requests that wait for one.
    pub waiting: usize,
    /// Tunnels, event streams and logins.
    pub streams: usize,
    /// Connections made.
    pub connects: u64,
    /// Requests on a connection that had served others.
    pub reuses: u64,
    /// Requests and streams for which there was no place.
    pub busy: u64,
}

impl Pool {
    /// An empty pool.
    pub fn new(bounds: PoolBounds) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            bounds: SharedBounds::new(bounds),
            counts: Counts::default(),
        })
    }

    fn bounds(&self) -> PoolBounds {
        self.bounds.read()
    }

    /// Gives it other ceilings. What is above a lower one ends by itself.
    pub fn rebind(self: &Arc<Self>, bounds: PoolBounds) {
        let before = self.open_max();
        self.bounds.write(bounds);
        self.give_out(before, self.open_max());
    }

    /// Counts for metrics.
    pub fn usage(&self) -> Usage {
        let state = self.state.lock();
        let (idle, waiting) = (state.idle.len(), state.waiting.len());
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counts { connects, reuses, busy } = &self.counts;
        Usage {
            open: state.open,
            idle,
            waiting,
            streams: state.streams.len(),
            connects: of(connects),
            reuses: of(reuses),
            busy: of(busy),
        }
    }

    /// There is no place for a request within this bound, and it may come again after so long: the error of
    /// that, which is counted.
    pub fn refuse(&self, bound: Bound, retry_after: Duration) -> ExchangeError {
        count(&self.counts.busy);
        ExchangeError::Busy { bound, retry_after }
    }

    /// What one client may use of so many.
    pub fn share_of(&self, all: usize) -> usize {
        self.bounds().share_of(all)
    }

    /// How many requests one client may have under way.
    pub fn client_max(&self) -> usize {
        self.share_of(self.bounds().open_max)
    }

    /// Whether a client has used up its share of them.
    pub fn is_spent(&self, client: Client) -> bool {
        let (bounds, state) = (self.bounds(), self.state.lock());
        !state.may_open(client, &bounds, bounds.open_max.saturating_sub(state.busy()))
    }

    /// Whether a request that no client waits for may have a connection: nobody waits, and some are left.
    pub fn has_spare(&self) -> bool {
        let state = self.state.lock();
        state.waiting.is_empty() && state.busy() < self.bounds().spare_from()
    }

    /// How many requests may be under way, each with a slot.
    pub fn open_max(&self) -> usize {
        self.bounds.open_max()
    }

    /// Changes how many connections requests may have open, or goes back to what is configured. Those beyond
    /// it end with their requests.
    pub fn limit(self: &Arc<Self>, open_max: Option<u32>) {
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
    pub fn try_acquire(self: &Arc<Self>, who: (Client, Share)) -> Option<Grant> {
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
            Free::Idle(carrier) => settled(Slot { carrier, own: None, permit }, home).ok().map(Grant::Idle),
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
    pub async fn acquire<T>(
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
                Grant::Idle(slot) => settled(slot, home).map_or_else(Grant::Fresh, Grant::Idle),
                fresh => fresh,
            }));
        }
    }

    /// Keeps a connection for the next request, for `keep` at most, or hands it to a waiting one. One that
    /// carries other requests stays with these. Called in the runtime that the connection lives in.
    pub(crate) fn put(self: &Arc<Self>, slot: Slot, keep: Duration) {
        let until = clock::now() + keep;
        let home = slot.carrier.home();
        let is_surplus = self.bounds.is_limited() && self.state.lock().open > self.open_max();
        if home != Home::current() || slot.permit.is_stream() || is_surplus || slot.carrier.carries_others() {
            return drop(slot);
        }
        let movable = slot.carrier.is_movable();
        let mut offered = Grant::Idle(slot);
        loop {
            let mut state = self.state.lock();
            // It counts against no client until another one gets it.
            let client = offered.permit().client.take();
            state.change(client, |count| count.open -= 1);
            let Some(waiter) = state.next(&self.bounds()) else {
                match offered {
                    Grant::Idle(Slot { carrier, permit, .. }) => {
                        state.idle.push(Idle { carrier, until });
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
                Grant::Idle(slot) if !fits => Grant::Fresh(slot.permit),
                other => other,
            };
            match waiter.grant.send(offered) {
                Ok(()) => return,
                Err(back) => offered = back,
            }
        }
    }

    /// A request has a connection that had served others.
    pub(crate) fn count_reuse(&self) {
        count(&self.counts.reuses);
    }

    /// The slot of a connection that was just made. Where that carries several requests, others may join.
    pub(crate) fn slot(&self, carrier: Carrier, permit: Permit) -> Slot {
        count(&self.counts.connects);
        if let Some(trunk) = carrier.trunk() {
            self.state.lock().share(trunk);
        }
        Slot { carrier, own: None, permit }
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
            let beside = if waiter.demand == Demand::Any { state.beside(waiter.home) } else { None };
            drop(state);
            let permit = self.permit(waiter.client);
            let grant = match beside {
                Some(carrier) => Grant::Idle(Slot { carrier, own: None, permit }),
                None => Grant::Fresh(permit),
            };
            match waiter.grant.send(grant) {
                Ok(()) => return,
                Err(back) => {
                    let permit = back.into_permit();
                    client = permit.client;
                    permit.surrender();
                }
            }
        }
    }

    /// Takes out the idle connections of a runtime whose time is over, and says when to look again.
    fn expired(&self, home: Home, now: Instant) -> (Vec<Idle>, Option<Instant>) {
        let mut state = self.state.lock();
        let over = |idle: &mut Idle| idle.carrier.home() == home && idle.until <= now;
        let gone: Vec<Idle> = state.idle.extract_if(.., over).collect();
        // Requests that wait while connections are idle have used up their share, so these permits end here.
        state.open -= gone.len();
        state.trunks.retain(|trunk| !trunk.is_over());
        let next = state.idle.iter().filter(|idle| idle.carrier.home() == home).map(|idle| idle.until).min();
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

/// The slot, if its connection is still quiet and can be used in this runtime, or its permit.
fn settled(mut slot: Slot, home: Home) -> Result<Slot, Permit> {
    if !slot.carrier.is_quiet() {
        return Err(slot.permit);
    }
    if slot.carrier.home() == home {
        return Ok(slot);
    }
    match slot.carrier.moved_here() {
        Ok(carrier) => Ok(Slot { carrier, own: None, permit: slot.permit }),
        Err(_) => Err(slot.permit),
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

#[cfg(test)]
mod tests;
