//! Warming: a URL is walked like a client's request, without a client: its response is stored and goes
//! nowhere. Clients go first. What is not for the cache is told, and no origin is asked for it. It counts as
//! nobody's request: only what origins send is charged.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use tokio::sync::{mpsc, watch};
use weir_body::Body as _;
use weir_front::listen::Peer;
use weir_front::{Client, ContentError, ContentLimits, LocalFuture, Part, PeerInfo, Request, Trust, Way};
use weir_observe::{Outcome, SiteId, Storing};
use weir_wire::{ListedContent, Pseudo, of_list};

use crate::core::Core;
use crate::exchange::Note;
use crate::give_way::{self, GAVE_WAY};
use crate::lookup;
use crate::response::Response;
use crate::warming::{Aim, GaveWay, Wanted, Warm, Warmed, Warming};
use crate::{service, walk};
use weir_clock as clock;

/// The longest walk of one URL. A fill that is stored goes on without it.
const WALK_TIME_MAX: Duration = Duration::from_secs(3600);
/// The word for a walk that took longer.
const OVERDUE: &str = "overdue";
/// The longest time without a head, or without a byte of a body.
const STILL_TIME_MAX: Duration = Duration::from_secs(600);
/// The word for a walk in which nothing has come for so long.
const STILL: &str = "no-progress";
/// The size of the pieces in which a body is read, in bytes.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// So much is read of a response that is not stored, so that its connection can be used again.
const PASSED_BYTES_MAX: usize = 64 << 10;

/// Does the walks of a worker until the process ends.
pub(crate) async fn attend(core: Rc<Core>) {
    let (sender, mut incoming) = mpsc::unbounded_channel();
    core.shared.walks.workers.lock().push(sender);
    while let Some(wanted) = incoming.recv().await {
        let (Wanted::Warm(warm, _) | Wanted::Read(warm, ..)) = &wanted;
        let (walk, ends) = (core.shared.walks.begin(&warm.owner), warm.ends.clone());
        let Some(walk) = walk else {
            match wanted {
                Wanted::Warm(_, done) | Wanted::Read(_, _, done) => done(Warmed::GaveWay(GaveWay::Places)),
            }
            continue;
        };
        let core = core.clone();
        tokio::task::spawn_local(async move {
            let _walk = walk;
            match wanted {
                Wanted::Warm(warm, done) => {
                    let walked = Box::pin(self::warm(&core, *warm));
                    let walked = unless_ended(ends, tokio::time::timeout(WALK_TIME_MAX, walked)).await;
                    // Nobody waits for one whose warming has ended.
                    if let Some(walked) = walked {
                        done(walked.unwrap_or(Warmed::Failed(OVERDUE)));
                    }
                }
                Wanted::Read(warm, pieces, done) => {
                    let left = async {
                        tokio::select! {
                            () = pieces.closed() => {}
                            () = Box::pin(read(&core, *warm, &pieces, done)) => {}
                        }
                    };
                    let left = async {
                        if tokio::time::timeout(WALK_TIME_MAX, left).await.is_err() {
                            // Otherwise it would end as if it were whole. Nobody may be there to hear it.
                            let _ = pieces.send(Err(OVERDUE)).await;
                        }
                    };
                    let _ = unless_ended(ends, left).await;
                }
            }
        });
    }
}

/// What comes of a walk; `None` where its warming ends before. What it fills goes on by its own rules.
async fn unless_ended<T>(mut ends: watch::Receiver<()>, walk: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        // Nothing is ever sent: only the end of the sender is an answer.
        _ = ends.changed() => None,
        walked = walk => Some(walked),
    }
}

/// What a step of a walk gives, where it does so soon enough.
///
/// # Errors
/// The word: nothing has come for too long.
async fn soon<T>(step: impl Future<Output = T>) -> Result<T, &'static str> {
    tokio::time::timeout(STILL_TIME_MAX, step).await.map_err(|_| STILL)
}

/// Warms a URL on this core.
async fn warm(core: &Core, warm: Warm) -> Warmed {
    let Warm { url, headers, refresh, instead, .. } = warm;
    let plan = core.running();
    let mut request = match request(&url, headers, plan.limits.clone()) {
        Ok(request) => request,
        Err(word) => return Warmed::Failed(word),
    };
    let warming = Warming { refresh, instead, aim: Aim::Store, hurry: Arc::default() };
    let shown = service::prepare(&plan, &mut request);
    let mut note = Note::warming(core, &plan, (&request, shown), &warming);
    let Ok(response) = soon(walk::walk(&mut note, &mut Nobody)).await else { return Warmed::Failed(STILL) };
    ended(&note, response).await
}

/// Reads a document on this core.
async fn read(
    core: &Core,
    warm: Warm,
    pieces: &mpsc::Sender<Result<Bytes, &'static str>>,
    done: Box<dyn FnOnce(Warmed) + Send>,
) {
    let plan = core.running();
    let mut request = match request(&warm.url, warm.headers, plan.limits.clone()) {
        Ok(request) => request,
        Err(word) => return done(Warmed::Failed(word)),
    };
    let warming = Warming { refresh: false, instead: None, aim: Aim::Read, hurry: Arc::default() };
    let shown = service::prepare(&plan, &mut request);
    let mut note = Note::warming(core, &plan, (&request, shown), &warming);
    let Ok(response) = soon(walk::walk(&mut note, &mut Nobody)).await else {
        return done(Warmed::Failed(STILL));
    };
    let Response { head, mut body, .. } = response;
    done(match head.status() {
        _ if note.told.facts.detail == GAVE_WAY => Warmed::GaveWay(give_way::why(&note)),
        Some(StatusCode::OK) => Warmed::Stored,
        Some(status) => Warmed::Status(status),
        None => Warmed::Failed(note.told.facts.detail),
    });
    while head.status() == Some(StatusCode::OK) {
        let piece = match soon(body.next(PIECE_BYTES_MAX)).await {
            Ok(Ok(Some(piece))) => Ok(piece),
            Ok(Ok(None)) => return,
            Ok(Err(cut)) => Err(cut.word),
            Err(still) => Err(still),
        };
        let is_cut = piece.is_err();
        if pieces.send(piece).await.is_err() || is_cut {
            return;
        }
    }
}

/// What came of a walk: its response is taken in, as far as that is needed.
async fn ended(note: &Note<'_>, response: Response) -> Warmed {
    let Response { head, mut body, .. } = response;
    let facts = &note.told.facts;
    let (detail, storing) = (facts.detail, facts.storing);
    if detail == GAVE_WAY {
        return Warmed::GaveWay(give_way::why(note));
    }
    let Some(status) = head.status() else {
        return match (facts.outcome, storing) {
            (Outcome::Pass, Storing::NotStored(word)) => Warmed::NotStored(word),
            (Outcome::Pass, _) => Warmed::NotStored(detail),
            _ => Warmed::Failed(detail),
        };
    };
    let is_of_origin = note.told.answered.is_some();
    match facts.outcome {
        Outcome::Hit => return Warmed::Fresh,
        Outcome::Revalidated => return Warmed::Confirmed,
        Outcome::Stale | Outcome::Refused => return Warmed::Failed(detail),
        Outcome::Local => return Warmed::NotStored(detail),
        Outcome::Miss | Outcome::Pass if status.is_server_error() && is_of_origin => {
            return Warmed::Status(status);
        }
        // While nothing answers at all, no URL has failed: it waits with those behind it.
        Outcome::Miss if status.is_server_error() => {
            return match give_way::why(note) {
                down @ GaveWay::Down(_) => Warmed::GaveWay(down),
                _ => Warmed::Failed(detail),
            };
        }
        Outcome::Miss | Outcome::Pass => {}
    }
    let not_stored = match (facts.outcome, storing) {
        (_, Storing::NotStored(word)) => Some(word),
        (Outcome::Pass, _) => Some(detail),
        _ => None,
    };
    let most = if not_stored.is_some() { PASSED_BYTES_MAX } else { usize::MAX };
    let mut read = 0usize;
    while read < most {
        match soon(body.next(PIECE_BYTES_MAX)).await {
            Ok(Ok(Some(piece))) => read = read.saturating_add(piece.len()),
            Ok(Ok(None)) => break,
            Ok(Err(cut)) if not_stored.is_none() => return Warmed::Failed(cut.word),
            Err(still) if not_stored.is_none() => return Warmed::Failed(still),
            Ok(Err(_)) | Err(_) => break,
        }
    }
    drop(body);
    match not_stored {
        Some(word) => Warmed::NotStored(word),
        None if is_held(note).await => Warmed::Stored,
        // The process of before has let go of what it holds, and the new one does not have this.
        None if note.asked.core.shared.walks.stops() => Warmed::GaveWay(GaveWay::Places),
        // There was no room for it, or it was purged meanwhile.
        None => Warmed::NotStored("not-kept"),
    }
}

async fn is_held(note: &Note<'_>) -> bool {
    match &note.chosen {
        Some(chosen) => lookup::find(&note.asked, chosen).await.generation.is_some(),
        None => false,
    }
}

/// The request for a URL, held to what HTTP/1 allows.
fn request(
    url: &str,
    mut headers: HeaderMap,
    limits: Arc<weir_front::ClientLimits>,
) -> Result<Request, &'static str> {
    let uri = Uri::try_from(url).map_err(|_| "malformed-url")?;
    let authority = uri.authority().ok_or("malformed-url")?.as_str().to_owned();
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let host = HeaderValue::try_from(authority.as_str()).map_err(|_| "malformed-url")?;
    headers.insert(http::header::HOST, host);
    let pseudo = Pseudo {
        method: Method::GET,
        scheme: uri.scheme_str().map(|scheme| Bytes::copy_from_slice(scheme.as_bytes())),
        authority: Some(authority.into()),
        path: path.into(),
        protocol: None,
    };
    let head = of_list(pseudo, headers, ListedContent::None, &weir_wire::Limits::default());
    let head = head.map_err(|_| "malformed-url")?;
    let is_https = uri.scheme_str() == Some("https");
    let port = head.host.port().or(Some(if is_https { 443 } else { 80 }));
    let mut peer = PeerInfo::new(Peer::Itself, Trust::Untrusted, limits, None).at_port(port);
    peer.scheme = if is_https { "https" } else { "http" };
    Ok(Request::of_head(head, Rc::new(peer), clock::now()))
}

/// Nobody: it has sent everything, and waits for as long as it takes.
struct Nobody;

impl Client for Nobody {
    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn content(&mut self) -> LocalFuture<'_, Result<Part, ContentError>> {
        Box::pin(std::future::ready(Ok(Part::End)))
    }

    fn bound_content(&mut self, _: ContentLimits) {}

    fn interim(&mut self, _: StatusCode, _: &HeaderMap) -> Result<(), ContentError> {
        Ok(())
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn moved(&mut self) {}

    fn way(&self) -> Way {
        Way::Plain
    }

    fn count_for(&mut self, _: SiteId) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_walk_in_which_nothing_comes_ends_with_a_word() {
        let begun = tokio::time::Instant::now();
        assert_eq!(soon(std::future::pending::<()>()).await, Err("no-progress"));
        assert_eq!(begun.elapsed(), STILL_TIME_MAX);
        assert_eq!(soon(async { 1 }).await, Ok(1));
    }
}
