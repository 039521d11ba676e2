//! Promises of the caching rules that hold for any fields: no panic; nothing is stored that may not be; a
//! response answers the request that it was made for; what is stale stays stale until the origin says
//! otherwise.

use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use weir_policy::purge::pattern::{self, TagPattern, UrlPattern};
use weir_policy::{
    Answer, CacheKey, CacheRules, Consult, Failure, Freshness, Now, RequestView, ResponseView, Stored,
    Verdict, accept_encoding, answer, conditional, consult, error_reusable, forwarded, freshen, freshness,
    invalidation, is_hop_by_hop, matches, storable, unreachable_window, verdict, write_key,
};

/// Reads any bytes as three heads with an empty line between them: a request, its response, and a 304. The
/// first line of each is the target or the status.
pub fn exchange(data: &[u8]) {
    let mut heads = data.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let (target, asked) = head(&mut heads);
    let (status, said) = head(&mut heads);
    let (_, news) = head(&mut heads);
    let target = std::str::from_utf8(target).ok().filter(|target| target.starts_with('/')).unwrap_or("/");
    let status = StatusCode::from_bytes(status).unwrap_or(StatusCode::OK);
    for method in [Method::GET, Method::HEAD, Method::POST] {
        let view = RequestView {
            method: &method,
            scheme: "https",
            host: "example.com",
            path_and_query: target,
            headers: &asked,
            has_body: method == Method::POST,
            is_trusted: false,
        };
        key(&view);
        walk(&view, status, &said, &news);
    }
}

fn head<'a>(lines: &mut impl Iterator<Item = &'a [u8]>) -> (&'a [u8], HeaderMap) {
    let first = lines.next().unwrap_or_default();
    let mut headers = HeaderMap::new();
    for line in lines.by_ref().take_while(|line| !line.is_empty()).take(30) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    (first, headers)
}

fn key(view: &RequestView<'_>) {
    let rules = CacheRules::default().key;
    let mut full = Vec::new();
    let digest = write_key(&rules, view, weir_policy::KeyParts::default(), &mut full);
    assert_eq!(CacheKey::new(full.into()).digest, digest);
    assert_eq!(forwarded(&rules, view.path_and_query), view.path_and_query);
    for target in invalidation(view, StatusCode::OK, view.headers) {
        assert!(target.starts_with('/'), "{target} is no target");
    }
    let mut normal = HeaderMap::new();
    if let Some(value) = accept_encoding(view.headers) {
        normal.insert("accept-encoding", value);
    }
    assert_eq!(accept_encoding(&normal), accept_encoding(view.headers), "a normal form is its own");
}

fn walk(view: &RequestView<'_>, status: StatusCode, said: &HeaderMap, news: &HeaderMap) {
    let rules = CacheRules::default();
    let begin = moment();
    let Ok(storable) = storable(view, &ResponseView::new(status, said, begin, begin), &rules) else { return };
    let stored = storable.into_stored();
    kept(&stored);
    assert!(matches(&stored.variant, view.headers), "it does not answer its own request");
    let get = RequestView { method: &Method::GET, has_body: false, ..*view };
    let Consult::Use(ask) = consult(&get, &rules) else { return };
    let mut is_sent = true;
    for seconds in [0, 1, 60, 3600, 86_400, 1 << 32] {
        let now = later(begin, seconds);
        let sent = matches!(verdict(&ask, Some(&stored), now), Verdict::Hit(_) | Verdict::Stale(..));
        assert!(is_sent || !sent || ask.directives.min_fresh_s.is_some(), "what was too old is sent later");
        is_sent = sent;
        check(freshness(&stored, now));
        let excused = error_reusable(&ask, &stored, Failure::NoAnswer, &rules.stale, now);
        if freshness(&stored, now).staleness() >= unreachable_window(&stored, &rules.stale) {
            let is_excused = excused.is_some_and(|(reusable, _)| !reusable.freshness().is_fresh());
            assert!(!is_excused || ask.directives.if_error_s.is_some(), "it goes out past all windows");
        }
    }
    for length in [0, 1, 1000] {
        let parts: Vec<_> = match answer(&get, &ask, &stored, Some(length)) {
            Answer::Partial(part, range) => vec![(part, range)],
            Answer::Parts(parts) => parts.iter().collect(),
            _ => vec![],
        };
        assert!(parts.iter().map(|(part, _)| part.length()).sum::<u64>() <= length, "{parts:?}");
        for (part, range) in parts {
            assert!(!part.is_empty() && part.end <= length, "{part:?} of {length}");
            assert_eq!(range.value().to_str().ok(), Some(range.to_string().as_str()));
        }
    }
    let mut question = view.headers.clone();
    conditional(Some(&stored), &mut question);
    let now = later(begin, 7);
    let not_modified = ResponseView::new(StatusCode::NOT_MODIFIED, news, now, now);
    let fresh = freshen(view.headers, &stored, &not_modified, &rules);
    kept(&fresh);
    assert_eq!((fresh.status, &fresh.variant), (stored.status, &stored.variant));
    assert_eq!(fresh.validators.etag, stored.validators.etag, "a 304 changes the tag");
}

fn kept(stored: &Stored) {
    assert!(stored.headers.contains_key("date") && !stored.headers.contains_key("age"));
    assert!(!stored.headers.keys().any(is_hop_by_hop), "a field of one connection is kept");
    assert!(!stored.headers.contains_key("set-cookie"), "a cookie is kept");
}

fn check(freshness: Freshness) {
    assert_eq!(freshness.is_fresh(), !freshness.left().is_zero());
    assert!(!freshness.is_fresh() || freshness.staleness().is_zero());
}

#[allow(clippy::disallowed_methods, reason = "any moment will do")]
fn moment() -> Now {
    Now { mono: Instant::now(), wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) }
}

fn later(now: Now, seconds: u64) -> Now {
    let more = Duration::from_secs(seconds);
    Now { mono: now.mono + more, wall: now.wall + more }
}

/// Reads any bytes as each kind of pattern in a request for a purge. What is read as tags, a URL or hosts is
/// read as the same when it is written again in the forms of the senders.
pub fn purge_pattern(data: &[u8]) {
    if let TagPattern::Tags(tags) = pattern::list(data) {
        assert!(!tags.is_empty() && tags.iter().all(|tag| !tag.is_empty()));
    }
    if let TagPattern::Tags(tags) = pattern::tags(data) {
        let names: Vec<Vec<u8>> = tags.iter().map(|tag| quoted(tag)).collect();
        let all = names.join(&b'|');
        let magento: Vec<Vec<u8>> =
            names.iter().map(|name| [b"((^|,)", name.as_slice(), b"(,|$))"].concat()).collect();
        for form in [
            [b"(^|,)(", all.as_slice(), b")(,|$)"].concat(),
            [b"(", all.as_slice(), br")($|\,)"].concat(),
            magento.join(&b'|'),
        ] {
            assert_eq!(pattern::tags(&form), TagPattern::Tags(tags.clone()), "{}", form.escape_ascii());
        }
    }
    match pattern::url(data) {
        UrlPattern::Prefix(path) => {
            assert_eq!(
                pattern::url(&[b"^", &*quoted(path.as_bytes()), b".*"].concat()),
                UrlPattern::Prefix(path)
            );
        }
        UrlPattern::Exact(path) => {
            assert_eq!(
                pattern::url(&[b"^", &*quoted(path.as_bytes()), b"$"].concat()),
                UrlPattern::Exact(path)
            );
        }
        UrlPattern::All | UrlPattern::Unread => {}
    }
    let _ = pattern::hosts(data);
}

/// A text with a backslash before each byte that is no letter, digit, underscore or slash.
fn quoted(text: &[u8]) -> Vec<u8> {
    let quote = |byte: &u8| match byte.is_ascii_alphanumeric() || b"_/".contains(byte) {
        true => vec![*byte],
        false => vec![b'\\', *byte],
    };
    text.iter().flat_map(quote).collect()
}
