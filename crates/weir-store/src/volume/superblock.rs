//! The superblock: what a volume is, written once when it is made, in two copies (`identity`).

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::number::{Cursor, Put, TooShort};

/// Where its two copies lie in the volume's folder.
pub(crate) const PATHS: [&str; 2] = ["superblock", "superblock-2"];
/// Where one is written before it has its name.
pub(crate) const NEW_PATH: &str = "superblock.new";
/// Its length in bytes.
pub(crate) const SUPERBLOCK_BYTES: usize = 72;
/// What every segment and journal begins with, in bytes.
pub(crate) const FILE_HEADER_BYTES: usize = 64;
/// The version of a volume's formats but those of the index.
pub(crate) const VERSION: u32 = 1;
/// The version of journals and checkpoints. Those of another one are not read: the index is made anew from the segments.
pub(crate) const INDEX_VERSION: u32 = 3;

const MAGIC: &[u8; 8] = b"WeirVol\n";

/// What a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Which volume it is.
    pub(crate) id: u128,
    /// Seeds all checksums, so that no body can pass for a record.
    pub(crate) secret: u64,
    /// The length of a full segment in bytes, a power of two.
    pub(crate) segment_bytes: u64,
    /// How many bits of a key's hash choose a shard of the index.
    pub(crate) shard_bits: u32,
    /// The size that was wanted when it was made; what counts is what the configuration says.
    pub(crate) made_for_bytes: u64,
}

/// Why a superblock is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAVolume {
    /// It does not begin like one.
    #[error("the superblock is not one of weir's")]
    Foreign,
    /// Another version of the format.
    #[error("format {0}, and this weir reads format {VERSION}")]
    Version(u32),
    /// Its checksum or its length is wrong.
    #[error("the superblock is damaged")]
    Damaged,
}

impl From<TooShort> for NotAVolume {
    fn from(_: TooShort) -> NotAVolume {
        NotAVolume::Damaged
    }
}

impl Superblock {
    /// What a segment or a journal of this volume begins with: its kind and version, its number, and whose it is.
    pub(crate) fn file_header(&self, magic: &[u8; 8], version: u32, number: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(FILE_HEADER_BYTES);
        out.put(magic);
        out.put_u32(version);
        out.put_u32(0);
        out.put_u128(self.id);
        out.put_u64(number);
        out.put(&[0; 16]);
        let sum = xxh3_64_with_seed(&out, self.secret);
        out.put_u64(sum);
        assert_eq!(out.len(), FILE_HEADER_BYTES);
        out
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SUPERBLOCK_BYTES);
        out.put(MAGIC);
        out.put_u32(VERSION);
        out.put_u32(self.shard_bits);
        out.put_u128(self.id);
        out.put_u64(self.secret);
        out.put_u64(self.segment_bytes);
        out.put_u64(self.made_for_bytes);
        out.put_u64(0);
        let sum = xxh3_64(&out);
        out.put_u64(sum);
        assert_eq!(out.len(), SUPERBLOCK_BYTES);
        out
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Superblock, NotAVolume> {
        let mut cursor = Cursor::new(bytes);
        if cursor.take(MAGIC.len()).map_err(|_| NotAVolume::Foreign)? != MAGIC {
            return Err(NotAVolume::Foreign);
        }
        let version = cursor.u32()?;
        // Of any version it ends with the sum of all before.
        let (summed, sum) = bytes.split_last_chunk().ok_or(NotAVolume::Damaged)?;
        if xxh3_64(summed) != u64::from_le_bytes(*sum) {
            return Err(NotAVolume::Damaged);
        }
        if version != VERSION {
            return Err(NotAVolume::Version(version));
        }
        let shard_bits = cursor.u32()?;
        let superblock = Superblock {
            id: cursor.u128()?,
            secret: cursor.u64()?,
            segment_bytes: cursor.u64()?,
            shard_bits,
            made_for_bytes: cursor.u64()?,
        };
        cursor.take(16)?;
        let is_sane = superblock.segment_bytes.is_power_of_two()
            && (super::SEGMENT_BYTES_MIN..=super::SEGMENT_BYTES_MAX).contains(&superblock.segment_bytes)
            && (1..=super::SHARD_BITS_MAX).contains(&shard_bits);
        if cursor.left() != 0 || !is_sane {
            return Err(NotAVolume::Damaged);
        }
        Ok(superblock)
    }
}

#[cfg(test)]
mod tests;
