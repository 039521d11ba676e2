//! Sends commands to a running Weir: over its control socket, or over its admin listener with a token.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::answer::{JSON, Refused};
use crate::{state, tls};

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

/// Asks a running Weir and waits for its answer.
///
/// # Errors
/// When none runs there, it may not be asked or does not answer.
pub fn ask(way: &Way, asked: Ask) -> Result<Asked, AskError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| way.silent(error))?;
    runtime.block_on(async {
        let patience = asked.patience;
        match tokio::time::timeout(patience, over(way, asked)).await {
            Err(_) => Err(way.silent(format!("nothing came for {} s", patience.as_secs()))),
            Ok(asked) => asked,
        }
    })
}

async fn over(way: &Way, asked: Ask) -> Result<Asked, AskError> {
    match way {
        Way::Folder(folder) => {
            let (socket, _open) = state::socket_of(folder).map_err(|error| way.unreachable(&error))?;
            let stream = connect(&socket).await.map_err(|error| way.unreachable(&error))?;
            exchange(way, stream, asked).await
        }
        Way::Url(remote) => {
            let host = remote.url.host().unwrap_or_default();
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            let is_https = remote.url.scheme_str() == Some("https");
            let port = remote.url.port_u16().unwrap_or(if is_https { 443 } else { 80 });
            let stream = TcpStream::connect((host, port)).await.map_err(|error| way.unreachable(&error))?;
            if !is_https {
                return exchange(way, stream, asked).await;
            }
            let stream = tls::connect(stream, host, remote.roots.as_deref()).await;
            exchange(way, stream.map_err(|error| way.silent(error))?, asked).await
        }
    }
}

async fn exchange<S>(way: &Way, stream: S, asked: Ask) -> Result<Asked, AskError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let request = request(way, asked)?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| way.silent(error))?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(|error| way.silent(error))?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|error| way.silent(error))?.to_bytes();
    drop(sender);
    connection.abort();
    Ok(Asked { status, body })
}

fn request(way: &Way, asked: Ask) -> Result<Request<Full<Bytes>>, AskError> {
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
        let mut value = value.map_err(|_| way.silent("the token is none"))?;
        value.set_sensitive(true);
        request = request.header(http::header::AUTHORIZATION, value);
    }
    request.body(Full::new(Bytes::from(asked.body))).map_err(|error| way.silent(error))
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
