//! The key under which an object lies on a volume: its site's number, then its full key. The number tells the
//! objects of two sites apart.

use bytes::{BufMut, Bytes, BytesMut};
use weir_policy::CacheKey;
use xxhash_rust::xxh3::Xxh3Default;

/// The key under which an object with this cache key lies on a volume.
pub fn on_volume(key: &CacheKey) -> CacheKey {
    let mut full = BytesMut::with_capacity(8 + key.full.len());
    full.put_u64_le(key.site);
    full.put_slice(&key.full);
    CacheKey::new(full.freeze()).of_site(key.site)
}

/// The site and the full key behind a key on a volume; `None` for a key without a site.
pub fn split(on_volume: &[u8]) -> Option<(u64, &[u8])> {
    let (site, full) = on_volume.split_first_chunk()?;
    Some((u64::from_le_bytes(*site), full))
}

/// The digest of such a key, as the volume demands it.
pub fn digest(full: &[u8], site: u64) -> u128 {
    let mut digest = Xxh3Default::new();
    digest.update(&site.to_le_bytes());
    digest.update(full);
    digest.digest128()
}

/// The cache key for a site and a full key.
pub fn cache_key(site: u64, full: &[u8]) -> CacheKey {
    CacheKey::new(Bytes::copy_from_slice(full)).of_site(site)
}

/// The owner of an object by default: the first eight bytes of its key, little endian.
pub(crate) fn owner_of(key: &[u8]) -> u64 {
    let mut owner = [0; 8];
    let length = key.len().min(owner.len());
    owner[..length].copy_from_slice(&key[..length]);
    u64::from_le_bytes(owner)
}
