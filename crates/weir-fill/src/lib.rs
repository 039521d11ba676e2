//! Fills: one origin transfer into one generation, however many clients read it. [`transfer`] is what fills
//! and transfers of gaps share, [`machine`] says what happens, [`task`] does it, `judge` reads heads,
//! [`inflight`] knows which fills run, [`upstreams`] which upstreams are down, [`witness`] whose failures
//! count, [`asks`] what the log of requests to origins says, [`reader`] reads what arrives and what is held,
//! [`waiters`] wakes the readers. It must not decide what may be stored: that is the policy's.

#![forbid(unsafe_code)]

pub mod asks;
pub mod cold;
pub mod complete;
pub mod events;
pub mod gap;
pub mod inflight;
pub mod judge;
pub mod machine;
pub mod reader;
pub mod recent;
pub mod refetch;
pub mod resources;
mod room;
mod same;
pub mod settings;
pub mod speed;
pub mod tally;
pub mod task;
pub mod tenure;
pub mod transfer;
mod tries;
mod turn;
pub mod upstreams;
mod url_fetches;
pub mod waiters;
pub mod witness;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use weir_policy::{CacheKey, Failure, Interval, NotStored, Variant};
use weir_store::{Generation, Lag, Retirement, Stamp, Writer};
use weir_upstream::{ExchangeError, Hurry, OriginError, OriginResponse};

use self::asks::Asks;
use self::machine::{Actions, Event, Machine, State};
use self::transfer::Transfer;
use self::url_fetches::UrlFetch;
use self::waiters::Bells;
use self::witness::Witness;

/// Requests that joined a fill wait so long for its head. Then one of them leads another fill.
pub const HEAD_WAIT_MAX: Duration = Duration::from_secs(5);

/// Which of the waiting requests a failure concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// All: any other request would have met it, too.
    All,
    /// The lead alone, whose request may have caused it. The others ask again; one of them leads.
    Lead,
}

/// The sentence for the client where nothing more is known.
pub const NO_ANSWER: &str = "the origin gave no usable answer";

/// Why there is no response from the origin.
#[derive(Clone, Debug)]
pub struct OriginFailure {
    /// 502, 503 or 504; any other one where a script or a distributor denies the request.
    pub status: StatusCode,
    /// The `Proxy-Status` error token of RFC 9209 §2.3.
    pub proxy_status: &'static str,
    /// The word for the log.
    pub word: &'static str,
    /// The sentence for the client.
    pub text: &'static str,
    /// The origin that was asked, if one was.
    pub origin: Option<Arc<str>>,
    /// When to try again, for a 503.
    pub retry_after: Option<Duration>,
    /// Whom it concerns.
    pub concern: Concern,
    /// How it counts where something stale is held: [`Failure::NoAnswer`] or [`Failure::Unusable`].
    pub kind: Failure,
}

impl OriginFailure {
    /// What an upstream's error means to the waiting requests.
    pub fn of(error: &OriginError) -> OriginFailure {
        let (retry_after, text) = match error {
            OriginError::Exchange(ExchangeError::Busy { bound, retry_after }) => {
                (Some(*retry_after), bound.text())
            }
            OriginError::Denied(denial) => {
                (denial.retry_after_s.map(|s| Duration::from_secs(s.into())), "this request is denied")
            }
            _ if error.status() == StatusCode::GATEWAY_TIMEOUT => (None, "the origin did not answer in time"),
            _ => (None, NO_ANSWER),
        };
        OriginFailure {
            status: error.status(),
            proxy_status: error.proxy_status(),
            word: error.word(),
            text,
            origin: None,
            retry_after,
            concern: if error.is_before_request() { Concern::All } else { Concern::Lead },
            kind: if error.is_no_answer() { Failure::NoAnswer } else { Failure::Unusable },
        }
    }
}

/// A short error response that goes to all requests waiting by then. It is never stored.
#[derive(Clone, Debug)]
pub struct SharedResponse {
    /// The status.
    pub status: StatusCode,
    /// The fields, as the origin sent them.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// Why it is not stored.
    pub reason: NotStored,
    /// The origin that answered.
    pub origin: Arc<str>,
    /// Which of the waiting requests it may go to.
    pub variant: Variant,
    /// Whom it concerns.
    pub concern: Concern,
}

/// What the origin's head made of a fill.
#[derive(Clone)]
pub enum FillHead {
    /// A new generation whose body is arriving.
    New(Arc<Generation>),
    /// A new generation of which a part is arriving. Whatever else is wanted of it is a gap like any other.
    Part(Arc<Generation>),
    /// The stored generation is still good: 304.
    Unchanged(Arc<Generation>),
    /// Not to be stored; the lead has the response's stream.
    Declined(NotStored, StatusCode),
    /// Given up before it was begun: plan again.
    Withdrawn,
    /// A short server error, for the requests waiting by then.
    Shared(Arc<SharedResponse>),
    /// No response.
    Failed(OriginFailure),
}

/// One running origin transfer.
pub struct Fill {
    key: CacheKey,
    /// The ledger's number when the fill was planned. The origin is asked after that.
    stamp: Stamp,
    /// Tells unsafe requests that its URL is being fetched, until the response is held or known not to be
    /// stored.
    url_fetch: Mutex<Option<UrlFetch>>,
    /// When it was planned.
    begun: Instant,
    /// The client whose request it is.
    client: Witness,
    head: OnceLock<FillHead>,
    /// Whether the origin's response came out of another cache.
    had_age: AtomicBool,
    /// The origin's name, once known.
    origin: OnceLock<Arc<str>>,
    /// How it answered.
    answered: OnceLock<OriginAnswer>,
    /// The memory that its readers hold of a body that is whole; counted while they read.
    lag: OnceLock<Lag>,
    /// Its body is read by its lead alone.
    is_for_lead: AtomicBool,
    /// Told when a client joins a fill that none waited for.
    hurry: OnceLock<Arc<Hurry>>,
    /// Stops before its end where another transfer loads the rest.
    transfer: Transfer,
}

/// How an origin answered.
#[derive(Clone, Copy, Debug)]
pub struct OriginAnswer {
    /// The status.
    pub status: StatusCode,
    /// Waiting for a connection and making one; zero when one was idle.
    pub connect: Duration,
    /// From the request's first byte sent to the end of the response head.
    pub first_byte: Duration,
}

impl OriginAnswer {
    /// How this response came.
    pub fn of(response: &OriginResponse) -> OriginAnswer {
        let times = response.times;
        OriginAnswer { status: response.status, connect: times.connect, first_byte: times.first_byte }
    }
}

impl Fill {
    /// A fill that is about to ask its origin.
    pub fn new(
        key: CacheKey,
        url_fetch: UrlFetch,
        bells: Arc<Bells>,
        (client, begun): (Witness, Instant),
    ) -> Arc<Fill> {
        Arc::new(Fill {
            key,
            stamp: url_fetch.stamp(),
            url_fetch: Mutex::new(Some(url_fetch)),
            begun,
            client,
            head: OnceLock::new(),
            had_age: AtomicBool::new(false),
            origin: OnceLock::new(),
            answered: OnceLock::new(),
            lag: OnceLock::new(),
            is_for_lead: AtomicBool::new(false),
            hurry: OnceLock::new(),
            transfer: Transfer::new(Machine::new(), Interval::new(0, u64::MAX), bells, begun),
        })
    }

    /// Whether it reaches an offset about as soon as a new request would.
    pub fn comes_soon(&self, offset: u64, now: Instant) -> bool {
        match (self.machine().state(), self.head()) {
            (State::Filling { .. }, Some(FillHead::New(generation))) => {
                self.is_to_come(offset) && self.transfer.comes_soon(generation, offset, now)
            }
            _ => true,
        }
    }

    /// Whether it has reached an offset, or will.
    pub fn is_to_come(&self, offset: u64) -> bool {
        offset < self.transfer.end()
    }

    /// Another transfer loads what comes from `offset` on: this one stops there. Only for a generation with a
    /// strong validator and a known length, so that its readers can go on elsewhere.
    pub fn stop_at(&self, offset: u64) {
        self.transfer.stop_at(offset);
    }

    /// Whether it stops at `position`.
    pub fn is_to_stop(&self, position: u64) -> bool {
        position >= self.transfer.end()
    }

    /// The key it fills.
    pub fn key(&self) -> &CacheKey {
        &self.key
    }

    /// The ledger's number when the fill was planned.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// When it was planned, which is just before the origin is asked.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// The client whose request it is.
    pub fn client(&self) -> Witness {
        self.client
    }

    /// Its response is held by now, or will not be.
    fn end_url_fetch(&self) {
        drop(self.url_fetch.lock().take());
    }

    /// Until when requests that join it wait for its head.
    pub fn late_at(&self) -> Instant {
        self.begun + HEAD_WAIT_MAX
    }

    /// Whether its head is late: nobody joins it any more, until the head comes.
    pub fn is_late(&self, now: Instant) -> bool {
        self.head.get().is_none() && now >= self.late_at()
    }

    /// How the origin answered, once it has.
    pub fn answered(&self) -> Option<OriginAnswer> {
        self.answered.get().copied()
    }

    /// Whether the origin's response came out of another cache (RFC 9111 §5.1).
    pub fn had_age(&self) -> bool {
        self.had_age.load(Ordering::Relaxed)
    }

    /// A reader has reached `offset`, or waits for it. Only a windowed fill is told.
    pub fn advance(&self, offset: u64, generation: &Generation) {
        if self.transfer.advance(offset) && is_windowed(generation) {
            self.transfer.turn.notify_one();
        }
    }

    /// The head, if it has come.
    pub fn head(&self) -> Option<&FillHead> {
        self.head.get()
    }

    /// The origin asked, once known.
    pub fn origin(&self) -> Option<&Arc<str>> {
        self.origin.get()
    }

    /// Its requests to origins, for their log.
    pub fn asks(&self) -> Arc<Asks> {
        self.transfer.asks()
    }

    /// It goes on with a request that was sent before it began.
    pub fn adopt(&self, asks: Option<Arc<Asks>>) {
        self.transfer.adopt(asks);
    }

    /// Its task has ended: what its requests became is known.
    fn end_asks(&self) {
        match self.head() {
            // The transfer of a gap goes on with them.
            Some(FillHead::Part(_)) => {}
            Some(FillHead::New(generation) | FillHead::Unchanged(generation)) => {
                self.transfer.end_asks(Some(generation));
            }
            _ => self.transfer.end_asks(None),
        }
    }

    /// Why the body broke off, for the log.
    pub fn failure_word(&self) -> &'static str {
        self.transfer.failure_word()
    }

    /// The machine as it is now.
    pub fn machine(&self) -> Machine {
        self.transfer.machine()
    }

    /// No client waits for it until one joins.
    pub fn gives_way(&self, hurry: Arc<Hurry>) {
        let _ = self.hurry.set(hurry);
    }

    /// Whether others than its lead may read its body. They may not where one that falls behind could not go
    /// on: nobody keeps the bytes, and their version has no name.
    pub fn is_shared(&self) -> bool {
        !self.is_for_lead.load(Ordering::Acquire)
    }

    /// Its lead alone reads its body. Called before its head is there.
    pub(crate) fn keep_for_lead(&self) {
        self.is_for_lead.store(true, Ordering::Release);
    }

    /// A client waits for it.
    pub(crate) fn hurry(&self) {
        if let Some(hurry) = self.hurry.get() {
            hurry.tell();
        }
    }

    /// Joins as a reader, until the guard is dropped. None where the fill has ended without being whole.
    pub fn join(self: &Arc<Self>, core: usize) -> Option<ReaderGuard> {
        self.transfer.join().then(|| ReaderGuard { fill: self.clone(), core })
    }

    /// Waits for the head.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost.
    pub async fn wait_head(&self, core: usize) -> FillHead {
        self.transfer.until(core, || self.head.get().cloned()).await
    }

    /// Waits until `ready` yields. It is asked again whenever the fill moves on.
    pub async fn wait<T>(&self, core: usize, ready: impl FnMut() -> Option<T>) -> T {
        self.transfer.until(core, ready).await
    }

    /// Applies an event, as [`Transfer::apply`].
    pub fn apply(&self, event: Event) -> Actions {
        self.transfer.apply(event)
    }

    /// The body has ended cleanly. The generation is sealed before the readers are told, so that a reader on
    /// another core that sees the end finds all bytes before it. False where fewer or more bytes came than
    /// were declared.
    pub fn seal(&self, writer: Writer) -> bool {
        let lag = writer.lag(self.transfer.front()).filter(|_| self.machine().readers() > 0);
        let is_whole = writer.seal().is_ok();
        if let Some(lag) = lag.filter(|_| is_whole) {
            let _ = self.lag.set(lag);
        }
        self.apply(if is_whole { Event::Finished } else { Event::Failed });
        is_whole
    }

    /// Wakes the readers of all cores.
    pub fn wake(&self, core: usize) {
        self.transfer.wake(core);
    }
}

/// Whether memory keeps only the newest bytes of a generation.
pub fn is_windowed(generation: &Generation) -> bool {
    generation.retirement() == Some(Retirement::Outgrown)
}

/// Counts as a reader of a fill until it is dropped.
pub struct ReaderGuard {
    fill: Arc<Fill>,
    core: usize,
}

impl ReaderGuard {
    /// The fill.
    pub fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// The core its reader runs on.
    pub fn core(&self) -> usize {
        self.core
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        self.fill.apply(Event::Left);
    }
}

#[cfg(test)]
mod tests;
