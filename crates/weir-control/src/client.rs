//! Sends commands to a running Weir over its control socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use crate::answer::{JSON, Refused};
use crate::state;

/// How long to wait before the next try where the socket's queue is full.
const TURN_PAUSE: Duration = Duration::from_millis(10);

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
    #[error("the Weir with the state folder {} did not answer: {why}", folder.display())]
    Silent {
        /// The state folder.
        folder: PathBuf,
        /// What happened.
        why: String,
    },
}

/// Sends one request to the Weir of a state folder and waits for its answer, for at most `patience`.
///
/// # Errors
/// When none runs there, it may not be asked or does not answer.
pub fn ask(
    folder: &Path,
    method: Method,
    path: &str,
    body: Vec<u8>,
    patience: Duration,
) -> Result<Asked, AskError> {
    let silent = |why: String| AskError::Silent { folder: folder.to_owned(), why };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| silent(error.to_string()))?;
    runtime.block_on(async {
        let asked = tokio::time::timeout(patience, exchange(folder, method, path, body)).await;
        match asked {
            Err(_) => Err(silent(format!("nothing came for {} s", patience.as_secs()))),
            Ok(asked) => asked,
        }
    })
}

async fn exchange(folder: &Path, method: Method, path: &str, body: Vec<u8>) -> Result<Asked, AskError> {
    let silent = |why: String| AskError::Silent { folder: folder.to_owned(), why };
    let (socket, _open) = state::socket_of(folder).map_err(|error| unreachable_as(folder, &error))?;
    let stream = connect(&socket).await.map_err(|error| unreachable_as(folder, &error))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| silent(error.to_string()))?;
    let connection = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::HOST, "weir")
        .header(http::header::CONTENT_TYPE, JSON)
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| silent(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(|error| silent(error.to_string()))?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|error| silent(error.to_string()))?.to_bytes();
    drop(sender);
    connection.abort();
    Ok(Asked { status, body })
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

fn unreachable_as(folder: &Path, error: &io::Error) -> AskError {
    let folder = folder.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AskError::NotRunning { folder },
        io::ErrorKind::PermissionDenied => AskError::Denied { folder },
        _ => AskError::Silent { folder, why: error.to_string() },
    }
}
