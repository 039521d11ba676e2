//! A checkpoint: the whole index in a file, so that a restart reads it instead of the segments.
//!
//! The writer writes it in small steps between other work, shard by shard, while the index goes on changing.
//! It leaves out entries of records that were not durable when it began; the journal from its beginning on
//! has what changed since. A checkpoint without its trailer does not count.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::{Buf, BufMut, TryGetError};
use weir_disk::{Disk, DiskFile};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::format::journal::FOLDER;
use crate::format::superblock::{INDEX_VERSION, Superblock};
use crate::format::take;
use crate::index::stocks::Rows;
use crate::index::{Index, Location};
use crate::numbers::Durable;
use crate::stock::Stock;

const MAGIC: &[u8; 8] = b"WeirCkp\n";
const PART_MAGIC: u32 = 0x7472_5057; // "WPrt"
const HEADER_BYTES: usize = 112;
/// Where the preface has the number of its segments and of its cells.
const SEGMENTS_AT: usize = 104;
const SEGMENT_ENTRY_BYTES: usize = 16;
/// The length of a cell of the stocks, in bytes.
const CELL_BYTES: usize = 32;
pub(crate) const PART_HEADER_BYTES: usize = 32;
/// The shortest part in bytes, unless it is the last one.
pub(crate) const PART_BYTES: usize = 256 << 10;
/// So much is written before it is synced, so that the last sync has little to do.
const SYNC_BYTES: u64 = 8 << 20;

/// What a checkpoint says beside the entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preface {
    pub(crate) number: u64,
    /// The number of the journal that begins with the checkpoint.
    pub(crate) journal: u64,
    /// The last durable epoch when the checkpoint began.
    pub(crate) epoch: u64,
    pub(crate) next_object: u64,
    /// No record that was written before has a larger stamp.
    pub(crate) stamp_max: u64,
    /// How far the ledger was durable when the checkpoint was written.
    pub(crate) ledger: Durable,
    pub(crate) shard_bits: u32,
    /// The segments, each with the unit up to which it was durable.
    pub(crate) segments: BTreeMap<u64, u32>,
    /// What each segment held of each owner when it began.
    pub(crate) stocks: Rows,
}

impl Preface {
    fn to_bytes(&self, superblock: &Superblock) -> Vec<u8> {
        let cells = self.stocks.cells();
        let lists = self.segments.len() * SEGMENT_ENTRY_BYTES + cells.len() * CELL_BYTES;
        let mut out = Vec::with_capacity(HEADER_BYTES + lists);
        out.put_u64_le(0);
        out.put_slice(MAGIC);
        out.put_u32_le(INDEX_VERSION);
        out.put_u32_le(self.shard_bits);
        out.put_u128_le(superblock.id);
        out.put_u64_le(self.number);
        out.put_u64_le(self.journal);
        out.put_u64_le(self.epoch);
        out.put_u64_le(self.next_object);
        out.put_u64_le(self.stamp_max);
        out.put_u128_le(self.ledger.ledger);
        out.put_u64_le(self.ledger.number);
        out.put_u32_le(u32::try_from(self.segments.len()).unwrap_or(u32::MAX));
        out.put_u32_le(u32::try_from(cells.len()).unwrap_or(u32::MAX));
        assert_eq!(out.len(), HEADER_BYTES);
        for (segment, unit) in &self.segments {
            out.put_u64_le(*segment);
            out.put_u32_le(*unit);
            out.put_u32_le(0);
        }
        for (segment, owner, stock) in cells {
            [segment, owner, stock.objects, stock.bytes].iter().for_each(|number| out.put_u64_le(*number));
        }
        seal(out, superblock)
    }

    fn read(bytes: &[u8], superblock: &Superblock) -> Option<(Preface, usize)> {
        let mut cursor: &[u8] = bytes;
        let preface = Preface::read_fields(&mut cursor, superblock).ok()??;
        let length = bytes.len() - cursor.len();
        is_sealed(&bytes[..length], superblock).then_some((preface, length))
    }

    fn read_fields(cursor: &mut &[u8], superblock: &Superblock) -> Result<Option<Preface>, TryGetError> {
        cursor.try_get_u64_le()?;
        let magic = take(cursor, MAGIC.len())?;
        let version = cursor.try_get_u32_le()?;
        let shard_bits = cursor.try_get_u32_le()?;
        let id = cursor.try_get_u128_le()?;
        if magic != MAGIC || version != INDEX_VERSION || id != superblock.id {
            return Ok(None);
        }
        let (number, journal) = (cursor.try_get_u64_le()?, cursor.try_get_u64_le()?);
        let (epoch, next_object) = (cursor.try_get_u64_le()?, cursor.try_get_u64_le()?);
        let stamp_max = cursor.try_get_u64_le()?;
        let ledger = Durable { ledger: cursor.try_get_u128_le()?, number: cursor.try_get_u64_le()? };
        let (count, cells) = (cursor.try_get_u32_le()?, cursor.try_get_u32_le()?);
        let mut segments = BTreeMap::new();
        for _ in 0..count {
            let segment = cursor.try_get_u64_le()?;
            segments.insert(segment, cursor.try_get_u32_le()?);
            cursor.try_get_u32_le()?;
        }
        let mut stocks = Rows::default();
        for _ in 0..cells {
            let (segment, owner) = (cursor.try_get_u64_le()?, cursor.try_get_u64_le()?);
            stocks.set(
                segment,
                owner,
                Stock { objects: cursor.try_get_u64_le()?, bytes: cursor.try_get_u64_le()? },
            );
        }
        Ok(Some(Preface {
            number,
            journal,
            epoch,
            next_object,
            stamp_max,
            ledger,
            shard_bits,
            segments,
            stocks,
        }))
    }
}

/// Writes the checksum of the bytes from the ninth on into the first eight.
fn seal(mut bytes: Vec<u8>, superblock: &Superblock) -> Vec<u8> {
    let sum = xxh3_64_with_seed(&bytes[8..], superblock.secret);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn is_sealed(bytes: &[u8], superblock: &Superblock) -> bool {
    let sum = bytes.first_chunk().map(|sum| u64::from_le_bytes(*sum));
    bytes.len() > 8 && sum == Some(xxh3_64_with_seed(&bytes[8..], superblock.secret))
}

/// The path of a checkpoint.
pub(crate) fn path(number: u64) -> String {
    format!("{FOLDER}/checkpoint-{number:08}")
}

/// The number of the checkpoint whose file has that name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix("checkpoint-")?.parse().ok()?;
    (path(number) == format!("{FOLDER}/{name}")).then_some(number)
}

/// The length of a checkpoint of that many entries, in bytes, at most.
pub(crate) fn bytes_for(entries: u64, shards: usize, segments: usize, cells: usize) -> u64 {
    let entries = entries * 8 + shards as u64 * 4;
    let parts = entries / PART_BYTES as u64 + 2;
    let preface = HEADER_BYTES + segments * SEGMENT_ENTRY_BYTES + cells * CELL_BYTES;
    entries + parts * PART_HEADER_BYTES as u64 + preface as u64
}

/// A checkpoint that is being written.
#[derive(Debug)]
pub(crate) struct Writing {
    file: Arc<dyn DiskFile>,
    pub(crate) preface: Preface,
    next_shard: usize,
    entries: u64,
    pub(crate) bytes: u64,
    synced: u64,
}

/// The result of a step of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    More,
    /// The checkpoint is durable.
    Done,
}

impl Writing {
    /// # Errors
    /// Those of the drive.
    pub(crate) fn begin(disk: &dyn Disk, superblock: &Superblock, preface: Preface) -> io::Result<Writing> {
        let file = disk.create(&path(preface.number))?;
        let header = preface.to_bytes(superblock);
        file.write_all_at(&[&header], 0)?;
        Ok(Writing { file, preface, next_shard: 0, entries: 0, bytes: header.len() as u64, synced: 0 })
    }

    /// Closes the file.
    pub(crate) fn into_preface(self) -> Preface {
        self.preface
    }

    /// The most bytes that the next step writes.
    pub(crate) fn next_bytes(&self, index: &Index) -> u64 {
        let mut length = 0;
        for shard in self.next_shard..index.shards() {
            if length >= PART_BYTES {
                break;
            }
            length += index.shard_len(shard) * 8 + 4;
        }
        (length + PART_HEADER_BYTES) as u64
    }

    /// Whether all entries are written.
    pub(crate) fn is_ready_for_trailer(&self, index: &Index) -> bool {
        self.next_shard == index.shards()
    }

    /// Writes one part, or the trailer, which makes all durable.
    ///
    /// # Errors
    /// Those of the drive. The checkpoint is then of no use.
    pub(crate) fn step(
        &mut self,
        disk: &dyn Disk,
        superblock: &Superblock,
        index: &Index,
        is_durable: impl Fn(&BTreeMap<u64, u32>, Location) -> bool,
    ) -> io::Result<Step> {
        if self.next_shard == index.shards() {
            let trailer = part(superblock, &self.preface, u32::MAX, &[], self.entries);
            self.write(&trailer)?;
            self.file.sync_data()?;
            disk.sync_folder(FOLDER)?;
            return Ok(Step::Done);
        }
        let first = self.next_shard;
        let mut shards = Vec::new();
        let mut length = 0;
        while self.next_shard < index.shards() && length < PART_BYTES {
            let mut entries = index.shard(self.next_shard);
            length += entries.len() * 8 + 4;
            entries.retain(|entry| is_durable(&self.preface.segments, Location::of(*entry)));
            self.entries += entries.len() as u64;
            shards.push(entries);
            self.next_shard += 1;
        }
        let part = part(superblock, &self.preface, first as u32, &shards, self.entries);
        self.write(&part)?;
        if self.bytes - self.synced >= SYNC_BYTES {
            self.file.sync_data()?;
            self.synced = self.bytes;
        }
        Ok(Step::More)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(&[bytes], self.bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// A run of shards, sealed. The trailer has `u32::MAX` as its first shard and the count of all entries.
fn part(
    superblock: &Superblock,
    preface: &Preface,
    first: u32,
    shards: &[Vec<u64>],
    entries: u64,
) -> Vec<u8> {
    let length: usize = shards.iter().map(|entries| entries.len() * 8 + 4).sum();
    let mut out = Vec::with_capacity(PART_HEADER_BYTES + length);
    out.put_u64_le(0);
    out.put_u32_le(PART_MAGIC);
    out.put_u32_le(first);
    out.put_u32_le(shards.len() as u32);
    out.put_u32_le(u32::try_from(length).unwrap_or(u32::MAX));
    out.put_u64_le(preface.number << 40 ^ entries);
    for entries in shards {
        out.put_u32_le(entries.len() as u32);
        entries.iter().for_each(|entry| out.put_u64_le(*entry));
    }
    seal(out, superblock)
}

/// Reads a checkpoint into an empty index, part by part. `None` if it is not whole.
pub(crate) fn read(file: &dyn DiskFile, superblock: &Superblock, number: u64) -> Option<(Preface, Index)> {
    let mut parts = Parts { file, length: file.length().ok()?, at: 0 };
    let header = parts.peek(HEADER_BYTES)?;
    let mut counts: &[u8] = &header[SEGMENTS_AT..];
    let (segments, cells) = (counts.try_get_u32_le().ok()? as usize, counts.try_get_u32_le().ok()? as usize);
    let lists = segments.checked_mul(SEGMENT_ENTRY_BYTES)?.checked_add(cells.checked_mul(CELL_BYTES)?)?;
    let preface = parts.take(HEADER_BYTES.checked_add(lists)?)?;
    let (preface, _) = Preface::read(&preface, superblock)?;
    if preface.number != number || preface.shard_bits != superblock.shard_bits {
        return None;
    }
    let index = Index::new(superblock.shard_bits);
    let mut next_shard = 0;
    loop {
        let header = parts.peek(PART_HEADER_BYTES)?;
        let mut cursor: &[u8] = &header[8..];
        let (magic, first) = (cursor.try_get_u32_le().ok()?, cursor.try_get_u32_le().ok()?);
        let (shards, length) =
            (cursor.try_get_u32_le().ok()? as usize, cursor.try_get_u32_le().ok()? as usize);
        let entries = cursor.try_get_u64_le().ok()? ^ (number << 40);
        let part = parts.take(PART_HEADER_BYTES.checked_add(length)?)?;
        if magic != PART_MAGIC || !is_sealed(&part, superblock) {
            return None;
        }
        if first == u32::MAX {
            let is_end = parts.at == parts.length;
            let is_whole = next_shard == index.shards() && entries == index.len() && is_end;
            return is_whole.then_some((preface, index));
        }
        let end = next_shard.checked_add(shards).filter(|end| *end <= index.shards())?;
        if first as usize != next_shard {
            return None;
        }
        let mut cursor: &[u8] = &part[PART_HEADER_BYTES..];
        for shard in next_shard..end {
            let count = cursor.try_get_u32_le().ok()? as usize;
            let words = take(&mut cursor, count.checked_mul(8)?).ok()?;
            let entries =
                words.chunks_exact(8).map(|mut word: &[u8]| word.try_get_u64_le().unwrap_or(0)).collect();
            if !index.fill(shard, entries) {
                return None;
            }
        }
        next_shard = end;
    }
}

/// A file read from its beginning, a part at a time.
struct Parts<'a> {
    file: &'a dyn DiskFile,
    length: u64,
    at: u64,
}

impl Parts<'_> {
    fn peek(&self, count: usize) -> Option<Vec<u8>> {
        if count as u64 > self.length - self.at {
            return None;
        }
        let mut bytes = vec![0; count];
        weir_disk::read_exact_at(self.file, &mut bytes, self.at).ok()?;
        Some(bytes)
    }

    fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        let bytes = self.peek(count)?;
        self.at += count as u64;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests;
