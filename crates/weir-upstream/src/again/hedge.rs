//! Hedging: where no byte of a response has come after the time in which most come, a second request goes to
//! another origin, and the slower one is dropped (Dean and Barroso 2013).
//!
//! | first | the hedge | then |
//! |---|---|---|
//! | gives a byte | – | the hedge is dropped |
//! | – | answers well | the first is dropped |
//! | – | fails, or answers with an error | the first goes on alone |
//! | fails, or answers what is retried | – | the hedge goes on as its retry |
//!
//! Both run in one task, so one of them is first for sure. Interim responses of the hedge are kept back until
//! it has won, at most [`crate::Bounds::interim_max`], so that a client sees those of one origin only. One
//! that is dropped has not failed.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use weir_client::{ExchangeError, Failed, Interim, InterimSender, OutBody};

use crate::again::attempt::{Seat, Terms, attempt};
use crate::again::send::Course;
use crate::choice::pick::{Picked, Reason};
use crate::clock;
use crate::health::ejection::Verdict;
use crate::origin::{Busy, Origin, count};
use crate::request::Retry;
use crate::response::OriginResponse;

/// No hedge is sent earlier.
const AFTER_MIN: Duration = Duration::from_millis(5);
/// Why a hedge was sent, in the upstream log.
const WORD: &str = "hedge";

/// What came of an attempt.
type Done = Result<Box<OriginResponse>, Failed>;

/// When to send a hedge.
#[derive(Clone, Copy, Debug)]
pub(crate) enum After {
    /// After this time.
    Time(Duration),
    /// Not at all: too little is known, or no other origin will do. How long the answer takes is noted.
    Never,
}

/// The attempt that was first.
struct First<'a, A> {
    attempt: Pin<&'a mut A>,
    /// Whether a byte has come.
    answers: &'a AtomicBool,
    begun: Instant,
}

/// The second one, to be sent.
struct Hedge {
    picked: Picked,
    seat: Seat,
    body: OutBody,
}

/// How a race of two has ended.
enum End {
    First(Done),
    /// The first has given a byte.
    FirstAnswers,
    Hedge(Done),
}

impl Course<'_> {
    /// When a hedge is sent if no byte has come; `None` where hedging is off or the request may not be sent
    /// twice.
    pub(crate) fn hedge_after(&self, body: Option<&OutBody>) -> Option<After> {
        let per_mille = self.upstream.settings.retries.hedge_per_mille?;
        let request = self.request;
        if body.is_none()
            || request.retry != Retry::Once
            || request.upgrade.is_some()
            || request.hurry.is_some()
        {
            return None;
        }
        if self.is_hedged || !self.is_free() {
            return Some(After::Never);
        }
        let signal = &self.upstream.signal;
        let known = signal.waits().percentile(per_mille, signal.time_ms(clock::now()));
        Some(known.map_or(After::Never, |time| After::Time(time.max(AFTER_MIN))))
    }

    /// One attempt at the origin that was picked, with a hedge at another one if it takes long. The origin of
    /// the result is the one that is picked afterwards.
    ///
    /// # Cancel safety
    /// Dropped, it closes the connections of both.
    pub(crate) async fn raced(
        &mut self,
        terms: &Terms<'_>,
        (seat, body): (Seat, OutBody),
        after: After,
    ) -> Done {
        let origin = self.roster.origin(self.picked.at).clone();
        let (spare, begun, answers) = (body.again(), clock::now(), AtomicBool::new(false));
        let exchange = weir_client::Terms { answers: Some(&answers), ..terms.exchange };
        let own = Terms { exchange, ..*terms };
        let mut first = pin!(attempt(&origin, &own, seat, body));
        if let After::Time(after) = after {
            if let Ok(done) = tokio::time::timeout(after, first.as_mut()).await {
                return self.timed(begun, done);
            }
            let spare = spare.filter(|_| !answers.load(Ordering::Relaxed));
            if let Some(hedge) = spare.and_then(|body| self.hedge(body)) {
                return self.race(First { attempt: first, answers: &answers, begun }, terms, hedge).await;
            }
        }
        let done = first.await;
        self.timed(begun, done)
    }

    /// The race of the first attempt and a hedge.
    async fn race<A>(&mut self, first: First<'_, A>, terms: &Terms<'_>, hedge: Hedge) -> Done
    where
        A: Future<Output = Done>,
    {
        let (First { attempt: mut first, answers, begun }, Hedge { picked, seat, body }) = (first, hedge);
        let other = self.roster.origin(picked.at).clone();
        let hedged = clock::now();
        let (later, mut kept) = mpsc::unbounded_channel();
        let interim = terms.exchange.interim;
        let exchange =
            weir_client::Terms { interim: interim.map(|_| &later), answers: None, ..terms.exchange };
        let own = Terms { turn: self.turn, exchange, ..*terms };
        let mut second = Box::pin(attempt(&other, &own, seat, body));
        let end = poll_fn(|cx| {
            if let Poll::Ready(done) = first.as_mut().poll(cx) {
                return Poll::Ready(End::First(done));
            }
            if answers.load(Ordering::Relaxed) {
                return Poll::Ready(End::FirstAnswers);
            }
            second.as_mut().poll(cx).map(End::Hedge)
        });
        match end.await {
            End::First(Ok(response)) if self.is_final(&response) => {
                other.measure_failure(clock::now() - hedged);
                self.timed(begun, Ok(response))
            }
            End::FirstAnswers => {
                drop(second);
                other.measure_failure(clock::now() - hedged);
                let done = first.await;
                self.timed(begun, done)
            }
            End::First(done) => {
                let done = self.timed(begun, done);
                self.go_on_with_hedge(done, picked).await;
                with_interims(second, (&mut kept, interim)).await
            }
            End::Hedge(Ok(response)) if is_good(&other, &response) => {
                self.note_cut_short(begun, picked);
                pass_interims(&mut kept, interim);
                Ok(response)
            }
            End::Hedge(done) => {
                self.tried.push(picked.at);
                self.tries = self.tries.with(&done);
                let done = tokio::select! {
                    biased;
                    done = first.as_mut() => done,
                    () = self.doubts.end_badly(&other, done) => first.as_mut().await,
                };
                self.timed(begun, done)
            }
        }
    }

    /// An origin for a hedge, and a seat there: one that takes a share and has room. The budget is charged.
    fn hedge(&mut self, body: OutBody) -> Option<Hedge> {
        let role = self.roster.next_role(&self.tried)?;
        let mut but = self.tried.clone();
        but.push(self.picked.at);
        let (upstream, request) = (self.upstream, self.request);
        let picked = upstream.choose_room(&self.roster, request, (role, &but), Reason::Hedge)?;
        let (signal, percent) = (&upstream.signal, upstream.settings.retries.budget_percent);
        if !signal.budget.take(percent, request.witness, clock::now()) {
            count(&signal.hedges.refused);
            return None;
        }
        let origin = self.roster.origin(picked.at);
        let grant = origin.pool().try_acquire((request.client, request.share))?;
        self.roster.took(upstream.picks_of(request), picked);
        count(&signal.hedges.sent);
        self.is_hedged = true;
        self.turn = self.turn.after(WORD);
        self.turn.picked = Some(picked);
        let seat = Seat { granted: Ok(grant), busy: Busy::begin(origin), begun: clock::now() };
        Some(Hedge { picked, seat, body })
    }

    /// Notes how long the first attempt took to answer.
    fn timed(&self, begun: Instant, done: Done) -> Done {
        let is_known = match &done {
            Ok(_) => true,
            Err(failed) => matches!(failed.0.error, ExchangeError::FirstByteTimeout),
        };
        if is_known {
            self.note_time(begun);
        }
        done
    }

    fn note_time(&self, begun: Instant) {
        let (now, signal) = (clock::now(), &self.upstream.signal);
        signal.waits().add(now.saturating_duration_since(begun), self.request.witness, signal.time_ms(now));
    }

    /// The hedge has won: the first was slower than this, and that is no failure.
    fn note_cut_short(&mut self, begun: Instant, hedge: Picked) {
        self.note_time(begun);
        self.roster.origin(self.picked.at).measure_failure(clock::now() - begun);
        count(&self.upstream.signal.hedges.won);
        self.picked = hedge;
    }
}

/// Whether the response of a hedge is better than none yet.
fn is_good(origin: &Origin, response: &OriginResponse) -> bool {
    !response.status.is_server_error() && origin.verdict(response.status) == Verdict::Good
}

/// The hedge alone. Its interim responses go out as they come.
async fn with_interims(
    mut hedge: Pin<Box<impl Future<Output = Done>>>,
    (kept, to): (&mut mpsc::UnboundedReceiver<Box<Interim>>, Option<&InterimSender>),
) -> Done {
    loop {
        let done = tokio::select! {
            biased;
            Some(interim) = kept.recv() => {
                pass(interim, to);
                continue;
            }
            done = hedge.as_mut() => done,
        };
        pass_interims(kept, to);
        return done;
    }
}

fn pass_interims(kept: &mut mpsc::UnboundedReceiver<Box<Interim>>, to: Option<&InterimSender>) {
    while let Ok(interim) = kept.try_recv() {
        pass(interim, to);
    }
}

fn pass(interim: Box<Interim>, to: Option<&InterimSender>) {
    if let Some(to) = to {
        // Where nobody listens any more, the final response still matters.
        let _ = to.send(interim);
    }
}
