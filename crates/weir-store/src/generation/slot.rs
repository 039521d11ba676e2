//! One block of a growing body: the parts that have arrived, sorted, without overlap, until they cover it;
//! then the block itself.
//!
//! It knows neither budgets nor locks. Short parts are joined with their short neighbours like the digits of
//! a binary counter, so that an origin that sends single bytes costs neither memory nor quadratic time.

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;
use weir_volume::BLOCK_BYTES;

/// Parts shorter than this are joined while they arrive; longer ones wait for the block.
const SHORT_BYTES: usize = 4096;

/// A run of bytes within the block.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) at: usize,
    pub(crate) bytes: Bytes,
}

impl Part {
    fn end(&self) -> usize {
        self.at + self.bytes.len()
    }
}

/// What one block holds.
#[derive(Debug)]
pub(crate) enum Slot {
    /// Parts as they arrived; they are charged to the body.
    Loose(SmallVec<[Part; 1]>),
    /// All of it in one allocation that carries its own charge.
    Block(Bytes),
}

impl Slot {
    /// A slot of which nothing is held.
    pub(crate) fn empty() -> Slot {
        Slot::Loose(SmallVec::new())
    }

    /// Adds bytes at an offset within the block. Bytes that are held already stay. Returns how many were new.
    pub(crate) fn add(&mut self, at: usize, bytes: Bytes) -> usize {
        let Slot::Loose(parts) = self else { return 0 };
        if parts.last().is_none_or(|last| last.end() <= at) {
            let new = bytes.len();
            parts.push(Part { at, bytes });
            join_short(parts);
            return new;
        }
        let mut new = 0;
        for (start, end) in gaps(parts, at, at + bytes.len()) {
            let part = Part { at: start, bytes: bytes.slice(start - at..end - at) };
            let place = parts.partition_point(|held| held.at < start);
            parts.insert(place, part);
            new += end - start;
        }
        new
    }

    /// The bytes from `at` on, up to the end of the part that has them.
    pub(crate) fn at(&self, at: usize) -> Option<Bytes> {
        match self {
            Slot::Block(bytes) => (at < bytes.len()).then(|| bytes.slice(at..)),
            Slot::Loose(parts) => {
                let place = parts.partition_point(|part| part.end() <= at);
                let part = parts.get(place).filter(|part| part.at <= at)?;
                Some(part.bytes.slice(at - part.at..))
            }
        }
    }

    /// Takes a whole block that came in one part, if nobody else holds it and its memory has no more room
    /// than that. Put a block in its place.
    pub(crate) fn take_block(&mut self) -> Option<Box<[u8]>> {
        let Slot::Loose(parts) = self else { return None };
        let [part] = &mut parts[..] else { return None };
        if part.bytes.len() != BLOCK_BYTES || !part.bytes.is_unique() {
            return None;
        }
        // Nobody else holds it: it is moved only where its memory begins before it, which is not kept then.
        let bytes = Vec::from(std::mem::take(&mut part.bytes));
        if bytes.capacity() == BLOCK_BYTES {
            return Some(bytes.into_boxed_slice());
        }
        part.bytes = Bytes::from(bytes);
        None
    }

    /// How many bytes are held.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Slot::Block(bytes) => bytes.len(),
            Slot::Loose(parts) => parts.iter().map(|part| part.bytes.len()).sum(),
        }
    }

    /// The runs that are held, as start and end within the block.
    pub(crate) fn runs(&self) -> SmallVec<[(usize, usize); 4]> {
        match self {
            Slot::Block(bytes) => SmallVec::from_slice(&[(0, bytes.len())]),
            Slot::Loose(parts) => parts.iter().map(|part| (part.at, part.end())).collect(),
        }
    }
}

/// The runs of `[start, end)` that no part holds.
fn gaps(parts: &[Part], start: usize, end: usize) -> SmallVec<[(usize, usize); 4]> {
    let mut from = start;
    let held = parts.iter().map(|part| (part.at, part.end())).chain([(end, end)]);
    held.filter_map(|(part_start, part_end)| {
        let gap = (from, part_start.min(end));
        from = from.max(part_end);
        (gap.0 < gap.1).then_some(gap)
    })
    .collect()
}

/// Joins the last parts while they are adjacent, short and of a size.
fn join_short(parts: &mut SmallVec<[Part; 1]>) {
    while let [.., left, right] = &parts[..] {
        let is_short = left.bytes.len() < SHORT_BYTES && right.bytes.len() * 2 >= left.bytes.len();
        if left.end() != right.at || !is_short || right.bytes.len() >= SHORT_BYTES {
            return;
        }
        let mut joined = BytesMut::with_capacity(left.bytes.len() + right.bytes.len());
        joined.extend_from_slice(&left.bytes);
        joined.extend_from_slice(&right.bytes);
        let at = left.at;
        parts.truncate(parts.len() - 2);
        parts.push(Part { at, bytes: joined.freeze() });
    }
}

#[cfg(test)]
mod tests;
