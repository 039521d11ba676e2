//! What the tests of this crate are made of: keys, heads and bodies whose bytes are known by their place.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use weir_policy::{BodyEnd, CacheKey, CacheRules, Now, RequestView, Storable, Stored, storable};

use crate::body::Body;
use crate::{Budget, Found, Generation, Head, Piece, Read, Scope, Stamp, Store};
use std::sync::Arc;

#[allow(clippy::disallowed_methods)]
pub(crate) fn now() -> Now {
    Now { mono: std::time::Instant::now(), wall: std::time::SystemTime::now() }
}

pub(crate) fn key(number: u64) -> CacheKey {
    CacheKey::new(Bytes::from(format!("http://example.test/object/{number}")))
}

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
    let end = start + length as u64;
    let words = start / 8..end.div_ceil(8);
    let mut bytes = Vec::with_capacity(length + 16);
    for word in words {
        let word = (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed).wrapping_mul(0xd6e8_feb8_6659_fd93);
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let skip = (start % 8) as usize;
    Bytes::from(bytes).slice(skip..skip + length)
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

/// A folder that goes with the value.
pub(crate) struct Folder(std::path::PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        Folder::within(&std::env::temp_dir(), name)
    }

    /// One whose syncs cost nothing, where the system has such.
    pub(crate) fn in_memory(name: &str) -> Folder {
        let shared = std::path::Path::new("/dev/shm");
        if shared.is_dir() { Folder::within(shared, name) } else { Folder::new(name) }
    }

    fn within(folder: &std::path::Path, name: &str) -> Folder {
        static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = folder.join(format!("weir-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The golden file of that name. Where `WEIR_GOLDEN=write` is set and there is none, `bytes` become it.
pub(crate) fn golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/volume/golden");
    let path = folder.join(name);
    if !path.exists() && std::env::var("WEIR_GOLDEN").is_ok_and(|word| word == "write") {
        std::fs::write(&path, bytes).unwrap();
    }
    std::fs::read(path).unwrap()
}
