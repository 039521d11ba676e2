//! Gaps: what is missing of a generation that is held in part. One origin transfer brings a gap, however many read it; what has
//! come is kept. It must not mix two versions of a body: [`Again::part`] asks for the same one.
//!
//! States: `Asking` (request sent, no head) → `Bringing` → `Ended`; `Asking` → `Ended`. `Ended` is final.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;
use weir_policy::Interval;
use weir_store::{Generation, Piece, Read, Writer};

use super::again::{Again, NoPart, Part};
use super::desk::NEAR_BYTES_MAX;
use super::machine::{AHEAD_BYTES_MAX, REST_BYTES_MAX};
use super::waiters::{Bells, Waiters};
use crate::observe::Observer;
use crate::plane::Plane;

/// How long, and how often, a transfer waits for memory before it is given up: 2 s.
const MEMORY_WAIT: Duration = Duration::from_millis(5);
const MEMORY_WAITS_MAX: u32 = 400;

/// How a transfer of a gap ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All that the origin had to send of it has come.
    Brought,
    /// The origin has another version by now.
    Changed,
    /// The origin does not send parts: this one is of no use.
    Unable,
    /// It broke off, or was not begun; the word for the log.
    Failed(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asking,
    Bringing,
    Ended(End),
}

/// One running transfer of a gap.
pub(crate) struct Gap {
    generation: Arc<Generation>,
    start: u64,
    /// Where it stops; nearer once another brings what comes then.
    end: AtomicU64,
    state: Mutex<State>,
    /// Where the next byte goes.
    reached: AtomicU64,
    /// How far the foremost reader is.
    front: AtomicU64,
    readers: AtomicU32,
    waiters: Arc<Waiters>,
    /// Told when a reader has moved on, or left.
    turn: Notify,
}

impl Gap {
    fn state(&self) -> State {
        *self.state.lock()
    }

    fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    fn reached(&self) -> u64 {
        self.reached.load(Ordering::Acquire)
    }

    /// Whether an offset lies in what it was begun for and has not been given to another.
    fn covers(&self, offset: u64) -> bool {
        self.start <= offset && offset < self.end() && !self.is_ended()
    }

    /// Whether it will bring what is at an offset soon, or has just brought it.
    fn comes_to(&self, offset: u64) -> bool {
        let reached = self.reached();
        let is_near = offset.saturating_sub(reached) <= NEAR_BYTES_MAX;
        let is_here = || matches!(self.generation.read(offset, 1), Read::Piece(_));
        self.covers(offset) && is_near && (reached <= offset || is_here())
    }

    fn is_ended(&self) -> bool {
        matches!(self.state(), State::Ended(_))
    }

    /// Whether the transfer has to wait for its readers.
    fn is_ahead(&self) -> bool {
        let ahead = self.reached().saturating_sub(self.front.load(Ordering::Acquire));
        ahead >= AHEAD_BYTES_MAX && self.readers.load(Ordering::Acquire) > 0
    }

    /// Without readers it goes on while what is missing is small.
    fn is_deserted(&self) -> bool {
        let left = self.end().saturating_sub(self.reached());
        self.readers.load(Ordering::Acquire) == 0 && left > REST_BYTES_MAX
    }
}

/// A reader's seat at a gap.
pub(crate) struct GapSeat {
    gap: Arc<Gap>,
    core: usize,
}

/// What a reader finds at its seat.
pub(crate) enum Seen {
    /// Bytes from its offset on.
    Piece(Piece),
    /// The transfer has come past its offset, or has ended: look at what is held.
    Look(Option<End>),
}

impl GapSeat {
    /// Whether the transfer will come past an offset. What it has passed and is not held must be asked for anew.
    pub(crate) fn brings(&self, offset: u64) -> bool {
        self.gap.covers(offset) && self.gap.reached() <= offset
    }

    /// Waits until it is known whether the origin still has the same version.
    ///
    /// # Errors
    /// How the transfer ended.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn confirmed(&self) -> Result<(), End> {
        let ready = || match self.gap.state() {
            State::Asking => None,
            State::Bringing | State::Ended(End::Brought) => Some(Ok(())),
            State::Ended(end) => Some(Err(end)),
        };
        self.gap.waiters.until(self.core, ready).await
    }

    /// Waits for what is at `offset`.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn wait(&self, offset: u64, bytes_max: usize) -> Seen {
        self.advance(offset);
        let gap = &self.gap;
        let ready = || {
            // In this order: what has come before the end is seen.
            let state = gap.state();
            let reached = gap.reached();
            match gap.generation.read(offset, bytes_max) {
                Read::Piece(piece) => Some(Seen::Piece(piece)),
                _ => match state {
                    State::Ended(end) => Some(Seen::Look(Some(end))),
                    _ => (reached > offset).then_some(Seen::Look(None)),
                },
            }
        };
        gap.waiters.until(self.core, ready).await
    }

    /// The reader is at `offset`; one that is elsewhere, at another part of what it wants, moves nothing.
    pub(crate) fn advance(&self, offset: u64) {
        if self.gap.covers(offset) && self.gap.front.fetch_max(offset, Ordering::AcqRel) < offset {
            self.gap.turn.notify_one();
        }
    }
}

impl Drop for GapSeat {
    fn drop(&mut self) {
        if self.gap.readers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.gap.turn.notify_one();
        }
    }
}

/// The transfers of gaps that are under way, by generation.
pub(crate) struct Gaps {
    running: Mutex<HashMap<usize, SmallVec<[Arc<Gap>; 1]>>>,
    bells: Arc<Bells>,
}

/// What a transfer has to know.
#[derive(Clone)]
pub(crate) struct Errand {
    pub(crate) plane: Arc<Plane>,
    pub(crate) observer: Observer,
    pub(crate) core: usize,
    pub(crate) again: Arc<Again>,
}

impl Gaps {
    pub(crate) fn new(bells: Arc<Bells>) -> Gaps {
        Gaps { running: Mutex::default(), bells }
    }

    /// A seat at the transfer that will soon come past the interval's first byte; it is begun where there is none, and one that
    /// would come there later stops there. Called from within the runtime of the errand's core.
    pub(crate) fn seat(&self, errand: &Errand, generation: &Arc<Generation>, interval: Interval) -> GapSeat {
        let mut running = self.running.lock();
        let gaps = running.entry(Arc::as_ptr(generation).addr()).or_default();
        if let Some(gap) = gaps.iter().find(|gap| gap.comes_to(interval.start)) {
            gap.readers.fetch_add(1, Ordering::AcqRel);
            return GapSeat { gap: gap.clone(), core: errand.core };
        }
        for gap in gaps.iter().filter(|gap| gap.covers(interval.start) && gap.reached() <= interval.start) {
            if gap.end() <= interval.end {
                gap.end.store(interval.start, Ordering::Release);
            }
        }
        let gap = Arc::new(Gap {
            generation: generation.clone(),
            start: interval.start,
            end: AtomicU64::new(interval.end),
            state: Mutex::new(State::Asking),
            reached: AtomicU64::new(interval.start),
            front: AtomicU64::new(interval.start),
            readers: AtomicU32::new(1),
            waiters: Waiters::new(&self.bells),
            turn: Notify::new(),
        });
        gaps.push(gap.clone());
        drop(running);
        tokio::spawn(Box::pin(run(errand.clone(), gap.clone())));
        GapSeat { gap, core: errand.core }
    }

    fn done(&self, gap: &Arc<Gap>) {
        let at = Arc::as_ptr(&gap.generation).addr();
        let mut running = self.running.lock();
        if let Some(gaps) = running.get_mut(&at) {
            gaps.retain(|other| !Arc::ptr_eq(other, gap));
            if gaps.is_empty() {
                running.remove(&at);
            }
        }
    }
}

/// Ends what the task leaves unfinished, by a panic or by the runtime going down.
struct Closing<'t> {
    errand: &'t Errand,
    gap: Arc<Gap>,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.errand.observer.counters().panicked();
        }
        self.errand.end(&self.gap, End::Failed("fill-aborted"));
    }
}

async fn run(errand: Errand, gap: Arc<Gap>) {
    let closing = Closing { errand: &errand, gap: gap.clone() };
    let end = errand.bring(&gap).await;
    if let End::Failed(word) = end {
        errand.observer.counters().error(word);
    }
    errand.end(&gap, end);
    drop(closing);
}

impl Errand {
    /// Says how it ended, once.
    fn end(&self, gap: &Arc<Gap>, end: End) {
        {
            let mut state = gap.state.lock();
            if let State::Ended(_) = *state {
                return;
            }
            *state = State::Ended(end);
        }
        self.plane.desk.gaps.done(gap);
        self.wake(gap);
    }

    fn wake(&self, gap: &Gap) {
        gap.waiters.wake(self.core, &self.plane.bells);
    }

    async fn bring(&self, gap: &Gap) -> End {
        self.observer.counters().origin_asked();
        let part = match self.again.part(&gap.generation, Interval::new(gap.start, gap.end())).await {
            Ok(part) => part,
            Err(NoPart::Changed) => return End::Changed,
            Err(NoPart::Unable) => return End::Unable,
            Err(NoPart::Failed(word)) => return End::Failed(word),
        };
        let interval = Interval::new(gap.start, part.end);
        let Some(mut writer) = self.plane.store.resume(&gap.generation, interval) else {
            return if gap.generation.is_whole() { End::Brought } else { End::Failed("generation-gone") };
        };
        *gap.state.lock() = State::Bringing;
        self.wake(gap);
        let end = self.copy(gap, &mut writer, part).await;
        writer.rest();
        end
    }

    async fn copy(&self, gap: &Gap, writer: &mut Writer, part: Part) -> End {
        let Part { mut body, skip_bytes: mut skip, end } = part;
        while writer.position() < end.min(gap.end()) {
            if gap.is_deserted() {
                return End::Failed("deserted");
            }
            let is_ahead = gap.is_ahead();
            let piece = tokio::select! {
                biased;
                () = gap.turn.notified() => continue,
                piece = body.next(), if !is_ahead => piece,
            };
            let mut bytes = match piece {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return End::Failed("rest-too-short"),
                Err(error) => return End::Failed(error.word()),
            };
            self.observer.counters().origin_bytes(bytes.len() as u64);
            let over = skip.min(bytes.len() as u64);
            skip -= over;
            // Invariant: not more than there is.
            bytes.advance(usize::try_from(over).unwrap_or(bytes.len()));
            let left = usize::try_from(end - writer.position()).unwrap_or(usize::MAX);
            bytes.truncate(left);
            if !self.push(gap, writer, bytes).await {
                return End::Failed("memory");
            }
            gap.reached.store(writer.position(), Ordering::Release);
            self.wake(gap);
        }
        End::Brought
    }

    /// Gives bytes to the writer, and waits for memory for a bounded time.
    async fn push(&self, gap: &Gap, writer: &mut Writer, mut bytes: Bytes) -> bool {
        for _ in 0..MEMORY_WAITS_MAX {
            match writer.push(bytes) {
                Ok(()) => return true,
                Err(full) => bytes = full.rest,
            }
            gap.reached.store(writer.position(), Ordering::Release);
            self.wake(gap);
            tokio::time::sleep(MEMORY_WAIT).await;
        }
        false
    }
}
