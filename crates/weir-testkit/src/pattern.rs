//! Bodies whose every byte tells where it belongs.

/// `length` bytes of version `seed`. Each word of 8 bytes has its own offset and the version, so that a
/// shifted, mixed or repeated piece differs from what is expected.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let words = length.div_ceil(8) as u64;
    let mut bytes: Vec<u8> = (0..words)
        .flat_map(|word| ((word ^ seed.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes())
        .collect();
    bytes.truncate(length);
    bytes
}
