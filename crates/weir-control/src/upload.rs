//! Content on its way from a request to the data plane: the connection reads, a thread of its own writes. At
//! most a few pieces wait between the two.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::{mpsc, oneshot};

use crate::answer::Refusal;
use crate::data_plane::{ContentLaid, ContentRefusal, ContentUpload};
use crate::unsent::Moves;

/// Pieces that have been read and are not written yet.
const PIECES_MAX: usize = 8;
/// How long the next bytes may take to arrive.
const PIECE_TIME: Duration = Duration::from_secs(10);
/// How long a file may take to be made, and a piece to be written.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the whole may take to be durable, once it has come.
const DURABLE_TIME_MAX: Duration = Duration::from_secs(30);
/// How long what was refused is read on, so that its sender gets to read why.
const LINGER_TIME: Duration = Duration::from_secs(5);

/// Begins an upload; it may block.
pub(crate) type Begin = Box<dyn FnOnce() -> Result<Box<dyn ContentUpload>, ContentRefusal> + Send>;

/// What the thread gets.
enum Piece {
    Bytes(Bytes),
    /// The content is whole.
    End,
}

/// What a request sends as its content.
pub(crate) struct Sent {
    pub(crate) body: Incoming,
    /// Its connection's place: what stands still gives way to others.
    pub(crate) moves: Arc<Moves>,
    /// Whether it is sent only once it is asked for (RFC 9110 §10.1.1).
    pub(crate) waits: bool,
}

/// Lays what a request sends.
///
/// # Errors
/// Why it is not laid; nothing of it is left then.
pub(crate) async fn lay(begin: Begin, sent: Sent) -> Result<ContentLaid, Refusal> {
    let (pieces, coming) = mpsc::channel(PIECES_MAX);
    let (begun, is_begun) = oneshot::channel();
    let (told, laid) = oneshot::channel();
    let write = move || {
        // The request may have gone.
        drop(told.send(write(begin, begun, coming)));
    };
    let thread = std::thread::Builder::new().name("weir-upload".to_owned()).spawn(write);
    thread.map_err(|error| refusal(ContentRefusal::Failed(format!("cannot start a thread: {error}"))))?;
    let Sent { mut body, moves, waits } = sent;
    // Nothing is read for one that is refused at once.
    let read = match tokio::time::timeout(WRITE_TIME_MAX, is_begun).await {
        Ok(Ok(())) => read(&mut body, &moves, pieces).await,
        Ok(Err(_)) => Read::Refused,
        Err(_) => Read::Broken(refusal(silent())),
    };
    if let Read::Broken(refusal) = read {
        return Err(refusal);
    }
    let result = match tokio::time::timeout(DURABLE_TIME_MAX, laid).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(ContentRefusal::Failed("the thread that writes has ended".to_owned())),
        // It may be laid yet, once the drive answers.
        Err(_) => Err(silent()),
    };
    let result = result.map_err(refusal);
    if result.is_err() && !waits {
        let rest = async { while let Some(Ok(_)) = body.frame().await {} };
        let _ = tokio::time::timeout(LINGER_TIME, rest).await;
    }
    result
}

/// How reading ended.
enum Read {
    Whole,
    /// The thread takes no more.
    Refused,
    Broken(Refusal),
}

async fn read(body: &mut Incoming, moves: &Moves, pieces: mpsc::Sender<Piece>) -> Read {
    loop {
        let piece = match tokio::time::timeout(PIECE_TIME, body.frame()).await {
            Err(_) => {
                let message = "the content did not arrive in time";
                return Read::Broken(Refusal::new(StatusCode::REQUEST_TIMEOUT, "too-slow", message));
            }
            Ok(Some(Err(_))) => return Read::Broken(Refusal::malformed("the content broke off")),
            Ok(None) => Piece::End,
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(bytes) => {
                    moves.gets_on();
                    Piece::Bytes(bytes)
                }
                Err(_) => continue,
            },
        };
        let is_last = matches!(piece, Piece::End);
        match (tokio::time::timeout(WRITE_TIME_MAX, pieces.send(piece)).await, is_last) {
            (Err(_), _) => return Read::Broken(refusal(silent())),
            (Ok(Err(_)), _) => return Read::Refused,
            (Ok(Ok(())), true) => return Read::Whole,
            (Ok(Ok(())), false) => {}
        }
    }
}

/// The thread's work. An upload whose end does not come leaves nothing.
fn write(
    begin: Begin,
    begun: oneshot::Sender<()>,
    mut coming: mpsc::Receiver<Piece>,
) -> Result<ContentLaid, ContentRefusal> {
    let mut upload = begin()?;
    // The request may have gone.
    let _ = begun.send(());
    while let Some(piece) = coming.blocking_recv() {
        match piece {
            Piece::Bytes(bytes) => upload.write(&bytes)?,
            Piece::End => return upload.finish(),
        }
    }
    Err(ContentRefusal::Unfit("the content broke off".to_owned()))
}

/// A drive that hangs is waited for a while; the thread goes on waiting (ADR 0101).
fn silent() -> ContentRefusal {
    ContentRefusal::Failed(
        "the content cannot be written: the drive of the state folder does not answer".to_owned(),
    )
}

/// What the API answers. RFC 4918 §11.5 has 507.
pub(crate) fn refusal(why: ContentRefusal) -> Refusal {
    let full = "reset what is not needed (`weir content list`), or raise `[content] size`";
    match why {
        ContentRefusal::Unfit(why) => Refusal::unfit(why),
        ContentRefusal::OtherSite(why) => Refusal::new(StatusCode::FORBIDDEN, "other-site", why)
            .help("name a URL of one of its sites, or use another token"),
        ContentRefusal::TooLarge(why) => {
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", why).help("raise `[content] size`")
        }
        ContentRefusal::Full(why) => {
            Refusal::new(StatusCode::INSUFFICIENT_STORAGE, "content-full", why).help(full)
        }
        ContentRefusal::DiskFull(why) => Refusal::new(StatusCode::INSUFFICIENT_STORAGE, "disk-full", why)
            .help("make room on the drive of the state folder; what was laid before is there still"),
        ContentRefusal::Busy(why) => {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy", why).help("try again")
        }
        ContentRefusal::Moving(why) => {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "upgrading", why).help("try again in a moment")
        }
        ContentRefusal::Failed(why) => Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "state-folder", why)
            .help("mend the drive of the state folder"),
    }
}
