//! Doing a fill: ask the origin, let [`judge`](super::judge) say what its head means, put the bytes where
//! readers find them. It runs on the lead's core, but belongs to nobody: the lead may leave. It must not be
//! waited for anywhere else than through [`Fill`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use weir_policy::{Ask, CacheKey, Failure, RequestView, conditional};
use weir_store::{Generation, Writer};
use weir_upstream::{Blame, InterimSender, OriginBody, OriginError, OriginRequest, OriginResponse, Share};

use super::again::{Again, Rest, strong};
use super::cold::Cold;
use super::machine::{AHEAD_BYTES_MAX, Actions, End, Event, State, Storing};
use super::means::Means;
use super::settings::Settings;
use super::upstreams::Place;
use super::witness::Witness;
use super::{Concern, Fill, FillHead, NO_ANSWER, OriginFailure, Seat, SharedResponse, is_windowed};
use crate::watch;
use weir_clock as clock;

/// How long a transfer pauses where the volume alone can keep its body and is behind.
const VOLUME_PAUSE: Duration = Duration::from_millis(1);
/// How long an answer is awaited that nobody waits for any more: who reloads a page comes back to it.
const FORSAKEN_TIME_MAX: Duration = Duration::from_secs(2);
/// How long a fill waits for readers to free memory before it tries again.
const MEMORY_WAIT: Duration = Duration::from_millis(5);
/// How long it waits in all for one piece; then it is given up, and its readers go on by themselves where
/// they can.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(30);

/// What a fill has to know: its own request, whose fields are the first client's without what belongs
/// to that client alone.
pub struct Errand {
    /// What every fill of the core uses.
    pub means: Arc<Means>,
    /// What the route says of fills.
    pub settings: Arc<dyn Settings>,
    /// How the origin is asked.
    pub again: Arc<Again>,
    /// Scheme, authority, path and query of the key's request, and the client's fields, for the policy.
    pub scheme: &'static str,
    /// The host that was asked.
    pub host: Arc<str>,
    /// Path and query as the client sent them.
    pub path_and_query: String,
    /// The fields, as the origin sent them.
    pub client_headers: HeaderMap,
    /// Whose request it is.
    pub client: Witness,
    /// What the request selects of what is held, and revalidates.
    pub validating: Option<Arc<Generation>>,
    /// Whether the key is remembered when a response is not storable.
    pub shared: Sharing,
    /// The range that the origin is asked for, where not for the whole.
    pub cold: Option<Cold>,
    /// The seat of a fill that nobody waits for, for as long as it is stored.
    pub seat: KeptSeat,
    /// Its place among the fills at its upstream.
    pub _place: Place,
}

/// A seat at a fill that nobody waits for any more: who leaves one that is to go on puts the own one there.
pub type KeptSeat = Arc<Mutex<Option<Seat>>>;

/// Whether others may join the fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It is on the desk.
    Shared,
    /// It is one request's own.
    Alone,
}

impl Sharing {
    /// That of a request: what is not known to be public is its own.
    pub fn of(ask: &Ask) -> Sharing {
        match ask.is_authenticated() {
            true => Sharing::Alone,
            false => Sharing::Shared,
        }
    }

    /// Who asks for himself says nothing of the ranges of others, nor they of his: under which digest of the
    /// key it is remembered how they are fetched.
    pub fn digest_of_ranges(self, key: &CacheKey) -> u128 {
        match self {
            Sharing::Shared => key.digest,
            Sharing::Alone => !key.digest,
        }
    }
}

/// What the lead gets beside the fill itself.
pub enum Handed {
    /// The response, where it is not filled.
    Response(Box<OriginResponse>),
    /// A part that is kept by itself, as it came.
    Alone(Box<SharedResponse>),
    /// The origin's fields, where some of them are for the lead alone (`no-cache="set-cookie"`).
    Fields(HeaderMap),
}

/// The task's side of what the lead gets.
pub(super) type Give = oneshot::Sender<Handed>;

/// Starts a fill on this core; `interim` gets the origin's 1xx heads.
pub fn start(errand: Errand, fill: Arc<Fill>, interim: Option<InterimSender>) -> oneshot::Receiver<Handed> {
    let (give, handed) = oneshot::channel();
    tokio::spawn(Box::pin(run(errand, fill, interim, give)));
    handed
}

/// Starts a fill that nobody waits for; it keeps its own seat to the end. It asks for no client, so it
/// shows nobody's credentials.
pub fn start_in_background(mut errand: Errand, seat: Seat) {
    errand.client_headers.remove(AUTHORIZATION);
    errand.again = errand.again.in_nobodys_name();
    let (give, _) = oneshot::channel();
    let fill = seat.fill().clone();
    errand.seat = Arc::new(Mutex::new(Some(seat)));
    tokio::spawn(Box::pin(run(errand, fill, None, give)));
}

/// Starts a fill on this core whose response is there already.
pub fn start_with(
    errand: Errand,
    fill: Arc<Fill>,
    (generation, writer, length): (Arc<Generation>, Writer, Option<u64>),
    body: OriginBody,
) {
    tokio::spawn(Box::pin(async move {
        let closing = Closing::of(&errand, &fill);
        errand.means.counters().fill_begun();
        let whole = errand.fill(&fill, generation, writer, length, body).await;
        errand.count_end(whole);
        drop(closing);
    }));
}

/// Ends what the task leaves unfinished, by a panic or by the runtime going down: readers get an error.
struct Closing {
    means: Arc<Means>,
    fill: Arc<Fill>,
}

impl Closing {
    fn of(errand: &Errand, fill: &Arc<Fill>) -> Closing {
        Closing { means: errand.means.clone(), fill: fill.clone() }
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
            self.means.counters().panicked();
        }
        self.means.desk.done(&self.fill);
        self.fill.wake(self.means.core);
    }
}

async fn run(errand: Errand, fill: Arc<Fill>, interim: Option<InterimSender>, give: Give) {
    let closing = Closing::of(&errand, &fill);
    let counters = errand.means.counters();
    counters.fill_begun();
    counters.origin_asked();
    let requested = clock::now();
    let whole = match errand.ask(&fill, interim).await {
        Some(Ok(response)) => errand.head(&fill, requested, response, give).await,
        Some(Err(error)) => {
            errand.fail(&fill, &error);
            false
        }
        None => false,
    };
    errand.count_end(whole);
    drop(closing);
}

impl Errand {
    fn count_end(&self, whole: bool) {
        let counters = self.means.counters();
        match whole {
            true => counters.fill_ended(),
            false => counters.fill_failed(),
        }
    }

    /// Asks the origin. None where nobody waits for the answer any more: a fill that may not even be stored
    /// is not worth an origin's connection for as long as the origin likes.
    async fn ask(
        &self,
        fill: &Fill,
        interim: Option<InterimSender>,
    ) -> Option<Result<OriginResponse, OriginError>> {
        let mut answer = std::pin::pin!(self.again.upstream.send(self.request(), interim));
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return Some(answer),
                () = forsaken(&fill.transfer.turn) => drop(fill.apply(Event::Forsaken)),
            }
            if let State::Ended(_) = fill.machine().state() {
                let _ = fill.head.set(FillHead::Withdrawn);
                return None;
            }
        }
    }

    fn request(&self) -> OriginRequest {
        let mut headers = self.again.headers.clone();
        let head = self.validating.as_ref().map(|generation| generation.head());
        conditional(head.as_ref().map(|head| &head.stored), &mut headers);
        if let Some(cold) = self.cold {
            cold.ask(&mut headers);
        }
        // Where its client has its share by now, it waits: who joined leads anew after a while, for another
        // client.
        OriginRequest { share: Share::Bounded, ..self.again.request(headers) }
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
        fill.wake(self.means.core);
    }

    /// Moves the body into the generation; true when it arrived whole.
    pub(super) async fn fill(
        &self,
        fill: &Arc<Fill>,
        generation: Arc<Generation>,
        mut writer: Writer,
        length: Option<u64>,
        mut body: OriginBody,
    ) -> bool {
        let _ = fill.head.set(FillHead::New(generation.clone()));
        fill.apply(Event::Storable(length));
        fill.transfer.pace.head(clock::mono());
        fill.wake(self.means.core);
        let mut whole = length;
        // What broke off says nothing against what has come; what was not well-formed does.
        let mut is_sound = true;
        while let State::Filling { .. } = fill.machine().state() {
            if fill.is_to_stop(writer.position()) {
                fill.apply(Event::Stopped);
                break;
            }
            let is_ahead = self.is_ahead(fill, &mut writer);
            let piece = tokio::select! {
                biased;
                () = fill.transfer.turn.notified() => continue,
                piece = body.next(), if !is_ahead => piece,
            };
            match piece {
                Ok(Some(bytes)) => {
                    let count = bytes.len() as u64;
                    self.means.counters().origin_bytes(count);
                    self.push(fill, &generation, &mut writer, bytes).await;
                    fill.apply(Event::Bytes(count));
                    is_sound = fill.machine().state() != State::Ended(End::Failed);
                    fill.wake(self.means.core);
                }
                // A rest that says how long the whole is must reach there.
                Ok(None) if whole.is_some_and(|whole| whole != writer.position()) => {
                    is_sound = false;
                    fill.transfer.fail_with("rest-too-short");
                    fill.apply(Event::Failed);
                }
                Ok(None) => return self.whole(fill, writer),
                Err(error) => {
                    fill.transfer.fail_with(error.word());
                    self.means.counters().error(error.word());
                    is_sound = broke_off(&error);
                    match self.take_over(fill, &generation, writer.position(), &error).await {
                        Some(rest) if whole.is_none_or(|whole| whole == rest.length) => {
                            (body, whole) = (rest.body, Some(rest.length));
                        }
                        _ => drop(fill.apply(Event::Failed)),
                    }
                }
            }
        }
        self.close(fill, writer, is_sound)
    }

    /// What broke off is asked for from there on, at once and a bounded number of times. None where it is
    /// not, or not in the same version.
    async fn take_over(
        &self,
        fill: &Fill,
        generation: &Generation,
        start: u64,
        error: &OriginError,
    ) -> Option<Rest> {
        let is_known = strong(&generation.head().stored.headers).is_some();
        if !is_known || !broke_off(error) || !fill.apply(Event::BrokeOff).has(Actions::TAKE_OVER) {
            return None;
        }
        self.means.counters().origin_asked();
        let mut rest = std::pin::pin!(self.again.rest(generation, start));
        loop {
            tokio::select! {
                biased;
                () = fill.transfer.turn.notified() => {
                    if matches!(fill.machine().state(), State::Ended(_)) {
                        return None;
                    }
                }
                rest = &mut rest => return rest,
            }
        }
    }

    /// Publishes what has arrived whole; true if it is what was declared.
    fn whole(&self, fill: &Arc<Fill>, writer: Writer) -> bool {
        let generation = writer.generation().clone();
        let is_whole = fill.seal(writer);
        if is_whole {
            watch::tell_stored(self.means.events(), &generation);
        }
        self.means.desk.done(fill);
        fill.wake(self.means.core);
        is_whole
    }

    /// Ends the generation that has not arrived whole as the machine says: what nobody waited for or what
    /// broke off is published in part, if the rest of it can be told to be of the same version.
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
        self.means.desk.done(fill);
        fill.wake(self.means.core);
        whole
    }

    /// Whether a window is so far ahead of its foremost reader that the origin must wait.
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

    /// Gives bytes to the writer. While readers hold all memory it waits for them to move on, which is the
    /// back-pressure; a fill that ends meanwhile drops the rest.
    async fn push(&self, fill: &Fill, generation: &Generation, writer: &mut Writer, mut bytes: Bytes) {
        // Where memory is short what nobody has read yet must stay, unless it is read from the volume.
        let is_sunk = writer.is_writing_to_volume() && writer.window_bytes().is_some();
        writer.let_go(if is_sunk { u64::MAX } else { fill.transfer.front() });
        let longest = clock::mono() + MEMORY_WAIT_MAX;
        while let Err(full) = writer.push(bytes) {
            bytes = full.rest;
            if clock::mono() >= longest {
                fill.transfer.fail_with("memory");
                self.means.counters().error("memory");
                fill.apply(Event::Failed);
                return;
            }
            self.outgrown(fill, generation, writer);
            fill.wake(self.means.core);
            tokio::select! {
                () = fill.transfer.turn.notified() => {}
                () = tokio::time::sleep(MEMORY_WAIT) => {}
            }
            if matches!(fill.machine().state(), State::Ended(_)) {
                return;
            }
            self.is_ahead(fill, writer);
            writer.should_pause();
        }
        self.outgrown(fill, generation, writer);
        while writer.should_pause() && !matches!(fill.machine().state(), State::Ended(_)) {
            tokio::time::sleep(VOLUME_PAUSE).await;
        }
    }

    /// Tells the machine once that memory keeps only a window, and once that the volume keeps no more.
    fn outgrown(&self, fill: &Fill, generation: &Generation, writer: &Writer) {
        let State::Filling { storing, .. } = fill.machine().state() else { return };
        if !is_windowed(generation) || storing == Storing::Window {
            return;
        }
        if !writer.is_writing_to_volume() {
            fill.apply(Event::Outgrown);
            // Nobody reads what a background refresh keeps only a window of.
            drop(self.seat.lock().take());
        } else if storing == Storing::Whole {
            fill.apply(Event::Sunk);
        }
    }
}

/// Ready a while after the last who waited for a head has left.
///
/// # Cancel safety
/// Not safe: that the last has left is told once.
pub(super) async fn forsaken(turn: &Notify) {
    turn.notified().await;
    tokio::time::sleep(FORSAKEN_TIME_MAX).await;
}

/// Whether a body broke off that was well until then: what was not well-formed is not what it says it is, and
/// what this machine broke off would break again.
fn broke_off(error: &OriginError) -> bool {
    let is_malformed = matches!(error, OriginError::Malformed { .. } | OriginError::HeadTooLarge { .. });
    !is_malformed && error.blame() == Blame::Origin
}
