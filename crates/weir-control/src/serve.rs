//! The connections of the admin listener and the control socket, on one thread with its own runtime.
//!
//! A connection has limits of time and size, and a place of its server ([`Places`]); one with a stream has
//! neither an end nor a place. What may block runs
//! beside the runtime. Health is answered at once, whatever other connections do.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Notify, watch};
use weir_tls::Certificates;

use crate::access::Peer;
use crate::control::Control;
use crate::listener::{AdminListener, ServeError};
use crate::places::{Place, Places};
use crate::socket::AnySocket;
use crate::{clock, exchange, tls, turns, users};

const HEAD_TIME: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 64 << 10;
const CONNECTION_TIME: Duration = Duration::from_secs(600);
/// Only the owner uses the control socket.
const SOCKET_TIME: Duration = Duration::from_hours(24);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Between two looks at what is waited for.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// The running thread of the control plane. It ends with the process.
pub struct ControlThread(Arc<Counter>);

/// What the servers of the thread share.
struct Counter {
    /// Connections of the admin listener and of the control socket. Each has its own, so that scrapers cannot
    /// keep the commands out.
    shown: Arc<Places>,
    told: Arc<Places>,
    /// Of the admin listener, where it speaks TLS.
    certificates: Option<Certificates>,
    /// Whether connections are no longer accepted.
    closes: Notify,
    is_closed: AtomicBool,
    /// Whether connections end with the request under way: a new process answers the next.
    leaves: watch::Sender<bool>,
    control: Arc<Control>,
}

impl ControlThread {
    /// Starts serving; the admin listener over TLS, where it gets certificates.
    ///
    /// # Errors
    /// When the thread or its runtime cannot be started.
    pub fn start(
        control: Arc<Control>,
        admin: AdminListener,
        socket: StdUnixListener,
        certificates: Option<Certificates>,
    ) -> Result<ControlThread, ServeError> {
        // Two threads: health is answered also while the other one is busy with something.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .max_blocking_threads(turns::THREADS)
            .thread_name("weir-control-act")
            .build()
            .map_err(ServeError::Thread)?;
        let entered = runtime.enter();
        let admin = match admin {
            AdminListener::Tcp(listener) => {
                Admin::Tcp(TcpListener::from_std(listener).map_err(ServeError::Thread)?)
            }
            AdminListener::Unix(listener, _) => {
                Admin::Unix(UnixListener::from_std(listener).map_err(ServeError::Thread)?)
            }
        };
        let socket = UnixListener::from_std(socket).map_err(ServeError::Thread)?;
        drop(entered);
        let counter = Arc::new(Counter {
            shown: Arc::default(),
            told: Arc::default(),
            certificates,
            closes: Notify::new(),
            is_closed: AtomicBool::new(false),
            leaves: watch::Sender::new(false),
            control,
        });
        let at_thread = counter.clone();
        thread::Builder::new()
            .name("weir-control".to_owned())
            .spawn(move || runtime.block_on(serve(admin, socket, at_thread)))
            .map_err(ServeError::Thread)?;
        Ok(ControlThread(counter))
    }

    /// Accepts no more connections; those in the queue are left to other processes that hold the sockets.
    /// Ends jobs and streams, and each connection with its request under way. Blocks until it has stopped, at
    /// most for the patience.
    pub fn close(&self, patience: Duration) -> bool {
        self.0.closes.notify_one();
        self.0.control.leave();
        self.0.leaves.send_replace(true);
        wait_for(patience, || self.0.is_closed.load(Ordering::Acquire))
    }

    /// Blocks until the commands under way are answered, at most for the patience.
    pub fn finish(&self, patience: Duration) -> bool {
        wait_for(patience, || self.0.told.are_free())
    }
}

fn wait_for(patience: Duration, is_so: impl Fn() -> bool) -> bool {
    let until = clock::mono() + patience;
    while !is_so() {
        if clock::mono() >= until {
            return false;
        }
        thread::sleep(LOOK_PAUSE);
    }
    true
}

enum Admin {
    Tcp(TcpListener),
    Unix(UnixListener),
}

async fn serve(admin: Admin, socket: UnixListener, counter: Arc<Counter>) {
    let Counter { shown, told, certificates, closes, is_closed, leaves, control } = &*counter;
    let shown = Server { places: shown, certificates: certificates.as_ref(), leaves, control };
    let told = Server { places: told, certificates: None, ..shown };
    let admin_accepts = async {
        loop {
            match &admin {
                Admin::Tcp(listener) => {
                    let arrived = |(stream, from): (TcpStream, SocketAddr)| {
                        let local = stream.local_addr().map(|local| local.ip().to_canonical()).ok();
                        Arrived { stream: Box::new(stream), peer: Peer::Client(Some(from.ip())), local }
                    };
                    accept(listener.accept().await.map(arrived), shown).await;
                }
                Admin::Unix(listener) => {
                    let arrived = |(stream, _): (UnixStream, _)| Arrived {
                        stream: Box::new(stream),
                        peer: Peer::Client(None),
                        local: None,
                    };
                    accept(listener.accept().await.map(arrived), shown).await;
                }
            }
        }
    };
    let socket_accepts = async {
        loop {
            let arrived = |(stream, _): (UnixStream, _)| {
                let peer = Peer::User(users::of(&stream));
                Arrived { stream: Box::new(stream), peer, local: None }
            };
            accept(socket.accept().await.map(arrived), told).await;
        }
    };
    tokio::select! {
        _ = async { tokio::join!(admin_accepts, socket_accepts) } => {}
        () = closes.notified() => {}
    }
    drop((admin, socket));
    is_closed.store(true, Ordering::Release);
    // Existing connections go on.
    std::future::pending().await
}

/// One of the two servers.
#[derive(Clone, Copy)]
struct Server<'s> {
    places: &'s Arc<Places>,
    certificates: Option<&'s Certificates>,
    leaves: &'s watch::Sender<bool>,
    control: &'s Arc<Control>,
}

/// A connection that has been accepted.
struct Arrived {
    stream: AnySocket,
    peer: Peer,
    /// The address that a client has connected to.
    local: Option<IpAddr>,
}

async fn accept(accepted: io::Result<Arrived>, server: Server<'_>) {
    let Arrived { stream, peer, local } = match accepted {
        Ok(arrived) => arrived,
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection to the control plane");
            return tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    };
    // Otherwise all connections have requests under way.
    let Some(place) = server.places.take().map(Arc::new) else { return };
    let (control, certificates) = (server.control.clone(), server.certificates.cloned());
    let served = Served { peer: peer.clone(), place, leaves: server.leaves.subscribe() };
    tokio::spawn(async move {
        let Some(certificates) = certificates else { return connection(stream, served, control).await };
        let at = match &peer {
            Peer::Client(at) => *at,
            Peer::User(_) => None,
        };
        // A handshake that fails is the client's affair.
        if let Ok(Ok(stream)) =
            tokio::time::timeout(HEAD_TIME, tls::accept(stream, &certificates, local)).await
        {
            connection(stream, served, control).await;
        } else {
            tracing::debug!(?at, "a handshake with the admin listener failed");
        }
    });
}

/// What is known of a connection.
struct Served {
    peer: Peer,
    place: Arc<Place>,
    leaves: watch::Receiver<bool>,
}

/// Serves a connection to its end.
async fn connection(stream: AnySocket, served: Served, control: Arc<Control>) {
    let Served { peer, place, mut leaves } = served;
    let time = match peer {
        Peer::Client(_) => CONNECTION_TIME,
        Peer::User(_) => SOCKET_TIME,
    };
    let own = place.clone();
    let service = service_fn(move |request| {
        let answering = exchange::respond(control.clone(), peer.clone(), own.clone(), request);
        async { Ok::<_, Infallible>(answering.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = async {
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = leaves.wait_for(|leaves| *leaves) => {}
        }
        connection.as_mut().graceful_shutdown();
        // A scraper's mistakes are its own affair: neither an error nor a timeout needs anything here.
        let _ = connection.await;
    };
    tokio::select! {
        () = ended => {}
        () = place.overdue(time) => {}
        () = place.moves().stalled() => {}
        () = place.closed() => {}
    }
}
