//! A stage: bytes in, bytes out. It does no I/O, reads no clock, holds bounded memory, and is not asked for
//! an end where its input broke off.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::Cut;

/// The most bytes that have come out of a stage and wait for the reader.
pub const OUT_BYTES_MAX: usize = 64 << 10;
/// And the most pieces.
const OUT_PIECES_MAX: usize = 64;

/// A stage that does neither what it can nor ends, or puts out more than there is room for.
pub(crate) const FAILED: Cut = Cut { word: "stage-failed" };

/// Changes bytes on their way: a coding, a shorter text, a text with others in it.
pub trait Stage {
    /// Takes bytes from the front of `bytes`, as far as there is room for what comes of them. What it leaves
    /// comes again. Where nothing is in `out` yet it takes or puts at least one byte.
    ///
    /// # Errors
    /// The input is not what it must be: the body breaks off behind what was put.
    fn take(&mut self, bytes: &mut Bytes, out: &mut Out) -> Result<(), Cut>;

    /// The input has ended cleanly: puts what is left, as far as there is room. Called until nothing is left.
    /// Where nothing is in `out` yet and more is left it puts at least one byte.
    ///
    /// # Errors
    /// The input is not what it must be, as a whole.
    fn end(&mut self, out: &mut Out) -> Result<Rest, Cut>;

    /// The bytes of memory that it holds now.
    fn held_bytes(&self) -> usize;

    /// The most bytes of memory that it ever holds: what is charged for it.
    fn held_bytes_max(&self) -> usize;
}

/// What a stage still has at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing.
    Nothing,
    /// More than there was room for.
    More,
}

/// What a stage puts out.
#[derive(Debug, Default)]
pub struct Out {
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl Out {
    /// For how many bytes there is room.
    pub fn room(&self) -> usize {
        if self.pieces.len() < OUT_PIECES_MAX { OUT_BYTES_MAX - self.bytes } else { 0 }
    }

    /// Puts bytes behind those that are there.
    ///
    /// # Errors
    /// There is no room for them: the stage is wrong.
    pub fn put(&mut self, bytes: Bytes) -> Result<(), Cut> {
        if bytes.len() > self.room() {
            return Err(FAILED);
        }
        if !bytes.is_empty() {
            self.bytes += bytes.len();
            self.pieces.push_back(bytes);
        }
        Ok(())
    }

    /// How many bytes wait for the reader.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// The first bytes, at most `bytes_max`.
    pub(crate) fn first(&mut self, bytes_max: usize) -> Option<Bytes> {
        let mut piece = self.pieces.pop_front()?;
        if piece.len() > bytes_max {
            self.pieces.push_front(piece.split_off(bytes_max));
        }
        self.bytes -= piece.len();
        Some(piece)
    }

    #[cfg(test)]
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.pieces.iter()
    }

    /// Keeps no more memory than its bytes have: they may be small parts of large blocks.
    pub(crate) fn let_go(&mut self) {
        self.pieces.iter_mut().for_each(|piece| *piece = Bytes::copy_from_slice(piece));
    }
}

impl<S: Stage + ?Sized> Stage for Box<S> {
    fn take(&mut self, bytes: &mut Bytes, out: &mut Out) -> Result<(), Cut> {
        (**self).take(bytes, out)
    }

    fn end(&mut self, out: &mut Out) -> Result<Rest, Cut> {
        (**self).end(out)
    }

    fn held_bytes(&self) -> usize {
        (**self).held_bytes()
    }

    fn held_bytes_max(&self) -> usize {
        (**self).held_bytes_max()
    }
}
