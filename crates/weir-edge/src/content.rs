//! Content by hand: what operators have laid over URLs, answered before any look into the cache (RFC 9110
//! §13, §14). It must not read a file itself; `weir_files` does. What is damaged is as if it was not laid.
//!
//! `named` says what a URL in words means, `laid` knows what is laid, `orders` lays and removes.

pub(crate) mod laid;
pub(crate) mod named;
pub(crate) mod orders;

use std::borrow::Cow;
use std::sync::Arc;

use http::header::CACHE_CONTROL;
use http::{HeaderValue, Method};
use weir_files::{Failed, Finding, Found, Hidden, Sums, Way};
use weir_policy::{RequestView, http_date, write_url};

use crate::exchange::{Asked, Chosen, Exchange};
use crate::files;
use crate::plan::Route;
use crate::represent;
use crate::represent::file::{Purpose, Sending};
use crate::response::Response;
use crate::shared::{Running, Shared};

use self::laid::{Laid, Shelved};
use self::named::SCHEME;

/// What is laid over the URL of a request; none where the method asks for something else.
pub(crate) fn find(asked: &Asked<'_>, chosen: &Chosen<'_>) -> Option<Arc<Laid>> {
    let index = &asked.running.laid;
    if index.is_empty() {
        return None;
    }
    let mut key = asked.core.key.borrow_mut();
    let site = chosen.site.mark;
    let laid = index.find(write_key(&asked.view(), site, chosen.route, &mut key)?)?;
    (!laid.entry.is_over(asked.now.wall)).then_some(laid)
}

/// The key of a request in the index: its URL as the route's keys have it, whatever the scheme.
fn write_key<'k>(view: &RequestView<'_>, site: u64, route: &Route, key: &'k mut Vec<u8>) -> Option<&'k [u8]> {
    if !matches!(*view.method, Method::GET | Method::HEAD) {
        return None;
    }
    key.clear();
    key.extend_from_slice(&site.to_le_bytes());
    write_url(&route.rules.key, &RequestView { scheme: SCHEME, ..*view }, None, key);
    Some(key)
}

/// Answers a request with what is laid over its URL; none where that is gone by now, or damaged.
pub(crate) async fn respond(exchange: &mut Exchange<'_, '_>, mut laid: Arc<Laid>) -> Option<Response> {
    let shared = Arc::clone(&exchange.asked.core.shared);
    let shelved = shared.content.shelved()?;
    let (found, sums) = loop {
        match open(&shared, shelved, &laid).await {
            Ok(found) => break found,
            Err(Unread::Crowded) => return Some(files::refused(exchange, Failed::Crowded)),
            Err(Unread::Why(why)) => {
                // It may have been replaced or removed a moment ago.
                let now = shared.content.current(&laid.entry.url)?;
                if now.entry.number == laid.entry.number {
                    laid.tell_damaged(&why);
                    return None;
                }
                laid = now;
            }
        }
    };
    laid.tell_read();
    let stored = match laid.entry.ends {
        None => Cow::Borrowed(&laid.stored),
        Some(ends) => {
            let left = ends.duration_since(exchange.asked.now.wall).unwrap_or_default().as_secs();
            let mut stored = laid.stored.clone();
            // Invariant: a word and digits are visible characters.
            let lifetime = HeaderValue::try_from(format!("max-age={left}")).ok()?;
            stored.headers.insert(CACHE_CONTROL, lifetime);
            Cow::Owned(stored)
        }
    };
    let sending = Sending {
        file: Arc::clone(found.plain()),
        length: laid.entry.body_bytes,
        stored: &stored,
        printed: laid.entry.ends.is_none().then_some(&laid.printed),
        purpose: Purpose::ByHand,
        sums: Some(sums),
    };
    represent::file::send(exchange, sending)
}

/// Why content cannot be sent.
enum Unread {
    /// Too many files are open: it may be sent in a moment.
    Crowded,
    /// In words.
    Why(String),
}

impl From<Failed> for Unread {
    fn from(failed: Failed) -> Unread {
        match failed {
            Failed::Crowded => Unread::Crowded,
            failed => Unread::Why(failed.to_string()),
        }
    }
}

/// The file of what is laid, where its bytes are those that were laid.
async fn open(shared: &Shared, shelved: &Shelved, laid: &Laid) -> Result<(Arc<Found>, Arc<Sums>), Unread> {
    let because = |why: &str| Unread::Why(why.to_owned());
    let path = laid.path();
    // Invariant: a path of hexadecimal digits is plain.
    let Ok(way) = Way::read(&path, Hidden::NotServed) else { return Err(because("it has no file")) };
    let found = match shared.files.at_hand(&shelved.root, &way, weir_clock::mono()) {
        Some(found) => found,
        None => match shared.files.find(&shelved.root, &way, None).await? {
            Finding::File(found) => found,
            _ => return Err(because("its file is not there any more, or is none")),
        },
    };
    if found.plain().length() < laid.entry.body_bytes {
        return Err(because("its file has become shorter"));
    }
    let sums = laid.sums(shelved, &shared.files).await.map_err(because)?;
    Ok((found, sums))
}

/// What is laid over the URL of a question, as `weir explain` says it.
pub(crate) fn explained(
    running: &Running,
    site: u64,
    route: &Route,
    view: &RequestView<'_>,
) -> Option<(&'static str, String)> {
    let laid = running.laid.find(write_key(view, site, route, &mut Vec::new())?)?;
    let now = weir_clock::now().wall;
    if laid.entry.is_over(now) || laid.is_damaged() {
        return None;
    }
    let date = |at| http_date(at).unwrap_or_else(|| "at a time that has no date".to_owned());
    let laid_at = date(laid.entry.laid);
    let until = match laid.entry.ends {
        None => "until it is reset".to_owned(),
        Some(ends) => format!("until {}", date(ends)),
    };
    Some((files::BY_HAND, format!("content by hand, laid {laid_at}, {until}; see `weir content list`")))
}

#[cfg(test)]
mod tests;
