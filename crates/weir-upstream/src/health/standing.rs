//! How an origin stands: whether it takes a share of the requests, and if not, why. It must not ask an origin
//! anything.

use crate::health::agent::said::Said;

/// Whether an origin takes a share of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It takes its share.
    Ready,
    /// It is left out for what it did with requests, and is tried now and then.
    Ejected,
    /// An active check says that it is down, or it was not checked yet, or no address of its name is known.
    Down,
    /// It takes requests of its sessions only.
    Draining,
    /// It takes none.
    Maintenance,
}

impl Standing {
    /// Whether it takes its share.
    pub fn takes_share(self) -> bool {
        self == Standing::Ready
    }

    /// Whether it may be asked where no other origin is left.
    pub(crate) fn is_last_resort(self) -> bool {
        matches!(self, Standing::Ready | Standing::Ejected | Standing::Down)
    }

    /// The word for logs, metrics and `weir origins`.
    pub fn word(self) -> &'static str {
        match self {
            Standing::Ready => "ready",
            Standing::Ejected => "ejected",
            Standing::Down => "down",
            Standing::Draining => "draining",
            Standing::Maintenance => "maintenance",
        }
    }
}

/// What an operator, or an agent, wants of an origin; the stricter the later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// That it takes its share.
    #[default]
    Ready,
    /// That it takes requests of its sessions only.
    Drain,
    /// That it takes none.
    Maintenance,
}

/// What DNS says of an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Naming {
    /// Nothing against it.
    #[default]
    Named,
    /// It does not name the address any more.
    Gone,
    /// The same, for so long that its sessions are over as well.
    Forgotten,
    /// It has not answered yet what addresses the name has.
    Sought,
    /// It was asked for them in vain, and none is known from before.
    Unfound,
}

impl Naming {
    /// Whether it does not name the address any more.
    pub(crate) fn is_gone(self) -> bool {
        matches!(self, Naming::Gone | Naming::Forgotten)
    }

    /// Whether it is a name of which no address is known.
    pub(crate) fn is_unknown(self) -> bool {
        matches!(self, Naming::Sought | Naming::Unfound)
    }
}

/// What is said of an origin by others than the requests sent there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// By an operator.
    pub(crate) order: Order,
    /// Whether active checks say that it is down.
    pub(crate) is_down: bool,
    /// By DNS.
    pub(crate) dns: Naming,
    /// By its agent.
    pub(crate) agent: Said,
}

impl Marks {
    /// The standing of an origin that is ejected or is not.
    pub(crate) fn standing(self, is_up: bool) -> Standing {
        // The stricter of the two holds.
        match self.order.max(self.agent.order) {
            Order::Maintenance => Standing::Maintenance,
            Order::Drain => Standing::Draining,
            Order::Ready if self.dns.is_gone() => Standing::Draining,
            Order::Ready if self.is_down || self.agent.is_down || self.dns.is_unknown() => Standing::Down,
            // As HAProxy has it: no new requests, but those of sessions.
            Order::Ready if self.agent.percent == 0 => Standing::Draining,
            Order::Ready if !is_up => Standing::Ejected,
            Order::Ready => Standing::Ready,
        }
    }

    /// Whether an origin that is ejected or is not takes requests of its sessions: also while it drains.
    pub(crate) fn takes_sessions(self, is_up: bool) -> bool {
        is_up && !self.is_down && self.order != Order::Maintenance && self.dns != Naming::Forgotten
    }
}
