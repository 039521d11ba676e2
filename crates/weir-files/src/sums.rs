//! What the bytes of a file must be, block by block: each block is checked whenever it is read, for the
//! system may have dropped it from memory and read it again from a failing drive.

use std::sync::atomic::{AtomicBool, Ordering};

use xxhash_rust::xxh3::xxh3_64;

/// The sums of a file's blocks.
#[derive(Debug)]
pub struct Sums {
    block_bytes: usize,
    /// How many bytes there are.
    bytes: u64,
    sums: Vec<u64>,
    is_broken: AtomicBool,
}

impl Sums {
    /// The XXH3-64 of each block of that many bytes; the last one is shorter.
    pub fn new(sums: Vec<u64>, block_bytes: usize, bytes: u64) -> Sums {
        Sums { block_bytes, bytes, sums, is_broken: AtomicBool::new(false) }
    }

    /// Whether a block has been read that is not what it must be.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// The block with the byte `at`: its number, where it begins, and its length.
    pub(crate) fn block(&self, at: u64) -> (usize, u64, usize) {
        let size = self.block_bytes as u64;
        let start = at / size * size;
        let length = usize::try_from(self.bytes.saturating_sub(start).min(size)).unwrap_or(self.block_bytes);
        (usize::try_from(at / size).unwrap_or(usize::MAX), start, length)
    }

    /// Whether a block is what it must be. That it is not is remembered.
    pub(crate) fn fits(&self, block: usize, bytes: &[u8]) -> bool {
        let fits = self.sums.get(block) == Some(&xxh3_64(bytes));
        if !fits {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        fits
    }
}
