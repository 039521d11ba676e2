//! Picks: which origin of those that take a share gets a request (elsewhere: *load balancing*).
//!
//! Pure, but for the counters that they read: the simulator drives the same functions. A pick takes no lock
//! and must not wait. What is asked for without a client must not depend on one.

mod counts;
mod lane;
mod metered;
mod open;
mod point;
mod ranks;
mod sequence;
mod word;

use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::choice::decider::{About, Deciders};
pub(crate) use counts::PickCounts;
pub(crate) use lane::{Lane, Place};
pub use metered::{Metered, MeteredSettings};
pub(crate) use point::seed;
pub use point::{Asked, HashOf, host_point};
pub(crate) use ranks::{Ranks, mixed};
#[cfg(test)]
pub(crate) use sequence::Sequence;
pub use word::{PickWord, Reason};

/// One `pick` of an upstream or a route.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Pick {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// At random, by weight.
    Random,
    /// The fewest requests under way, for its weight.
    LeastRequests,
    /// Two drawn at random, by weight: the one with fewer requests under way, for its weight.
    TwoChoices,
    /// The lowest product of time to first byte and requests under way, for its weight.
    Latency,
    /// The fewest requests so far, for its weight (Apache's `byrequests`).
    ByRequests,
    /// The fewest bytes so far, for its weight (Apache's `bytraffic`).
    ByTraffic,
    /// The fewest requests under way, then the fewest so far, for its weight (Apache's `bybusyness`).
    ByBusyness,
    /// By the client's address, each client always at the same origin.
    ClientAddress,
    /// By a part of the request: the same always at the same origin, unless that has too much to do.
    Hash {
        /// The part.
        of: HashOf,
        /// An origin that would have more than so many times its share of the requests under way is passed
        /// over; 1 or more.
        bound: f64,
    },
    /// The first that has room, in the order of the configuration.
    First,
    /// By what is measured at the origins.
    Metered(Arc<Metered>),
}

impl Pick {
    /// Whether it looks for the least of all origins.
    fn compares(&self) -> bool {
        matches!(
            self,
            Pick::LeastRequests | Pick::Latency | Pick::ByRequests | Pick::ByTraffic | Pick::ByBusyness
        )
    }

    /// Its word.
    pub fn word(&self) -> PickWord {
        match self {
            Pick::RoundRobin => PickWord::RoundRobin,
            Pick::Random => PickWord::Random,
            Pick::LeastRequests => PickWord::LeastRequests,
            Pick::TwoChoices => PickWord::TwoChoices,
            Pick::Latency => PickWord::Latency,
            Pick::ByRequests => PickWord::ByRequests,
            Pick::ByTraffic => PickWord::ByTraffic,
            Pick::ByBusyness => PickWord::ByBusyness,
            Pick::ClientAddress => PickWord::ClientAddress,
            Pick::Hash { .. } => PickWord::Hash,
            Pick::First => PickWord::First,
            Pick::Metered(metered) => match metered.settings().mark {
                None => PickWord::Least,
                Some(_) => PickWord::Pack,
            },
        }
    }
}

/// Whom a request is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// For all: a fill, a gap, a refresh, a check. No pick goes by what a client chose.
    #[default]
    Nobody,
    /// For one client: a pass.
    Client,
}

/// What picks know of a request beside its target and fields.
#[derive(Clone, Debug, Default)]
pub struct Picking {
    /// Whom it is for.
    pub whose: Whose,
    /// The client that it is for, where its address is known.
    pub client: Option<IpAddr>,
    /// The number of the host that the client asked for ([`host_point`]).
    pub host: Option<u64>,
    /// The picks of the route, where it names others than its upstream.
    pub picks: Option<Arc<[Pick]>>,
    /// The deciders of the route, where it names picks.
    pub deciders: Option<Deciders>,
    /// What deciders know besides.
    pub about: Option<Arc<About>>,
}

/// The origin that was picked, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// Its number among the upstream's origins.
    pub at: usize,
    /// The pick that decided; the first one where none did.
    pub pick: PickWord,
    /// Why.
    pub reason: Reason,
}

impl Picked {
    /// Both words for logs: `least_requests`, `hash/bound`. The reason is left out where it is that of most.
    pub fn words(self) -> String {
        let (pick, reason) = (self.pick.word(), self.reason.word());
        let is_usual = match self.reason {
            Reason::Turn => self.pick == PickWord::RoundRobin,
            Reason::Chance => matches!(self.pick, PickWord::Random | PickWord::Least | PickWord::Pack),
            Reason::Hash => matches!(self.pick, PickWord::Hash | PickWord::ClientAddress),
            Reason::First => self.pick == PickWord::First,
            Reason::Least | Reason::Answered => true,
            _ => false,
        };
        if is_usual { pick.to_owned() } else { format!("{pick}/{reason}") }
    }
}

/// The origins that a pick chooses from, by their numbers in the roster.
pub(crate) trait Field {
    /// Whether the origin may be chosen for this request: it was not tried yet.
    fn is_open(&self, member: usize) -> bool;
}

/// What differs from pick to pick of the same request.
#[derive(Debug)]
pub(crate) struct Moment<'t> {
    turns: Turns<'t>,
    turn: OnceCell<u64>,
    /// Any number, for draws.
    pub(crate) chance: u64,
    /// The time on the upstream's clock.
    pub(crate) now_ms: u32,
}

/// Where the number of a turn comes from. It is taken only by picks that need one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turns<'t> {
    /// It is counted.
    Counted(&'t AtomicU64),
    /// It is this one.
    At(u64),
}

impl<'t> Moment<'t> {
    pub(crate) fn new(turns: Turns<'t>, chance: u64, now_ms: u32) -> Moment<'t> {
        Moment { turns, turn: OnceCell::new(), chance, now_ms }
    }

    /// The number of this pick.
    pub(crate) fn turn(&self) -> u64 {
        *self.turn.get_or_init(|| match self.turns {
            Turns::Counted(turns) => turns.fetch_add(1, Ordering::Relaxed),
            Turns::At(turn) => turn,
        })
    }
}
