//! Keys and bodies whose bytes are known by their place.

use bytes::Bytes;
use weir_policy::{CacheKey, Now};

/// The time.
#[allow(clippy::disallowed_methods)]
pub fn now() -> Now {
    Now { mono: std::time::Instant::now(), wall: std::time::SystemTime::now() }
}

/// A key, by its number.
pub fn key(number: u64) -> CacheKey {
    CacheKey::new(Bytes::from(format!("http://example.test/object/{number}")))
}

/// A body whose byte at an offset follows from the offset and the seed.
pub fn body(seed: u64, start: u64, length: usize) -> Bytes {
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

/// The golden file of that name of this crate. Where `WEIR_REWRITE` is set and there is none, `bytes`
/// become it.
pub fn golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    golden_of(env!("CARGO_MANIFEST_DIR"), name, bytes)
}

/// As [`golden`], of the crate in that folder.
pub fn golden_of(folder: &str, name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = std::path::Path::new(folder).join("src/golden").join(name);
    if !path.exists() && std::env::var_os("WEIR_REWRITE").is_some() {
        std::fs::write(&path, bytes).unwrap();
    }
    std::fs::read(path).unwrap()
}
