//! The load over HTTP/2: connections and their streams as tasks on a runtime of this thread, until the bound
//! is reached. Each stream's task asks for one object after the other, as a user of HTTP/1 does.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, client::ResponseFuture};
use http::uri::{Parts, PathAndQuery, Scheme, Uri};
use http::{HeaderValue, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio_rustls::TlsConnector;

use crate::body::Progress;
use crate::head::{self, Framing};
use crate::load::cpu_seconds;
use crate::plan::{Connections, Plan, StressError};
use crate::score::{Done, Score, Want};
use crate::secure;
use crate::tally::{Fault, Tally};

/// The windows that the client opens, of a stream and of the connection: they must not be what is measured.
pub(crate) const LARGE: (u32, u32) = (16 << 20, 1 << 30);
/// Those of RFC 9113 §6.9.2, for clients that take slowly.
pub(crate) const SMALL: (u32, u32) = (65_535, 65_535);
/// How long a task rests after a fault, so that a server that refuses everything is not stormed.
const REST: Duration = Duration::from_millis(100);
/// How often it is looked whether a timed load has come to its end.
const TICK: Duration = Duration::from_millis(20);

/// Runs the load.
pub(crate) fn load(plan: &Plan, seed: u64) -> Result<Tally, StressError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| StressError::System { act: "making a runtime", source })?;
    let shared = Rc::new(Shared {
        plan: plan.clone(),
        score: RefCell::new(Score::new(plan, seed)),
        ended: Notify::new(),
    });
    let cpu_before = cpu_seconds();
    let tasks = LocalSet::new();
    let outcome = runtime.block_on(tasks.run_until(run(shared.clone())));
    // Whatever is still under way ends here.
    drop(tasks);
    let mut score = shared.score.borrow_mut();
    score.end();
    let mut tally = std::mem::replace(&mut score.tally, Tally::new());
    tally.cpu_seconds = cpu_seconds() - cpu_before;
    outcome.map(|()| tally)
}

/// What the tasks of a load share.
struct Shared {
    plan: Plan,
    score: RefCell<Score>,
    ended: Notify,
}

/// A request that has begun.
struct Ask {
    want: Want,
    path: Vec<u8>,
    range: Vec<u8>,
}

/// Why a request has no whole response.
enum Broken {
    /// The server has closed the connection, and did not look at the request.
    Unprocessed,
    Fault(Fault, String),
}

async fn run(shared: Rc<Shared>) -> Result<(), StressError> {
    for _ in 0..shared.plan.users {
        spawn_local(user(shared.clone()));
    }
    while !shared.score.borrow().is_done() {
        shared.score.borrow().hope()?;
        let _ = tokio::time::timeout(TICK, shared.ended.notified()).await;
    }
    Ok(())
}

/// One connection after the other, each as long as it lasts.
async fn user(shared: Rc<Shared>) {
    let tls = shared.plan.tls.as_ref().map(|tls| TlsConnector::from(tls.config()));
    let mut waiting: Vec<Ask> = Vec::new();
    loop {
        if waiting.is_empty() {
            let Some(ask) = shared.begin().await else { return };
            waiting.push(ask);
        }
        let timeout = Duration::from_nanos(shared.plan.timeout_ns);
        let connected = tokio::time::timeout(timeout, connect(&shared, tls.as_ref())).await;
        let late = || Broken::Fault(Fault::Timeout, "no connection in time".to_owned());
        match connected.unwrap_or_else(|_| Err(late())) {
            Ok(send) => waiting = speak(&shared, send, waiting).await,
            Err(broken) => {
                waiting.drain(..).for_each(|ask| shared.fail(&ask, &broken));
                tokio::time::sleep(REST).await;
            }
        }
    }
}

/// All streams of one connection. Returns the requests that it did not look at.
async fn speak(shared: &Rc<Shared>, send: SendRequest<Bytes>, waiting: Vec<Ask>) -> Vec<Ask> {
    let served = Rc::new(Cell::new(false));
    let streams = shared.plan.streams().max(waiting.len());
    let mut waiting = waiting.into_iter();
    let tasks: Vec<_> = (0..streams)
        .map(|_| spawn_local(stream(shared.clone(), send.clone(), served.clone(), waiting.next())))
        .collect();
    drop(send);
    let mut unprocessed = Vec::new();
    for task in tasks {
        unprocessed.extend(task.await.ok().flatten());
    }
    unprocessed
}

/// One request after the other on a connection. Returns one that the server did not look at.
async fn stream(
    shared: Rc<Shared>,
    mut send: SendRequest<Bytes>,
    served: Rc<Cell<bool>>,
    mut waiting: Option<Ask>,
) -> Option<Ask> {
    let timeout = Duration::from_nanos(shared.plan.timeout_ns);
    loop {
        let ask = match waiting.take() {
            Some(ask) => ask,
            None => shared.begin().await?,
        };
        let exchanged = tokio::time::timeout(timeout, exchange(&shared, &mut send, &ask)).await;
        let late = || Broken::Fault(Fault::Timeout, "no whole response in time".to_owned());
        match exchanged.unwrap_or_else(|_| Err(late())) {
            Ok(()) if shared.plan.connections == Connections::NewEach => return None,
            Ok(()) => served.set(true),
            // The server may end a connection that has served (RFC 9113 §6.8).
            Err(Broken::Unprocessed) if served.get() => return Some(ask),
            Err(broken) => {
                shared.fail(&ask, &broken);
                tokio::time::sleep(REST).await;
                if matches!(broken, Broken::Unprocessed) {
                    return None;
                }
            }
        }
    }
}

async fn exchange(shared: &Shared, send: &mut SendRequest<Bytes>, ask: &Ask) -> Result<(), Broken> {
    std::future::poll_fn(|cx| send.poll_ready(cx)).await.map_err(|_| Broken::Unprocessed)?;
    let request = request(&shared.plan, ask)?;
    let (response, _) = send.send_request(request, true).map_err(|_| Broken::Unprocessed)?;
    receive(shared, ask, response).await
}

fn request(plan: &Plan, ask: &Ask) -> Result<Request<()>, Broken> {
    let bad = |what: String| Broken::Fault(Fault::Send, what);
    let mut parts = Parts::default();
    parts.scheme = Some(if plan.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = Some(plan.authority.parse().map_err(|error| bad(format!("{error}")))?);
    let path = PathAndQuery::try_from(&ask.path[..]).map_err(|error| bad(error.to_string()))?;
    parts.path_and_query = Some(path);
    let mut request = Request::new(());
    *request.uri_mut() = Uri::from_parts(parts).map_err(|error| bad(error.to_string()))?;
    *request.headers_mut() = plan.headers.clone();
    if !ask.range.is_empty() {
        let range = HeaderValue::from_bytes(&ask.range).map_err(|error| bad(error.to_string()))?;
        request.headers_mut().insert(http::header::RANGE, range);
    }
    Ok(request)
}

async fn receive(shared: &Shared, ask: &Ask, response: ResponseFuture) -> Result<(), Broken> {
    let response = response.await.map_err(|error| unanswered(&error))?;
    let first_byte_ns = shared.score.borrow().clock.nanoseconds();
    let status = response.status().as_u16();
    let range = response.headers().get(http::header::CONTENT_RANGE);
    let range = range.and_then(|value| head::content_range(value.as_bytes()));
    let version = response.headers().get(head::VERSION).and_then(|value| head::number(value.as_bytes()));
    let begin = range.map_or(0, |(start, ..)| start);
    let mut body = shared.plan.body(&ask.path, Framing::Close, begin, version);
    let mut content = response.into_body();
    while let Some(piece) = content.data().await {
        let piece = piece.map_err(|error| {
            Broken::Fault(Fault::Short, format!("{error} after {} bytes of body", body.received))
        })?;
        let _ = content.flow_control().release_capacity(piece.len());
        let progress = body.feed(&piece);
        debug_assert_eq!(progress, Progress::More);
    }
    let mut score = shared.score.borrow_mut();
    score.finish(&Done { want: ask.want, status, range, body: &body, first_byte_ns });
    if score.is_done() {
        shared.ended.notify_one();
    }
    Ok(())
}

/// Why there is no head.
fn unanswered(error: &h2::Error) -> Broken {
    let left = error.is_io() || (error.is_go_away() && error.reason() == Some(Reason::NO_ERROR));
    if left { Broken::Unprocessed } else { Broken::Fault(Fault::Closed, error.to_string()) }
}

async fn connect(shared: &Shared, tls: Option<&TlsConnector>) -> Result<SendRequest<Bytes>, Broken> {
    let bad = |fault, what: String| Broken::Fault(fault, what);
    let plan = &shared.plan;
    let dialled_ns = shared.score.borrow().clock.nanoseconds();
    let connected = TcpStream::connect(plan.target.address).await;
    let stream = connected.map_err(|error| bad(Fault::Connect, error.to_string()))?;
    let mut settled = stream.set_nodelay(true);
    if plan.connections == Connections::NewEach {
        // Reset at the end: closed ports in TIME_WAIT would run out in seconds.
        let linger = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
        settled = settled.and(linger.map_err(Into::into));
    }
    settled.map_err(|error| bad(Fault::Connect, error.to_string()))?;
    shared.score.borrow_mut().tally.connections += 1;
    let (Some(tls), Some(settings)) = (tls, &plan.tls) else {
        shared.score.borrow_mut().connected(dialled_ns);
        return begin(stream, LARGE).await.map_err(|error| bad(Fault::Closed, error.to_string()));
    };
    let begun_ns = shared.score.borrow().clock.nanoseconds();
    let shaken = tls.connect(settings.name.clone(), stream).await;
    let stream = shaken.map_err(|error| {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        bad(Fault::Handshake, tls.map_or_else(|| error.to_string(), secure::said))
    })?;
    let (_, session) = stream.get_ref();
    {
        let mut score = shared.score.borrow_mut();
        let took_ns = score.clock.nanoseconds() - begun_ns;
        score.tally.handshake(took_ns, session.handshake_kind());
        score.connected(dialled_ns);
    }
    if session.alpn_protocol() != Some(b"h2") {
        return Err(bad(Fault::Handshake, "the server does not speak HTTP/2".to_owned()));
    }
    begin(stream, LARGE).await.map_err(|error| bad(Fault::Closed, error.to_string()))
}

/// Begins HTTP/2. The connection lives as long as what sends on it.
///
/// # Errors
/// The server does not speak it.
pub(crate) async fn begin<S>(
    stream: S,
    (stream_bytes, connection_bytes): (u32, u32),
) -> Result<SendRequest<Bytes>, h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let begun = Builder::new()
        .initial_window_size(stream_bytes)
        .initial_connection_window_size(connection_bytes)
        .enable_push(false)
        .handshake(stream)
        .await;
    let (send, connection) = begun?;
    spawn_local(async move {
        // What ends it is told to its streams.
        let _ = connection.await;
    });
    Ok(send)
}

impl Shared {
    /// The next request, unless the load is at its end.
    async fn begin(&self) -> Option<Ask> {
        loop {
            let wait_ns = self.score.borrow().wait_ns();
            if wait_ns == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_nanos(wait_ns)).await;
        }
        let mut score = self.score.borrow_mut();
        if !score.may_begin() {
            return None;
        }
        let (mut path, mut range) = (Vec::new(), Vec::new());
        let want = score.begin(&mut path, &mut range);
        Some(Ask { want, path, range })
    }

    fn fail(&self, ask: &Ask, broken: &Broken) {
        let (fault, detail) = match broken {
            Broken::Unprocessed => (Fault::Closed, "ended before the head"),
            Broken::Fault(fault, detail) => (*fault, detail.as_str()),
        };
        self.score.borrow_mut().fail(ask.want, fault, || detail.to_owned());
        self.ended.notify_one();
    }
}
