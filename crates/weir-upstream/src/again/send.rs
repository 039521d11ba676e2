//! Sends a request to an origin, and again where the retry table allows that.

use std::sync::Arc;

use weir_client::{Demand, ExchangeError, Failed, Failure, InterimSender, LoginUse, OutBody, Stage, logs_in};

use crate::again::attempt::{Terms, attempt};
use crate::again::retry::{self, Next, Tries};
use crate::again::track::Turn;
use crate::choice::decided::Decided;
use crate::choice::pick::{Pick, Picked, Reason};
use crate::choice::roster::{Member, Roster, SoFar};
use crate::clock;
use crate::error::OriginError;
use crate::health::ejection::{Suspect, Verdict};
use crate::origin::{Origin, count};
use crate::request::{OriginRequest, Retry};
use crate::response::OriginResponse;
use crate::sessions::affinity::Session;
use crate::settings::{RetryOn, Role};
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
    pub fn send(
        self: &Arc<Self>,
        request: OriginRequest,
        interim: Option<InterimSender>,
    ) -> impl Future<Output = Result<Box<OriginResponse>, OriginError>> + Send {
        self.send_for(None, request, interim)
    }

    /// As [`Upstream::send`], with the connections that belong to the client's connection by a login there.
    ///
    /// # Errors
    /// As above.
    ///
    /// # Cancel safety
    /// As above.
    // What an `async fn` is given lies in its future twice.
    #[expect(clippy::manual_async_fn, reason = "the future holds the request once")]
    pub fn send_for(
        self: &Arc<Self>,
        login: Option<LoginUse>,
        mut request: OriginRequest,
        interim: Option<InterimSender>,
    ) -> impl Future<Output = Result<Box<OriginResponse>, OriginError>> + Send {
        async move {
            let (mut held, login) = (None, login.as_ref());
            self.note_login(login, &mut request);
            match (self.send_again(&mut request, (login, interim.as_ref()), &mut held).await, held) {
                (Err(_), Some(held)) => Ok(held),
                (sent, _) => sent,
            }
        }
    }

    /// `held` is the last response after which the request was sent again.
    async fn send_again(
        self: &Arc<Self>,
        request: &mut OriginRequest,
        (login, interim): (Option<&LoginUse>, Option<&InterimSender>),
        held: &mut Option<Box<OriginResponse>>,
    ) -> Result<Box<OriginResponse>, OriginError> {
        let mut body = std::mem::replace(&mut request.body, OutBody::Empty);
        self.signal.budget.asked(clock::now());
        let request = &*request;
        let roster = self.known_roster(request).await;
        let Decided { picked, guest, among } = self.decided(&roster, request).await?;
        let roster = guest.unwrap_or(roster);
        let so_far = (&[][..], among.as_deref());
        let own = login.and_then(|login| self.own(login, &roster, request));
        let picked =
            own.or_else(|| self.choose(&roster, request, so_far, picked)).ok_or(OriginError::NoOrigin)?;
        let suspect = Suspect::of(request);
        let mut course = Course {
            upstream: self,
            roster,
            request,
            login,
            picked,
            demand: Demand::Any,
            turn: Turn::FIRST,
            tries: Tries::default(),
            tried: Vec::new(),
            among,
            had_it: None,
            is_hedged: false,
            held,
            doubts: Doubts { found: Vec::new(), suspect: Some(suspect) },
        };
        loop {
            // Before a connection is taken: it could be closed meanwhile, and its clocks would run.
            weir_yield::before_sending().await;
            let seat = course.sit().await;
            course.turn.picked = Some(course.picked);
            let origin = course.roster.origin(course.picked.at);
            let (timeouts, bounds) = (&self.timeouts, &self.bounds);
            let (head, answers) = (request.head(), None);
            let exchange = weir_client::Terms { request: head, login, interim, timeouts, bounds, answers };
            let terms = Terms { request, suspect, turn: course.turn, exchange };
            let spare = body.again();
            let done = match course.hedge_after(spare.as_ref()) {
                None => attempt(origin, &terms, seat, body).await,
                Some(after) => Box::pin(course.raced(&terms, (seat, body), after)).await,
            };
            body = match done {
                Ok(response) => match course.answered(response, spare) {
                    Ok(response) => return Ok(response),
                    Err((mut response, spare)) => {
                        *course.held = response.body.hold().await.then_some(response);
                        spare
                    }
                },
                Err(failed) => {
                    let (failure, rest) = *failed;
                    course.failed(failure, rest)?
                }
            };
        }
    }

    /// A request on a connection on which its client logs in is sent once: another connection knows nothing
    /// of the login.
    fn note_login(&self, login: Option<&LoginUse>, request: &mut OriginRequest) {
        let logs_in = logs_in(&request.headers);
        if let Some(login) = login.filter(|_| logs_in) {
            login.note(self.name());
        }
        let has_own = || login.is_some_and(|login| login.find(&request.headers, |_| Some(())).is_some());
        if logs_in || has_own() {
            request.retry = Retry::Never;
        }
    }

    /// The origin at which a request's client has logged in.
    fn own(&self, login: &LoginUse, roster: &Roster, request: &OriginRequest) -> Option<Picked> {
        login.find(&request.headers, |pool| {
            let of_pool = |member: &&Member| Arc::ptr_eq(member.origin.pool(), pool);
            let origin = &roster.members.iter().find(of_pool)?.origin;
            roster.prefer(origin.name(), self.picks_of(request))
        })
    }

    /// Whether the budget lets a request of this client be sent again for this reason. It is charged and
    /// counted.
    fn may_send_again(&self, client: Option<u64>, reason: RetryOn) -> bool {
        let is_left = self.signal.budget.take(self.settings.retries.budget_percent, client, clock::now());
        count(if is_left { &self.signal.again[reason as usize] } else { &self.signal.refused });
        is_left
    }

    /// An origin of this role, none of `but`, that has a free connection. It is not counted as picked.
    pub(crate) fn choose_room(
        &self,
        roster: &Roster,
        request: &OriginRequest,
        (role, but): (Role, &[usize]),
        reason: Reason,
    ) -> Option<Picked> {
        let (moment, picks) = (self.signal.draw(clock::now()), self.picks_of(request));
        let picked = roster.choose_room(picks, &request.asked(), (role, but), &moment)?;
        Some(Picked { reason, ..picked })
    }

    /// The picks of a request: those of its route, or the upstream's.
    pub(crate) fn picks_of<'r>(&'r self, request: &'r OriginRequest) -> &'r [Pick] {
        request.picking.picks.as_deref().unwrap_or(&self.picks)
    }

    /// The origin for the first attempt of a request, or for one more. `answered`: a decider has named it.
    pub(crate) fn choose(
        &self,
        roster: &Roster,
        request: &OriginRequest,
        (tried, among): (&[usize], Option<&[usize]>),
        answered: Option<Picked>,
    ) -> Option<Picked> {
        let (now, picks) = (clock::now(), self.picks_of(request));
        let name = request.prefer.as_deref().filter(|_| tried.is_empty());
        let preferred = name.and_then(|name| roster.prefer(name, picks));
        let session = request.session.as_ref().filter(|_| tried.is_empty());
        let may = |at: usize| among.is_none_or(|among| among.contains(&at));
        let follow = |session| roster.follow(session, (picks, &may), now);
        let of_session = || session.and_then(follow);
        let of_decider = || answered.inspect(|picked| roster.took(picks, *picked));
        // A hash knows of no state that a session has at its origin, so who names one knows better.
        let of_both = || match session {
            Some(Session::Hashed(_)) => of_decider().or_else(of_session),
            _ => of_session().or_else(of_decider),
        };
        // One more attempt takes no turn: turns are shared out among the first ones.
        let moment = || if tried.is_empty() { self.signal.moment(now) } else { self.signal.draw(now) };
        let so_far = SoFar { tried, among, suspect: &|| Suspect::of(request) };
        let choose = || roster.choose(picks, &request.asked(), &so_far, (&moment(), now));
        preferred.or_else(of_both).or_else(choose)
    }
}

/// One request on its way: where it goes next, and what was met so far.
pub(crate) struct Course<'u> {
    pub(crate) upstream: &'u Upstream,
    /// The origins as they stood when one was picked last.
    pub(crate) roster: Arc<Roster>,
    pub(crate) request: &'u OriginRequest,
    pub(crate) login: Option<&'u LoginUse>,
    pub(crate) picked: Picked,
    pub(crate) demand: Demand,
    pub(crate) turn: Turn,
    pub(crate) tries: Tries,
    /// The origins that were tried.
    pub(crate) tried: Vec<usize>,
    /// The only origins that there are for it, where a decider has named some.
    pub(crate) among: Option<Box<[usize]>>,
    /// The error of an origin that had the request says more than that another one could not be reached.
    had_it: Option<ExchangeError>,
    /// Whether a hedge was sent.
    pub(crate) is_hedged: bool,
    /// The last response after which the request was sent again.
    held: &'u mut Option<Box<OriginResponse>>,
    pub(crate) doubts: Doubts,
}

impl Course<'_> {
    /// Another origin than those that were tried.
    fn other(&self) -> Option<Picked> {
        self.upstream.choose(&self.roster, self.request, (&self.tried, self.among.as_deref()), None)
    }

    /// A response has come. It is final, unless its status lets the request be sent again; then with the body
    /// for that.
    fn answered(
        &mut self,
        mut response: Box<OriginResponse>,
        spare: Option<OutBody>,
    ) -> Result<Box<OriginResponse>, (Box<OriginResponse>, OutBody)> {
        let at = self.picked.at;
        let origin = self.roster.origin(at);
        response.times.retries = self.tries.unconnected + self.tries.resent;
        response.origin_id = self.roster.members[at].id;
        let verdict = origin.verdict(response.status);
        if verdict == Verdict::Bad {
            self.doubts.found.push((origin.clone(), Found::Status));
        }
        let retries = &self.upstream.settings.retries;
        let reason = retry::after_status(response.status, self.request.retry, self.tries, retries);
        let may = |reason| self.upstream.may_send_again(self.request.witness, reason);
        let again = reason.zip(spare).filter(|(reason, _)| may(*reason));
        let Some((reason, spare)) = again else {
            if verdict == Verdict::Good {
                self.doubts.clear_request();
            }
            return Ok(response);
        };
        count(&origin.counts.retries);
        (self.turn, self.demand) = (self.turn.after(reason.word()), Demand::Any);
        self.tries.resent += 1;
        self.tried.push(at);
        self.picked = self.other().unwrap_or(self.picked);
        Err((response, spare))
    }

    /// Whether a response is not one after which the request may be sent again.
    pub(crate) fn is_final(&self, response: &OriginResponse) -> bool {
        let retries = &self.upstream.settings.retries;
        retry::after_status(response.status, self.request.retry, self.tries, retries).is_none()
    }

    /// The first attempt has not served the request, and its hedge is under way: it becomes the retry.
    pub(crate) async fn go_on_with_hedge(
        &mut self,
        done: Result<Box<OriginResponse>, Failed>,
        hedge: Picked,
    ) {
        let origin = self.roster.origin(self.picked.at).clone();
        self.tried.push(self.picked.at);
        self.picked = hedge;
        count(&origin.counts.retries);
        self.tries = self.tries.with(&done);
        let reason = match done {
            Ok(mut response) => {
                let (reason, status) = (RetryOn::of_status(response.status), response.status);
                *self.held = response.body.hold().await.then_some(response);
                if origin.verdict(status) == Verdict::Bad {
                    self.doubts.found.push((origin, Found::Status));
                }
                reason
            }
            Err(failed) => {
                let failure = failed.0;
                let reason = retry::reason(&failure);
                self.had_it = Some(failure.error.clone()).filter(|error| !error.is_before_request());
                self.doubts.note(&origin, failure);
                reason
            }
        };
        reason.into_iter().for_each(|reason| count(&self.upstream.signal.again[reason as usize]));
    }

    /// An attempt has failed. The body for the next one.
    ///
    /// # Errors
    /// That of the request, where it is not sent again.
    fn failed(&mut self, failure: Failure, rest: Option<OutBody>) -> Result<OutBody, ExchangeError> {
        let (at, origin) = (self.picked.at, self.roster.origin(self.picked.at));
        let retries = &self.upstream.settings.retries;
        let next = retry::decide(&failure, self.request.retry, rest.is_some(), self.tries, retries);
        let reason = retry::reason(&failure).filter(|_| next != Next::GiveUp);
        let (stage, error) = (failure.stage, failure.error.clone());
        self.turn = self.turn.after(error.word());
        self.doubts.note(origin, failure);
        let error = match self.had_it.take() {
            Some(earlier) if error.is_before_request() => earlier,
            _ => error,
        };
        let Some(rest) = rest else { return Err(error) };
        self.tried.push(at);
        let elsewhere = match next {
            Next::GiveUp => return Err(error),
            Next::Fresh => None,
            Next::Elsewhere | Next::ElsewhereOrFresh => self.other(),
        };
        match (next, elsewhere) {
            (_, Some(other)) => (self.picked, self.demand) = (other, Demand::Any),
            (Next::Elsewhere, None) => return Err(error),
            _ => self.demand = Demand::Fresh,
        }
        // What no origin has seen costs nothing.
        let is_free = matches!(stage, Stage::NotConnected | Stage::NothingSent);
        match reason {
            Some(reason) if is_free => count(&self.upstream.signal.again[reason as usize]),
            Some(reason) if self.upstream.may_send_again(self.request.witness, reason) => {}
            _ => return Err(error),
        }
        count(&origin.counts.retries);
        match stage {
            Stage::NotConnected => self.tries.unconnected += 1,
            _ => self.tries.resent += 1,
        }
        self.had_it = (!error.is_before_request()).then_some(error);
        Ok(rest)
    }
}

/// What attempts found that the request may have caused: it counts as that client's and that URL's. Once
/// another attempt of the same request is answered well, a client whose name is hidden was not the cause. One
/// that is known may have been, as one that each origin refuses for asking too often.
pub(crate) struct Doubts {
    found: Vec<(Arc<Origin>, Found)>,
    suspect: Option<Suspect>,
}

/// What an attempt found.
enum Found {
    /// No response.
    Failure(Failure),
    /// A response with a bad status.
    Status,
}

impl Doubts {
    /// An attempt has failed.
    fn note(&mut self, origin: &Arc<Origin>, failure: Failure) {
        match failure.stage {
            Stage::NotConnected => origin.failed_attempt(&failure, None),
            _ => self.found.push((origin.clone(), Found::Failure(failure))),
        }
    }

    /// An attempt has ended badly whose response is not needed. A short one is read to its end, so that its
    /// connection can be used again.
    pub(crate) async fn end_badly(
        &mut self,
        origin: &Arc<Origin>,
        done: Result<Box<OriginResponse>, Failed>,
    ) {
        match done {
            Ok(mut response) => {
                if origin.verdict(response.status) == Verdict::Bad {
                    self.found.push((origin.clone(), Found::Status));
                }
                response.body.hold().await;
            }
            Err(failed) => self.note(origin, failed.0),
        }
    }

    /// The request has been answered well.
    fn clear_request(&mut self) {
        self.suspect = self.suspect.filter(|suspect| !suspect.is_unnamed());
    }
}

impl Drop for Doubts {
    fn drop(&mut self) {
        for (origin, found) in &self.found {
            match found {
                Found::Failure(failure) => {
                    origin.failed_attempt(failure, self.suspect.and_then(Suspect::of_break));
                }
                Found::Status => origin.answered_badly(self.suspect),
            }
        }
    }
}
