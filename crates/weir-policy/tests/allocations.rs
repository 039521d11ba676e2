//! A plain hit allocates nothing: consult, key, variant, verdict and answer work on what exists.

#![allow(clippy::disallowed_methods, clippy::expect_used)]

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Instant, SystemTime};
use weir_policy::{
    Answer, CacheRules, Consult, Now, RequestView, ResponseView, Stored, Verdict, answer, consult, matches,
    storable, verdict, write_key,
};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with a counter for each thread.
struct Counting;

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise holds for the system's allocator, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from the system's allocator with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn browser() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (header::HOST, "example.com"),
        (header::USER_AGENT, "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"),
        (header::ACCEPT, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        (header::ACCEPT_ENCODING, "gzip, deflate, br, zstd"),
        (header::ACCEPT_LANGUAGE, "de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7"),
        (header::COOKIE, "theme=dark; consent=yes"),
        (header::REFERER, "https://example.com/"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
}

fn stored(view: &RequestView<'_>, rules: &CacheRules, now: Now) -> Stored {
    let mut response = HeaderMap::new();
    response
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=3600, stale-while-revalidate=60"));
    response.insert(header::ETAG, HeaderValue::from_static("\"abc\""));
    response.insert(header::VARY, HeaderValue::from_static("accept-encoding, accept-language, referer"));
    storable(view, &ResponseView::new(StatusCode::OK, &response, now, now), rules)
        .expect("storable")
        .into_stored()
}

/// The decisions of a hit. Returns the number of allocations.
fn hit(
    view: &RequestView<'_>,
    stored: &Stored,
    rules: &CacheRules,
    now: Now,
    key: &mut Vec<u8>,
) -> (Answer, usize) {
    let before = COUNT.with(Cell::get);
    let Consult::Use(ask) = consult(view, rules) else { panic!("passed") };
    key.clear();
    let digest = write_key(&rules.key, view, weir_policy::KeyParts::default(), key);
    assert!(digest != 0 && matches(&stored.variant, view.headers));
    let Verdict::Hit(_) = verdict(&ask, Some(stored), now) else { panic!("no hit") };
    let answer = answer(view, &ask, stored, Some(1024));
    (answer, COUNT.with(Cell::get) - before)
}

#[test]
fn a_hit_allocates_nothing() {
    let now = Now { mono: Instant::now(), wall: SystemTime::now() };
    let rules = CacheRules::default();
    let mut headers = browser();
    let mut key = Vec::with_capacity(256);
    for (name, value) in [
        (header::ACCEPT, "*/*"),
        (header::IF_NONE_MATCH, "\"x\", W/\"abc\""),
        (header::RANGE, "bytes=0-99"),
        (header::IF_RANGE, "\"abc\""),
        (header::CACHE_CONTROL, "max-age=600, min-fresh=5"),
    ] {
        headers.insert(name.clone(), HeaderValue::from_static(value));
        let view = RequestView {
            method: &Method::GET,
            scheme: "https",
            host: "example.com",
            path_and_query: "/assets/app.js?v=1",
            headers: &headers,
            has_body: false,
            is_trusted: false,
        };
        let stored = stored(&view, &rules, now);
        let (_, count) = hit(&view, &stored, &rules, now, &mut key);
        assert_eq!(count, 0, "with {name}");
    }
}
