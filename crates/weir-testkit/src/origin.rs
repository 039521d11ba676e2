//! The scripted origin: an HTTP/1 server in the test's own process that counts and records its requests.

use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::exchange::{After, Exchange, Request};
use crate::fields::{borrowed, owned};
use crate::ports::free_port;
use crate::resource::Resource;
use crate::socket::{Address, PATIENCE, Socket};
use crate::tls::{Authority, Clients};
use crate::wait::until;

/// A request that reached the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its head.
    pub request: Request,
}

type Handler = Arc<dyn Fn(&mut Exchange<'_>) + Send + Sync>;

#[derive(Default)]
struct Shared {
    handlers: Mutex<HashMap<String, Handler>>,
    otherwise: Mutex<Option<Handler>>,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    running: AtomicUsize,
    running_peak: AtomicUsize,
    stopped: AtomicBool,
    /// A second handle of each open connection, by its number.
    sockets: Mutex<HashMap<usize, Socket>>,
}

/// A running origin. Dropping it stops it.
pub struct Origin {
    shared: Arc<Shared>,
    address: Address,
    scheme: &'static str,
    /// Ends with the listener.
    accepts: Option<JoinHandle<()>>,
}

impl Default for Origin {
    fn default() -> Self {
        Self::start()
    }
}

impl Origin {
    /// An origin on a port of 127.0.0.1. It answers a path without a script with 404.
    pub fn start() -> Origin {
        Origin::listen(&format!("127.0.0.1:{}", free_port()))
    }

    /// An origin on this address, for example one that was used before.
    ///
    /// # Panics
    /// The address cannot be bound.
    pub fn listen(address: &str) -> Origin {
        Origin::tcp(bound(address), "http", |stream| Some(Socket::Tcp(stream)))
    }

    /// An origin that speaks https with a certificate of `authority` for `names`.
    pub fn https(authority: &Authority, names: &[&str]) -> Origin {
        Origin::with_tls(authority.server(names, Clients::Anybody))
    }

    /// As [`Origin::https`], but clients must show a certificate of the same authority.
    pub fn https_for_clients_of(authority: &Authority, names: &[&str]) -> Origin {
        Origin::with_tls(authority.server(names, Clients::Certified))
    }

    /// As [`Origin::https`], on this address.
    pub fn https_at(address: &str, authority: &Authority, names: &[&str]) -> Origin {
        Origin::tls_at(address, authority.server(names, Clients::Anybody))
    }

    fn with_tls(settings: Arc<rustls::ServerConfig>) -> Origin {
        Origin::tls_at(&format!("127.0.0.1:{}", free_port()), settings)
    }

    fn tls_at(address: &str, settings: Arc<rustls::ServerConfig>) -> Origin {
        Origin::tcp(bound(address), "https", move |stream| {
            let tls = rustls::ServerConnection::new(settings.clone()).ok()?;
            Some(Socket::Tls(Box::new(rustls::StreamOwned::new(tls, stream))))
        })
    }

    fn tcp(
        listener: TcpListener,
        scheme: &'static str,
        open: impl Fn(std::net::TcpStream) -> Option<Socket> + Send + 'static,
    ) -> Origin {
        let shared = Arc::new(Shared::default());
        let address = Address::Tcp(listener.local_addr().unwrap());
        let inner = shared.clone();
        let accepts = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if inner.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let _ = stream.set_nodelay(true);
                if let Some(socket) = open(stream) {
                    serve(&inner, socket);
                }
            }
        });
        Origin { shared, address, scheme, accepts: Some(accepts) }
    }

    /// An origin on a unix socket.
    ///
    /// # Panics
    /// The path cannot be bound.
    pub fn unix(path: &Path) -> Origin {
        let listener = UnixListener::bind(path).unwrap_or_else(|why| panic!("bind {path:?}: {why}"));
        let shared = Arc::new(Shared::default());
        let inner = shared.clone();
        let accepts = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if inner.stopped.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(stream) = stream {
                    serve(&inner, Socket::Unix(stream));
                }
            }
        });
        let address = Address::Unix(PathBuf::from(path));
        Origin { shared, address, scheme: "http", accepts: Some(accepts) }
    }

    /// The address that it listens on.
    pub fn address(&self) -> Address {
        self.address.clone()
    }

    /// Its TCP address.
    ///
    /// # Panics
    /// It listens on a unix socket.
    pub fn addr(&self) -> SocketAddr {
        match &self.address {
            Address::Tcp(addr) => *addr,
            Address::Unix(path) => panic!("{path:?} is not a TCP address"),
        }
    }

    /// Its URL without a path, as Weir's `--origin` takes it (`unix:` and the path for a unix socket).
    pub fn url(&self) -> String {
        match &self.address {
            Address::Tcp(addr) => format!("{}://{addr}", self.scheme),
            Address::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Its https URL by name instead of by address.
    pub fn url_by_name(&self, name: &str) -> String {
        format!("{}://{name}:{}", self.scheme, self.addr().port())
    }

    /// Puts a resource at a path (or at a target with its query), in place of what was there.
    pub fn put(&self, path: &str, resource: Resource) -> &Origin {
        self.on(path, move |exchange| resource.answer(exchange))
    }

    /// Sends exactly these bytes for a path and closes the connection.
    pub fn raw(&self, path: &str, bytes: impl AsRef<[u8]>) -> &Origin {
        let bytes = bytes.as_ref().to_vec();
        self.on(path, move |exchange| {
            exchange.body();
            exchange.send(&bytes);
            exchange.close();
        })
    }

    /// Sends exactly these bytes for a path and keeps the connection.
    pub fn raw_kept(&self, path: &str, bytes: impl AsRef<[u8]>) -> &Origin {
        let bytes = bytes.as_ref().to_vec();
        self.on(path, move |exchange| {
            exchange.body();
            exchange.send(&bytes);
        })
    }

    /// Answers a path with the head of the request as the body.
    pub fn echo(&self, path: &str, headers: &[(&str, &str)]) -> &Origin {
        let headers = owned(headers);
        self.on(path, move |exchange| {
            exchange.body();
            let headers: Vec<_> = borrowed(&headers).collect();
            let raw = exchange.request.raw.clone();
            exchange.reply(200, &headers, raw);
        })
    }

    /// Runs a script for a path (or a target with its query).
    pub fn on(&self, path: &str, script: impl Fn(&mut Exchange<'_>) + Send + Sync + 'static) -> &Origin {
        self.shared.handlers.lock().unwrap().insert(path.to_owned(), Arc::new(script));
        self
    }

    /// Runs a script for every path that has none.
    pub fn otherwise(&self, script: impl Fn(&mut Exchange<'_>) + Send + Sync + 'static) -> &Origin {
        *self.shared.otherwise.lock().unwrap() = Some(Arc::new(script));
        self
    }

    /// All requests so far, in the order in which their heads arrived.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// The requests for a path so far.
    pub fn requests(&self, path: &str) -> Vec<Request> {
        let seen = self.shared.seen.lock().unwrap();
        seen.iter().map(|s| &s.request).filter(|r| r.path() == path || r.target == path).cloned().collect()
    }

    /// The number of requests for a path.
    pub fn count(&self, path: &str) -> usize {
        self.requests(path).len()
    }

    /// The number of all requests.
    pub fn total(&self) -> usize {
        self.shared.seen.lock().unwrap().len()
    }

    /// Waits for the `n`-th request for a path.
    pub fn await_count(&self, path: &str, n: usize) {
        until(&format!("{n} requests for {path} at the origin"), || self.count(path) >= n);
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// The most requests that were answered at the same time.
    pub fn running_peak(&self) -> usize {
        self.shared.running_peak.load(Ordering::SeqCst)
    }

    /// Closes every connection, as a restarting origin does. It goes on listening.
    pub fn drop_connections(&self) {
        for (_, socket) in self.shared.sockets.lock().unwrap().drain() {
            socket.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // A file of a unix socket may be gone; then its listener stays, unknown to all.
        if self.address.connect().is_ok()
            && let Some(accepts) = self.accepts.take()
        {
            let _ = accepts.join();
        }
        self.drop_connections();
    }
}

/// A listener on this address. One that was there before may be a moment longer in a process that is being
/// started.
fn bound(address: &str) -> TcpListener {
    let begun = Instant::now();
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => return listener,
            Err(why) => assert!(
                why.kind() == ErrorKind::AddrInUse && begun.elapsed() < PATIENCE,
                "bind {address}: {why}"
            ),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn serve(shared: &Arc<Shared>, mut socket: Socket) {
    let number = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
    let _ = socket.patience(2 * PATIENCE);
    shared.sockets.lock().unwrap().extend(socket.handle().map(|handle| (number, handle)));
    let shared = shared.clone();
    let job = move || {
        let after = converse(&shared, &mut socket, number);
        // While another handle exists, a connection is neither closed nor reset.
        drop(shared.sockets.lock().unwrap().remove(&number));
        match after {
            After::Next => {}
            After::Close => socket.shutdown(Shutdown::Both),
            After::Reset => socket.reset(),
        }
    };
    std::thread::Builder::new().stack_size(256 * 1024).spawn(job).unwrap();
}

/// Answers the requests of a connection one after another. Returns how it ends.
fn converse(shared: &Shared, socket: &mut Socket, number: usize) -> After {
    let mut buf = Vec::new();
    while let Some(raw) = read_head(socket, &mut buf) {
        let request = Request::parse(raw, number);
        shared.seen.lock().unwrap().push(Seen { request: request.clone() });
        let running = shared.running.fetch_add(1, Ordering::SeqCst) + 1;
        shared.running_peak.fetch_max(running, Ordering::SeqCst);
        let mut exchange = Exchange::new(&request, socket, &mut buf);
        match handler(shared, &request) {
            Some(script) => script(&mut exchange),
            None => {
                exchange.body();
                exchange.reply(404, &[("Cache-Control", "no-store")], "no such path\n");
            }
        }
        let after = exchange.finish();
        shared.running.fetch_sub(1, Ordering::SeqCst);
        if after != After::Next {
            return after;
        }
    }
    After::Next
}

fn handler(shared: &Shared, request: &Request) -> Option<Handler> {
    let handlers = shared.handlers.lock().unwrap();
    let found = handlers.get(&request.target).or_else(|| handlers.get(request.path())).cloned();
    drop(handlers);
    found.or_else(|| shared.otherwise.lock().unwrap().clone())
}

fn read_head(socket: &mut Socket, buf: &mut Vec<u8>) -> Option<Vec<u8>> {
    let mut piece = [0u8; 16 * 1024];
    loop {
        if let Some(at) = buf.windows(4).position(|w| w == b"\r\n\r\n") {
            return Some(buf.drain(..at + 4).collect());
        }
        match socket.read(&mut piece) {
            Ok(n) if n > 0 => buf.extend_from_slice(&piece[..n]),
            _ => return None,
        }
    }
}
