//! The bytes of a volume's files, and nothing else: no threads, no order of commits. Numbers are little
//! endian.

pub(crate) mod checkpoint;
pub mod codec;
pub(crate) mod journal;
pub(crate) mod record;
pub(crate) mod single;
pub(crate) mod superblock;
use bytes::TryGetError;

/// The next `count` bytes.
///
/// # Errors
/// There are fewer.
pub(crate) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], TryGetError> {
    let too_short = TryGetError { requested: count, available: bytes.len() };
    bytes.split_off(..count).ok_or(too_short)
}
