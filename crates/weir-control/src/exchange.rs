//! One request of the API: the checks, its content, and the operation. A refusal leaves an entry in the
//! history.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Either, Limited};
use hyper::body::{Body, Incoming};
use tokio::task::JoinHandle;
use weir_observe::{Act as Ended, Entry};
use weir_share::Client;

use crate::access::{self, Peer};
use crate::answer::{Answer, JSON, Refusal};
use crate::api::{self, Act, BODY_BYTES_MAX, Reach};
use crate::call::{Call, Caller, Door};
use crate::clock;
use crate::control::Control;
use crate::history::act_of;
use crate::jobs::beside;
use crate::open;
use crate::places::{Place, Work};
use crate::streams::Form;
use crate::turns::{Kind, Turn};

/// How long the content of a request may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);
/// How long an operation that blocks may take: an upgrade takes less.
const ACT_TIME_MAX: Duration = Duration::from_secs(150);
/// The longest request line in an entry of the history, in characters.
const LINE_CHARS_MAX: usize = 200;

/// Answers a request.
pub(crate) async fn respond(
    control: Arc<Control>,
    peer: Peer,
    place: Arc<Place>,
    request: Request<Incoming>,
) -> Answer {
    let (head, body) = request.into_parts();
    if let Some(health) = open::health(&control, &head.method, &head.uri) {
        return health;
    }
    let mut asking = Asking { control, peer, caller: None, content: Bytes::new(), request_id: request_id() };
    let refusal = match asking.answer(&head, body, &place).await {
        Ok(mut answer) => match answer.body_mut() {
            Either::Right(stream) => {
                place.leave(stream.cut());
                return answer;
            }
            Either::Left(whole) => {
                if whole.count(asking.control.unsent(asking.peer.door()), &asking.who(), place.moves()) {
                    return answer;
                }
                let message = "long answers are unsent: their clients read nothing of them";
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
                    .help("read those that were asked for, and try again")
            }
        },
        Err(refusal) => refusal,
    };
    asking.note(&head, &refusal);
    refusal.answer()
}

/// A request under way.
struct Asking {
    control: Arc<Control>,
    peer: Peer,
    /// Who it is, once that is known.
    caller: Option<Caller>,
    /// What it has sent, once it may send something.
    content: Bytes,
    request_id: String,
}

impl Asking {
    /// Who it is, or the client that it comes from, as shares count it.
    fn who(&self) -> String {
        let stranger = || match &self.peer {
            Peer::Client(Some(address)) => Client::of(*address).to_string(),
            peer => peer.actor().to_string(),
        };
        self.caller.as_ref().map_or_else(stranger, |caller| caller.identity.clone())
    }

    async fn answer(&mut self, head: &Parts, body: Incoming, place: &Arc<Place>) -> Result<Answer, Refusal> {
        let control = self.control.clone();
        access::check_origin(&control, &self.peer, head)?;
        if open::is_open(head.uri.path()) {
            let (head, door) = (head.clone(), self.peer.door());
            let turn = control.turns().take(door, Kind::Shown, "").await?;
            let _work = worked(place)?;
            return blocking(turn, move || open::answer(&control, &head)).await;
        }
        // What is no path of the API needs no token to be unknown.
        if !head.uri.path().starts_with(api::VERSION) {
            api::find(&head.method, head.uri.path())?;
        }
        let caller = access::caller(&control, &self.peer, head).await?;
        self.caller = Some(caller.clone());
        if caller.door == Door::Listener && !place.belongs_to(&caller.identity) {
            let message = "this token has as many connections as it may have";
            return Err(
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).help("close some of them")
            );
        }
        let (operation, name) = api::find(&head.method, head.uri.path())?;
        if let Some(needed) = operation.role {
            access::check_role(&caller, needed)?;
        }
        if operation.reach == Reach::Whole {
            access::check_whole(&caller)?;
        }
        if caller.sites.is_some() && !head.method.is_safe() {
            control.rates().take(&caller.identity, clock::mono())?;
        }
        let query = head.uri.query().unwrap_or_default().to_owned();
        // What takes parameters says itself which it knows.
        if operation.query.is_empty() && !query.is_empty() {
            return Err(Refusal::unfit(format!("{query} is not known; there are no parameters here")));
        }
        let request_id = self.request_id.clone();
        let form = Form::accepted(head.headers.get(ACCEPT));
        let mut fields = head.headers.clone();
        fields.remove(AUTHORIZATION);
        let moves = place.moves().clone();
        let call = Call { caller, name, query, form, fields, body: Bytes::new(), moves, request_id };
        if let Act::Takes(act) = operation.act {
            // It is not being answered while it arrives: who sends nothing gives its place to others.
            drop(worked(place)?);
            return finished(tokio::spawn(act(control, call, body))).await;
        }
        check_content_type(head, &body)?;
        let body = whole(head, body).await?;
        self.content = body.clone();
        let call = Call { body, ..call };
        match operation.act {
            // It is above.
            Act::Takes(_) => Err(Refusal::malformed("the content is not taken here")),
            // What has begun ends, and leaves its entry, also where the client goes.
            Act::Waits(act) => {
                let _work = worked(place)?;
                finished(tokio::spawn(act(control, call))).await
            }
            Act::Shows(act) | Act::Blocks(act) => {
                let kind = if matches!(operation.act, Act::Shows(_)) { Kind::Shown } else { Kind::Done };
                let turn = control.turns().take(call.caller.door, kind, &call.caller.identity).await?;
                let _work = worked(place)?;
                blocking(turn, move || act(&control, &call)).await
            }
        }
    }

    /// Leaves an entry for a request that is refused. A question that makes no sense is none.
    fn note(&self, head: &Parts, refusal: &Refusal) {
        let is_attempt =
            refusal.status.is_client_error() && refusal.status != StatusCode::UNPROCESSABLE_ENTITY;
        if !is_attempt || refusal.is_recorded {
            return;
        }
        let actor = self.caller.as_ref().map_or_else(|| self.peer.actor(), |caller| caller.actor.clone());
        let line = |text: String| text.chars().take(LINE_CHARS_MAX).collect();
        let act = line(act_of(&head.method, head.uri.path()));
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let request = line(format!("{} {target}", head.method));
        // What it was about, which is not always what the caller may touch.
        let scope = serde_json::from_slice(&self.content).unwrap_or_default();
        let why = refusal.refused.error.clone();
        let request_id = self.request_id.clone();
        let result = Ended::Refused;
        let entry = Entry { actor, act, request, scope, result, why, request_id, ..Entry::default() };
        self.control.note_refused(entry);
    }
}

/// Notes that a request is being answered. One that still arrives, or waits for its turn, is not: its place
/// can be taken away.
fn worked(place: &Place) -> Result<Work<'_>, Refusal> {
    let work = place.work();
    if work.is_for_all {
        return Ok(work);
    }
    let message = "too many requests are under way";
    Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).help("try again"))
}

/// Does what may block beside the runtime, and keeps the turn until it is done.
async fn blocking(
    turn: Turn,
    act: impl FnOnce() -> Result<Answer, Refusal> + Send + 'static,
) -> Result<Answer, Refusal> {
    let acting = async { beside(turn, act).await? };
    tokio::time::timeout(ACT_TIME_MAX, acting).await.unwrap_or_else(|_| {
        let message = format!("it has not ended within {} s, and goes on", ACT_TIME_MAX.as_secs());
        Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, "hangs", message)
            .help("look whether the drive of the state folder answers"))
    })
}

async fn finished(work: JoinHandle<Result<Answer, Refusal>>) -> Result<Answer, Refusal> {
    work.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a control request panicked");
        Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "an internal error")
            .help("see the diagnostics of this Weir"))
    })
}

/// Refuses content that is not said to be JSON: a form of a web page cannot say that.
fn check_content_type(head: &Parts, body: &Incoming) -> Result<(), Refusal> {
    let said = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = said.split(';').next().unwrap_or_default().trim();
    if body.is_end_stream() || essence.eq_ignore_ascii_case(JSON) {
        return Ok(());
    }
    let message = "the content must be JSON, and say so";
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-type", message)
        .help("send `Content-Type: application/json`"))
}

/// The whole content.
async fn whole(head: &Parts, body: Incoming) -> Result<Bytes, Refusal> {
    let too_large = || {
        let message = format!("the content is larger than {BODY_BYTES_MAX} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message).help("send it in several requests")
    };
    let length = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > BODY_BYTES_MAX as u64) {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIME, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Refusal::malformed("the content broke off")),
        Err(_) => {
            let message = "the content did not arrive in time";
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "too-slow", message))
        }
    }
}

/// As the data plane makes them: 32 hexadecimal digits.
fn request_id() -> String {
    format!("{:032x}", fastrand::u128(..))
}
