//! One HTTP/1 connection: it reads requests one after another and answers each in order (RFC 9112 §9).
//! It must not decide how a request is answered.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::Method;
use weir_observe::SiteId;
use weir_wire::{Persistence, RequestHead, RequestReader, Version};

use super::content::Content;
use super::socket::{ClientEnd, Socket};
use super::{After, Conn, Framed, send};
use crate::entrance::Entered;
use crate::handover::{self, Departure, HandedOver, Relayed};
use crate::interim::Interims;
use crate::message::{Done, Refused, Request, Service};
use crate::worker::{ConnectionState, GateState, Worker};
use weir_clock as clock;

/// How much a client may still send, and for how long, before the socket is closed (RFC 9112 §9.6).
const LINGER_BYTES_MAX: u64 = 1 << 20;
const LINGER_TIME_MAX: Duration = Duration::from_secs(2);

/// The most bytes of content that leave with their head before the client has acknowledged any: the first
/// window of TCP has ten segments (RFC 6928).
const FLIGHT_BYTES_MAX: u64 = 12 << 10;

/// A connection that is idle for as long gives back all memory but its own.
const DORMANT_AFTER: Duration = Duration::from_secs(1);

/// What comes next on an idle connection.
enum Next {
    /// A request, written to the caller's place for it.
    Request(Framed),
    Refused(Refused),
    /// None has come for a while.
    Dormant,
    Ended,
    Leave,
}

/// What ends the rest of an idle connection.
enum Woken {
    /// The client has sent something.
    Sent,
    /// It was idle for too long.
    Expired,
    /// It is to go to another process.
    Left,
}

/// Why a connection is not busy any more.
enum Rest {
    Dormant,
    Ended,
    Leave,
}

/// Serves one connection until it ends; returns it if it is to be handed over to another process.
pub(crate) fn serve<S: Service>(
    worker: Rc<Worker<S>>,
    entered: Entered,
    state: Rc<ConnectionState>,
) -> impl Future<Output = Option<Box<Departure>>> {
    let Entered { stream, input, peer, counted, is_relayed, is_adopted, .. } = entered;
    let counters = worker.service().observer().counters_shared();
    // Made before the future, which would hold twice what it is given and moves.
    let mut conn = Conn {
        socket: Socket::new(stream, input, &peer.limits, counters),
        reader: RequestReader::new(peer.limits.head),
        content: Content::none(),
        interims: Interims::default(),
        peer,
        is_last: is_relayed,
        free_since: clock::mono(),
        has_gone_on: is_adopted,
    };
    async move {
        // The client's place is free when the connection ends.
        let _ = &counted;
        loop {
            worker.set_idle(&state, conn.socket.input.is_empty().then_some(conn.free_since));
            let rest = match conn.wake(&worker, &state).await {
                // In memory of its own, which an idle connection does not hold.
                Woken::Sent => Box::pin(conn.work(&worker, &state)).await,
                Woken::Expired => Rest::Ended,
                Woken::Left => Rest::Leave,
            };
            match rest {
                Rest::Dormant => {
                    conn.shrink();
                    worker.give_back_later();
                }
                Rest::Ended => return None,
                Rest::Leave => return conn.depart().map(Box::new),
            }
        }
    }
}

/// Waits until the gate is open or has been left.
async fn wait_at_gate<S: Service>(worker: &Worker<S>, state: &ConnectionState) -> GateState {
    poll_fn(|cx| match worker.gate_state() {
        GateState::Shut => {
            state.wake_by(cx);
            Poll::Pending
        }
        other => Poll::Ready(other),
    })
    .await
}

impl Conn {
    /// Waits for what ends the rest of an idle connection.
    async fn wake<S: Service>(&mut self, worker: &Worker<S>, state: &ConnectionState) -> Woken {
        let until = self.free_since + self.peer.limits.idle_time_max;
        poll_fn(|cx| {
            match worker.gate_state() {
                GateState::Open => {}
                GateState::Shut => {
                    state.wake_by(cx);
                    return Poll::Pending;
                }
                GateState::Left => return Poll::Ready(Woken::Left),
            }
            let woken = match self.socket.poll_sent(cx, until) {
                Poll::Ready(true) => Poll::Ready(Woken::Sent),
                Poll::Ready(false) => Poll::Ready(Woken::Expired),
                Poll::Pending => Poll::Pending,
            };
            if woken.is_pending() {
                state.wake_by(cx);
            }
            woken
        })
        .await
    }

    /// Gives back what an idle connection does not need.
    fn shrink(&mut self) {
        self.socket.shrink();
        self.reader.shrink();
    }

    /// Answers one request after another, until none has come for a while.
    async fn work<S: Service>(&mut self, worker: &Worker<S>, state: &ConnectionState) -> Rest {
        let service = worker.service();
        // All requests of the connection use one place: no request is allocated or moved.
        let mut request = None;
        loop {
            worker.set_idle(state, self.socket.input.is_empty().then_some(self.free_since));
            let next = self.next(worker, state, &mut request).await;
            if let Next::Dormant = next {
                return Rest::Dormant;
            }
            worker.set_idle(state, None);
            state.set_used();
            let after = match next {
                Next::Request(framed) => self.answer(service, &mut request, framed).await,
                Next::Refused(why) => self.refuse(service, &why).await,
                Next::Ended | Next::Dormant => return Rest::Ended,
                Next::Leave => return Rest::Leave,
            };
            match after {
                After::KeepAlive if !service.is_draining() && self.go_on().await => self.has_gone_on = true,
                After::Cut | After::Over => return Rest::Ended,
                After::Reset => {
                    self.socket.reset();
                    return Rest::Ended;
                }
                After::KeepAlive | After::Close => {
                    self.socket.linger(LINGER_BYTES_MAX, LINGER_TIME_MAX).await;
                    return Rest::Ended;
                }
            }
        }
    }

    /// Whether the socket can be closed at once: the client has said that its only request was its last, the
    /// whole response is on its way, and nothing is unread. For unread bytes the kernel would reset the
    /// connection, and drop what it has not sent yet (RFC 9112 §9.6).
    fn is_over(&self, framed: Framed, done: &Done) -> bool {
        framed.persistence == Persistence::Close
            && !self.has_gone_on
            && done.sent.body_bytes <= FLIGHT_BYTES_MAX
            && self.content.is_none()
            && self.socket.is_read()
    }

    /// Makes the request that the service sees from a head that has just been read.
    fn begin(&mut self, head: RequestHead, place: &mut Option<Request>) -> Framed {
        let at = clock::now();
        let framed = Framed {
            version: head.version,
            persistence: head.persistence,
            is_head: head.method == Method::HEAD,
        };
        self.interims = Interims::default();
        self.content = Content::begin(head.framing, head.expect, &self.peer.limits, at.mono);
        *place = Some(Request::of_head(head, Rc::clone(&self.peer), at));
        framed
    }

    /// Has the service answer the request in `place`, and sends the response.
    async fn answer<S: Service>(
        &mut self,
        service: &S,
        place: &mut Option<Request>,
        framed: Framed,
    ) -> After {
        let Some(request) = place else { return After::Close };
        let plan = service.plan();
        let mut note = service.begin(&plan, request);
        let mut response = service.call(&mut note, self).await;
        let (done, after) = send::respond(self, framed, service, &mut response).await;
        self.free(&done);
        service.done(note, &done);
        self.reader.recycle(std::mem::take(&mut request.headers));
        *place = None;
        match after {
            After::Close if self.is_over(framed, &done) => After::Over,
            after => after,
        }
    }

    /// Answers input that is not a valid request; the connection closes after it.
    async fn refuse<S: Service>(&mut self, service: &S, why: &Refused) -> After {
        let framed = Framed { version: Version::Http11, persistence: Persistence::Close, is_head: false };
        let (done, _) = send::respond(self, framed, service, &mut service.refuse(why)).await;
        service.refused(why, self.peer.peer, &done);
        After::Close
    }

    /// Notes that no request is under way.
    fn free(&mut self, done: &Done) {
        self.free_since = done.ended;
        self.socket.site = SiteId::NONE;
    }

    /// Waits for the head of the next request, and puts the request into `place`.
    async fn next<S: Service>(
        &mut self,
        worker: &Worker<S>,
        state: &ConnectionState,
        place: &mut Option<Request>,
    ) -> Next {
        let idle_time_max = self.peer.limits.idle_time_max;
        let mut begun: Option<Instant> = None;
        loop {
            if worker.gate_state() != GateState::Open && wait_at_gate(worker, state).await == GateState::Left
            {
                return Next::Leave;
            }
            if !self.socket.input.is_empty() {
                match self.reader.read(&mut self.socket.input) {
                    Ok(Some(head)) => return Next::Request(self.begin(head, place)),
                    Ok(None) => {}
                    Err(refusal) => return Next::Refused(Refused::Malformed(refusal)),
                }
                if begun.is_none() && self.reader.has_begun(&self.socket.input) {
                    begun = Some(clock::mono());
                }
            }
            let is_empty = self.socket.input.is_empty();
            let until = match begun {
                Some(begun) => begun + self.peer.limits.head_time_max,
                None if is_empty => self.free_since + idle_time_max.min(DORMANT_AFTER),
                None => self.free_since + idle_time_max,
            };
            match self.read(until, worker, state).await {
                None | Some(Ok(_)) => {}
                Some(Err(ClientEnd::TimedOut)) if begun.is_some() => return Next::Refused(Refused::Late),
                Some(Err(ClientEnd::TimedOut)) if is_empty => return Next::Dormant,
                Some(Err(_)) => return Next::Ended,
            }
        }
    }

    /// Reads from the socket until `until`; `None` once the gate is not open.
    async fn read<S: Service>(
        &mut self,
        until: Instant,
        worker: &Worker<S>,
        state: &ConnectionState,
    ) -> Option<Result<usize, ClientEnd>> {
        let mut read = pin!(self.socket.read(until));
        poll_fn(|cx| {
            if worker.gate_state() != GateState::Open {
                return Poll::Ready(None);
            }
            let read = read.as_mut().poll(cx).map(Some);
            if read.is_pending() {
                state.wake_by(cx);
            }
            read
        })
        .await
    }

    /// The connection for another process: its socket, and the bytes read of a request that has not begun.
    fn depart(self) -> Option<Departure> {
        let relayed = self.peer.secured.as_ref().map(Relayed::of);
        let (stream, input) = self.socket.into_parts();
        match handover::depart(stream) {
            Ok((socket, family, relay)) => {
                let (peer, input) = (self.peer.peer, input.to_vec());
                let port = self.peer.port;
                let handed_over = HandedOver { socket, family, peer, port, input, relayed, held: None };
                Some(Departure { handed_over, relay })
            }
            Err(error) => {
                tracing::warn!(%error, "connection lost on its way to another process");
                None
            }
        }
    }

    /// Reads the rest of the last request's body; true if the connection can take another request.
    async fn go_on(&mut self) -> bool {
        self.content.drain(&mut self.socket).await
    }
}
