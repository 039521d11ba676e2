//! The superblock: what a volume is. It is written once, in two copies, when the volume is made (`identity`).

use bytes::{Buf, BufMut, TryGetError};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::format::take;

/// The paths of its two copies in the volume's folder.
pub(crate) const PATHS: [&str; 2] = ["superblock", "superblock-2"];
/// Its length in bytes.
pub(crate) const SUPERBLOCK_BYTES: usize = 72;
/// The length of the header of every segment and journal, in bytes.
pub(crate) const FILE_HEADER_BYTES: usize = 64;
/// The version of all formats of a volume but the index's.
pub(crate) const VERSION: u32 = 1;
/// The version of journals and checkpoints. Files of another version are not read; the index is then made
/// again from the segments.
pub(crate) const INDEX_VERSION: u32 = 3;

const MAGIC: &[u8; 8] = b"WeirVol\n";

/// What a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// The volume's identity.
    pub(crate) id: u128,
    /// Seeds all checksums, so that no body can pass for a record.
    pub(crate) secret: u64,
    /// The length of a full segment in bytes, a power of two.
    pub(crate) segment_bytes: u64,
    /// How many bits of a key's hash choose a shard of the index.
    pub(crate) shard_bits: u32,
    /// The size that was wanted when the volume was made. The configuration's size counts.
    pub(crate) made_for_bytes: u64,
}

/// Why a superblock is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAVolume {
    /// The file does not begin like a superblock.
    #[error("the superblock is not one of weir's")]
    Foreign,
    /// Another version of the format.
    #[error("format {0}, and this weir reads format {VERSION}")]
    Version(u32),
    /// Its checksum or its length is wrong.
    #[error("the superblock is damaged")]
    Damaged,
}

impl From<TryGetError> for NotAVolume {
    fn from(_: TryGetError) -> NotAVolume {
        NotAVolume::Damaged
    }
}

impl Superblock {
    /// The header of a segment or a journal of this volume: its kind, version and number, and the volume's
    /// identity.
    pub(crate) fn file_header(&self, magic: &[u8; 8], version: u32, number: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(FILE_HEADER_BYTES);
        out.put_slice(magic);
        out.put_u32_le(version);
        out.put_u32_le(0);
        out.put_u128_le(self.id);
        out.put_u64_le(number);
        out.put_slice(&[0; 16]);
        let sum = xxh3_64_with_seed(&out, self.secret);
        out.put_u64_le(sum);
        assert_eq!(out.len(), FILE_HEADER_BYTES);
        out
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SUPERBLOCK_BYTES);
        out.put_slice(MAGIC);
        out.put_u32_le(VERSION);
        out.put_u32_le(self.shard_bits);
        out.put_u128_le(self.id);
        out.put_u64_le(self.secret);
        out.put_u64_le(self.segment_bytes);
        out.put_u64_le(self.made_for_bytes);
        out.put_u64_le(0);
        let sum = xxh3_64(&out);
        out.put_u64_le(sum);
        assert_eq!(out.len(), SUPERBLOCK_BYTES);
        out
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Superblock, NotAVolume> {
        let mut cursor: &[u8] = bytes;
        if take(&mut cursor, MAGIC.len()).map_err(|_| NotAVolume::Foreign)? != MAGIC {
            return Err(NotAVolume::Foreign);
        }
        let version = cursor.try_get_u32_le()?;
        // In every version the superblock ends with the sum of all before.
        let (summed, sum) = bytes.split_last_chunk().ok_or(NotAVolume::Damaged)?;
        if xxh3_64(summed) != u64::from_le_bytes(*sum) {
            return Err(NotAVolume::Damaged);
        }
        if version != VERSION {
            return Err(NotAVolume::Version(version));
        }
        let shard_bits = cursor.try_get_u32_le()?;
        let superblock = Superblock {
            id: cursor.try_get_u128_le()?,
            secret: cursor.try_get_u64_le()?,
            segment_bytes: cursor.try_get_u64_le()?,
            shard_bits,
            made_for_bytes: cursor.try_get_u64_le()?,
        };
        take(&mut cursor, 16)?;
        let is_sane = superblock.segment_bytes.is_power_of_two()
            && (crate::SEGMENT_BYTES_MIN..=crate::SEGMENT_BYTES_MAX).contains(&superblock.segment_bytes)
            && (1..=crate::SHARD_BITS_MAX).contains(&shard_bits);
        if !cursor.is_empty() || !is_sane {
            return Err(NotAVolume::Damaged);
        }
        Ok(superblock)
    }
}

#[cfg(test)]
mod tests;
