//! How much of each owner a volume holds.

/// Whose an object is: the first eight bytes of its key, little endian.
pub(crate) fn owner_of(key: &[u8]) -> u64 {
    let mut owner = [0; 8];
    let length = key.len().min(owner.len());
    owner[..length].copy_from_slice(&key[..length]);
    u64::from_le_bytes(owner)
}
