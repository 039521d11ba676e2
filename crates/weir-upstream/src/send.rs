//! Sends a request to an origin, and again where the retry table allows that.

use std::sync::Arc;

use crate::attempt::Turn;
use crate::clock;
use crate::error::OriginError;
use crate::exchange::Terms;
use crate::health::{Suspect, Verdict};
use crate::once::attempt;
use crate::origin::count;
use crate::pick::Picked;
use crate::pool::Demand;
use crate::request::{InterimSender, OriginRequest, OutBody};
use crate::response::OriginResponse;
use crate::retry::{self, Failure, Next, Stage, Tries};
use crate::roster::Roster;
use crate::upstream::Upstream;

impl Upstream {
    /// Sends a request and waits for the head of the response. 1xx responses go to `interim` as they come.
    ///
    /// Retries show in [`Times::retries`] only.
    ///
    /// # Errors
    /// When no origin gave a response: see [`OriginError::status`].
    ///
    /// # Cancel safety
    /// Dropped, it closes its connection. The origin may have acted on the request.
    pub async fn send(
        self: &Arc<Self>,
        mut request: OriginRequest,
        interim: Option<InterimSender>,
    ) -> Result<OriginResponse, OriginError> {
        let mut body = std::mem::replace(&mut request.body, OutBody::Empty);
        let mut tries = Tries::default();
        let mut tried: Vec<usize> = Vec::new();
        let mut demand = Demand::Any;
        let roster = self.roster();
        let choose = |tried: &[usize]| self.choose(&roster, &request, tried);
        let Some(mut picked) = choose(&tried) else { return Err(OriginError::NoOrigin) };
        // The error of an origin that had the request says more than that another one could not be reached.
        let mut had_it: Option<OriginError> = None;
        let mut turn = Turn::FIRST;
        let suspect = Suspect::of(&request);
        let mut doubts = Doubts { roster: &roster, found: Vec::new(), suspect: Some(suspect) };
        loop {
            let origin = roster.origin(picked.at);
            turn.picked = Some(picked);
            let terms = Terms {
                request: &request,
                suspect,
                interim: interim.as_ref(),
                timeouts: &self.timeouts,
                bounds: &self.bounds,
                turn,
            };
            let (failure, rest) = match attempt(origin, &terms, demand, body).await {
                Ok(mut response) => {
                    response.times.retries = tries.unconnected + tries.resent;
                    response.origin_id = roster.members[picked.at].id;
                    match origin.verdict(response.status) {
                        Verdict::Good => doubts.clear_request(),
                        Verdict::Bad => doubts.found.push((picked.at, Found::Status)),
                    }
                    return Ok(response);
                }
                Err(failed) => *failed,
            };
            let next = retry::decide(&failure, request.retry, rest.is_some(), tries, self.bounds.retries_max);
            let (stage, error) = (failure.stage, failure.error.clone());
            turn = turn.after(&error);
            match stage {
                Stage::NotConnected => origin.failed_attempt(&failure, None),
                _ => doubts.found.push((picked.at, Found::Failure(failure))),
            }
            let error = match had_it.take() {
                Some(earlier) if error.is_before_request() => earlier,
                _ => error,
            };
            let Some(rest) = rest else { return Err(error) };
            body = rest;
            tried.push(picked.at);
            let elsewhere = match next {
                Next::GiveUp => return Err(error),
                Next::Fresh => None,
                Next::Elsewhere | Next::ElsewhereOrFresh => choose(&tried),
            };
            match (next, elsewhere) {
                (_, Some(other)) => (picked, demand) = (other, Demand::Any),
                (Next::Elsewhere, None) => return Err(error),
                _ => demand = Demand::Fresh,
            }
            count(&origin.counts.retries);
            match stage {
                Stage::NotConnected => tries.unconnected += 1,
                _ => tries.resent += 1,
            }
            had_it = (!error.is_before_request()).then_some(error);
        }
    }

    /// The origin for the first attempt of a request, or for one more.
    fn choose(&self, roster: &Roster, request: &OriginRequest, tried: &[usize]) -> Option<Picked> {
        let (now, picks) = (clock::now(), request.picking.picks.as_deref().unwrap_or(&self.picks));
        let name = request.prefer.as_deref().filter(|_| tried.is_empty());
        let preferred = name.and_then(|name| roster.prefer(name, picks));
        let session = request.session.as_ref().filter(|_| tried.is_empty());
        let of_session = || session.and_then(|session| roster.follow(session, picks));
        let choose = || roster.choose(picks, &request.asked(), tried, (&self.signal.moment(now), now));
        preferred.or_else(of_session).or_else(choose)
    }
}

/// What attempts found that the request may have caused. Once another attempt of the same request is answered
/// well it counts against their origins for sure. If not, it counts as that client's and that URL's.
struct Doubts<'u> {
    roster: &'u Roster,
    found: Vec<(usize, Found)>,
    suspect: Option<Suspect>,
}

/// What an attempt found.
enum Found {
    /// No response.
    Failure(Failure),
    /// A response with a bad status.
    Status,
}

impl Doubts<'_> {
    /// The request has been answered: it was not the cause.
    fn clear_request(&mut self) {
        self.suspect = None;
    }
}

impl Drop for Doubts<'_> {
    fn drop(&mut self) {
        for (index, found) in &self.found {
            let origin = self.roster.origin(*index);
            match found {
                Found::Failure(failure) => {
                    origin.failed_attempt(failure, self.suspect.and_then(Suspect::of_break));
                }
                Found::Status => origin.answered_badly(self.suspect),
            }
        }
    }
}
