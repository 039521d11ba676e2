//! A request's seat at an origin: an idle connection, or the right to make one. A request that waits for it
//! takes one at another origin where that has room first.
//!
//! Requests that belong where they wait stay: those of sessions, the rest of a body, trials. While a request
//! waits it keeps its place in the queue that it began in.

use std::future::pending;
use std::sync::Arc;

use weir_client::{Client, Demand, Grant, Share, Took, on_own};

use crate::again::attempt::Seat;
use crate::again::moves::Room;
use crate::again::send::Course;
use crate::choice::pick::{Picked, Reason};
use crate::choice::roster::Roster;
use crate::clock;
use crate::origin::{Busy, Origin};
use crate::upstream::Upstream;

/// So many origins that have room are asked for a connection at a time.
const LOOKS_MAX: usize = 4;

/// A seat at another origin.
#[derive(Debug)]
pub(crate) struct Moved {
    grant: Grant,
    busy: Busy,
    /// By number in this roster.
    picked: Picked,
    roster: Arc<Roster>,
}

impl Room for Arc<Origin> {
    type Who = (Client, Share);

    fn has_room(&self) -> bool {
        self.load.has_room()
    }

    fn is_for(&self, (client, share): (Client, Share)) -> bool {
        match share {
            Share::Counted => true,
            Share::Bounded => !self.pool().is_spent(client),
            Share::Spare => self.pool().has_spare(),
        }
    }
}

impl Upstream {
    /// Whether a request that no client waits for may go to an origin now: at one that takes requests, or
    /// that is due for a trial, nobody waits for a connection, and some are left for others.
    pub fn has_spare(&self) -> bool {
        let (roster, now) = (self.roster(), clock::now());
        let may_take = |at: &usize| roster.takes_share(*at) || roster.origin(*at).is_trial_due(now);
        (0..roster.members.len()).filter(may_take).any(|at| roster.origin(at).pool().has_spare())
    }

    /// Whether no origin takes requests: each is ejected, or fails its checks.
    pub fn is_down(&self) -> bool {
        let roster = self.roster();
        !(0..roster.members.len()).any(|at| roster.takes_share(at))
    }
}

impl Course<'_> {
    /// A seat at the origin that was picked, or at another one that has room before.
    ///
    /// # Cancel safety
    /// Dropped, it leaves the queue, and passes on what it was given or offered.
    pub(crate) async fn sit(&mut self) -> Seat {
        let begun = clock::now();
        let origin = self.roster.origin(self.picked.at);
        let busy = Busy::begin(origin);
        let own = self.login.and_then(|login| login.take(&self.request.headers, origin.pool()));
        let demand = if own.is_some() { Demand::Fresh } else { self.demand };
        // Most find one at once. Waiting takes much memory, and is in memory of its own.
        if demand == Demand::Any
            && let Some(grant) = origin.pool().try_acquire(self.who())
        {
            return Seat { granted: Ok(grant), busy, begun };
        }
        let elsewhere = (self.elsewhere(), self.request.hurry.as_deref());
        match Box::pin(origin.pool().acquire(demand, self.who(), elsewhere)).await {
            Ok(Took::Here(grant)) => Seat { granted: Ok(on_own(grant, own)), busy, begun },
            Err(bound) => {
                if let Some((login, own)) = self.login.zip(own) {
                    login.give_back(own);
                }
                Seat { granted: Err(bound), busy, begun }
            }
            Ok(Took::There(Moved { grant, busy, picked, roster })) => {
                self.tried = self.tried_in(&roster);
                (self.picked, self.roster) = (picked, roster);
                Seat { granted: Ok(grant), busy, begun }
            }
        }
    }

    fn who(&self) -> (Client, Share) {
        let is_waited_for = self.request.hurry.as_ref().is_some_and(|hurry| hurry.is_told());
        let share = if is_waited_for { Share::Bounded } else { self.request.share };
        (self.request.client, share)
    }

    /// Whether it may be answered by any origin as well as by the one that was picked.
    pub(crate) fn is_free(&self) -> bool {
        let is_bound =
            |reason| matches!(reason, Reason::Preferred | Reason::Session | Reason::Trial | Reason::Answered);
        self.among.is_none() && !is_bound(self.picked.reason)
    }

    /// A seat at another origin, once one has room.
    async fn elsewhere(&self) -> Moved {
        if !self.is_free() {
            return pending().await;
        }
        let mut mover = self.upstream.signal.moves.enter(self.who());
        let mut offer = None;
        loop {
            let moved = self.look();
            if let Some(offer) = offer {
                mover.pass_on(&offer);
            }
            if let Some(moved) = moved {
                return moved;
            }
            offer = Some(mover.offered().await);
        }
    }

    /// A seat at another origin that has room now.
    fn look(&self) -> Option<Moved> {
        let roster = self.upstream.roster();
        let here = roster.number_of(self.roster.origin(self.picked.at));
        let mut tried = self.tried_in(&roster);
        let role = roster.next_role(&tried)?;
        tried.extend(here);
        for _ in 0..LOOKS_MAX {
            let picked = self.upstream.choose_room(&roster, self.request, (role, &tried), Reason::Room)?;
            let origin = roster.origin(picked.at);
            if let Some(grant) = origin.pool().try_acquire(self.who()) {
                roster.took(self.upstream.picks_of(self.request), picked);
                return Some(Moved { grant, busy: Busy::begin(origin), picked, roster });
            }
            tried.push(picked.at);
        }
        None
    }

    /// The origins that were tried, by their numbers in another roster.
    fn tried_in(&self, roster: &Roster) -> Vec<usize> {
        self.tried.iter().filter_map(|at| roster.number_of(self.roster.origin(*at))).collect()
    }
}
