//! `PURGE`, `BAN` and the like of clients that may purge.

use std::sync::Arc;

use http::header::ALLOW;
use http::{HeaderName, HeaderValue, StatusCode};
use tokio::sync::oneshot;
use weir_clock as clock;
use weir_observe::{Act, Actor, Count, Entry, MARK_PATIENCE, RECORD_PATIENCE, SILENT_DRIVE};
use weir_policy::purge::read;
use weir_store::{Made, Scope, Stamp, Unwritten};

use super::beyond::Words;
use super::held::held;
use super::rights::purger;
use super::wanted::{From, Refused, Wanted};
use crate::exchange::{Asked, Told};
use crate::local::{self, Reply};
use crate::plan::Route;
use crate::response::Response;
use crate::route::Rights;

/// The methods that every client may use.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
/// The most characters of a refused request line in the history.
const LINE_CHARS_MAX: usize = 200;
const CACHE_PURGE_RESULT: HeaderName = HeaderName::from_static("cache-purge-result");

/// Why more has gone than was asked for.
const WIDER: &str = "more than was asked for: it could not be read or told apart";
/// The same where the ledger is full.
const NO_ROOM: &str = "more than was asked for: the ledger has no room for so many marks";

/// Purges what the request asks for, where its client may; `route` is that of its own URL. Answers once the
/// marks are durable and the history has its entry.
pub(crate) async fn purge(asked: &Asked<'_>, told: &mut Told<'_>, route: Option<&Arc<Route>>) -> Response {
    let mut wanted = match wanted(asked, route.map(|route| &**route)) {
        Ok(wanted) => wanted,
        Err(reply) => {
            asked.core.observer.counters().count(Count::PurgesRefused);
            let request = format!("{} {}", asked.request.method, asked.path_and_query());
            let request = request.chars().take(LINE_CHARS_MAX).collect();
            let (act, why) = ("purge".to_owned(), reply.word.to_owned());
            let entry = Entry { act, request, result: Act::Refused, why, ..entry(asked) };
            asked.core.shared.observatory.history.record(entry);
            return local::answer(asked, told, *reply);
        }
    };
    let shared = &asked.core.shared;
    let urls = wanted.url.as_ref().map(std::slice::from_ref);
    let held = held(&shared.store, &asked.running.plan, urls, &wanted.marks);
    let entry = Entry {
        act: "purge".to_owned(),
        scope: wanted.scope.clone(),
        sites: wanted.sites.clone(),
        why: if wanted.is_wider { WIDER.to_owned() } else { String::new() },
        ..entry(asked)
    };
    asked.core.observer.counters().count(Count::Purges);
    if wanted.is_wider {
        tracing::warn!(purged = wanted.text, "a purge says more than can be read, and more was purged");
    }
    let reply = match carried_out(asked, &mut wanted, entry).await {
        Ok(stamp) => purged(stamp, &wanted, held.filter(|_| !wanted.is_beyond)),
        Err(why) => unwritten(&why),
    };
    local::answer(asked, told, reply)
}

/// Sets the marks, and waits until they are durable and the history has the entry. The entry is written also
/// where the client does not wait. A disk on which the history cannot be written holds up no purge.
async fn carried_out(asked: &Asked<'_>, wanted: &mut Wanted, mut entry: Entry) -> Result<Stamp, String> {
    let shared = &asked.core.shared;
    let words = Arc::new(Words::of(&wanted.marks));
    let as_written = words.clone();
    let (done, written) = oneshot::channel();
    let (noted, recorded) = oneshot::channel();
    let observatory = shared.observatory.clone();
    let acknowledge = move |result: Result<Made, Unwritten>| {
        match &result {
            Ok(made) => {
                entry.mark = Some(made.stamp.number());
                if as_written.fall_short(made) {
                    entry.why = NO_ROOM.to_owned();
                }
            }
            Err(error) => (entry.result, entry.why) = (Act::Failed, error.to_string()),
        }
        drop(done.send(result.map(|made| made.stamp)));
        observatory.history.record_then(entry, Box::new(move |result| drop(noted.send(result))));
    };
    let made = shared.store.purge(&wanted.marks, clock::now(), Box::new(acknowledge));
    if !words.beyond(&asked.running.plan, &made).is_empty() {
        (wanted.is_beyond, wanted.result) = (true, "all");
    }
    if wanted.is_wider || wanted.is_beyond {
        asked.core.observer.counters().count(Count::PurgesWidened);
    }
    let written = tokio::time::timeout(MARK_PATIENCE, written).await.map_err(|_| SILENT_DRIVE.to_owned())?;
    let written = written.map_err(|_| "the ledger's thread has ended".to_owned())?;
    let _ = tokio::time::timeout(RECORD_PATIENCE, recorded).await;
    written.map_err(|error| error.to_string())
}

/// An entry of the history by this request's client.
fn entry(asked: &Asked<'_>) -> Entry {
    let actor = match asked.client() {
        Some(client) => Actor::Client(client.ip().map_or_else(|| "unix".to_owned(), |ip| ip.to_string())),
        None => Actor::Nobody,
    };
    Entry { actor, request_id: asked.request_id().to_owned(), ..Entry::default() }
}

fn wanted(asked: &Asked<'_>, route: Option<&Route>) -> Result<Wanted, Box<Reply>> {
    let request = asked.request;
    let client = purger(asked);
    let from = From {
        plan: &asked.running.plan,
        host: &request.host,
        own: route.map_or(Rights::Nothing, |route| route.purgers.rights(&client)),
        purger: client,
    };
    // Before a field is read: 31 KB of patterns cost what ten thousand hits do.
    if !from.may_something() {
        let is_lost = request.method.as_str() == "PURGE" && from.plan.site(request.host.name()).is_none();
        return Err(Box::new(if is_lost { no_site() } else { not_allowed() }));
    }
    let asked = read(&request.method, asked.path_and_query(), &request.headers).map_err(|nothing| {
        Box::new(Reply::error(StatusCode::BAD_REQUEST, "purge-malformed", &nothing.to_string()))
    })?;
    from.wanted(&asked).map_err(|refused| {
        Box::new(match refused {
            Refused::NotAllowed => not_allowed(),
            Refused::OneUrl => {
                let text = "this client may purge one URL at a time here: more takes `purge` in the \
                            site's own rules, and where a trusted proxy names no client, `purge.key` or \
                            `purge.local = true`";
                Reply::error(StatusCode::FORBIDDEN, "purge-unnamed", text)
            }
            Refused::NoSite => no_site(),
        })
    })
}

fn no_site() -> Reply {
    Reply::error(StatusCode::MISDIRECTED_REQUEST, "unknown-host", "no site has this host")
}

fn not_allowed() -> Reply {
    let text = "this client may not purge here";
    let mut reply = Reply::error(StatusCode::METHOD_NOT_ALLOWED, "purge-refused", text);
    reply.headers.insert(ALLOW, HeaderValue::from_static(METHODS));
    reply
}

/// The answer: for people a line, for machines `Cache-Purge-Result`.
fn purged(stamp: Stamp, wanted: &Wanted, held: Option<u64>) -> Reply {
    let word = wanted.result;
    let (result, said) = match held {
        Some(0) => (format!("{word}; count=0"), "; nothing is held".to_owned()),
        Some(count) => (format!("{word}; count={count}"), format!("; {count} held")),
        None => (word.to_owned(), String::new()),
    };
    let mut body = format!("purged: mark {}, {word}{said}\n", stamp.number());
    let is_one_url = matches!(wanted.marks.first().map(|mark| mark.scope), Some(Scope::Url { .. }));
    if held == Some(0) && is_one_url {
        body.push_str(
            "host with port, path and query must be as clients ask for them; all that begins with a text: \
             PURGE /text/.* with X-Purge-Method: regex, or weir purge --prefix\n",
        );
    }
    for url in &wanted.left {
        body.push_str(&format!("not purged: {url}; the `purge` of a route there does not let this client\n"));
    }
    let mut reply = Reply::line(StatusCode::OK, "purged", body);
    // Invariant: words and digits are visible characters.
    reply.headers.extend(HeaderValue::try_from(result).ok().map(|result| (CACHE_PURGE_RESULT, result)));
    reply
}

fn unwritten(why: &str) -> Reply {
    let text = format!("purged until a restart only: {why}");
    Reply::error(StatusCode::INTERNAL_SERVER_ERROR, "ledger-unwritten", &text)
}
