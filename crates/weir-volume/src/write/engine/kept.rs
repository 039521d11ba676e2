//! Segments that were removed while they are read. Their files have no name any more, no entry of the index
//! leads there, and after the end of the process they are gone. Until then their readers go on.
//!
//! What is kept is part of the volume's size, and bounded by [`KEPT_PART`] and [`KEPT_TIME_MAX`]. It never
//! keeps anything from being written: where nothing else makes room, it goes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use crate::index::segment::Segment;
use crate::read::known::{Want, Wants};
use crate::usage::Counters;

/// At most this part of the volume is kept.
pub(crate) const KEPT_PART: u64 = 10;
/// How long a segment is kept at most.
pub(crate) const KEPT_TIME_MAX: Duration = Duration::from_secs(600);
/// How often it is asked who still reads.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// When the kept segments were removed, by number.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    since: BTreeMap<u64, Duration>,
    looked_at: Duration,
}

impl Engine {
    /// Keeps a segment that is about to be removed, if somebody has yet to read bytes of it. False if nobody
    /// has.
    pub(super) fn keep(&mut self, segment: &Arc<Segment>) -> bool {
        let number = segment.number;
        let since = &self.kept.since;
        let wants = self.shared.readers.wants(|asked| asked == number || since.contains_key(&asked));
        if !wants.contains_key(&number) {
            return false;
        }
        self.shared.segments.keep(Arc::clone(segment));
        self.kept.since.insert(number, self.now);
        self.keep_within_bounds(&wants);
        true
    }

    /// Releases what nobody reads any more, and what was kept for long enough.
    pub(super) fn step_kept(&mut self) {
        let is_due = self.now.saturating_sub(self.kept.looked_at) >= LOOK_INTERVAL;
        if self.kept.since.is_empty() || !is_due {
            return;
        }
        self.kept.looked_at = self.now;
        let wants = self.wants_of_kept();
        let is_over = |(number, since): (&u64, &Duration)| {
            let is_late = self.now.saturating_sub(*since) >= KEPT_TIME_MAX;
            (is_late || !wants.contains_key(number)).then_some(*number)
        };
        let over: Vec<u64> = self.kept.since.iter().filter_map(is_over).collect();
        for number in over {
            self.release(number, &wants);
        }
        self.keep_within_bounds(&wants);
    }

    fn wants_of_kept(&self) -> Wants {
        self.shared.readers.wants(|asked| self.kept.since.contains_key(&asked))
    }

    fn keep_within_bounds(&mut self, wants: &Wants) {
        let most = self.shared.size_bytes() / KEPT_PART;
        while self.shared.segments.kept_bytes() > most && self.release_first(wants) {}
    }

    /// Releases the segment that goes first. False if none is kept.
    fn release_first(&mut self, wants: &Wants) -> bool {
        let Some(first) = first_to_go(&self.shared.segments.kept(), wants) else { return false };
        self.release(first, wants);
        true
    }

    /// Releases one kept segment, for room. False if none is kept.
    pub(super) fn release_for_room(&mut self) -> bool {
        !self.kept.since.is_empty() && self.release_first(&self.wants_of_kept())
    }

    /// Releases all kept segments. False if there are none.
    pub(super) fn release_all(&mut self) -> bool {
        if self.kept.since.is_empty() {
            return false;
        }
        let wants = self.wants_of_kept();
        while self.release_first(&wants) {}
        true
    }

    fn release(&mut self, number: u64, wants: &Wants) {
        // Who does not find the segment any more knows why.
        let losing = wants.get(&number).into_iter().flatten().filter(|want| want.reader.lose());
        Counters::add(&self.shared.counters.kept_no_longer, losing.count() as u64);
        self.kept.since.remove(&number);
        if let Some(segment) = self.shared.segments.release(number) {
            self.dropped.push(Arc::downgrade(&segment));
        }
    }
}

/// The kept segment that goes first where there are too many, of those with so many `bytes` each: one that
/// nobody reads; else one that only clients read for which much is kept; of one client the one that its
/// readers reach last.
fn first_to_go(bytes: &BTreeMap<u64, u64>, wants: &Wants) -> Option<u64> {
    let wanting = |number: &u64| wants.get(number).map_or(&[][..], Vec::as_slice);
    let mut of_client: HashMap<u64, u64> = HashMap::new();
    for (number, bytes) in bytes {
        let mut clients: Vec<u64> = wanting(number).iter().map(|want| want.reader.client).collect();
        clients.sort_unstable();
        clients.dedup();
        for client in clients {
            *of_client.entry(client).or_default() += bytes;
        }
    }
    let least = |wanting: &[Want]| {
        let kept = wanting.iter().filter_map(|want| of_client.get(&want.reader.client));
        kept.min().copied().unwrap_or(u64::MAX)
    };
    let nearest = |wanting: &[Want]| wanting.iter().map(|want| want.distance).min();
    bytes.keys().copied().max_by_key(|number| (least(wanting(number)), nearest(wanting(number)), *number))
}

#[cfg(test)]
mod tests;
