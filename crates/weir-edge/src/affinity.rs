//! Sessions of requests: which origin a passed request wants, and what its response says of that. It must not
//! decide whether the cache is asked, but for routes whose upstream says so (`affinity.bypass`), and for URLs
//! that are one session's alone.

use std::sync::Arc;
use std::time::SystemTime;

use http::header::{CACHE_CONTROL, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use weir_upstream::affinity::{self as sessions, Affinity, Place, Reading, Session};
use weir_upstream::{OriginResponse, SessionEnd, Upstream};

use crate::decide::Fulfilled;
use crate::exchange::{Asked, Chosen, Exchange};
use crate::response::Response;
use weir_front::Head;

/// The upstream of a route and what it says about sessions.
fn of<'c>(asked: &Asked<'c>, chosen: &Chosen<'_>) -> Option<(&'c Arc<Upstream>, &'c Affinity)> {
    if !asked.running.has_affinity {
        return None;
    }
    let upstream = asked.running.upstream(chosen.route)?;
    Some((upstream, upstream.affinity()?))
}

/// What a request says of its session, to the upstream of its route.
fn read(asked: &Asked<'_>, chosen: &Chosen<'_>) -> Reading {
    let Some((upstream, affinity)) = of(asked, chosen) else { return Reading::Nothing };
    *chosen.reading.get_or_init(|| affinity.read(upstream.name(), &said(asked), asked.now.wall))
}

/// The session of a request that is only asked about, and whether it bypasses the cache for it.
pub(crate) fn of_question(
    upstream: &Upstream,
    asked: &sessions::Asked<'_>,
    now: SystemTime,
) -> (Option<Session>, Fulfilled) {
    let Some(affinity) = upstream.affinity() else { return (None, Fulfilled(0)) };
    let reading = affinity.read(upstream.name(), asked, now);
    let bypasses = affinity.may_bypass(asked.target) && affinity.bypasses(&reading);
    (reading.session(), Fulfilled(if bypasses { Fulfilled::SESSION } else { 0 }))
}

/// The text that tells the session of a request to this upstream from others.
pub(crate) fn text(asked: &Asked<'_>, upstream: &Upstream) -> Option<Box<str>> {
    upstream.affinity()?.text(&said(asked)).map(Box::from)
}

fn said<'c>(asked: &Asked<'c>) -> sessions::Asked<'c> {
    sessions::Asked {
        received: &asked.received.headers,
        left: &asked.request.headers,
        target: asked.path_and_query(),
    }
}

/// The session of a request, for the pick of its origin.
pub(crate) fn session(asked: &Asked<'_>, chosen: &Chosen<'_>) -> Option<Session> {
    read(asked, chosen).session()
}

/// Whether the request bypasses the cache for its session.
pub(crate) fn fulfilled(asked: &Asked<'_>, chosen: &Chosen<'_>) -> Fulfilled {
    match of(asked, chosen) {
        Some((_, affinity)) if affinity.may_bypass(asked.path_and_query()) => {
            if affinity.bypasses(&read(asked, chosen)) { Fulfilled(Fulfilled::SESSION) } else { Fulfilled(0) }
        }
        _ => Fulfilled(0),
    }
}

/// Whether the request's session is at another origin than the one of this name, which is up. What that one
/// said to a fill is then not for this client.
pub(crate) fn is_elsewhere(asked: &Asked<'_>, chosen: &Chosen<'_>, origin: &str) -> bool {
    let Some((upstream, _)) = of(asked, chosen) else { return false };
    let wanted = session(asked, chosen).and_then(|session| upstream.origin_of(&session));
    wanted.is_some_and(|wanted| wanted.name() != origin)
}

/// Counts what became of the session of a passed request. Returns the cookie that names the origin from now
/// on, where Weir sets one.
pub(crate) fn settle(exchange: &mut Exchange<'_, '_>, response: &OriginResponse) -> Option<HeaderValue> {
    let asked = exchange.asked;
    let (upstream, affinity) = of(asked, exchange.chosen)?;
    let reading = read(asked, exchange.chosen);
    // An error is no reason to stay, and a 304 is also for the cache behind us.
    let may_set = !response.status.is_server_error() && response.status != StatusCode::NOT_MODIFIED;
    let sets_it = affinity.is_begun_by(&response.headers);
    let begins = match affinity.own_cookie() {
        Some(_) => may_set,
        None => sets_it,
    };
    if sets_it && affinity.own_cookie().is_some() {
        asked.running.tell_own_cookie(upstream.name(), response.origin.name());
    }
    let end = upstream.settle(&reading, response.origin_id, begins);
    let is_aging = matches!(reading, Reading::Session { place: Place::AgingCookie, .. });
    let is_wanted = may_set && (end != Some(SessionEnd::Kept) || is_aging);
    let now = asked.now.wall;
    let set = || affinity.set_cookie(upstream.name(), response.origin_id, (asked.scheme, now));
    let cookie = if is_wanted { set() } else { None };
    // One that begins in place of a refused one is counted as created; the log says what is rarer.
    exchange.told.facts.session = match reading {
        Reading::Refused => "refused",
        _ => end.map_or("", SessionEnd::word),
    };
    cookie
}

/// Adds Weir's cookie to a response. From now on it is for this client alone, and the caches behind Weir are
/// told so (RFC 9111 §5.2.2.7, §7.3).
pub(crate) fn give(response: &mut Response, cookie: Option<HeaderValue>) {
    if let (Head::Made(_, fields), Some(cookie)) = (&mut response.head, cookie) {
        fields.append(SET_COOKIE, cookie);
        keep_private(fields);
    }
}

/// Says that no shared cache may store a response.
fn keep_private(fields: &mut HeaderMap) {
    let says = |value: &HeaderValue| {
        let directives = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        directives
            .into_iter()
            .any(|word| word.eq_ignore_ascii_case(b"private") || word.eq_ignore_ascii_case(b"no-store"))
    };
    if !fields.get_all(CACHE_CONTROL).iter().any(says) {
        fields.append(CACHE_CONTROL, HeaderValue::from_static("private"));
    }
    // These count in place of Cache-Control (RFC 9213 §2.2).
    let is_targeted = |name: &&HeaderName| {
        name.as_str() == "surrogate-control" || name.as_str().ends_with("cdn-cache-control")
    };
    let targeted: Vec<HeaderName> = fields.keys().filter(is_targeted).cloned().collect();
    for name in targeted {
        fields.insert(name, HeaderValue::from_static("no-store"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_with_weirs_cookie_is_for_one_client() {
        let check = |given: &[(&'static str, &'static str)], expect: &[(&str, &str)]| {
            let mut fields = HeaderMap::new();
            for (name, value) in given {
                fields.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            keep_private(&mut fields);
            let found: Vec<_> =
                fields.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
            assert_eq!(found, expect, "{given:?}");
        };
        check(&[], &[("cache-control", "private")]);
        check(
            &[("cache-control", "public, max-age=60")],
            &[("cache-control", "public, max-age=60"), ("cache-control", "private")],
        );
        check(&[("cache-control", "max-age=60, Private")], &[("cache-control", "max-age=60, Private")]);
        check(&[("cache-control", "no-store")], &[("cache-control", "no-store")]);
        check(
            &[("cache-control", "private=\"x\"")],
            &[("cache-control", "private=\"x\""), ("cache-control", "private")],
        );
        check(
            &[("cache-control", "no-store"), ("cdn-cache-control", "max-age=9"), ("surrogate-control", "a")],
            &[
                ("cache-control", "no-store"),
                ("cdn-cache-control", "no-store"),
                ("surrogate-control", "no-store"),
            ],
        );
    }
}
