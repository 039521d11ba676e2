//! What the engine is in the middle of between two steps: a segment being dropped, saved or counted, and
//! removals to be written.

use std::collections::{HashMap, VecDeque};

use crossbeam_channel::Sender;

use crate::index::stocks::Counted;
use crate::index::{KeyHash, Location, Locations};
use crate::write::reinsert::Wanted;

/// The most records of a segment that are read while a store waits for the segment to go.
const HEADS_AT_ONCE_MAX: usize = 1024;

/// A segment that is on its way out.
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

/// What has left the index with a segment and was not told yet; the first one last.
#[derive(Debug, Default)]
pub(crate) struct Unreported(pub(crate) Vec<Location>);

impl Unreported {
    pub(crate) fn add(&mut self, location: Location) {
        self.0.push(location);
    }

    /// No more will be added.
    pub(crate) fn arrange(&mut self) {
        self.0.sort_unstable_by(|left, right| right.cmp(left));
    }

    /// Leaves no more than may be read at once; how many are left out.
    pub(crate) fn shorten(&mut self) -> u64 {
        let excess = self.0.len().saturating_sub(HEADS_AT_ONCE_MAX);
        self.0.drain(..excess).count() as u64
    }
}

/// A removal that is in force in memory and that the log does not have yet.
#[derive(Debug)]
pub(crate) struct FailedRemoval {
    pub(crate) object: u64,
    pub(crate) digest: u128,
    pub(crate) locations: Locations,
    /// What they were counted for, as far as that is known.
    pub(crate) counted: Vec<Counted>,
}

/// The oldest segment, and what of it is to be kept.
#[derive(Debug)]
pub(crate) struct Saving {
    pub(crate) number: u64,
    /// Used, and not looked at yet; the most used last.
    pub(crate) used: Vec<(u8, KeyHash, Location)>,
    pub(crate) found: Vec<(KeyHash, Location, Wanted)>,
    /// Chosen, the best one last.
    pub(crate) chosen: Option<Vec<(KeyHash, Location, Wanted)>>,
}

impl Saving {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}
/// A recount under way, or wanted.
#[derive(Debug, Default)]
pub(crate) struct Recounting {
    /// Something left that nobody could count: what differs is no wonder.
    pub(crate) is_repair: bool,
    /// Who wants to know.
    pub(crate) asked: Vec<Sender<u64>>,
    /// Entries of the segment that is gone through, with their shards, in order.
    pub(crate) batch: VecDeque<(usize, u64)>,
}

/// The oldest content of an owner that is at its quota.
#[derive(Debug, Default)]
pub(crate) struct Oldest {
    pub(crate) segment: u64,
    /// Up to here the segment was listed.
    pub(crate) listed_to: u32,
    /// Not looked at yet, with their shards.
    pub(crate) unknown: VecDeque<(usize, u64)>,
    /// The owner's.
    pub(crate) own: VecDeque<(usize, u64)>,
}

/// By owner.
pub(crate) type Lists = HashMap<u64, Oldest>;
