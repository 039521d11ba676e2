//! One HTTP/1 connection: requests read one after another, each walked to its response, in order.
//! RFC 9112 §9. It must not decide how a request is answered.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use weir_wire::{Refusal, RequestHead, RequestReader};

use super::body::RequestBody;
use super::client::{Client, ClientEnd};
use super::{After, ClientLimits, Conn};
use crate::listen::{Counted, Peer, Stream, TooMany};
use crate::local;
use crate::succession::Departed;
use crate::transform::Trust;
use crate::walk;
use crate::worker::{Bidding, Presence, Worker};
use weir_clock as clock;

/// What a closing client may still send, and for how long, before the socket is closed (RFC 9112 §9.6).
const LINGER_BYTES_MAX: u64 = 1 << 20;
const LINGER_TIME_MAX: Duration = Duration::from_secs(2);

/// What comes next on an idle connection.
enum Next {
    Request(Box<RequestHead>),
    Refused(Refusal),
    Late,
    Ended,
    Leave,
}

/// Serves one connection to its end, or until it goes to another process.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    stream: Stream,
    input: BytesMut,
    peer: Peer,
    presence: Rc<Presence>,
) -> Option<Departed> {
    let running = worker.running();
    let limits = running.limits.clone();
    let trust = match running.trusted.contains(&peer) {
        true => Trust::Trusted,
        false => Trust::Untrusted,
    };
    drop(running);
    let Ok(_counted) = counted(&worker, peer, trust, &limits) else { return None };
    let mut conn = Conn {
        client: Client::new(stream, input, &limits, worker.observer.counters_shared()),
        reader: RequestReader::new(limits.head),
        body: RequestBody::none(),
        peer,
        trust,
        limits,
        scheme: "http",
        free_since: clock::mono(),
    };
    loop {
        worker.set_idle(&presence, conn.client.input.is_empty().then_some(conn.free_since));
        let next = conn.next(&worker, &presence).await;
        worker.set_idle(&presence, None);
        presence.set_used();
        let after = match next {
            Next::Request(head) => walk::walk(&worker, &mut conn, head).await,
            Next::Refused(refusal) => local::refuse(&worker, &mut conn, &refusal).await,
            Next::Late => local::late(&worker, &mut conn).await,
            Next::Ended => return None,
            Next::Leave => return conn.depart(),
        };
        match after {
            After::KeepAlive if !worker.plane.is_draining() && conn.go_on().await => {}
            After::Cut => return None,
            After::Reset => {
                conn.client.reset();
                return None;
            }
            After::KeepAlive | After::Close => {
                conn.client.linger(LINGER_BYTES_MAX, LINGER_TIME_MAX).await;
                return None;
            }
        }
    }
}

/// Counts a connection for its client, and says so where it is one too many; who speaks for others is none.
fn counted(
    worker: &Worker,
    peer: Peer,
    trust: Trust,
    limits: &ClientLimits,
) -> Result<Option<Counted>, TooMany> {
    let Some(sharer) = peer.sharer().filter(|_| trust == Trust::Untrusted) else { return Ok(None) };
    let counted = worker.plane.clients.count(sharer, limits.per_client_max).map(Some);
    counted.ok_or_else(|| {
        worker.turn_away(sharer, limits.per_client_max);
        TooMany
    })
}

/// Waits until the gate is open or has been left.
async fn wait_at_gate(worker: &Worker, presence: &Presence) -> Bidding {
    poll_fn(|cx| match worker.bidding() {
        Bidding::Wait => {
            presence.wake_by(cx);
            Poll::Pending
        }
        other => Poll::Ready(other),
    })
    .await
}

impl Conn {
    /// Waits for the next request's head.
    async fn next(&mut self, worker: &Worker, presence: &Presence) -> Next {
        let mut until = self.free_since + self.limits.idle_time_max;
        let mut begun = false;
        loop {
            if worker.bidding() != Bidding::Begin && wait_at_gate(worker, presence).await == Bidding::Leave {
                return Next::Leave;
            }
            if !self.client.input.is_empty() {
                match self.reader.read(&mut self.client.input) {
                    Ok(Some(head)) => return Next::Request(Box::new(head)),
                    Ok(None) => {}
                    Err(refusal) => return Next::Refused(refusal),
                }
                if !begun && self.reader.has_begun(&self.client.input) {
                    begun = true;
                    until = clock::mono() + self.limits.head_time_max;
                }
            }
            match self.read(until, worker, presence).await {
                None | Some(Ok(_)) => {}
                Some(Err(ClientEnd::TimedOut)) if begun => return Next::Late,
                Some(Err(_)) => return Next::Ended,
            }
        }
    }

    /// Reads; `None` where the gate is not open.
    async fn read(
        &mut self,
        until: Instant,
        worker: &Worker,
        presence: &Presence,
    ) -> Option<Result<usize, ClientEnd>> {
        let mut read = pin!(self.client.read(until));
        poll_fn(|cx| {
            if worker.bidding() != Bidding::Begin {
                return Poll::Ready(None);
            }
            let read = read.as_mut().poll(cx).map(Some);
            if read.is_pending() {
                presence.wake_by(cx);
            }
            read
        })
        .await
    }

    /// What another process needs to go on: the socket, and what was read of a request that has not begun.
    fn depart(self) -> Option<Departed> {
        let (stream, input) = self.client.into_parts();
        match stream.into_socket() {
            Ok((socket, family)) => {
                Some(Departed { socket, family, peer: self.peer, input: input.to_vec(), held: None })
            }
            Err(error) => {
                tracing::warn!(%error, "connection lost on its way to another process");
                None
            }
        }
    }

    /// Whether the connection is clean for another request: the body of the last one is read.
    async fn go_on(&mut self) -> bool {
        self.body.drain(&mut self.client).await
    }
}
