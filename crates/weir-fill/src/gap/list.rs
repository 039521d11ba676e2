//! The transfers of gaps under way: which loads what, and which readers begin one. Two transfers never load
//! the same bytes for long. It must not ask an origin.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use smallvec::SmallVec;
use weir_policy::Interval;
use weir_store::{Generation, Writer};

use super::{Gap, GapGuard, hole};
use crate::asks::Asks;
use crate::machine::Event;
use crate::refetch::{FetchBy, Part};
use crate::same::SameGeneration;
use crate::transfer::Transfer;
use crate::waiters::Bells;
use weir_clock as clock;

/// The transfers of gaps that are under way, by generation.
pub struct Gaps {
    running: Mutex<HashMap<SameGeneration, SmallVec<[Arc<Gap>; 1]>>>,
    bells: Arc<Bells>,
}

/// A transfer whose response head has come already.
pub struct Begun {
    /// Where the part goes.
    pub writer: Writer,
    /// The part that is arriving.
    pub part: Part,
    /// When its request was sent.
    pub asked: Instant,
    /// The whole was asked for.
    pub is_whole: bool,
    /// Its request, where requests to origins have a log.
    pub asks: Option<Arc<Asks>>,
}

/// Who wants a gap loaded, and how.
#[derive(Clone, Copy)]
pub(super) struct Order {
    /// The reader's core.
    pub(super) core: usize,
    /// A transfer without readers stops at the end of a chunk of so many bytes.
    pub(super) chunk_bytes: u64,
    pub(super) by: FetchBy,
}

/// A reader's guard at a transfer. One that has just begun is to be run by the caller.
pub(super) struct Joined {
    pub(super) guard: GapGuard,
    pub(super) begun: Option<Arc<Gap>>,
}

impl Gaps {
    /// None under way; readers are woken by these bells.
    pub fn new(bells: Arc<Bells>) -> Gaps {
        Gaps { running: Mutex::default(), bells }
    }

    /// Joins the transfer that will soon reach `at`. Where there is none, begins one for the interval around
    /// it, up to where another has begun; one that would reach `at` later stops where the new one begins.
    /// None where `at` is held by now.
    pub(super) fn join(
        &self,
        order: Order,
        generation: &Arc<Generation>,
        at: u64,
        interval: Interval,
    ) -> Option<Joined> {
        let mut running = self.running.lock();
        let here = running.get(&SameGeneration::of(generation));
        if let Some(gap) = here.and_then(|gaps| gaps.iter().find(|gap| gap.comes_to(at))) {
            return Some(Joined { guard: GapGuard::of(gap, order.core), begun: None });
        }
        // What has come since it was looked for is not asked for again: another transfer may have begun and
        // ended meanwhile, and is in no list any more.
        let interval = hole(generation, at, interval)?;
        let gaps = running.entry(SameGeneration::of(generation)).or_default();
        let mut start = interval.start;
        // What other transfers load before it is left to them.
        for gap in gaps.iter().filter(|gap| {
            gap.transfer.start() < at && gap.transfer.end() <= at && gap.transfer.ended().is_none()
        }) {
            start = start.max(gap.transfer.end());
        }
        let mut nearer = SmallVec::<[Arc<Gap>; 1]>::new();
        for gap in gaps.iter().filter(|gap| gap.is_to_come(at)) {
            // What that one has reached meanwhile is not fetched again.
            start = start.max(gap.transfer.reached().min(at));
            gap.transfer.stop_at(start);
            nearer.push(gap.clone());
        }
        let joined = self.begin(order, generation, gaps, Interval::new(start, interval.end));
        drop(running);
        // Its readers that wait for what comes later go on with the new one. It need not be held back for
        // them.
        for gap in nearer {
            gap.transfer.turn.notify_one();
            gap.transfer.wake(order.core);
        }
        Some(joined)
    }

    /// Joins a new transfer for what is not being loaded yet of an interval that a reader will reach later.
    /// None where all of it is on its way.
    pub(super) fn join_ahead(
        &self,
        order: Order,
        generation: &Arc<Generation>,
        mut interval: Interval,
    ) -> Option<Joined> {
        if interval.is_empty() {
            return None;
        }
        let mut running = self.running.lock();
        // What has come since it was looked for is not asked for again.
        interval = generation.gap(interval)?;
        let gaps = running.entry(SameGeneration::of(generation)).or_default();
        while let Some(gap) = gaps.iter().find(|gap| gap.transfer.covers(interval.start)) {
            interval.start = gap.transfer.end();
        }
        if interval.start >= interval.end {
            return None;
        }
        Some(self.begin(order, generation, gaps, interval))
    }

    fn begin(
        &self,
        order: Order,
        generation: &Arc<Generation>,
        gaps: &mut SmallVec<[Arc<Gap>; 1]>,
        interval: Interval,
    ) -> Joined {
        let running = gaps.iter().map(|gap| &gap.transfer).filter(|transfer| transfer.ended().is_none());
        let later = running.map(Transfer::start).filter(|start| *start > interval.start);
        let end = later.min().map_or(interval.end, |start| start.min(interval.end));
        let gap = Arc::new(self.gap(order, generation, Interval::new(interval.start, end), clock::mono()));
        gaps.push(gap.clone());
        Joined { guard: GapGuard::of(&gap, order.core), begun: Some(gap) }
    }

    /// Goes on with a transfer whose head has come, of a generation that it has made.
    pub(super) fn go_on(&self, order: Order, begun: &Begun) -> Arc<Gap> {
        let generation = begun.writer.generation().clone();
        let interval = Interval::new(begun.writer.position(), begun.part.end);
        let gap = self.gap(order, &generation, interval, begun.asked);
        gap.transfer.speed.head(clock::mono());
        gap.transfer.apply(Event::Storable(None));
        gap.transfer.adopt(begun.asks.clone());
        let gap = Arc::new(Gap { is_whole: begun.is_whole, ..gap });
        self.running.lock().entry(SameGeneration::of(&generation)).or_default().push(gap.clone());
        gap
    }

    fn gap(&self, order: Order, generation: &Arc<Generation>, interval: Interval, asked: Instant) -> Gap {
        let gap = Gap::new(generation, interval, order.chunk_bytes, self.bells.clone(), asked);
        Gap { by: order.by, ..gap }
    }

    /// What the origin sends beyond what was asked for is loaded as well, up to `end` or to where another
    /// transfer has begun. Returns up to where.
    pub(super) fn extend(&self, gap: &Arc<Gap>, end: u64) -> u64 {
        let running = self.running.lock();
        let gaps = running.get(&SameGeneration::of(&gap.generation));
        let others = gaps.into_iter().flatten().filter(|other| !Arc::ptr_eq(other, gap));
        let later = others.map(|other| &other.transfer).filter(|other| other.ended().is_none());
        let start = gap.transfer.start();
        let nearest = later.map(Transfer::start).filter(|later| *later > start).min();
        let end = nearest.map_or(end, |nearest| nearest.min(end));
        gap.transfer.go_on_to(end);
        end
    }

    /// Cancels a transfer that has no readers; from then on none joins it. Whether it did.
    pub(super) fn cancel_if_unread(&self, gap: &Gap) -> bool {
        // Readers join under this lock.
        let _running = self.running.lock();
        let is_unread = gap.transfer.readers() == 0;
        if is_unread {
            gap.transfer.stop_at(gap.transfer.start());
        }
        is_unread
    }

    pub(super) fn done(&self, gap: &Arc<Gap>) {
        let own = SameGeneration::of(&gap.generation);
        let mut running = self.running.lock();
        if let Some(gaps) = running.get_mut(&own) {
            gaps.retain(|other| !Arc::ptr_eq(other, gap));
            if gaps.is_empty() {
                running.remove(&own);
            }
        }
    }
}

#[cfg(test)]
mod tests;
