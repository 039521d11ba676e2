//! Gaps: what is missing of a generation that is held in part. One origin transfer loads a gap, however many
//! read it; what has come is kept. [`list`] says which transfer loads what, [`task`] does it. It must not mix
//! two versions of a body: [`Refetch::part`](super::refetch::Refetch::part) asks for the same one.

pub mod list;
pub mod task;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use weir_policy::Interval;
use weir_store::{Generation, Read, Writer};

use super::asks::Asks;
use super::cold::chunk_end;
use super::machine::{AHEAD_BYTES_MAX, End, Event, Machine, REST_BYTES_MAX, State};
use super::refetch::FetchBy;
use super::transfer::Transfer;
use super::waiters::Bells;
use weir_clock as clock;

/// How far a transfer may be ahead of its foremost reader where readers hold most of the memory: 128 KiB.
const SCARCE_AHEAD_BYTES_MAX: u64 = 128 << 10;

/// How many holes within one block are looked at.
const HOLES_MAX: usize = 64;

/// One running transfer that loads a gap.
pub struct Gap {
    transfer: Transfer,
    generation: Arc<Generation>,
    /// Without readers it stops at the end of a chunk of so many bytes.
    chunk_bytes: u64,
    /// The origin was asked for the whole.
    is_whole: bool,
    by: FetchBy,
}

impl Gap {
    fn new(
        generation: &Arc<Generation>,
        interval: Interval,
        chunk_bytes: u64,
        bells: Arc<Bells>,
        asked: Instant,
    ) -> Gap {
        Gap {
            transfer: Transfer::new(Machine::of_gap(), interval, bells, asked),
            generation: generation.clone(),
            chunk_bytes,
            is_whole: false,
            by: FetchBy::Range,
        }
    }

    /// Whether it reaches an offset soon, or has just passed it.
    fn comes_to(&self, offset: u64) -> bool {
        let is_near = || self.transfer.comes_soon(&self.generation, offset, clock::mono());
        let is_here = || matches!(self.generation.read(offset, 1), Read::Piece(_));
        self.transfer.covers(offset) && is_near() && (self.transfer.reached() <= offset || is_here())
    }

    /// Whether it will still reach an offset, however late.
    fn is_to_come(&self, offset: u64) -> bool {
        self.transfer.covers(offset) && self.transfer.reached() <= offset
    }

    /// Whether the transfer has to wait for its readers.
    fn is_ahead(&self, writer: &Writer) -> bool {
        let most = if writer.is_memory_scarce() { SCARCE_AHEAD_BYTES_MAX } else { AHEAD_BYTES_MAX };
        let ahead = self.transfer.reached().saturating_sub(self.transfer.front());
        ahead >= most && self.transfer.readers() > 0
    }

    /// Whether so little of the whole is missing that it goes on without readers, as a fill does.
    fn is_almost_whole(&self) -> bool {
        let Some(length) = self.generation.length().filter(|_| self.is_whole) else { return false };
        let rest = length.saturating_sub(self.transfer.reached());
        rest <= REST_BYTES_MAX || rest.saturating_mul(5) <= length
    }

    /// Where it stops as things are: without readers, at the end of the chunk that it has begun.
    fn stop(&self) -> u64 {
        let end = self.transfer.end();
        if self.transfer.readers() > 0 || self.is_almost_whole() {
            return end;
        }
        let begun = self.transfer.reached().max(self.transfer.start() + 1);
        chunk_end(begun, self.chunk_bytes).map_or(end, |chunk_end| chunk_end.min(end))
    }
}

/// What is missing around `at`, within an interval. None where `at` is held.
pub(crate) fn hole(generation: &Generation, at: u64, within: Interval) -> Option<Interval> {
    let missing = generation.gap(Interval::new(at, within.end))?;
    if missing.start > at {
        return None;
    }
    let before = generation.gaps(Interval::new(within.start, at), HOLES_MAX);
    let before = before.last().filter(|before| before.end == at);
    Some(Interval::new(before.map_or(at, |before| before.start), missing.end))
}

/// Counts as a reader of a gap's transfer until it is dropped.
pub struct GapGuard {
    gap: Arc<Gap>,
    core: usize,
}

/// What a reader finds when it has waited for a transfer.
pub enum Seen {
    /// Bytes from its offset on.
    Piece(Bytes),
    /// The transfer has come past its offset, or has ended: look at what is held.
    Look(Option<End>),
}

impl GapGuard {
    fn of(gap: &Arc<Gap>, core: usize) -> GapGuard {
        gap.transfer.apply(Event::Joined);
        GapGuard { gap: gap.clone(), core }
    }

    /// Whether the transfer loads nothing at or after an offset.
    pub fn is_past(&self, offset: u64) -> bool {
        self.gap.transfer.ended().is_some() || self.gap.transfer.end() <= offset
    }

    /// Its requests to origins, for their log.
    pub fn asks(&self) -> Arc<Asks> {
        self.gap.transfer.asks()
    }

    /// How the origin is asked.
    pub fn by(&self) -> FetchBy {
        self.gap.by
    }

    /// Why it failed, for the log.
    pub fn failure_word(&self) -> &'static str {
        self.gap.transfer.failure_word()
    }

    /// Waits until the transfer has ended, and never holds it back.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn ended(&self) -> End {
        let transfer = &self.gap.transfer;
        transfer.advance(u64::MAX);
        transfer.turn.notify_one();
        transfer.until(self.core, || transfer.ended()).await
    }

    /// Whether the transfer will still reach an offset. What it has passed and is not held must be asked for
    /// again.
    pub fn will_reach(&self, offset: u64) -> bool {
        self.gap.is_to_come(offset)
    }

    /// Waits until it is known whether the origin still has the same version.
    ///
    /// # Errors
    /// How the transfer ended.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn confirmed(&self) -> Result<(), End> {
        let ready = || match self.gap.transfer.machine().state() {
            State::Asking => None,
            State::Filling { .. } | State::Ended(End::Fetched) => Some(Ok(())),
            State::Ended(end) => Some(Err(end)),
        };
        self.gap.transfer.until(self.core, ready).await
    }

    /// Waits for what is at `offset`.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait(&self, offset: u64, bytes_max: usize) -> Seen {
        self.advance(offset);
        let Gap { transfer, generation, .. } = &*self.gap;
        let ready = || {
            // In this order, so that bytes are seen that came just before the end.
            let (ended, reached) = (transfer.ended(), transfer.reached());
            match generation.read(offset, bytes_max) {
                Read::Piece(piece) => Some(Seen::Piece(piece)),
                _ if ended.is_some() => Some(Seen::Look(ended)),
                // The transfer has passed it, or another one loads it.
                _ => (reached > offset || transfer.end() <= offset).then_some(Seen::Look(None)),
            }
        };
        transfer.until(self.core, ready).await
    }

    /// The reader is at `offset`. A reader outside of what the transfer loads has no effect on it.
    pub fn advance(&self, offset: u64) {
        let transfer = &self.gap.transfer;
        if transfer.covers(offset) && transfer.advance(offset) {
            transfer.turn.notify_one();
        }
    }
}

impl Drop for GapGuard {
    fn drop(&mut self) {
        self.gap.transfer.apply(Event::Left);
    }
}
