//! What is open, idle and waiting at an origin: the bookkeeping under the pool's lock. It must not open,
//! close or read a socket, nor wake a waiter.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::time::Instant;

use tokio::sync::oneshot;

use super::bounds::PoolBounds;
use crate::connection::{Connection, Home};
use crate::request::Share;

/// The client that something counts against; `None` where that is not known.
pub(crate) type Client = Option<IpAddr>;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// An idle connection if there is one.
    Any,
    /// The right to make a connection, after an idle one has just failed.
    Fresh,
}

/// What a client uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) open: usize,
    pub(super) waiting: usize,
    pub(super) streams: usize,
}

#[derive(Debug)]
pub(super) struct State<G> {
    /// Permits given out and idle connections.
    pub(super) open: usize,
    /// The last used one at the end.
    pub(super) idle: Vec<Idle>,
    pub(super) waiting: VecDeque<Waiter<G>>,
    /// Permits given out that have left the pool.
    pub(super) streams: usize,
    /// What each client uses of all these, without clients that use nothing.
    pub(super) clients: HashMap<IpAddr, Count>,
    pub(super) tickets: u64,
    /// The runtimes in which a task closes idle connections in time.
    pub(super) reaped: HashSet<Home>,
}

impl<G> Default for State<G> {
    fn default() -> State<G> {
        State {
            open: 0,
            idle: Vec::new(),
            waiting: VecDeque::new(),
            streams: 0,
            clients: HashMap::new(),
            tickets: 0,
            reaped: HashSet::new(),
        }
    }
}

impl<G> State<G> {
    /// What a request can have at once.
    pub(super) fn free(&mut self, home: Home, demand: Demand, open_max: usize) -> Option<Free> {
        if demand == Demand::Any {
            let own = self.idle.iter().rposition(|idle| idle.connection.home == home);
            let movable = |idle: &Idle| idle.connection.transport.is_movable();
            if let Some(index) = own.or_else(|| self.idle.iter().rposition(movable)) {
                return Some(Free::Idle(self.idle.remove(index).connection));
            }
        }
        if self.open < open_max {
            self.open += 1;
            return Some(Free::Permit(None));
        }
        if self.idle.is_empty() {
            return None;
        }
        Some(Free::Permit(Some(self.idle.remove(0))))
    }

    /// Connections with a request under way.
    pub(super) fn busy(&self) -> usize {
        self.open - self.idle.len()
    }

    pub(super) fn count(&self, client: Client) -> Count {
        client.and_then(|client| self.clients.get(&client)).copied().unwrap_or_default()
    }

    pub(super) fn change(&mut self, client: Client, by: impl FnOnce(&mut Count)) {
        let Some(client) = client else { return };
        let count = self.clients.entry(client).or_default();
        by(count);
        if *count == Count::default() {
            self.clients.remove(&client);
        }
    }

    /// How many wait that a client waits for. Those that none waits for take no place of the queue.
    pub(super) fn waiting_in_turn(&self) -> usize {
        self.waiting.iter().filter(|waiter| waiter.share != Share::Spare).count()
    }

    /// Takes the next request out of the queue and counts a connection for it, one that has just been freed
    /// and is still counted: of those whose clients may have more connections, one whose client has the
    /// fewest.
    pub(super) fn next(&mut self, bounds: &PoolBounds) -> Option<Waiter<G>> {
        let open_max = bounds.share_of(bounds.open_max);
        let has_spare = self.busy() <= bounds.spare_from();
        let mut best = None;
        for (at, waiter) in self.waiting.iter().enumerate() {
            // What no client waits for comes behind all that one waits for.
            let is_spare = waiter.share == Share::Spare;
            let open = if is_spare { usize::MAX - 1 } else { self.count(waiter.client).open };
            let is_within = match waiter.share {
                Share::Spare => has_spare,
                Share::Counted => true,
                Share::Bounded => waiter.client.is_none() || open < open_max,
            };
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
pub(super) struct Idle {
    pub(super) connection: Box<Connection>,
    pub(super) until: Instant,
}

#[derive(Debug)]
pub(super) struct Waiter<G> {
    pub(super) ticket: u64,
    pub(super) home: Home,
    pub(super) demand: Demand,
    pub(super) client: Client,
    pub(super) share: Share,
    pub(super) grant: oneshot::Sender<G>,
}

/// What a request can have at once.
pub(super) enum Free {
    /// This connection.
    Idle(Box<Connection>),
    /// The right to make one, perhaps in place of this one.
    Permit(Option<Idle>),
}
