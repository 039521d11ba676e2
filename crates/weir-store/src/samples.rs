//! What the tests of this crate are made of: keys, heads and bodies whose bytes are known by their place.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use weir_policy::{CacheKey, CacheRules, RequestView, ResponseView, Storable, Stored, storable};

use crate::generation::Body;
use crate::{Budget, Found, Generation, Head, Read, Scope, Stamp, Store};
use std::sync::Arc;

pub(crate) use crate::volume::testing::samples::{body, key, now};
pub(crate) use weir_disk::testing::Folder;

/// The scope of that key's URL.
pub(crate) fn url(number: u64) -> Scope {
    Scope::Url { site: 0, digest: key(number).digest }
}

/// Proof that a response of these fields, to a request of those, may be stored.
pub(crate) fn proof(request: &[(&str, &str)], response: &[(&str, &str)]) -> Storable {
    let (request, mut response) = (fields(request), fields(response));
    response.insert("cache-control", HeaderValue::from_static("max-age=600"));
    let view = RequestView {
        method: &Method::GET,
        scheme: "http",
        host: "example.test",
        path_and_query: "/",
        headers: &request,
        has_body: false,
        is_trusted: false,
    };
    let rules = CacheRules::default();
    storable(&view, &ResponseView::new(StatusCode::OK, &response, now(), now()), &rules).unwrap()
}

pub(crate) fn fields(pairs: &[(&str, &str)]) -> HeaderMap {
    let field = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    pairs.iter().map(field).collect()
}

/// A generation without a body that is in no store.
pub(crate) fn loose(budget: &Arc<Budget>, number: u64) -> Arc<Generation> {
    let head = Head::new(proof(&[], &[]).into_stored(), budget.nothing());
    let body = Body::new(Some(0), budget.nothing());
    Arc::new(Generation::new(key(number), number, Stamp::of(1), head, body, budget.nothing()))
}

/// Stores a whole body of known length under a key.
pub(crate) fn put(store: &Store, number: u64, length: usize) -> Arc<Generation> {
    let stamp = store.ledger().current();
    let (generation, mut writer) =
        store.begin(proof(&[], &[]), key(number), stamp, Some(length as u64)).unwrap();
    writer.push(body(number, 0, length)).unwrap();
    writer.seal().unwrap();
    generation
}

pub(crate) fn find(store: &Store, number: u64) -> Option<Arc<Generation>> {
    find_as(store, &key(number), &|_| true)
}

/// What memory holds under a key.
pub(crate) fn find_as(
    store: &Store,
    key: &CacheKey,
    select: &dyn Fn(&Stored) -> bool,
) -> Option<Arc<Generation>> {
    match store.find(key.digest, &key.full, key.site, select) {
        Found::Ready(found) => found,
        Found::Ask(_) => None,
    }
}

/// Reads `[start, …)` until something other than bytes comes.
pub(crate) fn read_from(generation: &Generation, start: u64, max: usize) -> (Vec<u8>, Read) {
    let mut bytes = Vec::new();
    loop {
        match generation.read(start + bytes.len() as u64, max) {
            Read::Piece(piece) => {
                assert!(!piece.is_empty() && piece.len() <= max);
                bytes.extend_from_slice(&piece);
            }
            other => return (bytes, other),
        }
    }
}

/// Waits up to five seconds until something is so.
pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..500 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it did not come");
}
