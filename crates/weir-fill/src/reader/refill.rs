//! How a reader has missing bytes loaded: the gaps where it is and ahead of it, one transfer for all readers
//! of a gap. It must not wait for bytes itself, nor mix two versions.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use weir_policy::Interval;
use weir_store::{BLOCK_BYTES, Generation};

use super::choose::{Asking, Beyond, GapSeen, Nearby};
use crate::cold::ask_end;
use crate::gap::task::GapRequest;
use crate::gap::{GapGuard, Seen, hole};
use crate::machine::End;
use crate::recent::RangeFetch;
use crate::refetch::{FetchBy, Refetch};
use crate::resources::Resources;
use crate::{ReaderGuard, complete, is_windowed};
use weir_clock as clock;

/// How often in a row a reader asks without getting a byte farther.
const TRIES_MAX: u8 = 3;

/// How many transfers may fail under one reader, however far each has come.
const BREAKS_MAX: u8 = 8;

/// Loads what one reader misses.
pub struct Refill {
    pub(super) request: GapRequest,
    /// How it asks for itself.
    pub(super) refetch: Arc<Refetch>,
    /// The transfers that it waits for, where it is and ahead of it.
    guards: SmallVec<[GapGuard; 1]>,
    /// The most that is asked for at a time.
    ask_bytes_max: u64,
    /// Requests end at multiples of this, counted from the start of the body.
    chunk_bytes: u64,
    /// It has looked for gaps up to here.
    looked_to: u64,
    /// Some gaps that were found are not on their way: there are more than may be asked for at a time.
    is_short: bool,
    /// Only the running fill can load what is missing.
    keeps_to_fill: bool,
    tries: Tries,
    /// The running fill that was found a moment ago.
    found: Option<(ReaderGuard, Arc<Generation>)>,
}

/// How often a reader has tried.
#[derive(Default)]
struct Tries {
    /// Tries since the last byte.
    in_a_row: u8,
    /// How many transfers have failed under it, and the word of the last.
    breaks: u8,
    word: &'static str,
    refused: Option<Refused>,
}

/// How the origin has refused a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// It does not send parts.
    Parts,
    /// It has another version, or did not send the whole either.
    All,
}

impl Refill {
    /// For a reader that asks for at most `ask_bytes_max` at a time, to the end of a chunk of `chunk_bytes`.
    pub fn new(request: GapRequest, refetch: Arc<Refetch>, ask_bytes_max: u64, chunk_bytes: u64) -> Refill {
        Refill {
            request,
            refetch,
            guards: SmallVec::new(),
            ask_bytes_max,
            chunk_bytes,
            looked_to: 0,
            is_short: false,
            keeps_to_fill: false,
            tries: Tries::default(),
            found: None,
        }
    }

    /// Whether its client has used up its share of the origin's connections.
    pub fn is_spent(&self) -> bool {
        self.refetch.upstream.is_spent(self.refetch.client)
    }

    /// Asks the origin for the first byte that is missing of `wanted`, so that its version is known before
    /// the response head is sent.
    ///
    /// # Errors
    /// How the transfer ended.
    ///
    /// # Cancel safety
    /// Safe: transfers go on for as long as they are worth it.
    pub async fn confirm(&mut self, generation: &Arc<Generation>, wanted: Interval) -> Result<(), End> {
        let Resources { inflight, store, core, .. } = &*self.request.resources;
        let is_being_written = store.is_being_written(generation) && !generation.is_filling();
        if inflight.fill_of(*core, generation).is_some() || is_being_written {
            return Ok(());
        }
        // What was being written a moment ago may be there by now.
        generation.look_on_disk().await;
        let Some(missing) = generation.gap(wanted) else { return Ok(()) };
        let wanted = Interval::new(missing.start, wanted.end);
        let Some(hole) = self.hole(generation, wanted) else { return Ok(()) };
        let Some(guard) = self.join(generation, missing.start, hole) else { return Ok(()) };
        let confirmed = guard.confirmed().await;
        self.guards.push(guard);
        confirmed
    }

    /// The gap in which `wanted` begins: from the start of its block to the end of the chunk in which
    /// `wanted` ends.
    fn hole(&self, generation: &Generation, wanted: Interval) -> Option<Interval> {
        let length = generation.length()?;
        let end = ask_end(wanted, self.ask_bytes_max, self.chunk_bytes).map_or(length, |end| end.min(length));
        let block = wanted.start - wanted.start % BLOCK_BYTES as u64;
        hole(generation, wanted.start, Interval::new(block, end.max(wanted.start)))
    }

    fn join(&self, generation: &Arc<Generation>, at: u64, hole: Interval) -> Option<GapGuard> {
        let guard = self.request.join(generation, at, hole);
        self.note(guard.as_ref());
        complete::start(&self.request, generation);
        guard
    }

    /// What a reader sees at the start of `rest`, which is not held.
    pub(super) fn look(&mut self, generation: &Arc<Generation>, rest: Interval) -> Beyond {
        let asking = match &self.tries {
            tries if tries.breaks > BREAKS_MAX => Asking::Broken,
            tries if tries.in_a_row >= TRIES_MAX => Asking::Spent,
            _ => Asking::Allowed,
        };
        if self.guards.iter().any(|guard| guard.will_reach(rest.start)) {
            return Beyond { is_writing: false, nearby: Nearby::None, gap: GapSeen::Running, asking };
        }
        let gap = match self.tries.refused {
            None => GapSeen::None,
            Some(Refused::Parts) => GapSeen::NoParts,
            Some(Refused::All) => GapSeen::Refused,
        };
        let is_being_written = self.request.resources.store.is_being_written(generation);
        let nearby = self.nearby(generation, rest.start, is_being_written);
        Beyond { is_writing: is_being_written && !generation.is_filling(), nearby, gap, asking }
    }

    /// How soon a running fill of this version reaches an offset.
    fn nearby(&mut self, generation: &Arc<Generation>, offset: u64, is_being_written: bool) -> Nearby {
        let Resources { inflight, core, .. } = &*self.request.resources;
        self.found = inflight.fill_of(*core, generation);
        let Some((guard, running)) = &self.found else { return Nearby::None };
        let now = clock::mono();
        let is_near = match Arc::ptr_eq(running, generation) {
            true => {
                let is_apart = inflight.recent.range_fetch(generation.key().digest, now).is_none();
                guard.fill().comes_soon(offset, now) || !is_apart || self.keeps_to_fill
            }
            false if is_being_written || running.window_start() <= offset => true,
            // It is past what is wanted.
            false => return Nearby::None,
        };
        if is_near { Nearby::Near } else { Nearby::Late }
    }

    /// The running fill that was found; the reader reads it from here on.
    pub(super) fn join_fill(&mut self) -> Option<(ReaderGuard, Arc<Generation>)> {
        self.tries.in_a_row += 1;
        self.keeps_to_fill |= self.tries.refused.take().is_some();
        if let (Some(cause), Some((guard, _))) = (&self.refetch.cause, &self.found) {
            cause.reads(&guard.fill().asks());
        }
        self.found.take()
    }

    /// Counts one more try without a byte.
    pub(super) fn tried(&mut self) {
        self.tries.in_a_row += 1;
    }

    /// The reader has waited for what is being written.
    pub(super) fn waited(&mut self) {
        self.tries.in_a_row = 0;
    }

    /// Begins to load what is at the start of `rest`, or joins the transfer that does.
    pub(super) fn begin(&mut self, generation: &Arc<Generation>, rest: Interval) {
        self.found = None;
        let hole = self.hole(generation, rest);
        match hole.and_then(|hole| self.join(generation, rest.start, hole)) {
            Some(guard) => {
                self.guards.retain(|guard| !guard.is_past(rest.start));
                self.guards.push(guard);
            }
            // It is held by now.
            None => self.tried(),
        }
    }

    /// As [`Refill::begin`], from an origin that does not send parts: what comes before is skipped.
    pub(super) fn begin_whole(&mut self, generation: &Arc<Generation>, rest: Interval) {
        self.request.by = FetchBy::Whole;
        self.tries.refused = None;
        self.begin(generation, rest);
    }

    /// Waits for the transfer that loads what is at `offset`.
    ///
    /// # Cancel safety
    /// Safe: no byte is lost.
    pub(super) async fn wait(
        &mut self,
        generation: &Arc<Generation>,
        offset: u64,
        bytes_max: usize,
    ) -> Option<Bytes> {
        let guard = self.guards.iter().find(|guard| guard.will_reach(offset))?;
        let seen = guard.wait(offset, bytes_max).await;
        let (word, by) = (guard.failure_word(), guard.by());
        self.tried();
        match seen {
            Seen::Piece(piece) => return Some(piece),
            Seen::Look(Some(end @ (End::Changed | End::Unable))) => {
                self.give_up(generation, end);
                let may_be_whole = end == End::Unable && by == FetchBy::Range;
                self.tries.refused = Some(if may_be_whole { Refused::Parts } else { Refused::All });
            }
            Seen::Look(Some(End::Failed)) => {
                self.tries.breaks += 1;
                self.tries.word = word;
            }
            Seen::Look(_) => {}
        }
        None
    }

    /// Why the last transfer has failed, for the log.
    pub(super) fn failure_word(&self) -> &'static str {
        self.tries.word
    }

    /// Notes for the log of requests to origins that the response comes by a transfer.
    fn note(&self, guard: Option<&GapGuard>) {
        if let (Some(cause), Some(guard)) = (&self.refetch.cause, guard) {
            cause.reads(&guard.asks());
        }
    }

    /// Retires a generation that cannot be completed.
    pub fn give_up(&self, generation: &Arc<Generation>, end: End) {
        let Resources { inflight, store, core, .. } = &*self.request.resources;
        match end {
            // However many readers see it, it is one change.
            End::Changed if generation.is_retired() => return,
            End::Changed => inflight.recent.changed(generation.key().digest, clock::mono()),
            End::Unable => {
                inflight.recent.note_ranges(generation.key().digest, clock::mono(), RangeFetch::Whole)
            }
            _ => return,
        }
        if end == End::Unable && inflight.is_filling(*core, generation) {
            return;
        }
        store.retire(generation);
    }

    /// The reader goes on at another offset.
    pub(super) fn turn(&mut self) {
        (self.looked_to, self.tries.in_a_row, self.found) = (0, 0, None);
    }

    /// The reader reads on from the volume: holds nothing that is in memory.
    pub(super) fn let_go(&mut self) {
        self.guards.clear();
        self.found = None;
    }

    /// The reader has reached the start of `rest`: asks for what is missing ahead of it.
    pub(super) fn moved(&mut self, generation: &Arc<Generation>, rest: Interval) {
        self.tries.in_a_row = 0;
        for guard in &self.guards {
            guard.advance(rest.start);
        }
        let range = self.request.settings.range();
        let (ahead_bytes, parallel) = (range.ahead_bytes, range.parallel);
        let is_far = self.looked_to.saturating_sub(rest.start) > ahead_bytes / 2;
        let is_looked = is_far || self.looked_to >= rest.end;
        if generation.is_whole() || is_looked && !self.is_short {
            return;
        }
        self.guards.retain(|guard| !guard.is_past(rest.start));
        if is_looked && self.guards.len() >= parallel {
            return;
        }
        self.looked_to = rest.end.min(rest.start.saturating_add(ahead_bytes));
        self.look_ahead(generation, rest);
    }

    fn look_ahead(&mut self, generation: &Arc<Generation>, rest: Interval) {
        let Resources { inflight, store, core, .. } = &*self.request.resources;
        let parallel = self.request.settings.range().parallel;
        // Behind a window the reader reads from the volume. What is being written is not missing.
        if is_windowed(generation) || store.is_being_written(generation) && !generation.is_filling() {
            return;
        }
        // One transfer of the whole is enough.
        if self.request.by == FetchBy::Whole || !generation.look_on_disk_now() {
            return;
        }
        let fill = inflight.fill_of(*core, generation);
        let near = Interval::new(rest.start, self.looked_to);
        let gaps = generation.gaps(near, parallel);
        self.is_short = gaps.len() >= parallel;
        for gap in gaps {
            if self.guards.len() >= parallel {
                break;
            }
            if fill.as_ref().is_some_and(|(guard, _)| guard.fill().is_to_come(gap.start)) {
                continue;
            }
            let Some(hole) = self.hole(generation, Interval::new(gap.start, rest.end)) else { continue };
            if let Some(guard) = self.request.join_ahead(generation, hole) {
                self.note(Some(&guard));
                self.guards.push(guard);
            }
        }
    }
}
