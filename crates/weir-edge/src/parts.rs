//! Serving what is held in part: what is missing comes from the origin while the rest is sent, in the same version or not at all
//! (RFC 9111 §3.4, RFC 9110 §13.1.5). It must not decide whether what is held may be used.

use std::sync::Arc;
use std::time::Duration;

use weir_policy::{Answer, Ask, AskKind, Interval, answer};
use weir_store::{Generation, Piece};

use crate::deliver::Cut;
use crate::exchange::Exchange;
use crate::fetch;
use crate::fill::again::{Again, strong};
use crate::fill::gap::{End, Errand, GapSeat, Seen};
use crate::fill::tail::Tail;
use crate::plan::Route;

/// How often in a row a reader asks without getting a byte farther.
const TRIES_MAX: u8 = 3;

/// How often, and how long, what is still being written to the volume is waited for: 2 s in all.
const GOING_DOWN_WAITS_MAX: u16 = 400;
const GOING_DOWN_WAIT: Duration = Duration::from_millis(5);

/// Whether a generation may be used although it is not whole: what is missing can be told to be of the same version.
pub(crate) fn is_usable(generation: &Generation) -> bool {
    generation.is_part() && strong(&generation.head().stored.headers).is_some()
}

/// What confirming came to.
pub(crate) enum Confirmed {
    /// All that is wanted is held, or is not a body.
    Held,
    /// The origin has the same version, and what is missing is on its way.
    Coming(Box<Refill>),
    /// Something is missing, and nobody may be asked (RFC 9111 §5.2.1.7).
    Refused,
    /// It is not to be had in this version.
    Gone,
}

/// Makes sure before a head goes out: the origin is asked for the first byte that is missing of what the request wants. A version
/// that the origin no longer has is taken out.
///
/// # Cancel safety
/// Safe: what is on its way goes on while it is worth it.
pub(crate) async fn confirm(
    exchange: &Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: &Arc<Generation>,
) -> Confirmed {
    let Some(missing) = missing(exchange, ask, generation) else { return Confirmed::Held };
    if ask.directives.only_if_cached() {
        return Confirmed::Refused;
    }
    let Some(mut refill) = refill(exchange, route, generation) else { return Confirmed::Gone };
    match refill.confirm(generation, missing).await {
        Ok(()) if generation.is_whole() => Confirmed::Held,
        Ok(()) => Confirmed::Coming(refill),
        Err(end) => {
            refill.note(generation, end);
            Confirmed::Gone
        }
    }
}

/// The first that is missing of what the request wants.
fn missing(exchange: &Exchange<'_>, ask: &Ask, generation: &Generation) -> Option<Interval> {
    if ask.kind == AskKind::Head {
        return None;
    }
    let length = generation.length()?;
    match answer(&exchange.view(), ask, &generation.head().stored, Some(length)) {
        Answer::Full => generation.gap(Interval::new(0, length)),
        Answer::Partial(interval, _) => generation.gap(interval),
        Answer::Parts(parts) => parts.iter().find_map(|(interval, _)| generation.gap(interval)),
        Answer::NotModified | Answer::PreconditionFailed | Answer::Unsatisfiable(_) => None,
    }
}

/// The means to bring what is missing, or turns out to be missing, of a generation that does not lie in memory.
pub(crate) fn refill(
    exchange: &Exchange<'_>,
    route: &Arc<Route>,
    generation: &Generation,
) -> Option<Box<Refill>> {
    strong(&generation.head().stored.headers)?;
    let again = fetch::again(exchange, route)?;
    let worker = exchange.worker;
    let errand = Errand {
        plane: worker.plane.clone(),
        observer: worker.observer.clone(),
        core: worker.core,
        again: again.in_nobodys_name(),
    };
    Some(Box::new(Refill { errand, again, seat: None, tries: 0, waits: 0 }))
}

/// One reader's way to what is missing.
pub(crate) struct Refill {
    errand: Errand,
    again: Arc<Again>,
    seat: Option<GapSeat>,
    /// How often it was tried since the last byte.
    tries: u8,
    /// How often it has waited for what is being written.
    waits: u16,
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
    async fn confirm(&mut self, generation: &Arc<Generation>, missing: Interval) -> Result<(), End> {
        let Errand { plane, core, .. } = &self.errand;
        if plane.desk.bringing(*core, generation).is_some() || plane.store.is_going_down(generation) {
            return Ok(());
        }
        // What was being written a moment ago has come by now.
        generation.look_below().await;
        let Some(missing) = generation.gap(missing) else { return Ok(()) };
        let seat = self.errand.plane.desk.gaps.seat(&self.errand, generation, missing);
        let confirmed = seat.confirmed().await;
        self.seat = Some(seat);
        confirmed
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
        let seat = match self.seat.take().filter(|seat| seat.brings(rest.start)) {
            Some(seat) => seat,
            None => {
                let (desk, core) = (&self.errand.plane.desk, self.errand.core);
                let is_going_down = self.errand.plane.store.is_going_down(generation);
                if let Some((seat, running)) = desk.bringing(core, generation)
                    && (is_going_down || running.window_start() <= rest.start)
                {
                    return Ok(Next::Tail(Box::new(Tail::new(
                        seat,
                        running,
                        rest,
                        self.again.clone(),
                        self.errand.plane.store.clone(),
                    ))));
                }
                if is_going_down && self.waits < GOING_DOWN_WAITS_MAX {
                    (self.waits, self.tries) = (self.waits + 1, 0);
                    tokio::time::sleep(GOING_DOWN_WAIT).await;
                    return Ok(Next::Look);
                }
                // Meanwhile it may have come: by another's transfer, or to the volume.
                generation.look_below().await;
                let Some(missing) = generation.gap(rest).filter(|gap| gap.start == rest.start) else {
                    return Ok(Next::Look);
                };
                desk.gaps.seat(&self.errand, generation, missing)
            }
        };
        let seen = seat.wait(rest.start, bytes_max).await;
        self.seat = Some(seat);
        match seen {
            Seen::Piece(piece) => Ok(Next::Piece(piece)),
            Seen::Look(Some(end @ (End::Changed | End::Unable))) => {
                self.note(generation, end);
                Err(Cut { word: "part-gone" })
            }
            Seen::Look(_) => Ok(Next::Look),
        }
    }

    /// Takes out what cannot be completed.
    fn note(&self, generation: &Arc<Generation>, end: End) {
        if matches!(end, End::Changed | End::Unable) {
            self.errand.plane.store.retire(generation);
        }
    }

    /// The reader has come to `offset`.
    pub(crate) fn moved(&mut self, offset: u64) {
        self.tries = 0;
        if let Some(seat) = &self.seat {
            seat.advance(offset);
        }
    }
}
