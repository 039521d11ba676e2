//! What the tests of this crate are made of: keys, heads and bodies whose bytes are known by their place.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use weir_policy::{BodyEnd, CacheKey, CacheRules, Now, RequestView, Storable, storable};

use crate::{Found, Generation, Piece, Read, Store};
use std::sync::Arc;

#[allow(clippy::disallowed_methods)]
pub(crate) fn now() -> Now {
    Now { mono: std::time::Instant::now(), wall: std::time::SystemTime::now() }
}

pub(crate) fn key(number: u64) -> CacheKey {
    CacheKey::new(Bytes::from(format!("http://example.test/object/{number}")))
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
    storable(&view, StatusCode::OK, &response, BodyEnd::Framed, now(), now(), &rules).unwrap()
}

pub(crate) fn fields(pairs: &[(&str, &str)]) -> HeaderMap {
    let field = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    pairs.iter().map(field).collect()
}

/// A body whose byte at an offset follows from the offset and the seed.
pub(crate) fn body(seed: u64, start: u64, length: usize) -> Bytes {
    (start..start + length as u64).map(|offset| byte(seed, offset)).collect()
}

pub(crate) fn byte(seed: u64, offset: u64) -> u8 {
    ((offset ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
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
    let key = key(number);
    let Found::Ready(found) = store.find(key.digest, &key.full, &|_| true);
    found
}

/// Reads `[start, …)` until something else than bytes comes.
pub(crate) fn read_from(generation: &Generation, start: u64, max: usize) -> (Vec<u8>, Read) {
    let mut bytes = Vec::new();
    loop {
        match generation.read(start + bytes.len() as u64, max) {
            Read::Piece(Piece::Bytes(piece)) => {
                assert!(!piece.is_empty() && piece.len() <= max);
                bytes.extend_from_slice(&piece);
            }
            other => return (bytes, other),
        }
    }
}
