//! The bytes of a whole body. One block stays where it is. Several are blocks at first; those of a body that
//! the kernel could send often move to a [`SealedFile`], once.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use weir_sealed::Way;

use super::body::{BLOCK_BYTES, Read};
use super::sealed_file::SealedFile;

/// So many more responses that the kernel could have sent than others, and a body earns a file.
const SENT_FOR_FILE: u8 = 4;
/// A response that the kernel could not have sent counts against so many others: it would have to be copied
/// out of a file.
const OTHER_COUNTS: u8 = 2;

/// Blocks of [`BLOCK_BYTES`] each, the last one may be shorter. They stay in memory while this is held.
pub type Blocks = Arc<Box<[Bytes]>>;

/// The bytes of a whole body. They never change.
#[derive(Debug)]
pub(crate) enum Sealed {
    Empty,
    One(Bytes),
    Many(Box<Many>),
}

/// The bytes of a body of several blocks.
#[derive(Debug)]
pub(crate) struct Many {
    length: u64,
    /// None once there is a file.
    blocks: ArcSwapOption<Box<[Bytes]>>,
    file: OnceLock<SealedFile>,
    /// How many more responses the kernel could have sent than others.
    earned: AtomicU8,
}

impl Sealed {
    /// A body of at most one block.
    pub(crate) fn of_one(bytes: Bytes) -> Sealed {
        if bytes.is_empty() { Sealed::Empty } else { Sealed::One(bytes) }
    }

    /// A body of these blocks.
    pub(crate) fn of_many(blocks: Box<[Bytes]>) -> Sealed {
        if blocks.is_empty() {
            return Sealed::Empty;
        }
        let length = blocks.iter().map(|block| block.len() as u64).sum();
        let blocks = ArcSwapOption::from_pointee(blocks);
        let (file, earned) = (OnceLock::new(), AtomicU8::new(0));
        Sealed::Many(Box::new(Many { length, blocks, file, earned }))
    }

    pub(crate) fn length(&self) -> u64 {
        match self {
            Sealed::Empty => 0,
            Sealed::One(bytes) => bytes.len() as u64,
            Sealed::Many(many) => many.length,
        }
    }

    /// The block of a body that has at most one.
    pub(crate) fn one(&self) -> Option<&[Bytes]> {
        match self {
            Sealed::Empty => Some(&[]),
            Sealed::One(bytes) => Some(std::slice::from_ref(bytes)),
            Sealed::Many(_) => None,
        }
    }

    pub(crate) fn many(&self) -> Option<&Many> {
        match self {
            Sealed::Empty | Sealed::One(_) => None,
            Sealed::Many(many) => Some(many),
        }
    }

    /// Reads at `offset`: at most `max` bytes.
    pub(crate) fn read(&self, offset: u64, max: usize) -> Read {
        match self {
            Sealed::Empty | Sealed::One(_) => read_blocks(self.one().unwrap_or_default(), offset, max),
            Sealed::Many(many) => many.read(offset, max),
        }
    }
}

impl Many {
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn blocks(&self) -> Option<Blocks> {
        self.blocks.load_full()
    }

    pub(crate) fn file(&self) -> Option<&SealedFile> {
        self.file.get()
    }

    /// Counts a response. True where the body has earned a file by it.
    pub(crate) fn note(&self, way: Way) -> bool {
        if self.file.get().is_some() {
            return false;
        }
        let earned = self.earned.load(Ordering::Relaxed);
        // Of two at the same moment one may be lost: the count is an estimate.
        let (next, has_earned) = match way {
            Way::Other => (earned.saturating_sub(OTHER_COUNTS), false),
            // Where it gets none now it has to earn it again.
            Way::Plain if earned + 1 >= SENT_FOR_FILE => (0, true),
            Way::Plain => (earned + 1, false),
        };
        if next != earned {
            self.earned.store(next, Ordering::Relaxed);
        }
        has_earned
    }

    /// Moves the body to a file with the same bytes. Its blocks are freed with their last reader.
    pub(crate) fn move_to(&self, file: SealedFile) {
        if self.file.set(file).is_ok() {
            self.blocks.store(None);
        }
    }

    fn read(&self, offset: u64, max: usize) -> Read {
        if let Some(blocks) = &*self.blocks.load() {
            return read_blocks(blocks, offset, max);
        }
        if offset >= self.length {
            return Read::End;
        }
        // Invariant: the blocks are dropped after the file is there.
        let bytes = self.file.get().and_then(|file| file.read(offset, max));
        bytes.map_or(Read::Gone, Read::Piece)
    }
}

fn read_blocks(blocks: &[Bytes], offset: u64, max: usize) -> Read {
    let number = (offset / BLOCK_BYTES as u64) as usize;
    let at = (offset % BLOCK_BYTES as u64) as usize;
    match blocks.get(number) {
        Some(block) if at < block.len() => {
            let end = block.len().min(at.saturating_add(max));
            Read::Piece(block.slice(at..end))
        }
        _ => Read::End,
    }
}

#[cfg(test)]
mod tests;
