//! How a tunnel ends when its process does. The client of a WebSocket hears that the server goes away (RFC
//! 6455 §7.4.1) where a frame may stand, and gets a moment to answer; any other tunnel is cut.
//!
//! States: *finishing* the frame under way, *telling*, *ending* its own side, *hearing* the client out.

use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_clock as clock;

use super::{End, Heeded, Over, Pause, State, Tunnel};

/// How long all of it may take: longer than a round trip around the world.
pub(crate) const FAREWELL_TIME_MAX: Duration = Duration::from_secs(1);
/// A close frame: 1001, going away.
const GOING_AWAY: [u8; 4] = [0x88, 2, 0x03, 0xe9];

pub(super) struct Farewell {
    step: Step,
    until: Instant,
}

enum Step {
    Finishing,
    Telling(Bytes),
    Ending,
    Hearing,
}

impl<C: End> Tunnel<'_, C> {
    /// Ready once the tunnel may be closed.
    pub(super) fn poll_farewell(&mut self, cx: &mut Context<'_>) -> Poll<Over> {
        let begin = || Farewell { step: Step::Finishing, until: clock::mono() + FAREWELL_TIME_MAX };
        let until = self.farewell.get_or_insert_with(begin).until;
        self.deadline.set(until);
        if self.deadline.poll(cx).is_ready() {
            let is_told = matches!(self.farewell, Some(Farewell { step: Step::Hearing, .. }));
            return Poll::Ready(if is_told { Over::Whole } else { Over::Cut });
        }
        loop {
            let step = match self.farewell.as_mut().map(|farewell| &mut farewell.step) {
                // Invariant: it was set above.
                None => return Poll::Ready(Over::Cut),
                Some(Step::Finishing) => match ready!(self.poll_boundary(cx)) {
                    Err(()) => return Poll::Ready(Over::Cut),
                    // After the origin's own last word there is none.
                    Ok(()) if self.frames.have_closed() => Step::Ending,
                    Ok(()) => Step::Telling(Bytes::from_static(&GOING_AWAY)),
                },
                Some(Step::Telling(word)) => match ready!(self.client.poll_send(cx, word)) {
                    Err(_) => return Poll::Ready(Over::Cut),
                    Ok(()) => Step::Ending,
                },
                Some(Step::Ending) => match ready!(self.client.poll_finish(cx)) {
                    Err(_) => return Poll::Ready(Over::Cut),
                    Ok(()) => Step::Hearing,
                },
                // Its answer is the origin's.
                Some(Step::Hearing) => match self.up.pour(cx, self.client, &mut self.origin) {
                    Ok(pause) if matches!(self.up.state, State::Open | State::Full(_)) => {
                        if pause == Pause::Stint {
                            cx.waker().wake_by_ref();
                        }
                        return Poll::Pending;
                    }
                    Ok(_) | Err(_) => return Poll::Ready(Over::Whole),
                },
            };
            self.farewell = Some(Farewell { step, until });
        }
    }

    /// Sends the rest of the frame that the client has a part of, and no more. An error where its end is not
    /// known.
    fn poll_boundary(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        loop {
            if !self.frames.are_known() {
                return Poll::Ready(Err(()));
            }
            if let State::Full(bytes) = &mut self.down.state {
                let left = self.frames.left_of(bytes).unwrap_or(bytes.len());
                bytes.truncate(left);
                if bytes.is_empty() {
                    self.down.state = State::Open;
                    continue;
                }
                let mut heeded = Heeded { client: &mut *self.client, frames: &mut self.frames };
                if ready!(heeded.poll_send(cx, bytes)).is_err() {
                    return Poll::Ready(Err(()));
                }
                self.down.state = State::Open;
                continue;
            }
            if self.frames.is_between() {
                return Poll::Ready(Ok(()));
            }
            match (&self.down.state, ready!(self.origin.poll_receive(cx))) {
                (State::Open, Ok(Some(bytes))) => self.down.state = State::Full(bytes),
                _ => return Poll::Ready(Err(())),
            }
        }
    }
}
