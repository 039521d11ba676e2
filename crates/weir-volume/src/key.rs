//! The key under which something lies on a volume: its site's number before its full key, so that what
//! belongs to another site is another's.

use bytes::{BufMut, Bytes, BytesMut};
use weir_policy::CacheKey;
use xxhash_rust::xxh3::Xxh3Default;

/// The key under which something lies on a volume.
pub fn on_volume(key: &CacheKey) -> CacheKey {
    let mut full = BytesMut::with_capacity(8 + key.full.len());
    full.put_u64_le(key.site);
    full.put_slice(&key.full);
    CacheKey::new(full.freeze()).of_site(key.site)
}

/// The site and the full key of what lies on a volume under a key.
pub fn split(on_volume: &[u8]) -> Option<(u64, &[u8])> {
    let (site, full) = on_volume.split_first_chunk()?;
    Some((u64::from_le_bytes(*site), full))
}

/// The digest of that key, which the volume demands to be its key's.
pub fn digest(full: &[u8], site: u64) -> u128 {
    let mut digest = Xxh3Default::new();
    digest.update(&site.to_le_bytes());
    digest.update(full);
    digest.digest128()
}

/// The key that a site and a full key are.
pub fn cache_key(site: u64, full: &[u8]) -> CacheKey {
    CacheKey::new(Bytes::copy_from_slice(full)).of_site(site)
}

/// Whose an object is, where nothing else is said: the first eight bytes of its key, little endian.
pub(crate) fn owner_of(key: &[u8]) -> u64 {
    let mut owner = [0; 8];
    let length = key.len().min(owner.len());
    owner[..length].copy_from_slice(&key[..length]);
    u64::from_le_bytes(owner)
}
