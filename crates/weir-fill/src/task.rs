//! The work of a fill: it asks the origin, lets [`judge`](super::judge) say what the head means, and writes
//! the bytes where readers find them. It runs on the lead's core and belongs to no request: the lead drives
//! it up to the head ([`Led`]) and may leave; then it is a task. It must not be awaited but through [`Fill`].

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use weir_observe::Purpose;
use weir_policy::{Ask, CacheKey, Failure, RequestView, conditional, is_conditional};
use weir_store::{Generation, Writer};
use weir_upstream::{
    Blame, ExchangeError, Hurry, InterimSender, OriginBody, OriginError, OriginRequest, OriginResponse, Share,
};

use super::cold::Cold;
use super::machine::{AHEAD_BYTES_MAX, Actions, End, Event, REST_BYTES_MAX, State, Storing};
use super::refetch::{Refetch, Remainder, skip, strong};
use super::resources::Resources;
use super::settings::Settings;
use super::transfer::NoMemory;
use super::turn::Turn;
use super::upstreams::FillPermit;
use super::witness::Witness;
use super::{Concern, Fill, FillHead, NO_ANSWER, OriginFailure, ReaderGuard, SharedResponse, is_windowed};
use crate::events;
use weir_clock as clock;

/// How long a request goes on after the last client that waited for its head has left: a page that is
/// reloaded comes back to it.
const IDLE_TIME_MAX: Duration = Duration::from_secs(2);
/// How long a fill waits for memory for one piece. Then it fails, and its readers go on by themselves where
/// they can.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(30);
/// What has arrived for one client, and waits for drives beyond its share of fills, is at most this part of
/// memory. A longer body counts as so much.
const ARRIVED_PART: u64 = 8;

/// A fill's request, and what the fill has to know beside it. Its fields are the first client's, without
/// those that concern that client alone.
pub struct FillRequest {
    /// What all fills of the core use.
    pub resources: Arc<Resources>,
    /// What the route says of fills.
    pub settings: Arc<dyn Settings>,
    /// How the origin is asked, and asked again.
    pub refetch: Arc<Refetch>,
    /// The scheme of the request that the key was made of.
    pub scheme: &'static str,
    /// The host that was asked for.
    pub host: Arc<str>,
    /// Path and query as the client sent them.
    pub path_and_query: String,
    /// The fields, as the origin sent them.
    pub client_headers: HeaderMap,
    /// Whose request it is.
    pub client: Witness,
    /// What the request selects of what is held, and revalidates.
    pub validating: Option<Arc<Generation>>,
    /// Whether others may join. Only then the key is remembered as not storable.
    pub shared: Sharing,
    /// The range that the origin is asked for, where it is not asked for the whole.
    pub cold: Option<Cold>,
    /// Whether a client waits for it when it begins.
    pub waiting: Waiting,
    /// Told when a client waits for what a warming has begun.
    pub hurry: Option<Arc<Hurry>>,
    /// Whether its client may have signed fields that it has otherwise: a refusal (401, 403) then says
    /// nothing of the client's own request.
    pub is_changed: bool,
    /// Keeps a detached fill alive.
    pub parked: ParkedGuard,
    /// Counts among the fills at its upstream.
    pub permit: Mutex<Option<FillPermit>>,
}

/// Keeps a detached fill alive: a reader that leaves a fill which must finish parks its reader guard here.
pub type ParkedGuard = Arc<Mutex<Option<ReaderGuard>>>;

/// Whether a client waits for a fill when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// A client.
    Client,
    /// Nobody: it runs in the background.
    Nobody,
    /// A warming, until a client joins.
    Warming,
}

/// Whether others may join the fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It is in flight.
    Shared,
    /// It is one request's own: its response is not known to be public.
    Unshared,
}

impl Sharing {
    /// That of a request's fill. An authenticated request shares none.
    pub fn of(ask: &Ask) -> Sharing {
        match ask.is_authenticated() {
            true => Sharing::Unshared,
            false => Sharing::Shared,
        }
    }

    /// The digest under which it is remembered how ranges of a key are fetched. What an unshared fill meets
    /// says nothing of the ranges of others, nor the other way round.
    pub fn digest_of_ranges(self, key: &CacheKey) -> u128 {
        match self {
            Sharing::Shared => key.digest,
            Sharing::Unshared => !key.digest,
        }
    }
}

/// What the lead alone gets of a response.
pub enum ForLead {
    /// The whole response, where it is not stored.
    Response(Box<OriginResponse>),
    /// A part that names no version, as it came.
    UnvalidatedPart(Box<SharedResponse>),
    /// The origin's fields, where some are for the lead alone (`no-cache="set-cookie"`).
    Fields(HeaderMap),
}

/// Where the task sends what the lead alone gets.
pub(super) type LeadSender = oneshot::Sender<ForLead>;

/// A fill whose lead drives it, while it waits for the head. What comes in one piece costs no task and no
/// switch to one. Let go or dropped before its end, it goes on as a task of its own.
pub struct Led {
    running: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// What the lead alone gets.
    pub for_lead: oneshot::Receiver<ForLead>,
}

impl Led {
    /// Waits until the fill has its head, and drives it until then. `core` is the caller's.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub async fn head(&mut self, fill: &Fill, core: usize) -> FillHead {
        if self.running.is_none() {
            return fill.wait_head(core).await;
        }
        poll_fn(|cx| {
            // One that panics is not polled again.
            if let Some(mut running) = self.running.take()
                && running.as_mut().poll(cx).is_pending()
            {
                self.running = Some(running);
            }
            fill.head().cloned().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// The fill goes on as a task: its lead does something else meanwhile, and others wait for it.
    fn let_go(&mut self) {
        // Where the runtime has ended, the fill ends with it.
        if let Some(running) = self.running.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(running);
        }
    }
}

impl Drop for Led {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Begins a fill on this core, which its lead drives. `interim` gets the origin's 1xx responses.
pub fn begin(request: Box<FillRequest>, fill: Arc<Fill>, interim: Option<InterimSender>) -> Led {
    request.refetch.expect(|| fill.asks());
    request.hurry.iter().for_each(|hurry| fill.gives_way(hurry.clone()));
    let (to_lead, for_lead) = oneshot::channel();
    Led { running: Some(Box::pin(run(request, fill, interim, to_lead))), for_lead }
}

/// Starts a fill that no client waits for: it parks its own reader guard. Its request carries no credentials,
/// and no cookies but those on which the stored response depends.
pub fn start_in_background(mut request: Box<FillRequest>, guard: ReaderGuard) {
    request.client_headers.remove(AUTHORIZATION);
    request.refetch = request.refetch.anonymous();
    if let Some(held) = request.validating.clone() {
        let refetch = request.refetch.without_cookies(&held, &*request.settings);
        match refetch.headers.get(COOKIE) {
            Some(of_key) => drop(request.client_headers.insert(COOKIE, of_key.clone())),
            None => drop(request.client_headers.remove(COOKIE)),
        }
        request.refetch = refetch;
    }
    let (to_lead, _) = oneshot::channel();
    let fill = guard.fill().clone();
    request.refetch.expect(|| fill.asks());
    request.waiting = Waiting::Nobody;
    request.parked = Arc::new(Mutex::new(Some(guard)));
    tokio::spawn(Box::pin(run(request, fill, None, to_lead)));
}

/// Starts a fill on this core with a response that has come already.
pub fn start_with(request: Box<FillRequest>, fill: Arc<Fill>, writer: Writer, body: OriginBody) {
    tokio::spawn(Box::pin(async move {
        let closing = Closing::of(&request, &fill);
        request.resources.counters().fill_begun();
        let whole = request.fill(&fill, writer, body).await;
        request.count_end(whole);
        drop(closing);
    }));
}

/// Ends a fill whose task ends early, by a panic or because the runtime stops: its readers get an error.
struct Closing {
    resources: Arc<Resources>,
    fill: Arc<Fill>,
}

impl Closing {
    fn of(request: &FillRequest, fill: &Arc<Fill>) -> Closing {
        Closing { resources: request.resources.clone(), fill: fill.clone() }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if !matches!(self.fill.machine().state(), State::Ended(_)) {
            let failure = OriginFailure {
                status: StatusCode::BAD_GATEWAY,
                proxy_status: "proxy_internal_error",
                word: "fill-aborted",
                text: NO_ANSWER,
                origin: None,
                retry_after: None,
                concern: Concern::Lead,
                kind: Failure::Unusable,
            };
            let _ = self.fill.head.set(FillHead::Failed(failure));
            self.fill.apply(Event::Failed);
        }
        if std::thread::panicking() {
            self.resources.counters().panicked();
        }
        self.resources.inflight.done(&self.fill);
        self.fill.wake(self.resources.core);
        self.fill.end_asks();
    }
}

/// Each request that is not answered from the cache makes this future, and copies it into its place. So what
/// few of them need is in memory of its own.
async fn run(
    request: Box<FillRequest>,
    fill: Arc<Fill>,
    interim: Option<InterimSender>,
    to_lead: LeadSender,
) {
    let closing = Closing::of(&request, &fill);
    let counters = request.resources.counters();
    counters.fill_begun();
    counters.origin_asked();
    let requested = clock::now();
    let whole = match request.ask(&fill, interim).await {
        Some(Ok(response)) => request.head(&fill, requested, response, to_lead).await,
        Some(Err(error)) => {
            request.fail(&fill, &error);
            false
        }
        None => false,
    };
    request.count_end(whole);
    drop(closing);
}

impl FillRequest {
    fn count_end(&self, whole: bool) {
        let counters = self.resources.counters();
        match whole {
            true => counters.fill_ended(),
            false => counters.fill_failed(),
        }
    }

    /// Asks the origin. None where no client has waited for the head for a while: without a head it is not
    /// known whether the fill is worth a connection.
    async fn ask(
        &self,
        fill: &Fill,
        interim: Option<InterimSender>,
    ) -> Option<Result<Box<OriginResponse>, OriginError>> {
        let request = self.refetch.noted(self.origin_request(), self.purpose(), || fill.asks());
        let mut answer = std::pin::pin!(self.refetch.upstream.send(request, interim));
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return Some(answer),
                () = idle_timeout(&fill.transfer.turn) => drop(fill.apply(Event::IdleTimeout)),
            }
            if let State::Ended(_) = fill.machine().state() {
                let _ = fill.head.set(FillHead::Withdrawn);
                return None;
            }
        }
    }

    /// What the request is for, as its log says it.
    fn purpose(&self) -> Purpose {
        match (self.waiting, &self.validating, self.cold) {
            (Waiting::Nobody, ..) => Purpose::Background,
            (Waiting::Warming, ..) => Purpose::Warm,
            (Waiting::Client, Some(_), _) => Purpose::Revalidation,
            (Waiting::Client, None, Some(_)) => Purpose::Range,
            (Waiting::Client, None, None) => Purpose::Fill,
        }
    }

    fn origin_request(&self) -> OriginRequest {
        let mut headers = self.refetch.headers.clone();
        if self.validating.is_some() || is_conditional(&headers) {
            let head = self.validating.as_ref().map(|generation| generation.head());
            conditional(head.as_ref().map(|head| &head.stored), Arc::make_mut(&mut headers));
        }
        if let Some(cold) = self.cold {
            cold.ask(Arc::make_mut(&mut headers));
        }
        // Where its client has its share of the connections it waits. After a while a request that joined
        // leads another fill, for another client.
        let share = if self.hurry.is_some() { Share::Spare } else { Share::Bounded };
        OriginRequest { share, hurry: self.hurry.clone(), ..self.refetch.request(headers) }
    }

    /// The request as the policy sees it.
    pub(super) fn view(&self) -> RequestView<'_> {
        RequestView {
            method: &Method::GET,
            scheme: self.scheme,
            host: &self.host,
            path_and_query: &self.path_and_query,
            headers: &self.client_headers,
            has_body: false,
            is_trusted: false,
        }
    }

    /// Sets the head and ends a fill that brings no body.
    pub(super) fn end(&self, fill: &Fill, head: FillHead, event: Event) {
        let _ = fill.head.set(head);
        fill.apply(event);
        fill.wake(self.resources.core);
    }

    /// Writes the body into the generation. True when it arrived whole.
    pub(super) async fn fill(&self, fill: &Arc<Fill>, mut writer: Writer, mut body: OriginBody) -> bool {
        let generation = writer.generation().clone();
        self.has_begun(fill, &mut writer);
        // As it was declared.
        let mut whole = generation.length();
        // How much of what comes is held already. Nothing is skipped twice: it may always break off there.
        let (mut skip_bytes, mut skipped_to) = (0, 0);
        let mut turn = Turn::default();
        // What has come is kept after a body broke off, but not after one that was malformed.
        let mut is_sound = true;
        while let State::Filling { .. } = fill.machine().state() {
            if fill.is_to_stop(writer.position()) {
                fill.apply(Event::Stopped);
                break;
            }
            let is_ahead = self.is_ahead(fill, &mut writer);
            if !is_ahead && skip_bytes == 0 {
                body.place(writer.to_block_end(), || writer.room());
            }
            let piece = tokio::select! {
                biased;
                () = fill.transfer.turn.notified() => continue,
                piece = body.next(), if !is_ahead => piece,
            };
            match piece {
                Ok(Some(mut bytes)) => {
                    let received = bytes.len();
                    self.resources.counters().origin_bytes(received as u64);
                    skip(&mut bytes, &mut skip_bytes);
                    let reached = writer.position() + bytes.len() as u64;
                    if whole == Some(reached) {
                        self.has_arrived(reached);
                    }
                    self.push(fill, &mut writer, bytes).await;
                    turn.received(received).await;
                    is_sound = fill.machine().state() != State::Ended(End::Failed);
                }
                // A response has what was skipped, and the length of the whole where it declares that.
                Ok(None) if skip_bytes > 0 || whole.is_some_and(|whole| whole != writer.position()) => {
                    is_sound = false;
                    fill.transfer.fail_with("rest-too-short");
                    fill.apply(Event::Failed);
                }
                Ok(None) => {
                    self.has_arrived(writer.position());
                    writer.end_here();
                    fill.transfer.settle(&mut writer).await;
                    return self.whole(fill, writer);
                }
                Err(error) => {
                    fill.transfer.fail_with(error.word());
                    self.resources.counters().error(error.word());
                    is_sound = broke_off(&error);
                    let rest = self.take_over(fill, &generation, writer.position(), &error);
                    match Box::pin(rest).await {
                        Some(rest)
                            if (rest.skip_bytes == 0 || rest.skip_bytes > skipped_to)
                                && (whole.is_none() || whole == rest.length) =>
                        {
                            (skip_bytes, skipped_to) = (rest.skip_bytes, rest.skip_bytes);
                            (body, whole) = (rest.body, rest.length);
                        }
                        _ => drop(fill.apply(Event::Failed)),
                    }
                }
            }
        }
        self.close(fill, writer, is_sound)
    }

    /// Tells those that wait for the head.
    fn has_begun(&self, fill: &Fill, writer: &mut Writer) {
        if !can_be_shared(writer) {
            fill.keep_for_lead();
        }
        let _ = fill.head.set(FillHead::New(writer.generation().clone()));
        fill.apply(Event::Storable(writer.generation().length()));
        fill.transfer.speed.head(clock::mono());
        fill.wake(self.resources.core);
    }

    /// The origin is done with it: others may be filled while a drive has yet to take it.
    fn has_arrived(&self, bytes: u64) {
        let most = self.resources.store.limit_bytes() / ARRIVED_PART;
        self.permit.lock().iter_mut().for_each(|permit| permit.arrive(bytes, most));
    }

    /// Asks for the rest of a body that broke off, at once and a bounded number of times. None where it may
    /// not be asked for, or does not come in the same version.
    async fn take_over(
        &self,
        fill: &Fill,
        generation: &Generation,
        start: u64,
        error: &OriginError,
    ) -> Option<Remainder> {
        let is_known = strong(&generation.head().stored.headers).is_some();
        if !is_known || !broke_off(error) || !fill.apply(Event::BrokeOff).has(Actions::TAKE_OVER) {
            return None;
        }
        self.resources.counters().origin_asked();
        fill.transfer.end_asks(Some(generation));
        let mut rest = std::pin::pin!(self.refetch.rest(generation, start, || fill.asks()));
        loop {
            tokio::select! {
                biased;
                () = fill.transfer.turn.notified() => {
                    if matches!(fill.machine().state(), State::Ended(_)) {
                        return None;
                    }
                }
                rest = &mut rest => {
                    // Where nobody reads it, it skips no more than it would go on for.
                    let is_read = fill.transfer.readers() > 0;
                    return rest.filter(|rest| is_read || rest.skip_bytes <= REST_BYTES_MAX);
                }
            }
        }
    }

    /// Publishes a body that has ended cleanly. True if it has the declared length.
    fn whole(&self, fill: &Arc<Fill>, writer: Writer) -> bool {
        let generation = writer.generation().clone();
        let is_whole = fill.seal(writer);
        if is_whole {
            events::report_stored(self.resources.events(), &generation);
        }
        self.resources.inflight.done(fill);
        fill.wake(self.resources.core);
        is_whole
    }

    /// Ends a generation that has not arrived whole. What was deserted or broke off is published as a part,
    /// if it can be told whether the rest is of the same version.
    fn close(&self, fill: &Arc<Fill>, writer: Writer, is_sound: bool) -> bool {
        let generation = writer.generation().clone();
        let is_kept = || {
            is_sound
                && writer.position() > 0
                && generation.length().is_some()
                && strong(&generation.head().stored.headers).is_some()
        };
        let whole = match fill.machine().state() {
            State::Ended(End::Stopped) => {
                writer.rest();
                true
            }
            State::Ended(End::Deserted | End::Failed) if is_kept() => {
                writer.rest();
                false
            }
            _ => {
                writer.abandon();
                false
            }
        };
        self.resources.inflight.done(fill);
        fill.wake(self.resources.core);
        whole
    }

    /// Whether a windowed fill is so far ahead of its foremost reader that the origin must wait.
    fn is_ahead(&self, fill: &Fill, writer: &mut Writer) -> bool {
        let Some(window_bytes) = writer.window_bytes() else { return false };
        if writer.is_writing_to_volume() {
            return false;
        }
        let front = fill.transfer.front();
        writer.let_go(front);
        fill.apply(Event::Advanced(front));
        fill.machine().must_wait(AHEAD_BYTES_MAX.min(window_bytes / 2))
    }

    /// Gives bytes to the writer. A fill that ends meanwhile drops the rest.
    async fn push(&self, fill: &Fill, writer: &mut Writer, bytes: Bytes) {
        let pushed = |writer: &Writer| self.outgrown(fill, writer);
        let core = self.resources.core;
        let result = fill.transfer.push(core, writer, bytes, MEMORY_WAIT_MAX, pushed).await;
        if let Err(NoMemory) = result {
            fill.transfer.fail_with("memory");
            self.resources.counters().error("memory");
            fill.apply(Event::Failed);
        }
    }

    /// Tells the machine once that memory keeps only a window, and once that the volume does not keep it
    /// either.
    fn outgrown(&self, fill: &Fill, writer: &Writer) {
        let State::Filling { storing, .. } = fill.machine().state() else { return };
        if !is_windowed(writer.generation()) || storing == Storing::Window {
            return;
        }
        if !writer.is_writing_to_volume() {
            fill.apply(Event::Outgrown);
            // Nobody would read the window of a background fill.
            drop(self.parked.lock().take());
        } else if storing == Storing::Whole {
            fill.apply(Event::OnDiskOnly);
        }
    }
}

/// Whether a body may have several readers. The foremost sets the pace, so that no slow one delays it.
/// Another goes on from memory, from the volume, or by its own range.
fn can_be_shared(writer: &mut Writer) -> bool {
    let is_named = strong(&writer.generation().head().stored.headers).is_some();
    match writer.generation().length() {
        _ if is_named || writer.is_writing_to_volume() => true,
        Some(_) => writer.reserve_all(),
        None => !writer.is_memory_scarce(),
    }
}

/// Ready a while after the last reader that waited for a head has left.
///
/// # Cancel safety
/// Not safe: it is told only once that the last reader has left.
pub(super) async fn idle_timeout(turn: &Notify) {
    turn.notified().await;
    tokio::time::sleep(IDLE_TIME_MAX).await;
}

/// Whether the origin cut a body that was valid so far. Malformed bodies and failures on our side are not
/// retried.
fn broke_off(error: &OriginError) -> bool {
    use ExchangeError::{HeadTooLarge, Malformed};
    let is_malformed = matches!(error, OriginError::Exchange(Malformed { .. } | HeadTooLarge { .. }));
    !is_malformed && error.blame() == Blame::Origin
}
