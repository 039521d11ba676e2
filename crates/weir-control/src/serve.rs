//! The connections of the admin listener and the control socket, on one thread with its own runtime.
//!
//! A connection has limits of time and size, and a place of its server ([`Places`]). What may block runs
//! beside the runtime. Health is answered at once, whatever other connections do.

use std::convert::Infallible;
use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Notify;
use weir_config::value::ListenAddress;

use crate::answer::{self, Answer};
use crate::control::Control;
use crate::places::{Place, Places};
use crate::{admin, clock, socket};

const HEAD_TIME: Duration = Duration::from_secs(10);
const CONNECTION_TIME: Duration = Duration::from_secs(600);
/// Only the owner uses the control socket, and verifying a large volume takes long.
const SOCKET_TIME: Duration = Duration::from_hours(24);
const HEAD_BYTES_MAX: usize = 64 << 10;
const BODY_BYTES_MAX: usize = 1 << 20;
/// The mode of the admin listener's socket file where none is named.
const UNIX_MODE: u32 = 0o660;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Between two looks at what is waited for.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// The control plane's servers cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The admin address cannot be listened on.
    #[error("cannot listen on {address} for metrics and health: {}", hint(source))]
    Bind {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The thread or its runtime cannot be started.
    #[error(
        "cannot start the control plane's thread: {0}; raise the limits of threads and open files for this \
         user"
    )]
    Thread(#[source] io::Error),
}

fn hint(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the address is in use, perhaps by another Weir; stop it or name another address with --admin or \
             [admin] listen"
                .to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have the address; name one it has with --admin or [admin] \
             listen"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied; name a port above 1023 or a folder you may write to, with --admin or [admin] \
             listen"
                .to_owned()
        }
        _ => format!("{error}; name another address with --admin or [admin] listen"),
    }
}

/// The admin listener, bound and not yet served.
#[derive(Debug)]
pub enum AdminListener {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// A unix socket and its path.
    Unix(StdUnixListener, PathBuf),
}

impl AdminListener {
    /// Binds the admin address.
    ///
    /// # Errors
    /// When it is in use or not available.
    pub fn bind(address: &ListenAddress) -> Result<AdminListener, ServeError> {
        let fail = |source| ServeError::Bind { address: address.to_string(), source };
        match address {
            ListenAddress::Tcp(at) => {
                let listener = std::net::TcpListener::bind(at).map_err(fail)?;
                listener.set_nonblocking(true).map_err(fail)?;
                Ok(AdminListener::Tcp(listener))
            }
            ListenAddress::Unix { path, mode } => {
                remove_leftover(path).map_err(fail)?;
                let listener = StdUnixListener::bind(path).map_err(fail)?;
                let mode = Permissions::from_mode(mode.unwrap_or(UNIX_MODE));
                std::fs::set_permissions(path, mode).map_err(fail)?;
                listener.set_nonblocking(true).map_err(fail)?;
                Ok(AdminListener::Unix(listener, path.clone()))
            }
        }
    }

    /// The listener of the old process of an upgrade, for that address.
    pub fn inherit(address: &ListenAddress, socket: OwnedFd) -> AdminListener {
        match address {
            ListenAddress::Tcp(_) => AdminListener::Tcp(socket.into()),
            ListenAddress::Unix { path, .. } => AdminListener::Unix(socket.into(), path.clone()),
        }
    }

    /// A copy of the socket, for the new process.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn copy(&self) -> io::Result<OwnedFd> {
        match self {
            AdminListener::Tcp(listener) => listener.as_fd().try_clone_to_owned(),
            AdminListener::Unix(listener, _) => listener.as_fd().try_clone_to_owned(),
        }
    }

    /// The TCP address it got, for port 0.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            AdminListener::Tcp(listener) => listener.local_addr().ok(),
            AdminListener::Unix(..) => None,
        }
    }

    /// The address it got, as text.
    pub fn address(&self) -> String {
        match self {
            AdminListener::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| "?".to_owned(), |at| format!("http://{at}"))
            }
            AdminListener::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }
}

/// Removes a socket on which nobody listens any more.
fn remove_leftover(path: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net::UnixStream;
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if metadata.file_type().is_socket() && UnixStream::connect(path).is_err_and(refused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// The running thread of the control plane. It ends with the process.
#[derive(Debug)]
pub struct ControlThread(Arc<Counter>);

/// What the servers of the thread share.
#[derive(Debug)]
struct Counter {
    /// Connections of the admin listener and of the control socket. Each has its own, so that scrapers cannot
    /// keep the commands out.
    shown: Arc<Places>,
    told: Arc<Places>,
    /// Whether connections are no longer accepted.
    closes: Notify,
    is_closed: AtomicBool,
}

impl ControlThread {
    /// Starts serving.
    ///
    /// # Errors
    /// When the thread or its runtime cannot be started.
    pub fn start(
        control: Arc<Control>,
        admin: AdminListener,
        socket: StdUnixListener,
    ) -> Result<ControlThread, ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(4)
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
            closes: Notify::new(),
            is_closed: AtomicBool::new(false),
        });
        let at_thread = counter.clone();
        thread::Builder::new()
            .name("weir-control".to_owned())
            .spawn(move || runtime.block_on(serve(control, admin, socket, at_thread)))
            .map_err(ServeError::Thread)?;
        Ok(ControlThread(counter))
    }

    /// Accepts no more connections; those in the queue are left to other processes that hold the sockets.
    /// Blocks until it has stopped, at most for the patience.
    pub fn close(&self, patience: Duration) -> bool {
        self.0.closes.notify_one();
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

/// Which of the two servers a connection belongs to.
#[derive(Clone, Copy)]
enum Paths {
    Admin(Reach),
    Socket,
}

/// How clients reach the admin listener: a web page can make a browser ask what it reaches by the network.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Network,
    File,
}

async fn serve(control: Arc<Control>, admin: Admin, socket: UnixListener, counter: Arc<Counter>) {
    let Counter { shown, told, closes, is_closed } = &*counter;
    let admin_accepts = async {
        loop {
            match &admin {
                Admin::Tcp(listener) => {
                    accept(listener.accept().await, shown, &control, Paths::Admin(Reach::Network)).await;
                }
                Admin::Unix(listener) => {
                    accept(listener.accept().await, shown, &control, Paths::Admin(Reach::File)).await;
                }
            }
        }
    };
    let socket_accepts = async {
        loop {
            accept(socket.accept().await, told, &control, Paths::Socket).await;
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

async fn accept<S, A>(
    accepted: io::Result<(S, A)>,
    places: &Arc<Places>,
    control: &Arc<Control>,
    paths: Paths,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = match accepted {
        Ok((stream, _)) => stream,
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection to the control plane");
            return tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    };
    // Otherwise all connections have requests under way.
    let Some(place) = places.take().map(Arc::new) else { return };
    let (control, own) = (control.clone(), place.clone());
    tokio::spawn(async move {
        let service = service_fn(move |request| respond(control.clone(), paths, own.clone(), request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        // A scraper's mistakes are its own affair: neither an error nor a timeout needs anything here.
        let time = match paths {
            Paths::Admin(_) => CONNECTION_TIME,
            Paths::Socket => SOCKET_TIME,
        };
        tokio::select! {
            _ = tokio::time::timeout(time, connection) => {}
            () = place.closed() => {}
        }
    });
}

async fn respond(
    control: Arc<Control>,
    paths: Paths,
    place: Arc<Place>,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    let work = place.work();
    if let Paths::Admin(reach) = paths {
        if let Some(health) = admin::health(&control, &head.method, &head.uri) {
            return Ok(health);
        }
        if reach == Reach::Network && !admin::is_for_us(&control, &head) {
            return Ok(admin::misdirected());
        }
    }
    if !work.is_for_all {
        return Ok(answer::refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many requests are under way; try again",
        ));
    }
    let body = match tokio::time::timeout(HEAD_TIME, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => {
            return Ok(answer::refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large or broken"));
        }
        Err(_) => return Ok(answer::refusal(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")),
    };
    if matches!(paths, Paths::Socket) && head.uri.path() == socket::PURGE && head.method == Method::POST {
        return Ok(socket::purge(&control, &body).await);
    }
    let act = move || act(&control, paths, &head, &body);
    Ok(tokio::task::spawn_blocking(act).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a control request panicked");
        answer::refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "an internal error; see the diagnostics of this Weir",
        )
    }))
}

fn act(control: &Arc<Control>, paths: Paths, head: &http::request::Parts, body: &Bytes) -> Answer {
    match paths {
        Paths::Admin(_) => admin::answer(control, head),
        Paths::Socket => socket::answer(control, &head.method, &head.uri, body),
    }
}
