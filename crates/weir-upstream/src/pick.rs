//! Picks: which origin of those that take a share gets a request (elsewhere: *load balancing*).
//!
//! Pure, but for the counters that they read: the simulator drives the same functions. A pick takes no lock
//! and must not wait.

mod sequence;

use std::net::IpAddr;
use std::sync::Arc;

pub(crate) use sequence::Sequence;

/// One `pick` of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pick {
    /// In turn, by weight.
    #[default]
    RoundRobin,
}

/// What picks know of a request. A request without a client (a fill, a gap, a check) has the default.
#[derive(Clone, Debug, Default)]
pub struct Picking {
    /// The client that the request is passed for.
    pub client: Option<IpAddr>,
    /// The picks of the route, where it names others than its upstream.
    pub picks: Option<Arc<[Pick]>>,
}

/// The origins that a pick chooses from, by their numbers in the roster.
pub(crate) trait Field {
    /// Whether the origin may be chosen for this request: it was not tried yet.
    fn is_open(&self, member: usize) -> bool;
    /// Whether it would serve the request without waiting.
    fn has_room(&self, member: usize) -> bool;
}

/// The primaries that take a share, or the backups that do.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Their numbers in the roster.
    pub(crate) members: Vec<usize>,
    /// In which order they take turns.
    pub(crate) sequence: Sequence,
}

impl Lane {
    /// A lane of these members with their weights, each 1 or more.
    pub(crate) fn new(members: Vec<usize>, weights: &[u32]) -> Lane {
        Lane { members, sequence: Sequence::new(weights) }
    }

    /// The number of the origin for the request, which is the `turn`th; one with room before one without.
    /// `None` where none is open.
    pub(crate) fn pick(&self, picks: &[Pick], field: &impl Field, turn: u64) -> Option<usize> {
        let _ = picks;
        let count = self.members.len();
        if count == 0 {
            return None;
        }
        let first = self.members[self.sequence.at(turn)];
        let is_free = |member: usize| field.is_open(member) && field.has_room(member);
        if is_free(first) {
            return Some(first);
        }
        // The next one would take the share of its neighbour: the turn is spread over all instead.
        let start = (turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % count;
        let others = || (0..count).map(|step| self.members[(start + step) % count]);
        let open = || if field.is_open(first) { Some(first) } else { others().find(|at| field.is_open(*at)) };
        others().find(|member| is_free(*member)).or_else(open)
    }
}
