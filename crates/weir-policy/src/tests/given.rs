//! What the tests of this crate start from: moments, fields, requests, stored responses.

use crate::{
    Ask, CacheRules, Consult, NotStored, Now, RequestView, ResponseView, Storable, Stored, consult, storable,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

/// 2023-11-14 22:13:20 GMT.
pub(crate) const EPOCH_S: u64 = 1_700_000_000;
/// The same as an HTTP date.
pub(crate) const DATE: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
/// A day before.
pub(crate) const DAY_BEFORE: &str = "Mon, 13 Nov 2023 22:13:20 GMT";
/// An hour after.
pub(crate) const HOUR_AFTER: &str = "Tue, 14 Nov 2023 23:13:20 GMT";

#[allow(clippy::disallowed_methods)]
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The moment that many seconds after the tests' beginning of time.
pub(crate) fn at(seconds: u64) -> Now {
    at_ms(seconds * 1000)
}

pub(crate) fn at_ms(milliseconds: u64) -> Now {
    let since = Duration::from_millis(milliseconds);
    Now { mono: *ORIGIN + since, wall: SystemTime::UNIX_EPOCH + Duration::from_secs(EPOCH_S) + since }
}

/// Fields from lines of `name: value`. Bytes above ASCII are taken as they are.
pub(crate) fn fields(lines: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').expect("a field line");
        let name = HeaderName::from_bytes(name.trim().as_bytes()).expect("a field name");
        headers.append(name, HeaderValue::from_bytes(value.trim().as_bytes()).expect("a field value"));
    }
    headers
}

pub(crate) fn request<'a>(
    method: &'a Method,
    path_and_query: &'a str,
    headers: &'a HeaderMap,
) -> RequestView<'a> {
    RequestView {
        method,
        scheme: "http",
        host: "example.com",
        path_and_query,
        headers,
        has_body: false,
        is_trusted: false,
    }
}

/// Whether a response with these fields may be stored, for a GET with those.
pub(crate) fn judged(
    request_lines: &str,
    status: u16,
    response_lines: &str,
    rules: &CacheRules,
) -> Result<Storable, NotStored> {
    let headers = fields(request_lines);
    let response = fields(response_lines);
    let status = StatusCode::from_u16(status).expect("a status");
    storable(
        &request(&Method::GET, "/a", &headers),
        &ResponseView::new(status, &response, at(0), at(0)),
        rules,
    )
}

/// A 200 stored at zero, by the default rules.
pub(crate) fn stored(response_lines: &str) -> Stored {
    stored_for("", response_lines)
}

pub(crate) fn stored_for(request_lines: &str, response_lines: &str) -> Stored {
    let lines = format!("date: {DATE}\n{response_lines}");
    judged(request_lines, 200, &lines, &CacheRules::default()).expect("storable").into_stored()
}

/// The decision for a GET with these fields by the default rules.
pub(crate) fn ask(request_lines: &str) -> Ask {
    let headers = fields(request_lines);
    match consult(&request(&Method::GET, "/a", &headers), &CacheRules::default()) {
        Consult::Use(ask) => ask,
        Consult::Pass(reason) => panic!("passed: {}", reason.word()),
    }
}
