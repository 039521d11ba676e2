//! TLS handshakes: a certificate is chosen and keys are agreed. Slow steps are made on a thread beside the
//! worker's: an RSA signature takes as long as fifty hits. It must not know what is spoken afterwards.

use std::cell::{Cell, OnceCell};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::sync::oneshot;
use weir_clock as clock;
use weir_share::Client;
use weir_tls::{
    CHALLENGE_PROTOCOL, Certificates, Handshake, Hello, Identity, KeyKind, Opening, Session, Set, Step,
    TlsError,
};

use self::places::{Place, Places};
use crate::handover::Relayed;
use crate::listen::Plain;
use crate::message::Secured;
use crate::mode::Protocols;

mod places;

/// As far behind the worker as the kernel allows: it goes first on their core.
const NICENESS: i32 = 19;
/// The most connections of one core whose ClientHello is not whole, and the most handshakes under way: from
/// there to the keys. Each has a deadline, and one client an eighth of either.
const SILENT_MAX: usize = 4096;
const UNDER_WAY_MAX: usize = 4096;

/// Why a connection has no keys.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSecured {
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("connection failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("the peer closed the connection")]
    Closed,
    #[error("too many handshakes are under way")]
    TooMany,
    #[error("the client was silent for longer than others, and made room")]
    MadeRoom,
    #[error("the client speaks HTTP without TLS")]
    PlainHttp,
}

/// What a client gets that speaks HTTP where TLS begins.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 67\r\n\
    Connection: close\r\n\r\n\
    400 Bad Request: the plain HTTP request was sent to the HTTPS port\n";

/// The least time between two log lines about refused certificates.
const SAY_PAUSE: Duration = Duration::from_secs(60);

/// What a step has made.
struct Made {
    step: Result<Step, TlsError>,
    /// What the client sent behind the handshake.
    plain: BytesMut,
    /// What is to be sent.
    out: Vec<u8>,
}

struct Job {
    handshake: Handshake,
    done: oneshot::Sender<Made>,
}

/// A connection whose ClientHello is whole.
struct Greeted<'h> {
    opening: Opening,
    hello: Hello,
    place: Place<'h>,
}

/// The handshakes of a worker.
pub(crate) struct Handshakes {
    core: usize,
    certificates: Certificates,
    silent: Places,
    under_way: Places,
    /// When a refused certificate was last logged.
    said_at: Cell<Option<Instant>>,
    /// The thread, once there was a slow step.
    jobs: OnceCell<mpsc::Sender<Job>>,
}

impl Handshakes {
    pub(crate) fn new(core: usize, certificates: Certificates) -> Handshakes {
        Handshakes {
            core,
            certificates,
            silent: Places::new(SILENT_MAX),
            under_way: Places::new(UNDER_WAY_MAX),
            said_at: Cell::new(None),
            jobs: OnceCell::new(),
        }
    }

    /// The certificates in use.
    pub(crate) fn certificates(&self) -> Arc<Set> {
        self.certificates.current()
    }

    /// Whether the log should have an error that its client may be unable to see: a certificate of its own
    /// that is refused. Once a minute at most, since clients make such errors.
    pub(crate) fn is_worth_saying(&self, error: &NotSecured) -> bool {
        let NotSecured::Tls(error) = error else { return false };
        let now = clock::mono();
        let is_due = self.said_at.get().is_none_or(|at| now >= at + SAY_PAUSE);
        let is_worth = is_due && error.is_of_certificate();
        if is_worth {
            self.said_at.set(Some(now));
        }
        is_worth
    }

    /// Makes a handshake with a client, or with one that stands for many. `input` has the first bytes of it
    /// before, and afterwards the first bytes that the client sent behind it. Returns also what is still to
    /// be sent.
    pub(crate) async fn secure(
        &self,
        client: Option<Client>,
        socket: &Plain,
        input: &mut BytesMut,
        protocols: Protocols,
    ) -> Result<(Session, Secured, Vec<u8>), NotSecured> {
        let mut out = Vec::new();
        let made = match self.greeted(client, socket, input, &mut out).await {
            Ok(greeted) => self.agree(socket, input, (greeted, protocols), &mut out).await,
            Err(error) => Err(error),
        };
        if made.is_err() && !out.is_empty() {
            // The alert that says why. Whether the client reads it does not matter.
            let _ = socket.try_write(&out);
        }
        let (session, hello, identity, place) = made?;
        if session.client_waits() {
            // A client of TLS 1.2 says nothing before it has the last message.
            within(&place, send(socket, &mut out)).await?;
        }
        let client_certificate = session.client_certificate().map(Into::into);
        let secured = Secured { identity, name: hello.name, agreed: session.agreed(), client_certificate };
        Ok((session, secured, out))
    }

    /// Waits for a whole ClientHello.
    async fn greeted(
        &self,
        client: Option<Client>,
        socket: &Plain,
        input: &mut BytesMut,
        out: &mut Vec<u8>,
    ) -> Result<Greeted<'_>, NotSecured> {
        let silent = self.silent.take(client).ok_or(NotSecured::TooMany)?;
        if input.is_empty() {
            within(&silent, receive(socket, input)).await?;
        }
        if is_plain_http(input) {
            // Whether the client reads it does not matter.
            let _ = socket.try_write(PLAIN_HTTP);
            return Err(NotSecured::PlainHttp);
        }
        let mut opening = Opening::default();
        loop {
            let received = input.split();
            if let Some(hello) = opening.add(&received, out)? {
                drop(silent);
                let place = self.under_way.take(client).ok_or(NotSecured::TooMany)?;
                return Ok(Greeted { opening, hello, place });
            }
            within(&silent, receive(socket, input)).await?;
        }
    }

    async fn agree<'h>(
        &'h self,
        socket: &Plain,
        input: &mut BytesMut,
        (greeted, protocols): (Greeted<'h>, Protocols),
        out: &mut Vec<u8>,
    ) -> Result<(Session, Hello, Arc<Identity>, Place<'h>), NotSecured> {
        let Greeted { opening, hello, place } = greeted;
        let Some(identity) = chosen(&self.certificates.current(), &hello, socket) else {
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
            match self.step(handshake, &identity, &mut plain, out).await? {
                Step::Done(session) => {
                    *input = plain;
                    return Ok((*session, hello, identity, place));
                }
                Step::More(more) => handshake = more,
            }
            within(&place, send(socket, out)).await?;
            within(&place, receive(socket, input)).await?;
            handshake.add(&input.split());
        }
    }

    /// Makes one step of a handshake: here where it is short, else on the thread, so that no request of this
    /// core waits for it (ADR 0038).
    ///
    /// # Cancel safety
    /// Safe: what was given up is not begun. The handshake is lost.
    async fn step(
        &self,
        handshake: Handshake,
        identity: &Identity,
        plain: &mut BytesMut,
        out: &mut Vec<u8>,
    ) -> Result<Step, TlsError> {
        if !is_slow(identity) {
            return handshake.step(plain, out);
        }
        let (done, made) = oneshot::channel();
        let jobs = self.jobs.get_or_init(|| start(self.core));
        if let Err(mpsc::SendError(Job { handshake, .. })) = jobs.send(Job { handshake, done }) {
            // There is no thread: the worker does it itself.
            return handshake.step(plain, out);
        }
        let Ok(made) = made.await else { return Err(TlsError::Exhausted) };
        plain.extend_from_slice(&made.plain);
        out.extend_from_slice(&made.out);
        made.step
    }
}

/// Starts the thread of a worker. It ends with the worker.
fn start(core: usize) -> mpsc::Sender<Job> {
    let (jobs, queue) = mpsc::channel::<Job>();
    let work = move || {
        // If the kernel refuses, both share the core.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        for Job { handshake, done } in queue {
            if done.is_closed() {
                continue;
            }
            let (mut plain, mut out) = (BytesMut::new(), Vec::new());
            let step = handshake.step(&mut plain, &mut out);
            // The connection may be gone.
            let _ = done.send(Made { step, plain, out });
        }
    };
    if let Err(error) = thread::Builder::new().name(format!("weir-tls-{core}")).spawn(work) {
        tracing::warn!(%error, "no thread for TLS handshakes: requests wait for them");
    }
    jobs
}

/// The TLS of a connection whose keys another process holds; `None` where this one has no certificate for it,
/// or asks its client for another certificate than that process did.
pub(crate) fn relayed(set: &Set, relayed: Relayed) -> Option<Secured> {
    let Relayed { name, agreed, client_certificate, asked_by } = relayed;
    let identity = set.choose(name.as_deref(), true)?.clone();
    let asks = identity.client_auth.as_ref().map(|auth| &*auth.site);
    (asks == asked_by.as_deref()).then_some(Secured { identity, name, agreed, client_certificate })
}

/// Whether the first byte begins a method: no record of TLS has a letter there (RFC 8446 §5.1, RFC 9110
/// §9.1).
fn is_plain_http(input: &[u8]) -> bool {
    input.first().is_some_and(u8::is_ascii_alphabetic)
}

/// Whether a step may take a millisecond: an RSA key signs, or a client's chain is verified.
fn is_slow(identity: &Identity) -> bool {
    identity.key_kind == KeyKind::Rsa || identity.client_auth.is_some()
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

/// Waits for a client, unless its place is needed for another.
async fn within<T>(
    place: &Place<'_>,
    waits: impl Future<Output = Result<T, NotSecured>>,
) -> Result<T, NotSecured> {
    let mut waits = pin!(waits);
    let waited = poll_fn(|cx| match waits.as_mut().poll(cx) {
        Poll::Pending => place.poll_over(cx).map(|()| Err(NotSecured::MadeRoom)),
        ready => ready,
    });
    let waited = waited.await;
    place.works();
    waited
}

/// Sends all of `out`, and empties it.
async fn send(socket: &Plain, out: &mut Vec<u8>) -> Result<(), NotSecured> {
    let mut rest = &out[..];
    while !rest.is_empty() {
        match socket.try_write(rest) {
            Ok(0) => return Err(NotSecured::Closed),
            Ok(bytes) => rest = &rest[bytes..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => socket.writable().await?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    out.clear();
    Ok(())
}

/// Reads at least one byte.
pub(crate) async fn receive(socket: &Plain, input: &mut BytesMut) -> Result<(), NotSecured> {
    match std::future::poll_fn(|cx| socket.poll_read_buf(cx, input)).await? {
        0 => Err(NotSecured::Closed),
        _ => Ok(()),
    }
}
