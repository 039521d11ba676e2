//! How fast a response's body goes out: which limits apply ([`pace`]), and the arithmetic of one limit
//! ([`bucket`]). It must not touch a connection, and it does not wait.

mod bucket;
mod media;
mod pace;

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use weir_config::value::ByteRate;
use weir_config::{ResolvedLimit, ResolvedRate};
use weir_policy::value::{Style, Value};
use weir_store::Generation;

pub(crate) use self::pace::Pace;
use self::pace::Rate;
use crate::exchange::{Asked, Chosen};
use crate::values::OfRequest;
use weir_clock as clock;

/// The pace of a response that begins now; `None` where its body is not limited. `generation` is its source,
/// where it comes out of the store.
pub(crate) fn pace(
    asked: &Asked<'_>,
    chosen: &Chosen<'_>,
    status: StatusCode,
    generation: Option<&Arc<Generation>>,
) -> Option<Box<Pace>> {
    let rate = chosen.route.rate.as_ref()?;
    let has_part = matches!(status, StatusCode::OK | StatusCode::PARTIAL_CONTENT);
    if asked.request.method != Method::GET || !has_part {
        return None;
    }
    let now = clock::mono();
    let limit = limit_of(rate, || chosen.known(asked));
    let limit = rate_of(rate, limit, asked.path_and_query());
    let limit = limit.map(|limit| (limit, rate.burst_bytes));
    let media = generation.zip(rate.media).filter(|(generation, _)| {
        let head = generation.head();
        head.stored.headers.get(CONTENT_TYPE).is_some_and(|kind| media::is_mp4(kind.as_bytes()))
    });
    Pace::new(limit, media.map(|(generation, factor)| (generation.clone(), factor)), now).map(Box::new)
}

/// The rate of a request: what it asks for, as far as the route allows; else the route's limit.
fn rate_of(rate: &ResolvedRate, limit: Option<u64>, path_and_query: &str) -> Option<Rate> {
    let asked = rate.query.as_deref().and_then(|name| asked(name, path_and_query));
    let most = rate.query_max.or(limit);
    match asked {
        Some(asked) => Some(Rate::Asked(asked.min(most.unwrap_or(u64::MAX)), most)),
        None => limit.map(Rate::Said),
    }
}

/// The route's limit for a request.
fn limit_of<'a>(rate: &ResolvedRate, known: impl FnOnce() -> OfRequest<'a>) -> Option<u64> {
    match rate.limit.as_ref()? {
        ResolvedLimit::Fixed(limit) => Some(*limit),
        ResolvedLimit::Chosen(by) => said(by, &known()),
    }
}

/// The rate that a map says for a request. The check of the configuration makes sure that it is one.
fn said(by: &Value, known: &OfRequest<'_>) -> Option<u64> {
    let text = by.render(known, Style::Plain);
    let rate: ByteRate = std::str::from_utf8(&text).ok()?.parse().ok()?;
    Some(rate.0)
}

/// The value of the first parameter with this name.
fn asked(name: &str, path_and_query: &str) -> Option<u64> {
    let (_, query) = path_and_query.split_once('?')?;
    let value = query.split('&').find_map(|parameter| match parameter.split_once('=') {
        Some((found, value)) => (found == name).then_some(value),
        None => (parameter == name).then_some(""),
    });
    Some(ByteRate::asked(value?)?.0)
}

#[cfg(test)]
mod tests;
