//! What the decisions of a plain hit cost, in nanoseconds: `cargo bench -p weir-policy`.

#![allow(clippy::disallowed_methods)]

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use std::hint::black_box;
use std::time::{Instant, SystemTime};
use weir_policy::{
    CacheRules, Consult, NotStored, Now, RequestView, ResponseView, Stored, answer, consult, matches,
    storable, verdict, write_key,
};

const ROUNDS: u32 = 2_000_000;

fn request(fields: &[(http::HeaderName, &'static str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
}

fn stored(view: &RequestView<'_>, vary: Option<&'static str>, now: Now) -> Result<Stored, NotStored> {
    let mut response = request(&[(header::CACHE_CONTROL, "max-age=3600"), (header::ETAG, "\"abc\"")]);
    if let Some(vary) = vary {
        response.insert(header::VARY, HeaderValue::from_static(vary));
    }
    let rules = CacheRules::default();
    storable(view, &ResponseView::new(StatusCode::OK, &response, now, now), &rules)
        .map(weir_policy::Storable::into_stored)
}

fn measure(what: &str, headers: &HeaderMap, vary: Option<&'static str>) -> Result<(), NotStored> {
    let now = Now { mono: Instant::now(), wall: SystemTime::now() };
    let rules = CacheRules::default();
    let view = RequestView {
        method: &Method::GET,
        scheme: "https",
        host: "example.com",
        path_and_query: "/assets/app.js?v=1",
        headers,
        has_body: false,
        is_trusted: false,
    };
    let stored = stored(&view, vary, now)?;
    let mut key = Vec::with_capacity(256);
    for part in ["decisions", "key"] {
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            if part == "key" {
                key.clear();
                black_box(write_key(
                    &rules.key,
                    black_box(&view),
                    weir_policy::KeyParts::default(),
                    &mut key,
                ));
                continue;
            }
            let Consult::Use(ask) = consult(black_box(&view), &rules) else { continue };
            black_box(matches(&stored.variant, view.headers));
            black_box(verdict(&ask, Some(&stored), now));
            black_box(answer(&view, &ask, &stored, Some(1024)));
        }
        println!("{what:32} {part:10} {:6.1} ns", begin.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
    Ok(())
}

fn main() -> Result<(), NotStored> {
    let small = [(header::HOST, "example.com"), (header::USER_AGENT, "curl/8"), (header::ACCEPT, "*/*")];
    let mut large = small.to_vec();
    large.extend([
        (header::ACCEPT_ENCODING, "gzip, deflate, br, zstd"),
        (header::ACCEPT_LANGUAGE, "de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7"),
        (header::COOKIE, "theme=dark; consent=yes"),
        (header::REFERER, "https://example.com/"),
        (header::UPGRADE_INSECURE_REQUESTS, "1"),
        (header::DNT, "1"),
        (header::CONNECTION, "keep-alive"),
    ]);
    measure("3 fields", &request(&small), None)?;
    measure("10 fields", &request(&large), None)?;
    measure("10 fields, vary encoding", &request(&large), Some("accept-encoding"))?;
    measure("10 fields, vary language", &request(&large), Some("accept-language"))
}
