//! What is open, idle and waiting at an origin: the bookkeeping under the pool's lock. It must not open,
//! close or read a socket, nor wake a waiter.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;
use weir_share::{ByClient, gives_way, leaves_some};

use super::bounds::PoolBounds;
use super::carrier::{Carrier, Trunk};
use crate::connection::Home;
use crate::error::Bound;
use crate::share::Share;

/// The client that something counts against; `None` where that is not known.
pub type Client = Option<weir_share::Client>;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
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

impl Count {
    pub(super) fn open(&self) -> u64 {
        self.open as u64
    }

    pub(super) fn waiting(&self) -> u64 {
        self.waiting as u64
    }

    pub(super) fn streams(&self) -> u64 {
        self.streams as u64
    }
}

#[derive(Debug)]
pub(super) struct State<G> {
    /// Permits given out, and those of idle connections.
    pub(super) open: usize,
    /// The last used one at the end.
    pub(super) idle: Vec<Idle>,
    /// Connections that carry several requests at once, in use or idle.
    pub(super) trunks: Vec<Arc<dyn Trunk>>,
    pub(super) waiting: VecDeque<Waiter<G>>,
    /// Permits given out that have left the pool, by their tickets.
    pub(super) streams: BTreeMap<u64, Stream>,
    /// What each client uses of all these.
    pub(super) clients: ByClient<Count>,
    pub(super) tickets: u64,
    /// The runtimes in which a task closes idle connections in time.
    pub(super) reaped: HashSet<Home>,
}

impl<G> Default for State<G> {
    fn default() -> State<G> {
        State {
            open: 0,
            idle: Vec::new(),
            trunks: Vec::new(),
            waiting: VecDeque::new(),
            streams: BTreeMap::new(),
            clients: ByClient::default(),
            tickets: 0,
            reaped: HashSet::new(),
        }
    }
}

impl<G> State<G> {
    /// What a request can have at once.
    pub(super) fn free(&mut self, home: Home, demand: Demand, open_max: usize) -> Option<Free> {
        if demand == Demand::Any {
            let own = self.idle.iter().rposition(|idle| idle.carrier.home() == home);
            if own.is_none()
                && self.open < open_max
                && let Some(carrier) = self.beside(home)
            {
                self.open += 1;
                return Some(Free::Idle(carrier));
            }
            let movable = |idle: &Idle| idle.carrier.is_movable();
            if let Some(index) = own.or_else(|| self.idle.iter().rposition(movable)) {
                return Some(Free::Idle(self.idle.remove(index).carrier));
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

    /// A place beside other requests on a connection of this runtime.
    pub(super) fn beside(&self, home: Home) -> Option<Carrier> {
        self.trunks.iter().filter(|trunk| trunk.home() == home).find_map(|trunk| trunk.clone().place())
    }

    /// A connection that carries several requests is there.
    pub(super) fn share(&mut self, trunk: Arc<dyn Trunk>) {
        self.trunks.retain(|trunk| !trunk.is_over());
        self.trunks.push(trunk);
    }

    /// Permits with a request under way.
    pub(super) fn busy(&self) -> usize {
        self.open - self.idle.len()
    }

    /// How much a client uses, as shares count it.
    fn used(&self, client: Client, what: fn(&Count) -> u64) -> u64 {
        client.map_or(0, |client| self.clients.used(client, what))
    }

    /// Whether a client may have one more where one client may have `most`.
    pub(super) fn may_have(&self, client: Client, what: fn(&Count) -> u64, most: usize) -> bool {
        client.is_none_or(|client| self.clients.fits(client, what, 1, most as u64))
    }

    /// Whether a client may have one more connection, of so many that are free: it has its share of all, and
    /// leaves some to others.
    pub(super) fn may_open(&self, client: Client, bounds: &PoolBounds, free: usize) -> bool {
        let most = bounds.share_of(bounds.open_max);
        let of_all = (bounds.open_max as u64, free as u64);
        self.may_have(client, Count::open, most)
            && (client.is_none() || leaves_some(self.used(client, Count::open), of_all, most as u64))
    }

    pub(super) fn change(&mut self, client: Client, by: impl Fn(&mut Count)) {
        if let Some(client) = client {
            self.clients.change(client, by);
        }
    }

    /// What a client would use with one more.
    fn after(&self, client: Client, what: fn(&Count) -> u64) -> u64 {
        client.map_or(1, |client| self.clients.after(client, what, 1))
    }

    /// A ticket, higher than those before.
    pub(super) fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Takes out the request that gives way to one of this client where the queue is full: the latest one of
    /// the client that has most waiting, unless this one would have as many. What other clients may wait for
    /// as well stays.
    pub(super) fn give_way(&mut self, client: Client) -> Option<Waiter<G>> {
        let bounded = |(at, waiter): (usize, &Waiter<G>)| {
            waiter.client.filter(|_| waiter.share == Share::Bounded).map(|client| (at, client))
        };
        let latest_first = self.waiting.iter().enumerate().rev().filter_map(bounded);
        let waits = |client| self.clients.used(client, Count::waiting);
        let at = gives_way(latest_first, waits, self.after(client, Count::waiting))?;
        let waiter = self.waiting.remove(at)?;
        self.change(waiter.client, |count| count.waiting -= 1);
        Some(waiter)
    }

    /// Counts a stream of a client. Where there are as many as there may be, the latest one of the client
    /// that has most gives way, as in the queue.
    pub(super) fn enter_stream(&mut self, client: Client, bounds: &PoolBounds) -> Result<Entered, Bound> {
        let may_have = self.may_have(client, Count::streams, bounds.share_of(bounds.streams_max));
        let mut gone = None;
        if self.streams.len() >= bounds.streams_max {
            let of = |(ticket, stream): (&u64, &Stream)| stream.client.map(|client| (*ticket, client));
            let has = |client| self.clients.used(client, Count::streams);
            let after = self.after(client, Count::streams);
            let latest = gives_way(self.streams.iter().rev().filter_map(of), has, after);
            let latest = latest.filter(|_| may_have).ok_or(Bound::Streams)?;
            gone = self.leave_stream(latest);
        }
        if !may_have {
            return Err(Bound::ClientShare);
        }
        let (ticket, (stays, is_gone)) = (self.ticket(), oneshot::channel());
        self.streams.insert(ticket, Stream { client, _stays: stays });
        self.change(client, |count| count.streams += 1);
        Ok(Entered { ticket, is_gone, _gone: gone })
    }

    /// A stream has ended, or gives way. It is known no more where it gave way before.
    pub(super) fn leave_stream(&mut self, ticket: u64) -> Option<Stream> {
        let stream = self.streams.remove(&ticket)?;
        self.change(stream.client, |count| count.streams -= 1);
        Some(stream)
    }

    /// How many wait that a client waits for. Those that none waits for take no place of the queue.
    pub(super) fn waiting_in_turn(&self) -> usize {
        self.waiting.iter().filter(|waiter| waiter.share != Share::Spare).count()
    }

    /// Takes the next request out of the queue and counts a connection for it, one that has just been freed
    /// and is still counted as busy: of those whose clients may have more connections, one whose client has
    /// the fewest.
    pub(super) fn next(&mut self, bounds: &PoolBounds) -> Option<Waiter<G>> {
        let has_spare = self.busy() <= bounds.spare_from();
        let free = (bounds.open_max + 1).saturating_sub(self.busy());
        let mut best = None;
        for (at, waiter) in self.waiting.iter().enumerate() {
            // What no client waits for comes behind all that one waits for.
            let is_spare = waiter.share == Share::Spare;
            let open = if is_spare { u64::MAX - 1 } else { self.used(waiter.client, Count::open) };
            let is_within = match waiter.share {
                Share::Spare => has_spare,
                Share::Counted => true,
                Share::Bounded => self.may_open(waiter.client, bounds, free),
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

/// A permit that has left the pool.
#[derive(Debug)]
pub(super) struct Stream {
    client: Client,
    /// Dropped when it gives way. Not under the lock: that wakes the reader of the stream.
    _stays: oneshot::Sender<()>,
}

/// A place among the streams.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) ticket: u64,
    /// Is closed when it gives way.
    pub(super) is_gone: oneshot::Receiver<()>,
    /// What gave way to it, to be dropped once the lock is free.
    _gone: Option<Stream>,
}

#[derive(Debug)]
pub(super) struct Idle {
    pub(super) carrier: Carrier,
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
    /// A place on this connection.
    Idle(Carrier),
    /// The right to make one, perhaps in place of this one.
    Permit(Option<Idle>),
}
