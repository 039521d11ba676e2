//! How a reader has what is missing of a generation brought: which gaps are asked for, where it is and ahead
//! of it, one transfer for all who read it. It must not wait for bytes, nor mix two versions.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_policy::Interval;
use weir_store::{BLOCK_BYTES, Generation};

use super::choose::{Asking, Beyond, GapSeen, Nearby};
use crate::again::{Again, ReadOver};
use crate::cold::ask_end;
use crate::gap::task::Errand;
use crate::gap::{GapSeat, Seen};
use crate::machine::End;
use crate::means::Means;
use crate::memory::Manner;
use crate::{Seat, complete, is_windowed};
use weir_clock as clock;

/// How many holes within one block are looked at.
const HOLES_MAX: usize = 64;

/// How often in a row a reader asks without getting a byte farther.
const TRIES_MAX: u8 = 3;

/// How many transfers may fail under one reader, however far each has come.
const BREAKS_MAX: u8 = 8;

/// One reader's way to what is missing.
pub struct Refill {
    pub(super) errand: Errand,
    /// How it asks for itself.
    pub(super) again: Arc<Again>,
    /// At what it reads, and ahead of it.
    seats: SmallVec<[GapSeat; 1]>,
    /// The most that is asked for at a time.
    ask_bytes_max: u64,
    /// What is asked for ends with so much, counted from the start of the body.
    chunk_bytes: u64,
    /// Up to here what is missing has been looked for.
    looked_to: u64,
    /// Not all that was found is on its way: more was missing than may be asked for at a time.
    is_short: bool,
    /// What the running fill does not bring is not to be had.
    keeps_to_fill: bool,
    tries: Tries,
    /// A running fill that was found a moment ago.
    found: Option<(Seat, Arc<Generation>)>,
}

/// How often a reader has tried.
#[derive(Default)]
struct Tries {
    /// Since the last byte.
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
    /// It has another version, or does not send the whole either.
    All,
}

impl Refill {
    /// A reader's that asks for at most `ask_bytes_max` at a time, to the end of a chunk of `chunk_bytes`.
    pub fn new(errand: Errand, again: Arc<Again>, ask_bytes_max: u64, chunk_bytes: u64) -> Refill {
        Refill {
            errand,
            again,
            seats: SmallVec::new(),
            ask_bytes_max,
            chunk_bytes,
            looked_to: 0,
            is_short: false,
            keeps_to_fill: false,
            tries: Tries::default(),
            found: None,
        }
    }

    /// Whether its client has all that it may have of the origin's connections.
    pub fn is_spent(&self) -> bool {
        self.again.upstream.is_spent(self.again.client)
    }

    /// Asks the origin for the first byte that is missing of `wanted`, so that its version is known before a
    /// head goes out.
    ///
    /// # Errors
    /// How the transfer ended.
    ///
    /// # Cancel safety
    /// Safe: what is on its way goes on while it is worth it.
    pub async fn confirm(&mut self, generation: &Arc<Generation>, wanted: Interval) -> Result<(), End> {
        let Means { desk, store, core, .. } = &*self.errand.means;
        let is_going_down = store.is_being_written(generation) && !generation.is_filling();
        if desk.bringing(*core, generation).is_some() || is_going_down {
            return Ok(());
        }
        // What was being written a moment ago has come by now.
        generation.look_on_disk().await;
        let Some(missing) = generation.gap(wanted) else { return Ok(()) };
        let wanted = Interval::new(missing.start, wanted.end);
        let Some(hole) = self.hole(generation, wanted) else { return Ok(()) };
        let Some(seat) = self.seat(generation, missing.start, hole) else { return Ok(()) };
        let confirmed = seat.confirmed().await;
        self.seats.push(seat);
        confirmed
    }

    /// The hole in which `wanted` begins: from the block of that byte to the end of the chunk in which what
    /// is wanted ends.
    fn hole(&self, generation: &Generation, wanted: Interval) -> Option<Interval> {
        let length = generation.length()?;
        let end = ask_end(wanted, self.ask_bytes_max, self.chunk_bytes).map_or(length, |end| end.min(length));
        let hole = generation.gap(Interval::new(wanted.start, end.max(wanted.start)))?;
        if hole.start > wanted.start {
            return None;
        }
        let block = Interval::new(wanted.start - wanted.start % BLOCK_BYTES as u64, wanted.start);
        let before = generation.gaps(block, HOLES_MAX).last().copied().filter(|gap| gap.end == wanted.start);
        Some(Interval::new(before.map_or(hole.start, |before| before.start), hole.end))
    }

    fn seat(&self, generation: &Arc<Generation>, at: u64, hole: Interval) -> Option<GapSeat> {
        let seat = self.errand.seat(generation, at, hole);
        complete::start(&self.errand, generation);
        seat
    }

    /// What a reader at the front of `rest` sees, which is not held.
    pub(super) fn look(&mut self, generation: &Arc<Generation>, rest: Interval) -> Beyond {
        let asking = match &self.tries {
            tries if tries.breaks > BREAKS_MAX => Asking::Broken,
            tries if tries.in_a_row >= TRIES_MAX => Asking::Spent,
            _ => Asking::Allowed,
        };
        if self.seats.iter().any(|seat| seat.brings(rest.start)) {
            return Beyond { is_writing: false, nearby: Nearby::None, gap: GapSeen::Running, asking };
        }
        let gap = match self.tries.refused {
            None => GapSeen::None,
            Some(Refused::Parts) => GapSeen::NoParts,
            Some(Refused::All) => GapSeen::Refused,
        };
        let is_going_down = self.errand.means.store.is_being_written(generation);
        let nearby = self.nearby(generation, rest.start, is_going_down);
        Beyond { is_writing: is_going_down && !generation.is_filling(), nearby, gap, asking }
    }

    /// How a running fill of this version stands to an offset.
    fn nearby(&mut self, generation: &Arc<Generation>, offset: u64, is_going_down: bool) -> Nearby {
        let Means { desk, core, .. } = &*self.errand.means;
        self.found = desk.bringing(*core, generation);
        let Some((seat, running)) = &self.found else { return Nearby::None };
        let now = clock::mono();
        let is_near = match Arc::ptr_eq(running, generation) {
            true => {
                let is_apart = desk.memory.manner(generation.key().digest, now).is_none();
                seat.fill().comes_soon(offset, now) || !is_apart || self.keeps_to_fill
            }
            false if is_going_down || running.window_start() <= offset => true,
            // It is past what is wanted, and does not come back.
            false => return Nearby::None,
        };
        if is_near { Nearby::Near } else { Nearby::Late }
    }

    /// The running fill that was found, to be read from here on.
    pub(super) fn join_fill(&mut self) -> Option<(Seat, Arc<Generation>)> {
        self.tries.in_a_row += 1;
        self.keeps_to_fill |= self.tries.refused.take().is_some();
        self.found.take()
    }

    /// It was tried once more without a byte.
    pub(super) fn tried(&mut self) {
        self.tries.in_a_row += 1;
    }

    /// It has waited for what is being written.
    pub(super) fn waited(&mut self) {
        self.tries.in_a_row = 0;
    }

    /// Begins to bring what is at the front of `rest`, or takes a seat where another does.
    pub(super) fn begin(&mut self, generation: &Arc<Generation>, rest: Interval) {
        self.found = None;
        let hole = self.hole(generation, rest);
        match hole.and_then(|hole| self.seat(generation, rest.start, hole)) {
            Some(seat) => {
                self.seats.retain(|seat| !seat.is_past(rest.start));
                self.seats.push(seat);
            }
            // It is held by now.
            None => self.tried(),
        }
    }

    /// As [`Refill::begin`], of an origin that does not send parts: what comes before is read over.
    pub(super) fn begin_whole(&mut self, generation: &Arc<Generation>, rest: Interval) {
        self.errand.over = ReadOver::All;
        self.tries.refused = None;
        self.begin(generation, rest);
    }

    /// Waits for the transfer that brings what is at `offset`.
    ///
    /// # Cancel safety
    /// Safe: no byte is lost.
    pub(super) async fn wait(
        &mut self,
        generation: &Arc<Generation>,
        offset: u64,
        bytes_max: usize,
    ) -> Option<weir_store::Piece> {
        let seat = self.seats.iter().find(|seat| seat.brings(offset))?;
        let seen = seat.wait(offset, bytes_max).await;
        let (word, over) = (seat.failure_word(), seat.over());
        self.tried();
        match seen {
            Seen::Piece(piece) => return Some(piece),
            Seen::Look(Some(end @ (End::Changed | End::Unable))) => {
                self.note(generation, end);
                let may_be_whole = end == End::Unable && over == ReadOver::Little;
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

    /// Takes out what cannot be completed.
    pub fn note(&self, generation: &Arc<Generation>, end: End) {
        let Means { desk, store, core, .. } = &*self.errand.means;
        match end {
            // However many see it, it is one change.
            End::Changed if generation.is_retired() => return,
            End::Changed => desk.memory.changed(generation.key().digest, clock::mono()),
            End::Unable => desk.memory.handle(generation.key().digest, clock::mono(), Manner::Whole),
            _ => return,
        }
        if end == End::Unable && desk.fills(*core, generation) {
            return;
        }
        store.retire(generation);
    }

    /// The reader goes on elsewhere.
    pub(super) fn turn(&mut self) {
        (self.looked_to, self.tries.in_a_row, self.found) = (0, 0, None);
    }

    /// The reader has come to the front of `rest`: what is missing ahead of it is asked for.
    pub(super) fn moved(&mut self, generation: &Arc<Generation>, rest: Interval) {
        self.tries.in_a_row = 0;
        for seat in &self.seats {
            seat.advance(rest.start);
        }
        let range = self.errand.settings.range();
        let (ahead_bytes, parallel) = (range.ahead_bytes, range.parallel);
        let is_far = self.looked_to.saturating_sub(rest.start) > ahead_bytes / 2;
        let is_looked = is_far || self.looked_to >= rest.end;
        if generation.is_whole() || is_looked && !self.is_short {
            return;
        }
        self.seats.retain(|seat| !seat.is_past(rest.start));
        if is_looked && self.seats.len() >= parallel {
            return;
        }
        self.looked_to = rest.end.min(rest.start.saturating_add(ahead_bytes));
        self.look_ahead(generation, rest);
    }

    fn look_ahead(&mut self, generation: &Arc<Generation>, rest: Interval) {
        let Means { desk, store, core, .. } = &*self.errand.means;
        let parallel = self.errand.settings.range().parallel;
        // What memory keeps only a window of is read behind that. What is being written is not missing.
        if is_windowed(generation) || store.is_being_written(generation) && !generation.is_filling() {
            return;
        }
        // One whole is enough.
        if self.errand.over == ReadOver::All || !generation.look_on_disk_now() {
            return;
        }
        let fill = desk.bringing(*core, generation);
        let near = Interval::new(rest.start, self.looked_to);
        let gaps = generation.gaps(near, parallel);
        self.is_short = gaps.len() >= parallel;
        for gap in gaps {
            if self.seats.len() >= parallel {
                break;
            }
            if fill.as_ref().is_some_and(|(seat, _)| seat.fill().is_to_come(gap.start)) {
                continue;
            }
            let Some(hole) = self.hole(generation, Interval::new(gap.start, rest.end)) else { continue };
            if let Some(seat) = self.errand.seat_ahead(generation, hole) {
                self.seats.push(seat);
            }
        }
    }
}
