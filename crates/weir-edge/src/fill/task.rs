//! Doing a fill: ask the origin, let the policy judge the head, put the bytes where readers find them.
//! It runs on the lead's core, but belongs to nobody: the lead may leave. It must not be waited for
//! anywhere else than through [`Fill`].

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{AGE, CONTENT_LENGTH};
use http::{HeaderMap, Method, StatusCode};
use tokio::sync::oneshot;
use weir_policy::{BodyEnd, NotStored, Now, RequestView, conditional, is_selected_by, storable};
use weir_store::{Generation, Stamp, Writer};
use weir_upstream::{InterimSender, OriginBody, OriginError, OriginRequest, OriginResponse};
use weir_wire::Framing;

use super::machine::{Actions, Event, State, Storing};
use super::tail::Again;
use super::{Fill, FillHead, OriginFailure, Seat, SharedResponse, is_windowed};
use crate::clock;
use crate::observe::Observer;
use crate::plan::Route;
use crate::plane::Plane;

/// Error responses up to this size are shared with those already waiting.
const SHARED_BYTES_MAX: u64 = 64 << 10;
/// How long a fill waits for readers to free memory before it tries again.
const MEMORY_WAIT: Duration = Duration::from_millis(5);

/// What a fill has to know: its own request, whose fields are the first client's without what belongs
/// to that client alone.
pub(crate) struct Errand {
    pub(crate) plane: Arc<Plane>,
    pub(crate) observer: Observer,
    pub(crate) core: usize,
    pub(crate) route: Arc<Route>,
    pub(crate) again: Again,
    /// Scheme, authority, path and query of the key's request, and the client's fields, for the policy.
    pub(crate) scheme: &'static str,
    pub(crate) host: Arc<str>,
    pub(crate) path_and_query: String,
    pub(crate) client_headers: HeaderMap,
    /// Stored generations that the request revalidates.
    pub(crate) validating: Vec<Arc<Generation>>,
    /// Whether the key is remembered when a response is not storable.
    pub(crate) shared: Sharing,
}

/// Whether others may join the fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// It is on the desk.
    Shared,
    /// It is one request's own.
    Alone,
}

/// What the lead gets beside the fill itself.
pub(crate) enum Handed {
    /// The response, where it is not filled.
    Response(Box<OriginResponse>),
    /// The origin's fields, where some of them are for the lead alone (`no-cache="set-cookie"`).
    Fields(HeaderMap),
}

type Give = oneshot::Sender<Handed>;

/// Starts a fill on this core; `interim` gets the origin's 1xx heads.
pub(crate) fn start(
    errand: Errand,
    fill: Arc<Fill>,
    interim: Option<InterimSender>,
) -> oneshot::Receiver<Handed> {
    let (give, handed) = oneshot::channel();
    tokio::spawn(run(errand, fill, interim, give, None));
    handed
}

/// Starts a fill that nobody waits for; it keeps its own seat to the end.
pub(crate) fn start_in_background(errand: Errand, seat: Seat) {
    let (give, _) = oneshot::channel();
    tokio::spawn(run(errand, seat.fill().clone(), None, give, Some(seat)));
}

/// Ends what the task leaves unfinished, by a panic or by the runtime going down: readers get an error.
struct Closing {
    plane: Arc<Plane>,
    observer: Observer,
    core: usize,
    fill: Arc<Fill>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        if !matches!(self.fill.machine().state(), State::Ended(_)) {
            let failure = OriginFailure {
                status: StatusCode::BAD_GATEWAY,
                proxy_status: "proxy_internal_error",
                word: "fill-aborted",
                origin: None,
                retry_after: None,
            };
            let _ = self.fill.head.set(FillHead::Failed(failure));
            self.fill.apply(Event::Failed);
        }
        if std::thread::panicking() {
            self.observer.counters().panicked();
        }
        self.plane.desk.done(&self.fill);
        self.fill.wake(self.core);
    }
}

async fn run(
    errand: Errand,
    fill: Arc<Fill>,
    interim: Option<InterimSender>,
    give: Give,
    seat: Option<Seat>,
) {
    let closing = Closing {
        plane: errand.plane.clone(),
        observer: errand.observer.clone(),
        core: errand.core,
        fill: fill.clone(),
    };
    let _seat = seat;
    errand.observer.counters().fill_begun();
    let stamp = errand.plane.store.ledger().current();
    let requested = clock::now();
    errand.observer.counters().origin_asked();
    let answer = errand.again.upstream.send(errand.request(), interim).await;
    let received = clock::now();
    let whole = match answer {
        Ok(response) => errand.head(&fill, stamp, requested, received, response, give).await,
        Err(error) => {
            errand.fail(&fill, received, &error);
            false
        }
    };
    match whole {
        true => errand.observer.counters().fill_ended(),
        false => errand.observer.counters().fill_failed(),
    }
    drop(closing);
}

impl Errand {
    fn request(&self) -> OriginRequest {
        let mut headers = self.again.headers.clone();
        let heads: Vec<_> = self.validating.iter().map(|generation| generation.head()).collect();
        let stored: Vec<_> = heads.iter().map(|head| &head.stored).collect();
        conditional(&stored, &mut headers);
        OriginRequest::new(Method::GET, self.again.target.clone(), headers)
    }

    fn view(&self) -> RequestView<'_> {
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

    fn fail(&self, fill: &Fill, now: Now, error: &OriginError) {
        let failure = OriginFailure::of(error);
        self.observer.counters().error(failure.word);
        if failure.status != StatusCode::SERVICE_UNAVAILABLE {
            self.plane.desk.memory.fail(fill.key().digest, now.mono, failure.clone());
        }
        self.end(fill, FillHead::Failed(failure), Event::Failed);
    }

    fn end(&self, fill: &Fill, head: FillHead, event: Event) {
        let _ = fill.head.set(head);
        fill.apply(event);
        fill.wake(self.core);
    }

    /// Judges the head and does what it asks for; true when the fill ended as it should.
    async fn head(
        &self,
        fill: &Arc<Fill>,
        stamp: Stamp,
        requested: Now,
        received: Now,
        response: OriginResponse,
        give: Give,
    ) -> bool {
        let _ = fill.origin.set(response.origin.name().into());
        for _ in 0..response.times.retries {
            self.observer.counters().retried();
        }
        if response.status == StatusCode::NOT_MODIFIED {
            return self.unchanged(fill, stamp, (requested, received), response, give).await;
        }
        let end = match response.framing {
            Framing::Close => BodyEnd::Close,
            _ => BodyEnd::Framed,
        };
        let rules = &self.route.rules;
        let judged =
            storable(&self.view(), response.status, &response.headers, end, requested, received, rules);
        let too_large =
            matches!(response.framing, Framing::Length(length) if length > self.plane.object_bytes_max);
        match judged {
            Ok(_) if too_large => self.decline(fill, NotStored::TooLarge, response, give),
            Ok(storable) => {
                let length = match response.framing {
                    Framing::Length(length) => Some(length),
                    Framing::None => Some(0),
                    Framing::Chunked | Framing::Close => None,
                };
                match self.plane.store.begin(storable, fill.key().clone(), stamp, length) {
                    Ok((generation, writer)) => {
                        self.plane.desk.memory.accept(fill.key().digest);
                        if let Some(fields) = for_lead(&response.headers, &generation.head().stored.headers) {
                            let _ = give.send(Handed::Fields(fields));
                        }
                        self.fill(fill, generation, writer, length, response.body).await
                    }
                    Err(_) => self.decline(fill, NotStored::NoRoom, response, give),
                }
            }
            Err(reason) if response.status.is_server_error() => {
                self.share(fill, reason, response, give).await
            }
            Err(reason) => self.decline(fill, reason, response, give),
        }
    }

    /// The lead keeps its stream; joiners are told to pass.
    fn decline(
        &self,
        fill: &Fill,
        reason: NotStored,
        response: OriginResponse,
        give: Give,
    ) -> bool {
        if self.shared == Sharing::Shared && reason.is_of_response() {
            self.plane.desk.memory.decline(fill.key().digest, clock::mono(), reason);
        }
        let status = response.status;
        // A lead that has gone drops the response, and with it the connection.
        let _ = give.send(Handed::Response(Box::new(response)));
        self.end(fill, FillHead::Declined(reason, status), Event::Declined(reason));
        true
    }

    /// A short server error is shared with those who wait.
    async fn share(
        &self,
        fill: &Fill,
        reason: NotStored,
        mut response: OriginResponse,
        give: Give,
    ) -> bool {
        match response.framing {
            Framing::Length(length) if length <= SHARED_BYTES_MAX => {}
            Framing::None => {}
            _ => {
                let status = response.status;
                let _ = give.send(Handed::Response(Box::new(response)));
                self.end(fill, FillHead::Declined(reason, status), Event::Declined(reason));
                return true;
            }
        }
        match whole(&mut response.body).await {
            Ok(body) => {
                let origin = response.origin.name().into();
                let (status, headers) = (response.status, response.headers);
                let shared = SharedResponse { status, headers, body, reason, origin };
                self.end(fill, FillHead::Shared(Arc::new(shared)), Event::Shared);
                true
            }
            Err(error) => {
                self.fail(fill, clock::now(), &error);
                false
            }
        }
    }

    async fn unchanged(
        &self,
        fill: &Fill,
        stamp: Stamp,
        (requested, received): (Now, Now),
        mut response: OriginResponse,
        give: Give,
    ) -> bool {
        // Reading to the end makes the connection usable again.
        let _ = response.body.next().await;
        let chosen = self.validating.iter().find(|generation| {
            is_selected_by(&generation.head().stored, &response.headers, self.validating.len())
        });
        let Some(generation) = chosen else {
            // A 304 that selects nothing that was asked for: the lead asks again on its own.
            return self.decline(fill, NotStored::UnaskedNotModified, response, give);
        };
        let fresh = weir_policy::freshen(
            &generation.head().stored,
            &response.headers,
            requested,
            received,
            &self.route.rules,
        );
        self.plane.store.freshen(generation, fresh, stamp);
        self.end(fill, FillHead::Unchanged(generation.clone()), Event::Unchanged);
        true
    }

    /// Moves the body into the generation; true when it arrived whole.
    async fn fill(
        &self,
        fill: &Arc<Fill>,
        generation: Arc<Generation>,
        mut writer: Writer,
        length: Option<u64>,
        mut body: OriginBody,
    ) -> bool {
        let _ = fill.head.set(FillHead::New(generation.clone()));
        fill.apply(Event::Storable(length));
        fill.wake(self.core);
        loop {
            let event = tokio::select! {
                biased;
                () = fill.turn.notified() => None,
                piece = body.next(), if !fill.machine().must_wait() => Some(piece),
            };
            if matches!(fill.machine().state(), State::Ended(_)) {
                writer.abandon();
                fill.wake(self.core);
                return false;
            }
            let actions = match event {
                None => continue,
                Some(Ok(Some(bytes))) => {
                    self.observer.counters().origin_bytes(bytes.len() as u64);
                    let count = bytes.len() as u64;
                    self.push(fill, &generation, &mut writer, bytes).await;
                    fill.apply(Event::Bytes(count))
                }
                Some(Ok(None)) => fill.apply(Event::Finished),
                Some(Err(error)) => {
                    fill.fail_with(error.word());
                    self.observer.counters().error(error.word());
                    fill.apply(Event::Failed)
                }
            };
            if let State::Ended(_) = fill.machine().state() {
                return self.close(fill, writer, actions);
            }
            fill.wake(self.core);
        }
    }

    /// Gives bytes to the writer. While readers hold all memory it waits for them to move on, which is the
    /// back-pressure; a fill that ends meanwhile drops the rest.
    async fn push(&self, fill: &Fill, generation: &Generation, writer: &mut Writer, mut bytes: Bytes) {
        while let Err(full) = writer.push(bytes) {
            bytes = full.rest;
            self.outgrown(fill, generation);
            fill.wake(self.core);
            tokio::select! {
                () = fill.turn.notified() => {}
                () = tokio::time::sleep(MEMORY_WAIT) => {}
            }
            if matches!(fill.machine().state(), State::Ended(_)) {
                return;
            }
        }
        self.outgrown(fill, generation);
    }

    /// Tells the machine once that only a window is kept.
    fn outgrown(&self, fill: &Fill, generation: &Generation) {
        let storing = fill.machine().state();
        if is_windowed(generation) && matches!(storing, State::Filling { storing: Storing::Whole, .. }) {
            fill.apply(Event::Outgrown);
        }
    }

    fn close(&self, fill: &Arc<Fill>, writer: Writer, actions: Actions) -> bool {
        let whole = !actions.has(Actions::ABANDON) && writer.seal().is_ok();
        self.plane.desk.done(fill);
        fill.wake(self.core);
        whole
    }
}

/// The origin's fields, if the stored ones are not all of them.
fn for_lead(origin: &HeaderMap, stored: &HeaderMap) -> Option<HeaderMap> {
    let mut fields = origin.clone();
    weir_policy::strip_hop_by_hop(&mut fields);
    fields.remove(CONTENT_LENGTH);
    fields.remove(AGE);
    fields.keys().any(|name| !stored.contains_key(name)).then_some(fields)
}

/// A short body as one piece.
async fn whole(body: &mut OriginBody) -> Result<Bytes, OriginError> {
    let mut all = BytesMut::new();
    while let Some(bytes) = body.next().await? {
        all.extend_from_slice(&bytes);
    }
    Ok(all.freeze())
}
