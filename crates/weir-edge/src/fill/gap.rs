//! Gaps: what is missing of a generation that is held in part. One origin transfer brings a gap, however many read it; what has
//! come is kept. It must not mix two versions of a body: [`Again::part`] asks for the same one.
//!
//! States: `Asking` (request sent, no head) → `Bringing` → `Ended`; `Asking` → `Ended`. `Ended` is final.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;
use weir_policy::Interval;
use weir_store::{Generation, Piece, Read, Writer};

use super::again::{Again, NoPart, Part};
use super::cold::chunk_end;
use super::machine::{AHEAD_BYTES_MAX, REST_BYTES_MAX};
use super::pace::Pace;
use super::task::forsaken;
use super::waiters::{Bells, Waiters};
use crate::plan::Route;
use crate::plane::Plane;
use crate::watch;
use weir_clock as clock;
use weir_observe::Observer;

/// How long, and how often, a transfer waits for memory before it is given up: 2 s.
const MEMORY_WAIT: Duration = Duration::from_millis(5);
const MEMORY_WAITS_MAX: u32 = 400;
/// How often where the body leaves memory for a volume: 30 s.
const SINKING_WAITS_MAX: u32 = 6000;

/// How far a transfer may be ahead of its foremost reader where readers hold most of the memory: 128 KiB.
const SCARCE_AHEAD_BYTES_MAX: u64 = 128 << 10;

/// How long a transfer pauses where the volume alone can keep its body and is behind.
const VOLUME_PAUSE: Duration = Duration::from_millis(1);

/// So far behind what is held its place may be told while it is writing: 1 MiB, more than comes in one piece.
const WRITING_BYTES_MAX: u64 = 1 << 20;

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
    pace: Pace,
    /// Where it stops when nobody reads it any more: at the end of a chunk.
    chunk_bytes: u64,
    /// The whole was asked for.
    is_whole: bool,
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
        let ahead = offset.saturating_sub(reached);
        // What has been written just now is held before it is told.
        let is_written = || self.generation.gap(Interval::new(reached, offset.max(reached))).is_none();
        let is_near = || {
            self.pace.comes_soon(reached - self.start, ahead, clock::mono())
                || (ahead <= WRITING_BYTES_MAX && is_written())
        };
        let is_here = || matches!(self.generation.read(offset, 1), Read::Piece(_));
        self.covers(offset) && is_near() && (reached <= offset || is_here())
    }

    /// Whether it is still to come to an offset, however late.
    fn is_to_come(&self, offset: u64) -> bool {
        self.covers(offset) && self.reached() <= offset
    }

    fn is_ended(&self) -> bool {
        matches!(self.state(), State::Ended(_))
    }

    /// Whether the transfer has to wait for its readers.
    fn is_ahead(&self, writer: &Writer) -> bool {
        let most = if writer.is_memory_scarce() { SCARCE_AHEAD_BYTES_MAX } else { AHEAD_BYTES_MAX };
        let ahead = self.reached().saturating_sub(self.front.load(Ordering::Acquire));
        ahead >= most && self.readers.load(Ordering::Acquire) > 0
    }

    /// Whether so little is missing of the whole that it goes on without readers, as a fill does.
    fn is_almost_whole(&self) -> bool {
        let Some(length) = self.generation.length().filter(|_| self.is_whole) else { return false };
        let rest = length.saturating_sub(self.reached());
        rest <= REST_BYTES_MAX || rest.saturating_mul(5) <= length
    }

    /// Where it stops as things are: without readers at the end of the chunk that it has begun.
    fn stop(&self) -> u64 {
        let end = self.end();
        if self.readers.load(Ordering::Acquire) > 0 {
            return end;
        }
        let begun = self.reached().max(self.start + 1);
        if self.is_almost_whole() {
            return end;
        }
        chunk_end(begun, self.chunk_bytes).map_or(end, |chunk_end| chunk_end.min(end))
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
    fn of(gap: &Arc<Gap>, core: usize) -> GapSeat {
        gap.readers.fetch_add(1, Ordering::AcqRel);
        GapSeat { gap: gap.clone(), core }
    }

    /// Whether nothing of what it brings lies at or after an offset.
    pub(crate) fn is_past(&self, offset: u64) -> bool {
        self.gap.is_ended() || self.gap.end() <= offset
    }

    /// Waits until the transfer has ended, and holds it back for no reader.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn ended(&self) -> End {
        self.gap.front.store(u64::MAX, Ordering::Release);
        self.gap.turn.notify_one();
        let ready = || match self.gap.state() {
            State::Ended(end) => Some(end),
            State::Asking | State::Bringing => None,
        };
        self.gap.waiters.until(self.core, ready).await
    }

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
                    // It has gone by, or another brings it.
                    _ => (reached > offset || gap.end() <= offset).then_some(Seen::Look(None)),
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
    pub(crate) route: Arc<Route>,
}

/// A transfer whose head has come already.
pub(crate) struct Begun {
    pub(crate) writer: Writer,
    pub(crate) part: Part,
    /// When its request was sent.
    pub(crate) asked: Instant,
    /// The whole was asked for.
    pub(crate) is_whole: bool,
}

impl Gaps {
    pub(crate) fn new(bells: Arc<Bells>) -> Gaps {
        Gaps { running: Mutex::default(), bells }
    }

    /// A seat at the transfer that will soon come to `at`; where there is none one is begun for the interval around it, as far as
    /// no other has begun, and one that would come there later stops where it begins. None where `at` is held by now. Called from
    /// within the runtime of the errand's core.
    pub(crate) fn seat(
        &self,
        errand: &Errand,
        generation: &Arc<Generation>,
        at: u64,
        interval: Interval,
    ) -> Option<GapSeat> {
        let mut running = self.running.lock();
        let here = running.get(&Arc::as_ptr(generation).addr());
        if let Some(gap) = here.and_then(|gaps| gaps.iter().find(|gap| gap.comes_to(at))) {
            return Some(GapSeat::of(gap, errand.core));
        }
        // What has come since it was looked for is not asked for again.
        generation.gap(Interval::new(at, at + 1))?;
        let gaps = running.entry(Arc::as_ptr(generation).addr()).or_default();
        let mut start = interval.start;
        // What others bring before it is left to them.
        for gap in gaps.iter().filter(|gap| gap.start < at && gap.end() <= at && !gap.is_ended()) {
            start = start.max(gap.end());
        }
        let mut nearer = SmallVec::<[Arc<Gap>; 1]>::new();
        for gap in gaps.iter().filter(|gap| gap.is_to_come(at)) {
            // What it has come to meanwhile is not fetched again.
            start = start.max(gap.reached().min(at));
            gap.end.fetch_min(start, Ordering::AcqRel);
            nearer.push(gap.clone());
        }
        let seat = self.begin(errand, generation, gaps, Interval::new(start, interval.end));
        drop(running);
        // Those who wait there for what comes behind it go on with this one, and one that is held back need not be.
        for gap in nearer {
            gap.turn.notify_one();
            errand.wake(&gap);
        }
        Some(seat)
    }

    /// A seat at a new transfer for what nobody brings yet of an interval that a reader will come to later; none where all of it
    /// is on its way. Called as [`Gaps::seat`].
    pub(crate) fn seat_ahead(
        &self,
        errand: &Errand,
        generation: &Arc<Generation>,
        mut interval: Interval,
    ) -> Option<GapSeat> {
        if interval.is_empty() {
            return None;
        }
        let mut running = self.running.lock();
        // What has come since it was looked for is not asked for again.
        interval = generation.gap(interval)?;
        let gaps = running.entry(Arc::as_ptr(generation).addr()).or_default();
        while let Some(gap) = gaps.iter().find(|gap| gap.covers(interval.start)) {
            interval.start = gap.end();
        }
        if interval.start >= interval.end {
            return None;
        }
        Some(self.begin(errand, generation, gaps, interval))
    }

    fn begin(
        &self,
        errand: &Errand,
        generation: &Arc<Generation>,
        gaps: &mut SmallVec<[Arc<Gap>; 1]>,
        interval: Interval,
    ) -> GapSeat {
        let later = gaps.iter().filter(|gap| gap.start > interval.start && !gap.is_ended());
        let end = later.map(|gap| gap.start).min().map_or(interval.end, |start| start.min(interval.end));
        let gap = self.gap(errand, generation, Interval::new(interval.start, end), clock::mono());
        gaps.push(gap.clone());
        let seat = GapSeat::of(&gap, errand.core);
        tokio::spawn(Box::pin(run(errand.clone(), gap, None)));
        seat
    }

    /// Goes on with a transfer whose head has come, of a generation that it has made. Called as [`Gaps::seat`].
    pub(crate) fn go_on(&self, errand: &Errand, begun: Begun) {
        let generation = begun.writer.generation().clone();
        let interval = Interval::new(begun.writer.position(), begun.part.end);
        let mut gap = self.gap(errand, &generation, interval, begun.asked);
        // Invariant: nobody else has it yet.
        if let Some(gap) = Arc::get_mut(&mut gap) {
            gap.is_whole = begun.is_whole;
        }
        gap.pace.head(clock::mono());
        *gap.state.lock() = State::Bringing;
        self.running.lock().entry(Arc::as_ptr(&generation).addr()).or_default().push(gap.clone());
        tokio::spawn(Box::pin(run(errand.clone(), gap, Some(begun))));
    }

    fn gap(
        &self,
        errand: &Errand,
        generation: &Arc<Generation>,
        interval: Interval,
        asked: Instant,
    ) -> Arc<Gap> {
        Arc::new(Gap {
            generation: generation.clone(),
            start: interval.start,
            end: AtomicU64::new(interval.end),
            state: Mutex::new(State::Asking),
            reached: AtomicU64::new(interval.start),
            front: AtomicU64::new(interval.start),
            readers: AtomicU32::new(0),
            waiters: Waiters::new(&self.bells),
            turn: Notify::new(),
            pace: Pace::new(asked),
            chunk_bytes: errand.route.range.chunk_bytes,
            is_whole: false,
        })
    }

    /// Gives up a transfer that nobody waits for; from then on nobody joins it. Says whether it did.
    fn forsake(&self, gap: &Gap) -> bool {
        // Seats are taken under this lock.
        let _running = self.running.lock();
        let is_forsaken = gap.readers.load(Ordering::Acquire) == 0;
        if is_forsaken {
            gap.end.store(gap.start, Ordering::Release);
        }
        is_forsaken
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

async fn run(errand: Errand, gap: Arc<Gap>, begun: Option<Begun>) {
    let closing = Closing { errand: &errand, gap: gap.clone() };
    let end = match begun {
        Some(begun) => errand.go_on(&gap, begun.writer, begun.part).await,
        None => errand.bring(&gap).await,
    };
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
        let mut part = self.ask(gap, &self.again).await;
        if part.as_ref().is_err_and(|no_part| no_part.may_be_of_request()) {
            // What one client's fields have brought about says nothing for all.
            part = self.ask(gap, &self.again.without_client(&gap.generation, &self.route)).await;
        }
        let part = match part {
            Ok(part) => part,
            Err(NoPart::Changed | NoPart::Unlike) => return End::Changed,
            Err(NoPart::Unable) => return End::Unable,
            Err(NoPart::Refused) => return End::Failed("origin-status"),
            Err(NoPart::Failed(word)) => return End::Failed(word),
        };
        let interval = Interval::new(gap.start, part.end);
        let Some(writer) = self.plane.store.resume(&gap.generation, interval) else {
            return if gap.generation.is_whole() { End::Brought } else { End::Failed("generation-gone") };
        };
        self.plane.desk.stop_fill(self.core, &gap.generation, gap.start);
        gap.pace.head(clock::mono());
        *gap.state.lock() = State::Bringing;
        self.wake(gap);
        self.go_on(gap, writer, part).await
    }

    /// Asks the origin, for as long as somebody waits for the answer.
    async fn ask(&self, gap: &Gap, again: &Again) -> Result<Part, NoPart> {
        self.observer.counters().origin_asked();
        let mut part = pin!(again.part(&gap.generation, Interval::new(gap.start, gap.end())));
        loop {
            tokio::select! {
                biased;
                part = &mut part => return part,
                () = forsaken(&gap.turn) => {}
            }
            if self.plane.desk.gaps.forsake(gap) {
                return Err(NoPart::Failed("deserted"));
            }
        }
    }

    async fn go_on(&self, gap: &Gap, mut writer: Writer, part: Part) -> End {
        let end = self.copy(gap, &mut writer, part).await;
        let length = gap.generation.length();
        // What leaves memory as it comes is not whole there.
        let is_sunk = gap.start == 0 && Some(writer.position()) == length && writer.is_sinking();
        writer.rest();
        if (is_sunk || gap.generation.is_whole()) && !gap.generation.is_retired() {
            watch::tell_stored(&self.plane.observatory.events, &gap.generation);
        }
        end
    }

    async fn copy(&self, gap: &Gap, writer: &mut Writer, part: Part) -> End {
        let Part { mut body, skip_bytes: mut skip, end } = part;
        while writer.position() < end.min(gap.stop()) {
            // What leaves memory as it comes is read from the volume by who is slow.
            let is_ahead = gap.is_ahead(writer) && !writer.is_sinking();
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
            // Another may have begun meanwhile with what comes then, or the last reader have left.
            let left = end.min(gap.stop()).saturating_sub(writer.position());
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            // What is cut off is not got back for who comes now.
            let is_last = bytes.len() >= left;
            bytes.truncate(left);
            if !self.push(gap, writer, bytes).await {
                return End::Failed("memory");
            }
            gap.reached.store(writer.position(), Ordering::Release);
            self.wake(gap);
            if is_last {
                break;
            }
        }
        End::Brought
    }

    /// Gives bytes to the writer, and waits for memory for a bounded time.
    async fn push(&self, gap: &Gap, writer: &mut Writer, mut bytes: Bytes) -> bool {
        // What leaves memory for the volume does so at the drive's pace.
        let waits_max = if writer.is_sinking() { SINKING_WAITS_MAX } else { MEMORY_WAITS_MAX };
        for _ in 0..waits_max {
            writer.let_go(gap.front.load(Ordering::Acquire));
            match writer.push(bytes) {
                Ok(()) => {
                    while writer.should_pause() {
                        tokio::time::sleep(VOLUME_PAUSE).await;
                    }
                    return true;
                }
                Err(full) => bytes = full.rest,
            }
            gap.reached.store(writer.position(), Ordering::Release);
            self.wake(gap);
            tokio::time::sleep(MEMORY_WAIT).await;
        }
        false
    }
}
