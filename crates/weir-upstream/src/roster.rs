//! The origins of an upstream at one moment, and which of them take a share. A request keeps the roster that
//! it began with; a change makes another one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::origin::Origin;
use crate::pick::{Field, Lane, Pick};
use crate::settings::Role;
use crate::standing::Standing;

/// An origin with what the upstream says about it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) origin: Arc<Origin>,
    /// Its share relative to the others, 1 to 1,000.
    pub(crate) weight: u32,
    pub(crate) role: Role,
}

/// What origins and requests of an upstream count together. It outlives reloads.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// How often an origin has begun or ceased to take a share, or a weight has changed.
    changes: AtomicU64,
    /// How many picks there were.
    turns: AtomicU64,
    /// Wakes what tends the origins.
    woken: Notify,
    /// The upstreams that have had these origins one after another, each by its token.
    line: Mutex<Vec<Weak<()>>>,
}

impl Signal {
    /// The roster no longer says what is.
    pub(crate) fn change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        self.woken.notify_waiters();
    }

    /// Wakes what tends the origins.
    pub(crate) fn wake(&self) {
        self.woken.notify_waiters();
    }

    /// An upstream takes the place of those before: its token, which lives as long.
    pub(crate) fn follow(&self) -> Arc<()> {
        let token = Arc::new(());
        let mut line = self.line.lock();
        line.retain(|before| before.strong_count() > 0);
        line.push(Arc::downgrade(&token));
        token
    }

    /// Whether no living upstream has taken the place of the one with this token.
    pub(crate) fn is_last(&self, token: &Arc<()>) -> bool {
        let line = self.line.lock();
        let last = line.iter().rev().find(|one| one.strong_count() > 0);
        last.is_some_and(|last| std::ptr::eq(last.as_ptr(), Arc::as_ptr(token)))
    }

    /// Ends at the next change, or the next [`Signal::wake`].
    pub(crate) fn woken(&self) -> Notified<'_> {
        self.woken.notified()
    }

    /// The number of the last change.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The number of the next pick.
    pub(crate) fn turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }
}

/// The origins of an upstream.
#[derive(Debug)]
pub(crate) struct Roster {
    pub(crate) members: Arc<[Member]>,
    /// [`Signal::changes`] when it was made.
    pub(crate) changes: u64,
    /// Those that take a share, by role.
    primaries: Lane,
    backups: Lane,
    /// Those that are ejected: one may be due for a trial.
    ejected: Vec<usize>,
}

impl Roster {
    /// A roster of these members as they stand now.
    pub(crate) fn new(members: Arc<[Member]>, changes: u64) -> Roster {
        let standings: Vec<Standing> = members.iter().map(|member| member.origin.standing()).collect();
        let lane = |role: Role| {
            let takes = |at: &usize| members[*at].role == role && standings[*at] == Standing::Ready;
            let taking: Vec<usize> = (0..members.len()).filter(takes).collect();
            let weights: Vec<u32> = taking.iter().map(|at| members[*at].weight).collect();
            Lane::new(taking, &weights)
        };
        let ejected = (0..members.len()).filter(|at| standings[*at] == Standing::Ejected).collect();
        Roster { primaries: lane(Role::Primary), backups: lane(Role::Backup), ejected, members, changes }
    }

    /// The number of the origin of this name, if it takes a share.
    pub(crate) fn preferred(&self, name: &str) -> Option<usize> {
        let of_name = |member: &Member| member.origin.name() == name;
        self.members.iter().position(of_name).filter(|at| self.origin(*at).standing() == Standing::Ready)
    }

    /// The origin of this number.
    pub(crate) fn origin(&self, at: usize) -> &Arc<Origin> {
        &self.members[at].origin
    }

    /// Picks an origin that was not tried: one due for a trial, else a primary that takes a share (one with a
    /// free connection before one without), else such a backup, else the one whose backoff ends first. `None`
    /// where none is left that may be asked.
    pub(crate) fn choose(
        &self,
        picks: &[Pick],
        tried: &[usize],
        signal: &Signal,
        now: Instant,
    ) -> Option<usize> {
        let field = Untried { roster: self, tried };
        for (role, lane) in [(Role::Primary, &self.primaries), (Role::Backup, &self.backups)] {
            let mut ejected = self.ejected.iter().filter(|at| self.members[**at].role == role);
            if let Some(due) = ejected.find(|at| field.is_open(**at) && self.origin(**at).begin_trial(now)) {
                return Some(*due);
            }
            let picked = lane.pick(picks, &field, signal.turn());
            if picked.is_some() {
                return picked;
            }
        }
        let left = (0..self.members.len())
            .filter(|at| field.is_open(*at) && self.origin(*at).standing().is_last_resort());
        left.min_by_key(|at| self.origin(*at).health().due(now))
    }
}

/// The origins that a request has not tried.
struct Untried<'r> {
    roster: &'r Roster,
    tried: &'r [usize],
}

impl Field for Untried<'_> {
    fn is_open(&self, at: usize) -> bool {
        !self.tried.contains(&at)
    }

    fn has_room(&self, at: usize) -> bool {
        self.roster.origin(at).has_room()
    }
}
