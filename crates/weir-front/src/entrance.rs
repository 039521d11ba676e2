//! How a connection begins: its PROXY header is read, it is counted for its client, TLS is agreed, and the
//! protocol is found out that takes over. It must not read a request.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use weir_observe::Count;
use weir_tls::{CHALLENGE_PROTOCOL, Certificates, Hello, Identity, Opening, Session, Set, Step, TlsError};

use crate::limits::ClientLimits;
use crate::listen::{self, Counted, Form, Peer, Plain, Stream, Tls, TooMany};
use crate::message::{PeerInfo, Secured, Service, Trust};
use crate::worker::Worker;

/// What every HTTP/2 connection begins with (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How a listener's connections begin, and what they speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerMode {
    /// The version of the PROXY header that a connection must begin with; `None`: no header.
    pub greeting: Option<Form>,
    /// Whether connections are secured.
    pub transport: Transport,
    /// What may be spoken.
    pub protocols: Protocols,
}

impl ListenerMode {
    /// HTTP/1 without TLS and without a PROXY header.
    pub const PLAIN: ListenerMode =
        ListenerMode { greeting: None, transport: Transport::Plain, protocols: Protocols::Http1 };
}

/// Whether connections are secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// They are not.
    Plain,
    /// They begin with a TLS handshake.
    Tls,
}

/// The versions of HTTP that a listener's connections may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// HTTP/1 alone.
    Http1,
    /// HTTP/2 alone; without TLS with prior knowledge (RFC 9113 §3.3).
    Http2,
    /// Either: ALPN decides, or the first bytes where there is no TLS.
    Both,
}

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
}

/// Why a connection ended before its first request.
#[derive(Debug, thiserror::Error)]
enum NotEntered {
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("connection failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("the peer closed the connection")]
    Closed,
}

/// Leads a connection to its first request; `None` if it ends before.
pub(crate) async fn enter<S: Service>(
    worker: &Worker<S>,
    socket: Plain,
    peer: Peer,
    mode: ListenerMode,
    mut input: BytesMut,
) -> Option<Entered> {
    let service = worker.service();
    let limits = service.limits();
    let peer = match mode.greeting {
        None => peer,
        Some(form) => greet(worker, &socket, peer, form, &mut input).await?,
    };
    let trust = if service.trusted().contains(&peer) { Trust::Trusted } else { Trust::Untrusted };
    let Ok(counted) = counted(worker, peer, trust, &limits) else { return None };
    let info = |secured| Rc::new(PeerInfo::new(peer, trust, limits.clone(), secured));
    if mode.transport == Transport::Plain {
        let protocol = match mode.protocols {
            Protocols::Http1 => Protocol::Http1,
            Protocols::Http2 => Protocol::Http2,
            Protocols::Both => spoken(&socket, &mut input, limits.idle_time_max).await?,
        };
        return Some(Entered { stream: Stream::Plain(socket), input, peer: info(None), protocol, counted });
    }
    let counters = service.observer().counters();
    let secured = secure(&socket, &mut input, worker.certificates(), mode.protocols);
    match tokio::time::timeout(limits.head_time_max, secured).await {
        Ok(Ok((session, secured, unsent))) => {
            counters.count(if secured.agreed.is_resumed { Count::TlsResumed } else { Count::TlsAgreed });
            let protocol = if secured.agreed.is_h2 { Protocol::Http2 } else { Protocol::Http1 };
            let stream = Stream::Tls(Box::new(Tls::new(socket, session, &unsent)));
            Some(Entered { stream, input, peer: info(Some(secured)), protocol, counted })
        }
        Ok(Err(NotEntered::Closed)) => None,
        Ok(Err(error)) => {
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

/// Counts a connection for its client, and logs one too many. A trusted peer speaks for others: not counted.
fn counted<S: Service>(
    worker: &Worker<S>,
    peer: Peer,
    trust: Trust,
    limits: &ClientLimits,
) -> Result<Option<Counted>, TooMany> {
    let Some(sharer) = peer.sharer().filter(|_| trust == Trust::Untrusted) else { return Ok(None) };
    let counted = worker.service().clients().count(sharer, limits.per_client_max).map(Some);
    counted.ok_or_else(|| {
        worker.turn_away(sharer, limits.per_client_max);
        TooMany
    })
}

/// Finds out by its first bytes what a connection without TLS speaks; `None` if it ends before.
async fn spoken(socket: &Plain, input: &mut BytesMut, time_max: Duration) -> Option<Protocol> {
    let found = tokio::time::timeout(time_max, async {
        loop {
            let bytes = input.len().min(PREFACE.len());
            if input[..bytes] != PREFACE[..bytes] {
                return Some(Protocol::Http1);
            }
            if bytes == PREFACE.len() {
                return Some(Protocol::Http2);
            }
            receive(socket, input).await.ok()?;
        }
    });
    found.await.ok()?
}

/// Reads at least one byte.
async fn receive(socket: &Plain, input: &mut BytesMut) -> Result<(), NotEntered> {
    match std::future::poll_fn(|cx| socket.poll_read_buf(cx, input)).await? {
        0 => Err(NotEntered::Closed),
        _ => Ok(()),
    }
}

/// Makes a handshake. `input` has the first bytes of it before, and afterwards the first bytes that the
/// client sent behind it. Returns also what is still to be sent.
async fn secure(
    socket: &Plain,
    input: &mut BytesMut,
    certificates: &Certificates,
    protocols: Protocols,
) -> Result<(Session, Secured, Vec<u8>), NotEntered> {
    let mut out = Vec::new();
    let made = handshake(socket, input, certificates, protocols, &mut out).await;
    if made.is_err() && !out.is_empty() {
        // The alert that says why. Whether the client reads it does not matter.
        let _ = socket.try_write(&out);
    }
    let (session, hello, identity) = made?;
    let client_certificate = session.client_certificate().map(Into::into);
    let secured = Secured { identity, name: hello.name, agreed: session.agreed(), client_certificate };
    if secured.agreed.version == "TLSv1.2" {
        // A client of TLS 1.2 waits for the end of the handshake (RFC 5246 §7.3); in TLS 1.3 what is left are
        // tickets, which can go out with the first response.
        send(socket, &mut out).await?;
    }
    Ok((session, secured, out))
}

async fn handshake(
    socket: &Plain,
    input: &mut BytesMut,
    certificates: &Certificates,
    protocols: Protocols,
    out: &mut Vec<u8>,
) -> Result<(Session, Hello, Arc<Identity>), NotEntered> {
    let mut opening = Opening::default();
    let hello = loop {
        if !input.is_empty() {
            let received = input.split();
            if let Some(hello) = opening.add(&received, out)? {
                break hello;
            }
        }
        receive(socket, input).await?;
    };
    let Some(identity) = chosen(&certificates.current(), &hello, socket) else {
        return Err(Opening::refuse(out).into());
    };
    let protocols: &[&[u8]] = match protocols {
        _ if hello.is_challenge => &[CHALLENGE_PROTOCOL],
        Protocols::Both => &[b"h2", b"http/1.1"],
        Protocols::Http1 => &[b"http/1.1"],
        Protocols::Http2 => &[b"h2"],
    };
    let mut handshake = opening.begin(&identity, protocols)?;
    let mut plain = BytesMut::new();
    loop {
        match handshake.step(&mut plain, out)? {
            Step::Done(session) => {
                *input = plain;
                return Ok((*session, hello, identity));
            }
            Step::More(more) => handshake = more,
        }
        send(socket, out).await?;
        receive(socket, input).await?;
        handshake.add(&input.split());
    }
}

/// The certificate for a client.
fn chosen(set: &Set, hello: &Hello, socket: &Plain) -> Option<Arc<Identity>> {
    let name = hello.name.as_deref();
    let identity = match (hello.is_challenge, name) {
        (true, _) => set.challenge(name),
        (false, Some(_)) => set.choose(name, hello.takes_ecdsa),
        (false, None) => match socket.local_address() {
            Some(address) => set.choose_for_address(address, hello.takes_ecdsa),
            None => set.choose(None, hello.takes_ecdsa),
        },
    };
    identity.cloned()
}

/// Sends all of `out`, and empties it.
async fn send(socket: &Plain, out: &mut Vec<u8>) -> Result<(), NotEntered> {
    let mut rest = &out[..];
    while !rest.is_empty() {
        match socket.try_write(rest) {
            Ok(0) => return Err(NotEntered::Closed),
            Ok(bytes) => rest = &rest[bytes..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => socket.writable().await?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    out.clear();
    Ok(())
}
