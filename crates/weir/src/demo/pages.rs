//! The pages of the demo origin. `/` links all of them.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_LANGUAGE, LOCATION};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use super::body::{DemoBody, Lines};
use super::resource::{Content, Resource};

/// The length of the offset file: 10 MiB.
pub(super) const OFFSETS_BYTES: u64 = 10 << 20;
/// When everything here was last changed.
const CHANGED: &str = "Thu, 01 Jan 2026 00:00:00 GMT";
const SLOW_LINES: usize = 6;
const SLOW_PAUSE: Duration = Duration::from_millis(500);

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const SVG: &str = "image/svg+xml";

const INDEX: &str = include_str!("index.html");
const WEIR_SVG: &str = include_str!("weir.svg");
const WAVES_SVG: &str = include_str!("waves.svg");

/// Answers one request.
pub(super) fn answer(request: &Parts) -> Response<DemoBody> {
    if request.method != Method::GET && request.method != Method::HEAD {
        let refused = Resource::new(TEXT, bytes("this origin only answers GET and HEAD\n"));
        return refused
            .status(StatusCode::METHOD_NOT_ALLOWED)
            .field(http::header::ALLOW, "GET, HEAD")
            .answer(request);
    }
    resource(request).answer(request)
}

fn bytes(text: &'static str) -> Content {
    Content::Bytes(Bytes::from_static(text.as_bytes()))
}

fn resource(request: &Parts) -> Resource {
    match request.uri.path() {
        "/" => Resource::new(HTML, bytes(INDEX)).cached("max-age=60").validated("\"index-1\"", CHANGED),
        "/hello" => Resource::new(TEXT, bytes("Hello from the demo origin.\n"))
            .cached("max-age=60")
            .validated("\"hello-1\"", CHANGED),
        "/brief" => Resource::new(TEXT, bytes("Fresh for five seconds.\n"))
            .cached("max-age=5")
            .validated("\"brief-1\"", CHANGED),
        "/images/weir.svg" => Resource::new(SVG, bytes(WEIR_SVG))
            .cached("max-age=86400, immutable")
            .validated("\"weir-1\"", CHANGED),
        "/images/waves.svg" => {
            Resource::new(SVG, bytes(WAVES_SVG)).cached("max-age=3600").validated("\"waves-1\"", CHANGED)
        }
        "/offsets.txt" => Resource::new(TEXT, Content::Pattern(OFFSETS_BYTES))
            .cached("max-age=3600")
            .validated("\"offsets-1\"", CHANGED),
        "/greeting" => greeting(request).cached("max-age=60").varying("Accept-Language"),
        "/slow" => slow(),
        "/private" => Resource::new(TEXT, bytes("Only for you: never stored.\n")).cached("no-store"),
        "/account" => Resource::new(TEXT, bytes("This sets a cookie, so it is not stored.\n"))
            .cached("max-age=60")
            .cookie("session=demo; Path=/; HttpOnly"),
        "/unmarked" => {
            Resource::new(TEXT, bytes("No lifetime and no Last-Modified: not stored without --ttl.\n"))
        }
        "/moved" => Resource::new(TEXT, bytes("See /hello.\n"))
            .status(StatusCode::FOUND)
            .cached("max-age=60")
            .field(LOCATION, "/hello"),
        "/broken" => Resource::new(TEXT, bytes("This origin fails here on purpose.\n"))
            .status(StatusCode::INTERNAL_SERVER_ERROR),
        _ => Resource::new(TEXT, bytes("There is no such page; / links all.\n"))
            .status(StatusCode::NOT_FOUND)
            .cached("max-age=5"),
    }
}

/// The first known language; quality values are not weighed.
fn greeting(request: &Parts) -> Resource {
    let languages =
        request.headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let known = languages.split(',').find_map(|language| {
        let subtag = language.trim().get(..2)?;
        [("de", "Guten Tag!\n"), ("fr", "Bonjour !\n"), ("en", "Good day!\n")]
            .into_iter()
            .find(|(known, _)| subtag.eq_ignore_ascii_case(known))
    });
    let (_, text) = known.unwrap_or(("en", "Good day!\n"));
    Resource::new(TEXT, bytes(text))
}

fn slow() -> Resource {
    let lines = (1..=SLOW_LINES)
        .map(|line| Bytes::from(format!("line {line} of {SLOW_LINES}, half a second each\n")));
    let body = DemoBody::Slow(Lines::new(lines.collect(), SLOW_PAUSE));
    Resource::new(TEXT, Content::Slow(body)).cached("max-age=30").validated("\"slow-1\"", CHANGED)
}
