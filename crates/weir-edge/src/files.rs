//! Static files: what a route with a `root` answers from the file system. It must not
//! open a file itself; `weir_files` does, and lets nothing lead out of the root.

use std::sync::Arc;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, LOCATION, VARY};
use http::{HeaderValue, Method, StatusCode};
use weir_files::{Failed, Files, Finding, Found, Hidden, Listing, ListingForm, Looking, Unfit, Way};

use crate::deliver::source::Source;
use crate::exchange::{Asked, Chosen, Exchange, Told};
use crate::local::{self, Reply};
use crate::plan::Route;
use crate::represent;
use crate::represent::file::{Purpose, Sending};
use crate::response::{self, Response};
use crate::route::{Rewritten, Served};
use crate::values::OfRequest;

/// The word of logs and of `Cache-Status` for a file.
pub(crate) const WORD: &str = "file";

/// The same for content by hand.
pub(crate) const BY_HAND: &str = "by-hand";

/// When a device that hangs may be asked again, in seconds.
const HANG_RETRY_S: u64 = 5;

/// The path that is looked for below the root.
pub(crate) fn path_of(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

fn path<'e>(asked: &'e Asked<'_>, chosen: &'e Chosen<'_>) -> &'e str {
    path_of(match chosen.rewritten() {
        Some(rewritten) => &rewritten.target,
        None => asked.path_and_query(),
    })
}

/// The answer from a file in memory.
pub(crate) fn at_hand(exchange: &mut Exchange<'_, '_>, served: &Served) -> Option<Response> {
    let asked = exchange.asked;
    let way = Way::read(path(asked, exchange.chosen), served.root.rules.hidden).ok()?;
    let found = asked.core.shared.files.at_hand(&served.root, &way, asked.now.mono)?;
    send(exchange, &found, Purpose::Itself)
}

/// The answer of a route with a root; none where the upstream is asked.
pub(crate) async fn respond(exchange: &mut Exchange<'_, '_>, served: &Served) -> Option<Response> {
    let asked = exchange.asked;
    let way = Way::read(path(asked, exchange.chosen), served.root.rules.hidden);
    if !matches!(asked.request.method, Method::GET | Method::HEAD) {
        return match (served.asks_upstream(), way) {
            (false, _) => Some(not_allowed(asked, exchange.told)),
            (true, Err(unfit)) if unfit != Unfit::TooLong => Some(no_file(asked, exchange.told)),
            (true, Ok(way)) => match asked.core.shared.files.refuses(&served.root, &way).await {
                Ok(true) => Some(no_file(asked, exchange.told)),
                Ok(false) => None,
                Err(failed) => Some(refused(exchange, failed)),
            },
            (true, Err(_)) => None,
        };
    }
    let client = asked.sharer();
    let finding = match way {
        Ok(way) => asked.core.shared.files.find(&served.root, &way, client).await,
        Err(Unfit::TooLong) => Ok(Finding::NotThere),
        Err(Unfit::Ambiguous | Unfit::Hidden) => Ok(Finding::Refused),
    };
    let instead = served.file_instead().filter(|_| matches!(finding, Ok(Finding::NotThere)));
    let (finding, purpose) = match instead.and_then(|path| Way::read(path, Hidden::Served).ok()) {
        Some(way) => (asked.core.shared.files.find(&served.root, &way, client).await, Purpose::Instead),
        None => (finding, Purpose::Itself),
    };
    match finding {
        Ok(Finding::File(found)) => send(exchange, &found, purpose),
        Ok(Finding::Slash) => Some(slash(asked, exchange.told)),
        Ok(Finding::Listing(listing)) => Some(list(exchange, listing).await),
        Ok(Finding::NotThere) if served.asks_upstream() => None,
        Ok(Finding::NotThere | Finding::Refused) => Some(no_file(asked, exchange.told)),
        Err(failed) => Some(refused(exchange, failed)),
    }
}

fn no_file(asked: &Asked<'_>, told: &mut Told<'_>) -> Response {
    let reply = Reply::error(StatusCode::NOT_FOUND, "no-file", "there is no such file");
    local::answer(asked, told, reply)
}

/// The answer where a file cannot be read.
pub(crate) fn refused(exchange: &mut Exchange<'_, '_>, failed: Failed) -> Response {
    let asked = exchange.asked;
    let reply = match failed {
        Failed::Denied => Reply::error(StatusCode::FORBIDDEN, "file-denied", "this file may not be read"),
        Failed::Changing => {
            let text = "this file is being written";
            Reply::error(StatusCode::SERVICE_UNAVAILABLE, "file-changing", text).retry_after(1)
        }
        Failed::Crowded => {
            let text = "too many files are being sent";
            Reply::error(StatusCode::SERVICE_UNAVAILABLE, "file-crowded", text).retry_after(1)
        }
        Failed::Hangs => {
            tracing::warn!(path = path(asked, exchange.chosen), "the device of a file does not answer");
            let text = "the device of this file does not answer";
            Reply::error(StatusCode::SERVICE_UNAVAILABLE, "file-hangs", text).retry_after(HANG_RETRY_S)
        }
        Failed::Panicked => {
            asked.core.observer.counters().panicked();
            let text = "this file cannot be read";
            Reply::error(StatusCode::INTERNAL_SERVER_ERROR, "file-failed", text)
        }
        Failed::System(errno) => {
            tracing::warn!(errno, path = path(asked, exchange.chosen), "a file cannot be read");
            Reply::error(StatusCode::INTERNAL_SERVER_ERROR, "file-failed", "this file cannot be read")
        }
    };
    local::answer(asked, exchange.told, reply)
}

/// RFC 9110 §15.5.6.
fn not_allowed(asked: &Asked<'_>, told: &mut Told<'_>) -> Response {
    let text = "files are asked for with GET and HEAD";
    let mut reply = Reply::error(StatusCode::METHOD_NOT_ALLOWED, "file-method", text);
    reply.headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    local::answer(asked, told, reply)
}

/// The redirect to the path with a slash at its end, so that relative links of the index lead below it.
fn slash(asked: &Asked<'_>, told: &mut Told<'_>) -> Response {
    let target = asked.path_and_query();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    // Two slashes would begin another host's name.
    let mut to = format!("/{}/", path.trim_start_matches('/'));
    if let Some(query) = query {
        to = to + "?" + query;
    }
    let location = HeaderValue::try_from(&to);
    let mut reply = Reply::line(StatusCode::MOVED_PERMANENTLY, "folder", to + "\n");
    reply.headers.remove(CACHE_CONTROL);
    // Invariant: a path was parsed, and has only bytes that a field may have.
    reply.headers.extend(location.ok().map(|location| (LOCATION, location)));
    local::answer(asked, told, reply)
}

async fn list(exchange: &mut Exchange<'_, '_>, listing: Listing) -> Response {
    let asked = exchange.asked;
    let accept = asked.request.headers.get_all(http::header::ACCEPT).iter();
    let accept: Vec<u8> = accept.flat_map(|line| line.as_bytes().iter().copied().chain([b','])).collect();
    let accept = String::from_utf8_lossy(&accept).to_ascii_lowercase();
    let is_json = accept.contains("application/json") && !accept.contains("text/html");
    let (media_type, form) = match is_json {
        true => ("application/json", ListingForm::Json),
        false => ("text/html; charset=utf-8", ListingForm::Html),
    };
    let path = path_of(asked.path_and_query());
    let text = match asked.core.shared.files.written(listing, form, path).await {
        Ok(text) => text,
        Err(failed) => return refused(exchange, failed),
    };
    let mut reply = Reply::line(StatusCode::OK, "listing", "");
    reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply.headers.insert(VARY, HeaderValue::from_static("accept"));
    let length = Some(text.length() as u64);
    let made = local::answer(asked, exchange.told, reply);
    response::with_source(made, &asked.request.method, length, || Source::Made(Box::new(text)))
}

/// Sends a file, or its sibling in a coding that the request asks for. None where the method asks for
/// something else.
fn send(exchange: &mut Exchange<'_, '_>, found: &Found, purpose: Purpose) -> Option<Response> {
    let file = found.chosen_by(&exchange.asked.request.headers);
    let sending = Sending {
        file: Arc::clone(file),
        length: file.length(),
        stored: &file.stored,
        printed: Some(&file.printed),
        purpose,
        sums: None,
    };
    represent::file::send(exchange, sending)
}

/// What a route with a root answers, as `weir explain` says it; none where the upstream is asked.
pub(crate) fn explained(
    route: &Route,
    known: &OfRequest<'_>,
    rewritten: Option<&Rewritten>,
) -> Option<(&'static str, String)> {
    let served = route.files.as_ref()?;
    let target = rewritten.map_or(known.view.path_and_query, |rewritten| &rewritten.target);
    let look = |path: &str, hidden| match Way::read(path, hidden) {
        Ok(way) => Files::look(&served.root, &way),
        Err(Unfit::TooLong) => Ok(Looking::NotThere),
        Err(Unfit::Ambiguous | Unfit::Hidden) => Ok(Looking::Refused),
    };
    let looking = look(path_of(target), served.root.rules.hidden);
    if !matches!(*known.view.method, Method::GET | Method::HEAD) {
        let is_refused = matches!(looking, Ok(Looking::Refused) | Err(Failed::Denied));
        return match (served.asks_upstream(), is_refused) {
            (false, _) => Some(("file-method", "405: files are asked for with GET and HEAD".to_owned())),
            (true, true) => Some(("no-file", not_served(served))),
            (true, false) => None,
        };
    }
    let instead = served.file_instead().filter(|_| looking == Ok(Looking::NotThere));
    let root = served.root.path().display();
    Some(match instead.map_or(looking, |path| look(path, Hidden::Served)) {
        Ok(Looking::File(names, siblings)) => {
            let names = String::from_utf8_lossy(&names);
            let codings: Vec<&str> = siblings.iter().map(|coding| coding.name()).collect();
            let beside = match codings.is_empty() {
                true => String::new(),
                false => format!(", or its sibling in {}", codings.join(", ")),
            };
            (WORD, format!("the file {root}/{names}{beside}"))
        }
        Ok(Looking::Slash) => {
            ("folder", format!("301 to the path with a slash at its end, a folder below {root}"))
        }
        Ok(Looking::Folder) => ("listing", format!("the list of a folder below {root}")),
        Ok(Looking::NotThere) if served.asks_upstream() => return None,
        Ok(Looking::NotThere) => ("no-file", format!("404: there is no such file below {root}")),
        Ok(Looking::Refused) => ("no-file", not_served(served)),
        Err(Failed::Denied) => ("file-denied", format!("403: the file below {root} may not be read")),
        Err(failed) => ("file-failed", format!("500: {failed}")),
    })
}

fn not_served(served: &Served) -> String {
    let root = served.root.path().display();
    format!(
        "404: a name begins with a dot, the path could be read in two ways, or what is there below {root} is \
         not served: a link that leads out, a device"
    )
}
