//! Connections on which a client logs in: NTLM and Negotiate say who somebody is for a connection, and not
//! for a request (RFC 4559 §6). Such a connection belongs to one connection of a client. It carries that
//! client's requests alone, never lies in the pool, and ends with the client's connection. One that belongs
//! to nobody, or to somebody who cannot be told from others, is closed behind its response.
//!
//! Between two requests it counts among the origin's streams and not among its connections, of which each of
//! its requests takes one like any other.
//!
//! States ([`Stage`]): *offered*, *midway*, *open*.

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use http::HeaderMap;
use parking_lot::Mutex;

use crate::clock;
use crate::connection::{Connection, Home};
use crate::pool::Pool;
use crate::pool::slot::{Grant, Lease, Own};

use self::stage::Stage;
pub use self::stage::logs_in;

pub(crate) mod stage;

/// The most idle connections that belong to one connection of a client. Beyond it the one that was used the
/// longest ago is closed.
const KEPT_MAX: usize = 8;
/// The most upstreams of which it is known that a client's connection has logged in there.
const UPSTREAMS_MAX: usize = 16;

/// Whose requests come over a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Those of one client.
    One,
    /// Those of many: a trusted proxy's. An address that it names may be that of several users, so that what
    /// is logged in is not used again. A login that has not ended is.
    Many,
}

/// The connections to origins that belong to one connection of a client. They are closed with it.
#[derive(Debug, Default)]
pub struct Logins {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last used one at the end.
    kept: Vec<Kept>,
    /// The upstreams to which credentials were sent.
    upstreams: Vec<Box<str>>,
}

/// An idle connection.
#[derive(Debug)]
pub struct Kept {
    // Fields drop in this order: the socket is closed before its place frees.
    connection: Box<Connection>,
    own: Own,
    /// The pool of its origin.
    pool: Arc<Pool>,
    client: IpAddr,
    until: Instant,
}

impl Kept {
    /// The connection, if its origin has not closed it meanwhile.
    fn quiet(self) -> Option<(Box<Connection>, Own)> {
        let Kept { mut connection, own, .. } = self;
        connection.is_quiet().then_some((connection, own))
    }
}

/// A request's right to the connections that belong to its client's connection.
#[derive(Clone, Debug)]
pub struct LoginUse {
    logins: Weak<Logins>,
    client: IpAddr,
    carries: Carries,
}

impl Logins {
    /// The right of a request that came over their connection.
    pub fn for_request(self: &Arc<Self>, client: IpAddr, carries: Carries) -> LoginUse {
        LoginUse { logins: Arc::downgrade(self), client, carries }
    }

    fn put(&self, kept: Kept) {
        let mut state = self.state.lock();
        let over = take_over(&mut state, clock::now());
        let surplus = (state.kept.len() == KEPT_MAX).then(|| state.kept.remove(0));
        state.kept.push(kept);
        drop(state);
        drop((over, surplus));
    }

    /// Whether the client has sent credentials to this upstream, so that its requests there are its own.
    pub fn has(&self, upstream: &str) -> bool {
        self.state.lock().upstreams.iter().any(|known| **known == *upstream)
    }
}

impl LoginUse {
    /// Notes that credentials are sent to an upstream.
    pub fn note(&self, upstream: &str) {
        let Some(logins) = self.logins.upgrade().filter(|_| self.carries == Carries::One) else { return };
        let mut state = logins.state.lock();
        if !state.upstreams.iter().any(|known| **known == *upstream) {
            if state.upstreams.len() == UPSTREAMS_MAX {
                state.upstreams.remove(0);
            }
            state.upstreams.push(upstream.into());
        }
    }

    /// The first of the origins that has a connection for the request, by what `find` makes of its pool.
    pub fn find<T>(&self, request: &HeaderMap, mut find: impl FnMut(&Arc<Pool>) -> Option<T>) -> Option<T> {
        let logins = self.logins.upgrade()?;
        let state = logins.state.lock();
        let mut usable = state.kept.iter().rev().filter(|kept| self.may_use(kept, logs_in(request)));
        usable.find_map(|kept| find(&kept.pool))
    }

    /// Takes out the connection to an origin for a request: with credentials one whose login waits for them
    /// first.
    pub fn take(&self, request: &HeaderMap, pool: &Arc<Pool>) -> Option<Kept> {
        let logins = self.logins.upgrade()?;
        let mut state = logins.state.lock();
        if state.kept.is_empty() {
            return None;
        }
        let (home, has_credentials) = (Home::current(), logs_in(request));
        let over = take_over(&mut state, clock::now());
        let is_usable = |kept: &Kept| {
            Arc::ptr_eq(&kept.pool, pool)
                && kept.connection.home == home
                && self.may_use(kept, has_credentials)
        };
        let waits = |kept: &Kept| has_credentials && kept.own.stage == Stage::Midway && is_usable(kept);
        let at = state.kept.iter().rposition(waits).or_else(|| state.kept.iter().rposition(is_usable));
        let taken = at.map(|at| state.kept.remove(at));
        drop(state);
        drop(over);
        taken
    }

    fn may_use(&self, kept: &Kept, has_credentials: bool) -> bool {
        kept.client == self.client && (has_credentials || kept.own.stage != Stage::Midway)
    }

    /// Keeps a connection whose response has come whole. It is closed where its client's connection has
    /// ended, or the client has as many as it may.
    pub(crate) fn keep(&self, lease: Lease, stage: Stage, (pool, time): (Arc<Pool>, Duration)) {
        let is_for_all = self.carries == Carries::Many && stage == Stage::Open;
        let Some(logins) = self.logins.upgrade().filter(|_| !is_for_all) else { return };
        let Lease { connection, own, mut permit } = lease;
        let own = match own {
            Some(own) => Own { stage, ..own },
            None if permit.outlast().is_ok() => Own { stage, permit },
            None => return,
        };
        let until = clock::now() + time;
        logins.put(Kept { connection, own, pool, client: self.client, until });
    }

    /// Keeps a connection for which its request found no place.
    pub fn give_back(&self, kept: Kept) {
        if let Some(logins) = self.logins.upgrade() {
            logins.put(kept);
        }
    }
}

/// Takes out what has been idle for too long.
fn take_over(state: &mut State, now: Instant) -> Vec<Kept> {
    state.kept.extract_if(.., |kept| kept.until <= now).collect()
}

/// A client's own connection for one more request, which takes a place among all others for that.
pub fn on_own(granted: Grant, kept: Option<Kept>) -> Grant {
    match (granted, kept.and_then(Kept::quiet)) {
        (Grant::Fresh(permit), Some((connection, own))) => {
            Grant::Idle(Lease { connection, own: Some(own), permit }.into())
        }
        (granted, _) => granted,
    }
}
