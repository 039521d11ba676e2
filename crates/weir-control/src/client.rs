//! Sends commands to a running Weir: over its control socket, or over its admin listener with a token.

mod sending;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::answer::{JSON, Refused};
use crate::socket::AnySocket;
use crate::streams::Form;
use crate::{state, tls};

pub use self::sending::Sending;

/// What a request has as its content.
type Content = Either<Full<Bytes>, Sending>;

/// The longest line of a stream in bytes.
const LINE_BYTES_MAX: usize = 64 << 20;
/// How long to wait before the next try where the socket's queue is full.
const TURN_PAUSE: Duration = Duration::from_millis(10);

/// Where a running Weir is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the control socket of its state folder.
    Folder(PathBuf),
    /// By its admin listener.
    Url(Remote),
}

/// An admin listener, and what opens it.
#[derive(Clone, PartialEq, Eq)]
pub struct Remote {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub url: Uri,
    /// The token.
    pub token: String,
    /// The authorities that its certificate may come from, as PEM; absent: those of the system.
    pub roots: Option<PathBuf>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Remote").field("url", &self.url).finish_non_exhaustive()
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The method.
    pub method: Method,
    /// The path with its query.
    pub path: String,
    /// The content, JSON.
    pub body: Vec<u8>,
    /// How long an answer may take.
    pub patience: Duration,
}

/// An answer of a running Weir.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its status.
    pub status: StatusCode,
    /// Its body, JSON.
    pub body: Bytes,
}

impl Asked {
    /// The sentence of a refusal; `None` when the command succeeded.
    pub fn refusal(&self) -> Option<String> {
        if self.status.is_success() {
            return None;
        }
        let refused: Option<Refused> = serde_json::from_slice(&self.body).ok();
        Some(match refused {
            None => format!("the running Weir answered {}", self.status),
            Some(Refused { message, help, .. }) if help.is_empty() => message,
            Some(Refused { message, help, .. }) => format!("{message}; {help}"),
        })
    }
}

/// A running Weir could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No Weir runs there.
    #[error(
        "no Weir runs with the state folder {}; start one with `weir run`, or name its folder with --state \
         DIR",
        folder.display()
    )]
    NotRunning {
        /// The state folder.
        folder: PathBuf,
    },
    /// It belongs to someone else.
    #[error(
        "the Weir with the state folder {} belongs to another user; ask as that user or as root",
        folder.display()
    )]
    Denied {
        /// The state folder.
        folder: PathBuf,
    },
    /// It did not answer.
    #[error("the Weir {at} did not answer: {why}")]
    Silent {
        /// Where it is.
        at: String,
        /// What happened.
        why: String,
    },
}

impl Way {
    fn silent(&self, why: impl ToString) -> AskError {
        let at = match self {
            Way::Folder(folder) => format!("with the state folder {}", folder.display()),
            Way::Url(remote) => format!("at {}", remote.url),
        };
        AskError::Silent { at, why: why.to_string() }
    }

    fn unreachable(&self, error: &io::Error) -> AskError {
        match (self, error.kind()) {
            (Way::Folder(folder), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                AskError::NotRunning { folder: folder.clone() }
            }
            (Way::Folder(folder), io::ErrorKind::PermissionDenied) => {
                AskError::Denied { folder: folder.clone() }
            }
            _ => self.silent(error),
        }
    }
}

/// How a stream ended.
#[derive(Clone, Debug)]
pub enum Followed {
    /// It did not begin.
    Refused(Asked),
    /// It has ended, or its connection has.
    Ended,
}

/// Asks a running Weir for a stream of lines, and hands on each until `each` breaks or the stream ends. The
/// patience is that for an answer, and for the next line.
///
/// # Errors
/// When none runs there, it may not be asked or does not answer.
pub fn follow(
    way: &Way,
    asked: Ask,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<Followed, AskError> {
    let runtime = runtime(way)?;
    runtime.block_on(async {
        let patience = asked.patience;
        let begun = in_time(way, patience, open(way, asked, Form::LINES)).await?;
        if !begun.response.status().is_success() {
            return Ok(Followed::Refused(in_time(way, patience, begun.whole(way)).await?));
        }
        let Begun { response, sender: _sender, connection: _connection } = begun;
        let mut body = response.into_body();
        let mut lines = Vec::new();
        // A connection that breaks ends the stream as well.
        while let Ok(Some(Ok(frame))) = tokio::time::timeout(patience, body.frame()).await {
            lines.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            while let Some(end) = lines.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = lines.drain(..=end).collect();
                // An empty one says that the other end is there.
                if line.len() > 1 && each(&line[..end]).is_break() {
                    return Ok(Followed::Ended);
                }
            }
            if lines.len() > LINE_BYTES_MAX {
                return Err(way.silent("a line is too long"));
            }
        }
        Ok(Followed::Ended)
    })
}

/// Asks a running Weir and waits for its answer.
///
/// # Errors
/// When none runs there, it may not be asked or does not answer.
pub fn ask(way: &Way, asked: Ask) -> Result<Asked, AskError> {
    runtime(way)?.block_on(in_time(way, asked.patience, async {
        let begun = open(way, asked, JSON).await?;
        begun.whole(way).await
    }))
}

/// Sends a file to a running Weir, as the content of a request, and waits for its answer. `content_type` is
/// said of it, where there is one.
///
/// # Errors
/// When none runs there, it may not be asked or does not answer.
pub fn send(
    way: &Way,
    asked: Ask,
    content_type: Option<&HeaderValue>,
    sending: Sending,
) -> Result<Asked, AskError> {
    runtime(way)?.block_on(in_time(way, asked.patience, async {
        let mut request = request(way, asked)?.map(|_| Content::Right(sending));
        match content_type {
            Some(said) => drop(request.headers_mut().insert(http::header::CONTENT_TYPE, said.clone())),
            None => drop(request.headers_mut().remove(http::header::CONTENT_TYPE)),
        }
        open_with(way, request, JSON).await?.whole(way).await
    }))
}

fn runtime(way: &Way) -> Result<Runtime, AskError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| way.silent(error))
}

async fn in_time<T>(
    way: &Way,
    patience: Duration,
    work: impl Future<Output = Result<T, AskError>>,
) -> Result<T, AskError> {
    match tokio::time::timeout(patience, work).await {
        Err(_) => Err(way.silent(format!("nothing came for {} s", patience.as_secs()))),
        Ok(done) => done,
    }
}

/// An answer whose head has come.
struct Begun {
    response: Response<Incoming>,
    sender: SendRequest<Content>,
    connection: Connected,
}

/// The task of a connection, which ends with this.
struct Connected(JoinHandle<hyper::Result<()>>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Begun {
    async fn whole(self, way: &Way) -> Result<Asked, AskError> {
        let Begun { response, sender: _sender, connection: _connection } = self;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| way.silent(error))?.to_bytes();
        Ok(Asked { status, body })
    }
}

async fn open(way: &Way, asked: Ask, accept: &'static str) -> Result<Begun, AskError> {
    open_with(way, request(way, asked)?, accept).await
}

async fn open_with(way: &Way, request: Request<Content>, accept: &'static str) -> Result<Begun, AskError> {
    match way {
        Way::Folder(folder) => {
            let (socket, _open) = state::socket_of(folder).map_err(|error| way.unreachable(&error))?;
            let stream = connect(&socket).await.map_err(|error| way.unreachable(&error))?;
            exchange(way, Box::new(stream), request, accept).await
        }
        Way::Url(remote) => {
            let host = remote.url.host().unwrap_or_default();
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            let is_https = remote.url.scheme_str() == Some("https");
            let port = remote.url.port_u16().unwrap_or(if is_https { 443 } else { 80 });
            let stream = TcpStream::connect((host, port)).await.map_err(|error| way.unreachable(&error))?;
            let mut stream: AnySocket = Box::new(stream);
            if is_https {
                let secured = tls::connect(stream, host, remote.roots.as_deref()).await;
                stream = secured.map_err(|error| way.silent(error))?;
            }
            exchange(way, stream, request, accept).await
        }
    }
}

async fn exchange(
    way: &Way,
    stream: AnySocket,
    mut request: Request<Content>,
    accept: &'static str,
) -> Result<Begun, AskError> {
    request.headers_mut().insert(http::header::ACCEPT, HeaderValue::from_static(accept));
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| way.silent(error))?;
    let connection = Connected(tokio::spawn(connection));
    let response = sender.send_request(request).await.map_err(|error| match way {
        Way::Url(remote) if error.is_parse() && remote.url.scheme_str() == Some("http") => {
            way.silent(format!("{error}; if it speaks TLS, ask https://"))
        }
        _ => way.silent(error),
    })?;
    Ok(Begun { response, sender, connection })
}

fn request(way: &Way, asked: Ask) -> Result<Request<Content>, AskError> {
    let host = match way {
        Way::Folder(_) => "weir",
        Way::Url(remote) => remote.url.authority().map_or("", |authority| authority.as_str()),
    };
    let mut request = Request::builder()
        .method(asked.method)
        .uri(asked.path)
        .header(http::header::HOST, host)
        .header(http::header::CONTENT_TYPE, JSON);
    if let Way::Url(remote) = way {
        let value = HeaderValue::from_str(&format!("Bearer {}", remote.token));
        let mut value =
            value.map_err(|_| way.silent("what was given is no token; the file holds the token alone"))?;
        value.set_sensitive(true);
        request = request.header(http::header::AUTHORIZATION, value);
    }
    let content = Content::Left(Full::new(Bytes::from(asked.body)));
    request.body(content).map_err(|error| way.silent(error))
}

/// Connects, and waits its turn where many clients ask at once.
async fn connect(socket: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(TURN_PAUSE).await,
            connected => return connected,
        }
    }
}
