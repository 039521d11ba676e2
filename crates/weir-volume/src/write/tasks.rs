//! What the engine is in the middle of between two steps: segments that are dropped, written again or
//! counted, and removals to be written.

use std::collections::{HashMap, VecDeque};

use crossbeam_channel::Sender;

use crate::index::stocks::Counted;
use crate::index::{KeyHash, Location, Locations};
use crate::write::reinsert::Wanted;

/// The most records of a segment that are read while a store waits for the segment to go.
const HEADS_AT_ONCE_MAX: usize = 1024;

/// A segment that is being dropped.
#[derive(Debug)]
pub(crate) struct Dropping {
    pub(crate) number: u64,
    pub(crate) next_shard: usize,
    pub(crate) gone: u64,
    pub(crate) unreported: Unreported,
}

impl Dropping {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

/// What has left the index with a segment and was not reported yet; the first one last.
#[derive(Debug, Default)]
pub(crate) struct Unreported(pub(crate) Vec<Location>);

impl Unreported {
    pub(crate) fn add(&mut self, location: Location) {
        self.0.push(location);
    }

    /// Sorts them: no more will be added.
    pub(crate) fn arrange(&mut self) {
        self.0.sort_unstable_by(|left, right| right.cmp(left));
    }

    /// Leaves no more than may be read at once. Returns how many are left out.
    pub(crate) fn shorten(&mut self) -> u64 {
        let excess = self.0.len().saturating_sub(HEADS_AT_ONCE_MAX);
        self.0.drain(..excess).count() as u64
    }
}

/// A removal that holds in memory and that the log does not have yet.
#[derive(Debug)]
pub(crate) struct FailedRemoval {
    pub(crate) object: u64,
    pub(crate) digest: u128,
    pub(crate) locations: Locations,
    /// What the records counted for, as far as that is known.
    pub(crate) counted: Vec<Counted>,
}

/// The oldest segment, and what of it is written again.
#[derive(Debug)]
pub(crate) struct Reinsertion {
    pub(crate) number: u64,
    /// Used objects that were not looked at yet; the most used last.
    pub(crate) used: Vec<(u8, KeyHash, Location)>,
    pub(crate) found: Vec<(KeyHash, Location, Wanted)>,
    /// The objects to write again; the best one last.
    pub(crate) chosen: Option<Vec<(KeyHash, Location, Wanted)>>,
}

impl Reinsertion {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}
/// A recount that is under way or wanted.
#[derive(Debug, Default)]
pub(crate) struct Recounting {
    /// An entry left that nobody could count, so differences are expected.
    pub(crate) is_repair: bool,
    /// The callers that want the result.
    pub(crate) asked: Vec<Sender<u64>>,
    /// Entries of the present segment with their shards, in order.
    pub(crate) batch: VecDeque<(usize, u64)>,
}

/// The oldest content of an owner that is at its quota.
#[derive(Debug, Default)]
pub(crate) struct Oldest {
    pub(crate) segment: u64,
    /// The segment was listed up to this unit.
    pub(crate) listed_to: u32,
    /// Entries that were not looked at yet, with their shards.
    pub(crate) unknown: VecDeque<(usize, u64)>,
    /// Entries of the owner, with their shards.
    pub(crate) own: VecDeque<(usize, u64)>,
}

/// The lists by owner.
pub(crate) type Lists = HashMap<u64, Oldest>;
