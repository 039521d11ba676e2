//! One stream: its request is made from its fields, answered, and its response sent. It must not touch
//! another stream.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use h2::ext::Protocol;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use weir_clock as clock;
use weir_observe::{Count, SiteId};
use weir_wire::{ListedContent, Pseudo, Refusal, RequestHead, of_list};

use super::ahead::{Ahead, Piece};
use super::client::{Content, Side, StreamClient};
use super::heads::{self, Sender};
use super::held::Held;
use super::named::Named;
use super::send::{self, Through};
use super::tunnel;
use super::windows::Windows;
use super::wire::Wire;
use crate::entrance::sharer;
use crate::interim::Interims;
use crate::message::{Done, End, PeerInfo, Refused, Request, Service, Trust};
use crate::worker::Worker;

/// Memory of the heads of streams under way. Streams beyond it are refused, so that the client repeats them.
const HEADS_BYTES_MAX: usize = 192 << 10;
/// A head of so much has a place in any case, so that the large ones of one client leave some to others.
const HEAD_BYTES_FREE: usize = 4 << 10;
/// What a stream under way takes in memory beside its heads: its task, and what the crate `h2` keeps of it.
const STREAM_BYTES: usize = 8 << 10;
/// What the crate keeps of a stream whose short answer waits to leave, beside the head of its request.
const ANSWERED_BYTES: usize = 3 << 10;
/// What frames that gather, and their records of TLS, may take where it could be charged.
pub(super) const WIDE_BYTES: usize = 128 << 10;

const SEC_WEBSOCKET_KEY: HeaderName = HeaderName::from_static("sec-websocket-key");

/// What the streams of a connection share.
pub(super) struct Shared<S: Service> {
    pub(super) worker: Rc<Worker<S>>,
    pub(super) peer: Rc<PeerInfo>,
    pub(super) wire: Rc<RefCell<Wire>>,
    pub(super) ahead: Rc<Ahead>,
    /// Streams under way.
    pub(super) streams: Cell<usize>,
    /// Since when there are none.
    pub(super) free_since: Cell<Instant>,
    /// The memory of their heads.
    pub(super) heads_bytes: Cell<usize>,
    /// The memory of streams that have ended while their answers may not have left.
    pub(super) answered_bytes: Cell<usize>,
    /// All that the connection holds of this.
    pub(super) held: Held,
    /// What is known of the clients that a trusted proxy names.
    pub(super) named: Named,
    pub(super) windows: Windows,
    pub(super) _sender: Sender,
}

impl<S: Service> Shared<S> {
    pub(super) fn count(&self, count: Count) {
        self.worker.service().observer().counters().count(count);
    }

    /// Whether the request's client has reset so many streams that it gets no other now.
    fn refuses(&self, request: &Request) -> bool {
        if self.named.is_empty() {
            return false;
        }
        let client = self.worker.service().named(request);
        client.is_some_and(|client| self.named.refuses(client, request.at.mono))
    }

    /// Counts the end of a stream for its client.
    fn note_end(&self, request: &Request, stream: u32, end: End) {
        if end == End::Whole {
            self.wire.borrow_mut().finished();
        }
        if self.peer.trust == Trust::Untrusted || end == End::Whole && self.named.is_empty() {
            return;
        }
        let named = || self.worker.service().named(request);
        if end == End::Whole {
            named().into_iter().for_each(|client| self.named.finished(client));
        } else if let Some(flood) = self.wire.borrow_mut().take_reset(stream)
            && let Some(client) = named()
            && self.named.reset(client, clock::mono())
        {
            tracing::debug!(%client, flood = flood.word(), "a client's streams are refused for a while");
            self.count(flood.count());
        }
    }

    /// Holds so much more memory; false where there is none for it.
    pub(super) fn hold(&self, bytes: usize, beside: usize) -> bool {
        let client = || sharer(self.peer.peer, self.peer.trust);
        let charge = || self.worker.service().charge_piece(client());
        self.held.take(bytes, beside, &charge)
    }

    /// Whether more memory is charged than is held, or may not be held for long.
    pub(super) fn has_spare(&self) -> bool {
        self.wire.borrow().is_wide() || self.held.has_spare()
    }

    /// Gives back memory that is charged and not held any more.
    pub(super) fn give_up_spare(&self) {
        if self.wire.borrow_mut().narrow() {
            self.held.give_back(WIDE_BYTES);
        }
        self.held.give_up_spare();
    }
}

/// Counts a stream while it is under way, with what it holds in memory.
pub(super) struct UnderWay<S: Service> {
    shared: Rc<Shared<S>>,
    head_bytes: usize,
    /// The memory of the head of its response, where that waits.
    response_bytes: Cell<usize>,
    has_content: bool,
}

impl<S: Service> UnderWay<S> {
    /// Counts a stream that begins. `None` if there is no room for it: nothing was done of its request yet.
    pub(super) fn begin(shared: &Rc<Shared<S>>, request: &http::Request<RecvStream>) -> Option<UnderWay<S>> {
        let head_bytes = heads::memory_bytes(request.headers());
        let all_heads = shared.heads_bytes.get() + head_bytes;
        if all_heads > HEADS_BYTES_MAX && head_bytes > HEAD_BYTES_FREE {
            return None;
        }
        // What has been answered has left the crate, unless the client takes nothing.
        if !shared.wire.borrow().is_blocked() {
            shared.answered_bytes.set(0);
        }
        let (bytes, answered) = (STREAM_BYTES + head_bytes, shared.answered_bytes.get());
        if shared.streams.get() == 0 && answered == 0 {
            shared.held.take_first(bytes);
        } else if !shared.hold(bytes, answered) {
            return None;
        }
        let has_content = !request.body().is_end_stream();
        if has_content && !shared.windows.begin(|bytes| shared.hold(bytes, answered)) {
            shared.held.give_back(bytes);
            return None;
        }
        shared.heads_bytes.set(all_heads);
        shared.streams.set(shared.streams.get() + 1);
        shared.count(Count::Http2Streams);
        Some(UnderWay { shared: Rc::clone(shared), head_bytes, response_bytes: Cell::new(0), has_content })
    }

    /// Holds the head of the response while the client takes nothing; false if there is no room for it.
    fn holds_response(&self, bytes: usize) -> bool {
        if !self.shared.wire.borrow().is_blocked() {
            return true;
        }
        let holds = self.shared.hold(bytes, 0);
        if holds {
            self.response_bytes.set(self.response_bytes.get() + bytes);
        }
        holds
    }
}

impl<S: Service> Drop for UnderWay<S> {
    fn drop(&mut self) {
        let shared = &self.shared;
        if self.has_content {
            shared.windows.end(|bytes| shared.held.give_back(bytes));
        }
        shared.held.give_back(STREAM_BYTES + self.head_bytes + self.response_bytes.get());
        shared.answered_bytes.set(shared.answered_bytes.get() + ANSWERED_BYTES + self.head_bytes);
        shared.heads_bytes.set(shared.heads_bytes.get() - self.head_bytes);
        shared.streams.set(shared.streams.get() - 1);
        shared.free_since.set(clock::mono());
        shared.count(Count::Http2StreamsClosed);
    }
}

/// Has the request of a stream answered, and sends the response. What few streams need has memory of its
/// own.
pub(super) async fn run<S: Service>(
    under_way: UnderWay<S>,
    request: http::Request<RecvStream>,
    respond: SendResponse<Piece>,
) {
    let shared = Rc::clone(&under_way.shared);
    let service = shared.worker.service();
    let at = clock::now();
    let (parts, stream) = request.into_parts();
    let limits = &shared.peer.limits;
    let is_whole = stream.is_end_stream();
    let side = RefCell::new(Side::Waiting(respond));
    let content = Content::new(stream, Rc::clone(&shared.wire), limits, at.mono);
    let mut client = StreamClient { content, side: &side, site: SiteId::NONE, interims: Interims::default() };
    let has_too_many = parts.headers.len() > limits.head.fields_max;
    let follows = match is_whole {
        true => ListedContent::None,
        // It is refused at once.
        false if has_too_many => ListedContent::Some,
        false => match Box::pin(follows(&mut client, &parts, limits.head_time_max)).await {
            Ok(follows) => follows,
            Err(why) => return Box::pin(refuse(&mut client, &shared, &why)).await,
        },
    };
    let is_connect = parts.method == Method::CONNECT;
    let mut head = match head_of(parts, follows, &limits.head) {
        Ok(head) => head,
        Err(refusal) => {
            return Box::pin(refuse(&mut client, &shared, &Refused::Malformed(refusal))).await;
        }
    };
    if is_connect {
        tunnel::add_key(&mut head.headers, &SEC_WEBSOCKET_KEY);
    }
    client.content.expect(head.framing, head.expect);
    let is_head = head.method == Method::HEAD;
    let mut request = Request::of_list(head, Rc::clone(&shared.peer), at);
    if shared.refuses(&request) {
        return side.borrow_mut().reset(Reason::ENHANCE_YOUR_CALM);
    }
    let plan = service.plan();
    let mut note = service.begin(&plan, &mut request);
    let mut response = service.call(&mut note, &mut client).await;
    let holds = |bytes| under_way.holds_response(bytes);
    let through =
        Through { ahead: &shared.ahead, limits, counters: service.observer().counters(), holds: &holds };
    let done = match response.switch.take() {
        Some(switch) if is_connect => {
            Box::pin(tunnel::run(&mut client, &through, &mut response, *switch)).await
        }
        _ => send::respond(&mut client, &through, is_head, &mut response).await,
    };
    service.done(note, &done);
    shared.note_end(&request, client.content.number(), done.sent.end);
    if done.sent.end == End::Whole && !is_whole {
        Box::pin(client.content.discard()).await;
    }
}

/// Whether content follows a head that does not end its stream. A GET or HEAD may end with an empty frame.
async fn follows(
    client: &mut StreamClient<'_>,
    parts: &Parts,
    most: std::time::Duration,
) -> Result<ListedContent, Refused> {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Ok(ListedContent::Some);
    }
    match tokio::time::timeout(most, client.content.is_empty()).await {
        Ok(true) => Ok(ListedContent::None),
        Ok(false) => Ok(ListedContent::Some),
        Err(_) => Err(Refused::Late),
    }
}

/// The request's head in the grammar that all versions share.
fn head_of(parts: Parts, content: ListedContent, limits: &weir_wire::Limits) -> Result<RequestHead, Refusal> {
    let Parts { method, uri, headers, extensions, .. } = parts;
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    // One allocation for both.
    let both = Bytes::from([authority, path].concat());
    let pseudo = Pseudo {
        method,
        scheme: uri.scheme_str().map(|scheme| match scheme {
            "http" => Bytes::from_static(b"http"),
            "https" => Bytes::from_static(b"https"),
            other => Bytes::copy_from_slice(other.as_bytes()),
        }),
        authority: uri.authority().map(|authority| both.slice(..authority.as_str().len())),
        path: both.slice(authority.len()..),
        protocol: extensions.get::<Protocol>().map(|protocol| Bytes::copy_from_slice(protocol.as_ref())),
    };
    of_list(pseudo, headers, content, limits)
}

/// Answers a stream that is not a valid request.
async fn refuse<S: Service>(client: &mut StreamClient<'_>, shared: &Shared<S>, why: &Refused) {
    let service = shared.worker.service();
    let limits = &shared.peer.limits;
    let through =
        Through { ahead: &shared.ahead, limits, counters: service.observer().counters(), holds: &|_| true };
    let done: Done = send::respond(client, &through, false, &mut service.refuse(why)).await;
    service.refused(why, shared.peer.peer, &done);
}

/// A field that a proxy sets on its own.
pub(super) fn set(headers: &mut HeaderMap, name: &HeaderName, value: HeaderValue) {
    // It fails only where the map is full; then the origin refuses the request.
    let _ = headers.try_insert(name, value);
}
