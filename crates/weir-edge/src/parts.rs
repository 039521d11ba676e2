//! Serving what is held in part: what is missing comes from the origin while the rest is sent, in the same version or not at all
//! (RFC 9111 §3.4, RFC 9110 §13.1.5). It must not decide whether what is held may be used.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::RANGE;
use smallvec::SmallVec;
use weir_policy::{Answer, Ask, AskKind, Interval, answer};
use weir_store::{BLOCK_BYTES, Generation, Piece};

use crate::chunks::chunk_bytes;
use crate::deliver::Cut;
use crate::exchange::Exchange;
use crate::fill::again::{Again, strong};
use crate::fill::cold::{ASK_BYTES_MAX, ask_end};
use crate::fill::complete;
use crate::fill::gap::{End, Errand, GapSeat, Seen};
use crate::fill::is_windowed;
use crate::fill::memory::Manner;
use crate::fill::tail::Tail;
use crate::outgoing;
use crate::plan::Route;
use weir_clock as clock;
use weir_front::message;

/// How many holes within one block are looked at.
const HOLES_MAX: usize = 64;

/// How often in a row a reader asks without getting a byte farther.
const TRIES_MAX: u8 = 3;

/// How many transfers may fail under one reader, however far each has come.
const BREAKS_MAX: u8 = 8;

/// How long what is still being written to the volume is waited for at most.
const GOING_DOWN_WAIT_MAX: Duration = Duration::from_secs(2);

/// What confirming came to.
pub(crate) enum Confirmed {
    /// All that is wanted is held, or is not a body.
    Held,
    /// The origin has the same version, and what is missing is on its way.
    Coming,
    /// Something is missing, and nobody may be asked (RFC 9111 §5.2.1.7).
    Refused,
    /// It is not to be had in this version.
    Gone,
    /// Its client has left.
    Left,
}

/// Makes sure before a head goes out: the origin is asked for the first byte that is missing of what the request wants. A version
/// that the origin no longer has is taken out.
///
/// # Cancel safety
/// Safe: what is on its way goes on while it is worth it.
pub(crate) async fn confirm(
    exchange: &mut Exchange<'_, '_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: &Arc<Generation>,
) -> Confirmed {
    let Some(missing) = missing(exchange, ask, generation) else { return Confirmed::Held };
    if ask.directives.only_if_cached() {
        return Confirmed::Refused;
    }
    let Some(mut refill) = refill(exchange, route, generation) else { return Confirmed::Gone };
    if refill.again.upstream.is_spent(refill.again.client) {
        return Confirmed::Gone;
    }
    let confirmed = tokio::select! {
        biased;
        confirmed = refill.confirm(generation, missing) => confirmed,
        () = message::gone(&mut *exchange.client) => return Confirmed::Left,
    };
    match confirmed {
        Ok(()) if generation.is_whole() => Confirmed::Held,
        Ok(()) => {
            exchange.refill = Some(refill);
            Confirmed::Coming
        }
        Err(end) => {
            refill.note(generation, end);
            Confirmed::Gone
        }
    }
}

/// From the first that is missing of what the request wants to its end.
pub(crate) fn missing(exchange: &Exchange<'_, '_>, ask: &Ask, generation: &Generation) -> Option<Interval> {
    if ask.kind == AskKind::Head {
        return None;
    }
    let length = generation.length()?;
    let within = |wanted: Interval| {
        let gap = generation.gap(wanted)?;
        Some(Interval::new(gap.start, wanted.end))
    };
    match answer(&exchange.view(), ask, &generation.head().stored, Some(length)) {
        Answer::Full => within(Interval::new(0, length)),
        Answer::Partial(interval, _) => within(interval),
        Answer::Parts(parts) => parts.iter().find_map(|(interval, _)| within(interval)),
        Answer::NotModified | Answer::PreconditionFailed | Answer::Unsatisfiable(_) => None,
    }
}

/// The means to bring what is missing, or turns out to be missing, of a generation that does not lie in memory.
pub(crate) fn refill(
    exchange: &Exchange<'_, '_>,
    route: &Arc<Route>,
    generation: &Generation,
) -> Option<Box<Refill>> {
    strong(&generation.head().stored.headers).filter(|_| !generation.is_alone())?;
    generation.length()?;
    let again = outgoing::again(exchange, route)?;
    let core = exchange.core;
    let errand = Errand {
        plane: core.plane.clone(),
        observer: core.observer.clone(),
        core: core.number,
        again: again.in_nobodys_name(),
        route: route.clone(),
    };
    // Who wants the whole reads on; who asks for the rest of it, as players do, often leaves soon.
    let ask_bytes_max = if exchange.request.headers.contains_key(RANGE) { ASK_BYTES_MAX } else { u64::MAX };
    Some(Box::new(Refill {
        errand,
        again,
        seats: SmallVec::new(),
        ask_bytes_max,
        chunk_bytes: chunk_bytes(&exchange.request.headers, route, Some(generation)),
        looked_to: 0,
        is_short: false,
        keeps_to_fill: false,
        tries: 0,
        breaks: 0,
        written: None,
    }))
}

/// One reader's way to what is missing.
pub(crate) struct Refill {
    errand: Errand,
    again: Arc<Again>,
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
    /// How often it was tried since the last byte.
    tries: u8,
    /// What the running fill does not bring is not to be had.
    keeps_to_fill: bool,
    /// How many transfers have failed under it.
    breaks: u8,
    /// What is being written, since it waits for that.
    written: Option<Written>,
}

/// Waits for what is being written to the volume.
struct Written {
    until: Instant,
    /// Completes once more was written than when the reader last looked.
    more: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// What a reader does next.
pub(crate) enum Next {
    /// Goes on with these bytes.
    Piece(Piece),
    /// Looks again at what is held.
    Look,
    /// Reads the running fill of this very generation from here on.
    Tail(Box<Tail>),
}

impl Refill {
    async fn confirm(&mut self, generation: &Arc<Generation>, wanted: Interval) -> Result<(), End> {
        let Errand { plane, core, .. } = &self.errand;
        let is_going_down = plane.store.is_going_down(generation) && !generation.is_filling();
        if plane.desk.bringing(*core, generation).is_some() || is_going_down {
            return Ok(());
        }
        // What was being written a moment ago has come by now.
        generation.look_below().await;
        let Some(missing) = generation.gap(wanted) else { return Ok(()) };
        let wanted = Interval::new(missing.start, wanted.end);
        let Some(hole) = self.hole(generation, wanted) else { return Ok(()) };
        let Some(seat) = self.seat(generation, missing.start, hole) else { return Ok(()) };
        let confirmed = seat.confirmed().await;
        self.seats.push(seat);
        confirmed
    }

    /// The hole in which `wanted` begins: from the block of that byte to the end of the chunk in which what is wanted ends.
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
        let gaps = &self.errand.plane.desk.gaps;
        let seat = gaps.seat(&self.errand, generation, at, hole);
        complete::start(&self.errand, generation);
        seat
    }

    /// Brings what is at the front of `rest`, which is not held.
    ///
    /// # Errors
    /// It is not to be had in this version.
    ///
    /// # Cancel safety
    /// Safe: no byte is lost.
    pub(crate) async fn next(
        &mut self,
        generation: &Arc<Generation>,
        rest: Interval,
        bytes_max: usize,
    ) -> Result<Next, Cut> {
        self.tries += 1;
        if self.tries > TRIES_MAX {
            return Err(Cut { word: "generation-gone" });
        }
        if !self.seats.iter().any(|seat| seat.brings(rest.start)) {
            if let Some(next) = self.running_fill(generation, rest).await {
                return Ok(next);
            }
            // Meanwhile it may have come: by another's transfer, or to the volume.
            generation.look_below().await;
            let Some(hole) = self.hole(generation, rest) else { return Ok(Next::Look) };
            let Some(seat) = self.seat(generation, rest.start, hole) else { return Ok(Next::Look) };
            self.seats.retain(|seat| !seat.is_past(rest.start));
            self.seats.push(seat);
        }
        let Some(seat) = self.seats.iter().find(|seat| seat.brings(rest.start)) else {
            return Ok(Next::Look);
        };
        match seat.wait(rest.start, bytes_max).await {
            Seen::Piece(piece) => Ok(Next::Piece(piece)),
            Seen::Look(Some(end @ (End::Changed | End::Unable))) => {
                self.note(generation, end);
                // A fill of it brings it all the same, later.
                self.keeps_to_fill = self.errand.plane.desk.fills(self.errand.core, generation);
                if self.keeps_to_fill {
                    return Ok(Next::Look);
                }
                Err(Cut { word: "part-gone" })
            }
            Seen::Look(Some(End::Failed(word))) => {
                self.breaks += 1;
                if self.breaks > BREAKS_MAX { Err(Cut { word }) } else { Ok(Next::Look) }
            }
            Seen::Look(_) => Ok(Next::Look),
        }
    }

    /// What to do where a fill of this very generation runs, or what it brought is still being written.
    async fn running_fill(&mut self, generation: &Arc<Generation>, rest: Interval) -> Option<Next> {
        let (desk, store) = (&self.errand.plane.desk, &self.errand.plane.store);
        // Listened for before the reader looks again: what is written from here on wakes.
        let more = store.writing(generation).map(|writing| Box::pin(writing.more()));
        let is_going_down = more.is_some();
        if let Some((seat, running)) = desk.bringing(self.errand.core, generation) {
            let is_ours = Arc::ptr_eq(&running, generation);
            let is_read = match is_ours {
                true => {
                    let now = clock::mono();
                    let is_apart = desk.memory.manner(generation.key().digest, now).is_none();
                    seat.fill().comes_soon(rest.start, now) || !is_apart || self.keeps_to_fill
                }
                false => is_going_down || running.window_start() <= rest.start,
            };
            if is_read {
                let (again, store) = (self.again.clone(), store.clone());
                return Some(Next::Tail(Box::new(Tail::new(seat, running, rest, again, store))));
            }
            if is_ours {
                return None;
            }
        }
        let more = more.filter(|_| !generation.is_filling())?;
        let now = clock::mono();
        let Some(Written { until, more: before }) = self.written.take() else {
            self.written = Some(Written { until: now + GOING_DOWN_WAIT_MAX, more });
            self.tries = 0;
            return Some(Next::Look);
        };
        tokio::time::timeout(until.saturating_duration_since(now), before).await.ok()?;
        self.written = Some(Written { until, more });
        self.tries = 0;
        Some(Next::Look)
    }

    /// Takes out what cannot be completed.
    fn note(&self, generation: &Arc<Generation>, end: End) {
        let Errand { plane, .. } = &self.errand;
        match end {
            // However many see it, it is one change.
            End::Changed if generation.is_retired() => return,
            End::Changed => plane.desk.memory.changed(generation.key().digest, clock::mono()),
            End::Unable => plane.desk.memory.handle(generation.key().digest, clock::mono(), Manner::Whole),
            End::Brought | End::Failed(_) => return,
        }
        if end == End::Unable && plane.desk.fills(self.errand.core, generation) {
            return;
        }
        plane.store.retire(generation);
    }

    /// The reader goes on elsewhere.
    pub(crate) fn turn(&mut self) {
        (self.looked_to, self.tries, self.written) = (0, 0, None);
    }

    /// The reader has come to the front of `rest`: what is missing ahead of it is asked for.
    pub(crate) fn moved(&mut self, generation: &Arc<Generation>, rest: Interval) {
        self.tries = 0;
        for seat in &self.seats {
            seat.advance(rest.start);
        }
        let ahead_bytes = self.errand.route.range.ahead_bytes;
        let is_far = self.looked_to.saturating_sub(rest.start) > ahead_bytes / 2;
        let is_looked = is_far || self.looked_to >= rest.end;
        if generation.is_whole() || is_looked && !self.is_short {
            return;
        }
        self.seats.retain(|seat| !seat.is_past(rest.start));
        if is_looked && self.seats.len() >= self.errand.route.range.parallel {
            return;
        }
        self.looked_to = rest.end.min(rest.start.saturating_add(ahead_bytes));
        self.look_ahead(generation, rest);
    }

    fn look_ahead(&mut self, generation: &Arc<Generation>, rest: Interval) {
        let Errand { plane, core, route, .. } = &self.errand;
        let parallel = route.range.parallel;
        // What memory keeps only a window of is read behind that. What is being written is not missing.
        if is_windowed(generation) || plane.store.is_going_down(generation) && !generation.is_filling() {
            return;
        }
        if !generation.look_below_now() {
            return;
        }
        let fill = plane.desk.bringing(*core, generation);
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
            if let Some(seat) = plane.desk.gaps.seat_ahead(&self.errand, generation, hole) {
                self.seats.push(seat);
            }
        }
    }
}
