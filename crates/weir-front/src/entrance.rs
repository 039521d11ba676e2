//! How a connection begins: its PROXY header is read, it is counted for its client, TLS is agreed, and the
//! protocol is found out that takes over. It must not read a request.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use bytes::BytesMut;
use weir_clock::{self as clock, Deadline};
use weir_observe::Count;
use weir_share::Client;

use crate::h2::PREFACE;
use crate::handover::Relayed;
use crate::handshakes::{self, NotSecured};
use crate::limits::ClientLimits;
use crate::listen::{self, Counted, Form, Peer, Plain, Stream, Tls, TooMany};
use crate::message::{PeerInfo, Service, Trust};
use crate::mode::{ListenerMode, Protocols, Transport};
use crate::worker::Worker;

/// The version that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// A connection that is ready for its first request.
pub(crate) struct Entered {
    pub(crate) stream: Stream,
    /// The bytes that were read behind the handshake.
    pub(crate) input: BytesMut,
    pub(crate) peer: Rc<PeerInfo>,
    pub(crate) protocol: Protocol,
    /// Its client's place.
    pub(crate) counted: Option<Counted>,
    /// Whether another process relays it.
    pub(crate) is_relayed: bool,
    /// Whether another process has answered requests on it.
    pub(crate) is_adopted: bool,
}

/// How a connection begins here.
pub(crate) struct Beginning {
    pub(crate) mode: ListenerMode,
    /// The bytes that were read of it elsewhere.
    pub(crate) input: BytesMut,
    /// Its TLS, where another process relays it.
    pub(crate) relayed: Option<Relayed>,
    /// Whether another process has answered requests on it.
    pub(crate) is_adopted: bool,
}

impl Beginning {
    /// A connection that has just been accepted.
    pub(crate) fn accepted(mode: ListenerMode) -> Beginning {
        Beginning { mode, input: BytesMut::new(), relayed: None, is_adopted: false }
    }
}

/// Leads a connection to its first request; `None` if it ends before.
pub(crate) async fn enter<S: Service>(
    worker: &Worker<S>,
    socket: Plain,
    peer: Peer,
    beginning: Beginning,
) -> Option<Entered> {
    let Beginning { mode, mut input, relayed, is_adopted } = beginning;
    let service = worker.service();
    let limits = service.limits();
    let peer = match mode.greeting {
        None => peer,
        Some(form) => greet(worker, &socket, peer, form, &mut input).await?,
    };
    let trust = if service.trusted().contains(&peer) { Trust::Trusted } else { Trust::Untrusted };
    let Ok(counted) = counted(worker, peer, trust, &limits) else { return None };
    let info = |secured| Rc::new(PeerInfo::new(peer, trust, limits.clone(), secured).at_port(mode.port));
    if mode.transport == Transport::Plain {
        let protocol = match mode.protocols {
            Protocols::Http1 => Protocol::Http1,
            Protocols::Http2 => Protocol::Http2,
            Protocols::Both => spoken(&socket, &mut input, &limits).await?,
        };
        let is_relayed = relayed.is_some();
        let secured = match relayed {
            Some(relayed) => Some(handshakes::relayed(&worker.handshakes().certificates(), relayed)?),
            None => None,
        };
        let (stream, peer) = (Stream::Plain(socket), info(secured));
        return Some(Entered { stream, input, peer, protocol, counted, is_relayed, is_adopted });
    }
    let counters = service.observer().counters();
    // In memory of its own: a connection without TLS needs no room for it.
    let secured =
        Box::pin(worker.handshakes().secure(sharer(peer, trust), &socket, &mut input, mode.protocols));
    match tokio::time::timeout(limits.head_time_max, secured).await {
        Ok(Ok((session, secured, unsent))) => {
            counters.count(if secured.agreed.is_resumed { Count::TlsResumed } else { Count::TlsAgreed });
            let protocol = if secured.agreed.is_h2 { Protocol::Http2 } else { Protocol::Http1 };
            let stream = Stream::Tls(Box::new(Tls::new(socket, session, &unsent)));
            let peer = info(Some(secured));
            Some(Entered { stream, input, peer, protocol, counted, is_relayed: false, is_adopted })
        }
        Ok(Err(NotSecured::Closed)) => None,
        Ok(Err(NotSecured::MadeRoom)) => {
            counters.connection_displaced();
            None
        }
        Ok(Err(error)) => {
            if worker.handshakes().is_worth_saying(&error) {
                tracing::info!(%error, %peer, "a client's certificate is refused");
            }
            tracing::debug!(%error, %peer, "TLS handshake failed");
            counters.count(Count::TlsFailed);
            None
        }
        Err(_) => {
            counters.count(Count::TlsLate);
            None
        }
    }
}

/// Reads the PROXY header that the listener demands; `None` if it is invalid or late.
async fn greet<S: Service>(
    worker: &Worker<S>,
    socket: &Plain,
    peer: Peer,
    form: Form,
    input: &mut BytesMut,
) -> Option<Peer> {
    let trusted = worker.service().trusted();
    let greeted = listen::greet(socket, peer, &trusted, form, input);
    let greeted = tokio::time::timeout(worker.service().limits().head_time_max, greeted).await;
    if let Ok(Ok(peer)) = greeted {
        return Some(peer);
    }
    if let Ok(Err(error)) = greeted {
        tracing::debug!(%error, %peer, ?form, "connection without a PROXY header");
    }
    worker.service().observer().counters().connection_refused();
    None
}

/// The client that has a share for a connection. A trusted peer and a unix socket speak for many.
pub(crate) fn sharer(peer: Peer, trust: Trust) -> Option<Client> {
    peer.sharer().filter(|_| trust == Trust::Untrusted)
}

/// Counts a connection for its client, and logs one too many. A trusted peer speaks for others: not counted.
fn counted<S: Service>(
    worker: &Worker<S>,
    peer: Peer,
    trust: Trust,
    limits: &ClientLimits,
) -> Result<Option<Counted>, TooMany> {
    let Some(sharer) = sharer(peer, trust) else { return Ok(None) };
    let counted = worker.service().clients().count(sharer, limits.per_client_max).map(Some);
    counted.ok_or_else(|| {
        worker.turn_away(sharer, limits.per_client_max);
        TooMany
    })
}

/// Finds out by its first bytes what a connection without TLS speaks; `None` if it ends before.
async fn spoken(socket: &Plain, input: &mut BytesMut, limits: &ClientLimits) -> Option<Protocol> {
    let longest = if input.is_empty() { limits.idle_time_max } else { limits.head_time_max };
    let mut deadline = Deadline::after(longest);
    loop {
        let is_first = input.is_empty();
        if !is_first {
            let bytes = input.len().min(PREFACE.len());
            if !PREFACE.starts_with(&input[..bytes]) {
                return Some(Protocol::Http1);
            }
            if bytes == PREFACE.len() {
                return Some(Protocol::Http2);
            }
        }
        let received = poll_fn(|cx| match socket.poll_read_buf(cx, input) {
            Poll::Ready(read) => Poll::Ready(read.ok()),
            Poll::Pending => deadline.poll(cx).map(|()| None),
        });
        if received.await? == 0 {
            return None;
        }
        if is_first {
            deadline.set(clock::mono() + limits.head_time_max);
        }
    }
}
