//! Validation: the conditional request to the origin (RFC 9111 §4.3.1), what a 304 changes (§3.2, §4.3.4),
//! and what a HEAD says about a stored response (§4.3.5).

use crate::cookies::has_unkeyed;
use crate::date::http_date;
use crate::fields::strip_hop_by_hop;
use crate::response::ResponseView;
use crate::rules::{CacheRules, SetCookie};
use crate::storable::{facts, is_refused, is_shareable, is_shared_by_s_maxage};
use crate::stored::{ETag, Stored, StoredFlags, Validators};
use crate::tags::Tags;
use crate::targeted::effective;
use crate::verdict::outlasts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use std::time::Duration;

const CONDITIONS: [header::HeaderName; 5] = [
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::IF_RANGE,
];

/// Whether a request has a precondition (RFC 9110 §13.1).
pub fn is_conditional(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("if-") && CONDITIONS.contains(name))
}

/// Whether the origin can be asked if a stored response is still good. It must have a validator and be a
/// success: elsewhere a condition does not count (RFC 9110 §13.2.1), and a 304 speaks of a success that has
/// come since (§15.4.5). A file that appears with an older date would stay a 404 otherwise.
pub fn can_be_validated(stored: &Stored) -> bool {
    stored.status.is_success() && !stored.validators.is_empty()
}

/// Makes a request to the origin conditional on `stored`, the stored response that the request selects (RFC
/// 9111 §4.3.1): on its entity tag and its date, if it [can be validated](can_be_validated). No other
/// stored response is named, since a 304 for another variant could not be told from one for this. Removes
/// the client's own preconditions, which the edge evaluates on the response.
pub fn conditional(stored: Option<&Stored>, headers: &mut HeaderMap) {
    if is_conditional(headers) {
        for name in &CONDITIONS {
            headers.remove(name);
        }
    }
    let Some(stored) = stored.filter(|stored| can_be_validated(stored)) else { return };
    if let Some(tag) = &stored.validators.etag {
        headers.insert(header::IF_NONE_MATCH, tag.value().clone());
    }
    let modified = stored.validators.last_modified.and_then(|_| stored.headers.get(header::LAST_MODIFIED));
    if let Some(modified) = modified {
        headers.insert(header::IF_MODIFIED_SINCE, modified.clone());
    }
}

/// The stored response after a 304: the fields of the 304 replace its own, except those that describe the
/// body. Its age and lifetime start again (RFC 9111 §3.2, §4.3.4). The variant stays.
///
/// Of a 304 with another entity tag (§4.3.4) only Age and Date count: it says that the stored response is
/// good, but its fields belong to another. Of a 304 with private or no-store no field counts, since it is for
/// one client; the stored response then needs validation before each use.
///
/// `request` are the fields of the request that was answered. If it was authenticated and only s-maxage lets
/// others have the result, that is never used stale from then on.
pub fn freshen(
    request: &HeaderMap,
    stored: &Stored,
    not_modified: &ResponseView<'_>,
    rules: &CacheRules,
) -> Stored {
    let mut fresh = freshened(stored, not_modified, rules);
    let control = effective(&fresh.headers, fresh.status, rules);
    if request.contains_key(header::AUTHORIZATION) && is_shared_by_s_maxage(&control) {
        fresh.facts.bind_to_credentials();
    }
    fresh
}

/// As [`freshen`], whatever the request.
fn freshened(stored: &Stored, not_modified: &ResponseView<'_>, rules: &CacheRules) -> Stored {
    let fresh = updated(stored, not_modified, rules);
    let control = effective(&fresh.headers, stored.status, rules);
    // Where the route ignores that, a cookie still shows that it is for one client.
    let mut cookies = not_modified.headers.get_all(header::SET_COOKIE).iter();
    let sets_cookie = !control.ignored.is_empty()
        && (cookies.any(|line| !rules.strips(line)) || rules.begins_session(not_modified.headers));
    if is_refused(&control) || sets_cookie {
        let mut bound = stored.clone();
        bound.facts.flags.insert(StoredFlags::NO_CACHE);
        (bound.facts.while_revalidate, bound.facts.if_error) = (Duration::ZERO, Duration::ZERO);
        return bound;
    }
    let said = not_modified.headers.get(header::ETAG).and_then(ETag::read);
    match (&stored.validators.etag, said) {
        (Some(held), Some(said)) if !said.is_weak() && !is_same_but_coding(held, &said) => {
            let mut time = not_modified.headers.clone();
            let gone: Vec<HeaderName> =
                time.keys().filter(|name| !matches!(**name, header::DATE | header::AGE)).cloned().collect();
            for name in &gone {
                time.remove(name);
            }
            updated(stored, &ResponseView { headers: &time, ..*not_modified }, rules)
        }
        _ => fresh,
    }
}

/// Whether a 304 to a request with these fields may change the stored response for all clients. If the
/// request was authenticated, the stored response or the 304 must allow sharing (RFC 9111 §3.5). Where the
/// route ignores what they say, the request must have neither credentials nor a cookie that is not in the
/// key.
pub fn may_freshen(
    request: &HeaderMap,
    stored: &Stored,
    not_modified: &ResponseView<'_>,
    rules: &CacheRules,
) -> bool {
    let is_authenticated = request.contains_key(header::AUTHORIZATION);
    if !is_authenticated && rules.ignore.is_empty() {
        return true;
    }
    let control = effective(&updated(stored, not_modified, rules).headers, stored.status, rules);
    match control.ignored.is_empty() {
        true => !is_authenticated || is_shareable(&control),
        false => !is_authenticated && !has_unkeyed(request, &rules.key),
    }
}

/// Whether two entity tags differ only by the name of a content coding at their end. Some servers add it to
/// the tag of a response and leave it out of the 304.
fn is_same_but_coding(held: &ETag, said: &ETag) -> bool {
    fn stem(tag: &ETag) -> &[u8] {
        let tag = tag.value().as_bytes().trim_ascii();
        let opaque = tag.strip_prefix(b"W/").unwrap_or(tag);
        let opaque = opaque.strip_suffix(b"\"").unwrap_or(opaque);
        let codings: [&[u8]; 5] = [b"-gzip", b"-br", b"-zstd", b"-deflate", b"-"];
        codings.iter().fold(opaque, |opaque, coding| opaque.strip_suffix(*coding).unwrap_or(opaque))
    }
    stem(held) == stem(said)
}

/// The stored response with the fields of a newer one in place of its own (RFC 9111 §3.2).
fn updated(stored: &Stored, newer: &ResponseView<'_>, rules: &CacheRules) -> Stored {
    let received = newer.received;
    let mut news = newer.headers.clone();
    strip_hop_by_hop(&mut news);
    rules.strip_cookies(&mut news);
    rules.strip_cookies_of_one(&mut news);
    let mut headers = stored.headers.clone();
    rules.strip_cookies_of_one(&mut headers);
    for name in news.keys().filter(|name| is_updated(name, rules)) {
        headers.remove(name);
        for value in news.get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    // A 304 without a Date counts as generated when it arrived.
    if !news.contains_key(header::DATE)
        && let Some(Ok(date)) = http_date(received.wall).map(HeaderValue::try_from)
    {
        headers.insert(header::DATE, date);
    }
    let control = effective(&headers, stored.status, rules);
    let validators = Validators::read(&headers, received.wall);
    let mut aged = headers.clone();
    for value in news.get_all(header::AGE) {
        aged.append(header::AGE, value.clone());
    }
    let aged = ResponseView { status: stored.status, headers: &aged, ..*newer };
    let mut facts = facts(&aged, &control, &validators, rules);
    let had_s_maxage = effective(&stored.headers, stored.status, rules).s_maxage_s.is_some();
    if stored.facts.may_be_of_credentials(had_s_maxage) {
        facts.bind_to_credentials();
    }
    for name in &control.withheld {
        headers.remove(name);
    }
    let tags = Tags::read(&headers);
    Stored { status: stored.status, headers, validators, variant: stored.variant.clone(), facts, tags }
}

/// Whether a field of a 304 replaces the stored one (RFC 9111 §3.2). Fields that describe the stored bytes
/// stay. A cookie is for the client whose request was validated, unless the route gives every client the
/// same; those of one client alone are not here any more. Vary stays, since it selected the variant.
fn is_updated(name: &HeaderName, rules: &CacheRules) -> bool {
    const KEPT: [HeaderName; 8] = [
        header::CONTENT_ENCODING,
        header::CONTENT_LENGTH,
        header::CONTENT_RANGE,
        HeaderName::from_static("content-md5"),
        HeaderName::from_static("content-digest"),
        header::ETAG,
        header::AGE,
        header::VARY,
    ];
    if *name == header::SET_COOKIE {
        return rules.set_cookie == SetCookie::Store;
    }
    !KEPT.contains(name)
}

/// What a response to a HEAD does to a stored response.
#[derive(Clone, Debug)]
pub enum HeadEffect {
    /// Nothing.
    None,
    /// The stored response is still current: replace it with this.
    Freshen(Box<Stored>),
    /// The origin has another version by now.
    Invalidate,
}

/// What a response to a HEAD says about a stored response to GET of the same variant (RFC 9111 §4.3.5).
pub fn head_effect(
    stored: &Stored,
    length: Option<u64>,
    response: &ResponseView<'_>,
    rules: &CacheRules,
) -> HeadEffect {
    let ResponseView { status, headers, .. } = *response;
    if status == StatusCode::NOT_FOUND || status == StatusCode::GONE {
        return match outlasts(stored, status, &rules.stale, response.received) {
            true => HeadEffect::None,
            false => HeadEffect::Invalidate,
        };
    }
    let fresh = updated(stored, response, rules);
    let control = effective(&fresh.headers, status, rules);
    // A response for one client says nothing about the response for all, also where the route ignores that.
    if status != stored.status || is_refused(&control) || !control.ignored.is_empty() {
        return HeadEffect::None;
    }
    let said = Validators::read(headers, response.received.wall);
    let differs = said.etag.as_ref().is_some_and(|tag| stored.validators.etag.as_ref() != Some(tag))
        || (said.last_modified.is_some() && said.last_modified != stored.validators.last_modified)
        || headers
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .is_some_and(|said: u64| length.is_some_and(|held| held != said));
    if differs {
        return HeadEffect::Invalidate;
    }
    HeadEffect::Freshen(Box::new(fresh))
}

#[cfg(test)]
mod tests;
