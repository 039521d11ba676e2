//! The tier below memory: a volume as the shelf uses it.
//!
//! What arrives is written down while it arrives ([`Stowing`]). What memory does not hold is looked for there ([`Ask`])
//! and comes up into the index as a generation whose bytes stay where they are ([`Below`]) or, where they are few, come
//! along. Whatever fails here is a miss: nothing waits for the volume but who asked it, and no byte comes up unchecked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use smallvec::SmallVec;
use tokio::sync::oneshot;
use weir_policy::{CacheKey, Now};
use xxhash_rust::xxh3::Xxh3Default;

use crate::body::{BLOCK_BYTES, Body, Piece, Read};
use crate::budget::{BLOCK_OVERHEAD_BYTES, block};
use crate::generation::{Generation, overhead_bytes};
use crate::head::{Head, detached, head_bytes};
use crate::index::Index;
use crate::ledger::Stamp;
use crate::shelf::Shelf;
use crate::volume::codec;
use crate::volume::{Candidate, Part, Position, Put, ReadError, Record, Verified, Volume, VolumeUsage};

/// Two heads of one object are written down at least so far apart.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// How often, and how long apart, the rest of a body is offered to a volume that has no room for it.
const LATE_TRIES_MAX: u32 = 5000;
const LATE_PAUSE: Duration = Duration::from_millis(1);
/// How many bodies may wait so.
const LATE_MAX: usize = 2;
/// Up to so many bytes a body comes up into memory with its head.
const SMALL_BYTES_MAX: u64 = BLOCK_BYTES as u64;

/// The bytes are there no more, or are not what was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are gone from the volume")]
pub struct Gone;

/// What a reader remembers between two reads of one body on the volume.
#[derive(Debug, Default)]
pub struct Place(Position);

/// A volume below the shelf.
#[derive(Debug)]
pub(crate) struct Tier {
    volume: Arc<Volume>,
    clock: fn() -> Now,
    /// Bodies whose rest waits for room.
    late: AtomicUsize,
    /// Bodies that were not kept because the volume had no room for them in time.
    unkept: AtomicU64,
}

impl Tier {
    pub(crate) fn new(volume: Volume, clock: fn() -> Now) -> Arc<Tier> {
        Arc::new(Tier {
            volume: Arc::new(volume),
            clock,
            late: AtomicUsize::new(0),
            unkept: AtomicU64::new(0),
        })
    }

    pub(crate) fn usage(&self) -> VolumeUsage {
        let usage = self.volume.usage();
        VolumeUsage { queue_full: usage.queue_full + self.unkept.load(Ordering::Relaxed), ..usage }
    }

    fn note_unkept(&self) {
        self.unkept.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn verify(&self) -> Result<Verified, ReadError> {
        self.volume.verify()
    }

    /// Blocks until what waits is written, what has no room yet included, and takes nothing more.
    pub(crate) fn close(&self) {
        for _ in 0..LATE_TRIES_MAX {
            if self.late.load(Ordering::Acquire) == 0 {
                break;
            }
            std::thread::sleep(LATE_PAUSE);
        }
        self.volume.close();
    }

    /// Whether the volume may hold more under a key than has come up. Looks at memory alone.
    pub(crate) fn holds_more(&self, digest: u128, full: &[u8], site: u64, index: &Index) -> bool {
        let below = self.volume.find(digest_below(full, site)).len();
        below > 0 && below > index.all(digest).iter().filter(|generation| generation.object() > 0).count()
    }

    /// Begins to write a generation down; `None` where the volume takes nothing.
    pub(crate) fn begin(self: &Arc<Tier>, generation: &Generation) -> Option<Stowing> {
        let head = codec::encode(&generation.head().stored, (self.clock)());
        let (key, stamp) = (key_below(generation.key()), generation.stamp().number());
        let put = self.volume.begin(&key, Bytes::from(head), stamp, generation.length()).ok()?;
        generation.set_object(put.number());
        Some(Stowing { put, tier: Arc::clone(self), at: 0 })
    }

    /// Takes a generation out of the volume. Where even that cannot be said, it is outdone when it comes up again.
    pub(crate) fn remove(&self, generation: &Generation) {
        if generation.object() > 0 {
            let key = generation.key();
            let _ = self.volume.remove(digest_below(&key.full, key.site), generation.object());
        }
    }

    /// Writes a generation's new head down, at most every [`REFRESH_INTERVAL`]. Where it cannot be, the old one stays, and what
    /// comes up with it is asked about earlier.
    pub(crate) fn refresh(&self, generation: &Generation) {
        let now = (self.clock)();
        if generation.object() == 0 || !generation.is_refresh_due(now.mono, REFRESH_INTERVAL) {
            return;
        }
        let head = codec::encode(&generation.head().stored, now);
        let (key, stamp) = (generation.key(), generation.stamp().number());
        let digest = digest_below(&key.full, key.site);
        let _ = self.volume.refresh(digest, generation.object(), Bytes::from(head), stamp);
    }

    /// Makes a generation of a record, in memory with its head, and with its body where that is small.
    fn raise(self: &Arc<Tier>, shelf: &Shelf, key: &CacheKey, record: Record) {
        let Some(length) = record.length.filter(|_| record.was_whole()) else { return };
        let Ok(stored) = codec::decode(&record.head, (self.clock)()) else { return };
        let stored = detached(stored);
        let charge = |bytes| shelf.charge(bytes);
        let small = self.small(shelf, &record, length);
        let (number, stamp) = (record.number, Stamp::of(record.stamp));
        let below = small.is_none().then(|| record_below(record));
        let below_bytes = below.as_ref().map_or(0, |(_, bytes)| *bytes);
        let Some((own, head)) = charge(overhead_bytes(key) + below_bytes).zip(charge(head_bytes(&stored)))
        else {
            return;
        };
        let body = small.unwrap_or_else(|| Body::elsewhere(length));
        let generation = Generation::new(key.clone(), number, stamp, Head::new(stored, head), body, own);
        generation.set_object(number);
        if let Some((record, _)) = below {
            let is_gone = AtomicBool::new(false);
            generation.set_below(Below { tier: Arc::clone(self), record, is_gone });
        }
        shelf.adopt(&Arc::new(generation));
    }

    /// A small body that came along with its record.
    fn small(&self, shelf: &Shelf, record: &Record, length: u64) -> Option<Body> {
        if length == 0 {
            return Some(Body::small(Bytes::new()));
        }
        let bytes = record.body().filter(|_| length <= SMALL_BYTES_MAX)?.bytes();
        let charge = shelf.charge(length + BLOCK_OVERHEAD_BYTES)?;
        Some(Body::small(block(bytes.as_ref().into(), charge)))
    }
}

/// What a generation keeps of the record that its bytes are read by, and what that takes in memory.
fn record_below(record: Record) -> (Arc<Record>, u64) {
    let record = record.for_reading();
    let bytes = record.memory_bytes() + size_of::<Below>() as u64;
    (Arc::new(record), bytes)
}

/// The key under which a generation lies on the volume: what belongs to another site is another's.
fn key_below(key: &CacheKey) -> CacheKey {
    let mut full = BytesMut::with_capacity(8 + key.full.len());
    full.put_u64_le(key.site);
    full.put_slice(&key.full);
    CacheKey::new(full.freeze()).of_site(key.site)
}

/// The digest of that key, which the volume demands to be its key's.
fn digest_below(full: &[u8], site: u64) -> u128 {
    let mut digest = Xxh3Default::new();
    digest.update(&site.to_le_bytes());
    digest.update(full);
    digest.digest128()
}

/// A generation that is being written down. Dropped without an end it is taken out again.
#[derive(Debug)]
pub(crate) struct Stowing {
    put: Put,
    tier: Arc<Tier>,
    /// Up to here it was handed over.
    at: u64,
}

impl Stowing {
    /// Up to here it was handed over.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Hands over what a body holds up to `end`, as far as the volume has room for it now; what it has not stays in memory
    /// for the next time. False where no more is taken: storing has ended, or what comes next is not held any more.
    pub(crate) fn push(&mut self, body: &Body, end: u64) -> bool {
        while self.at < end {
            let Read::Piece(Piece::Bytes(bytes)) = body.read(self.at, BLOCK_BYTES) else {
                self.tier.note_unkept();
                return false;
            };
            let count = bytes.len() as u64;
            if !self.put.has_room(count) {
                return true;
            }
            if self.put.push(self.at, bytes).is_err() {
                return false;
            }
            self.at += count;
        }
        true
    }

    /// The body has come whole. What the volume has had no room for is handed over by a thread of its own, for a bounded
    /// time; `then` is called once all is.
    pub(crate) fn finish(
        mut self,
        generation: Arc<Generation>,
        length: u64,
        then: impl FnOnce(&Generation) + Send + 'static,
    ) {
        match self.stage(&generation.body, length) {
            Stage::Ended => return,
            Stage::Handed => return self.conclude(&generation, length, then),
            Stage::Waits => {}
        }
        let tier = Arc::clone(&self.tier);
        let Some(late) = Late::begin(&tier) else { return tier.note_unkept() };
        let offer = move || {
            let _late = late;
            for _ in 0..LATE_TRIES_MAX {
                std::thread::sleep(LATE_PAUSE);
                match self.stage(&generation.body, length) {
                    Stage::Ended => return,
                    Stage::Handed => return self.conclude(&generation, length, then),
                    Stage::Waits => {}
                }
            }
            self.tier.note_unkept();
        };
        if tier.volume.on_reader(offer).is_err() {
            tier.note_unkept();
        }
    }

    fn stage(&mut self, body: &Body, length: u64) -> Stage {
        match self.push(body, length) {
            true if self.at == length => Stage::Handed,
            true => Stage::Waits,
            false => Stage::Ended,
        }
    }

    fn conclude(self, generation: &Generation, length: u64, then: impl FnOnce(&Generation)) {
        if self.put.finish(length).is_ok() {
            then(generation);
        }
    }
}

/// How far a body that has come whole has gone down.
enum Stage {
    /// All was handed over.
    Handed,
    /// The volume has no room for the rest now.
    Waits,
    /// It is not kept.
    Ended,
}

/// A place among those whose rest waits for room.
struct Late(Arc<Tier>);

impl Late {
    /// `None` where there are enough: they take threads that others want to read by.
    fn begin(tier: &Arc<Tier>) -> Option<Late> {
        let late = Late(Arc::clone(tier));
        (tier.late.fetch_add(1, Ordering::AcqRel) < LATE_MAX).then_some(late)
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.0.late.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Where the bytes of a generation are that came up without them.
#[derive(Debug)]
pub(crate) struct Below {
    tier: Arc<Tier>,
    record: Arc<Record>,
    /// A read has found that something of it is gone.
    is_gone: AtomicBool,
}

impl Below {
    /// Whether all of it was there when it was last looked at.
    pub(crate) fn is_whole(&self) -> bool {
        self.record.was_whole() && !self.is_gone.load(Ordering::Acquire)
    }

    /// What is at an offset: at once where it lies in the page cache, else by a thread that may wait for the drive.
    pub(crate) async fn read(
        &self,
        place: &mut Place,
        offset: u64,
        max: usize,
    ) -> Result<Option<Piece>, Gone> {
        let result = self.look(place, offset, max).await;
        if result.is_err() {
            self.is_gone.store(true, Ordering::Release);
        }
        result
    }

    async fn look(&self, place: &mut Place, offset: u64, max: usize) -> Result<Option<Piece>, Gone> {
        match self.tier.volume.try_read(&self.record, &mut place.0, offset, max) {
            Err(ReadError::NotResident) => {}
            result => return piece(result),
        }
        let (tier, record) = (Arc::clone(&self.tier), Arc::clone(&self.record));
        let mut position = std::mem::take(&mut place.0);
        let (done, wait) = oneshot::channel();
        let job = move || {
            let result = tier.volume.read(&record, &mut position, offset, max);
            let _ = done.send((result, position));
        };
        self.tier.volume.on_reader(job).map_err(|_| Gone)?;
        let (result, position) = wait.await.map_err(|_| Gone)?;
        place.0 = position;
        piece(result)
    }
}

fn piece(result: Result<Part, ReadError>) -> Result<Option<Piece>, Gone> {
    match result {
        Ok(Part::Bytes(checked)) => Ok(Some(Piece::Bytes(checked.into_bytes()))),
        Ok(Part::End) => Ok(None),
        Ok(Part::Gap) | Err(_) => Err(Gone),
    }
}

/// A question to the volume: what it holds under a key.
#[derive(Debug)]
pub struct Ask {
    shelf: Arc<Shelf>,
    tier: Arc<Tier>,
    key: CacheKey,
}

impl Ask {
    pub(crate) fn new(shelf: &Arc<Shelf>, tier: &Arc<Tier>, key: CacheKey) -> Ask {
        Ask { shelf: Arc::clone(shelf), tier: Arc::clone(tier), key }
    }

    /// Brings up what the volume holds under the key: then look again. What lies in the page cache is read at once, the
    /// rest by the volume's threads; where they are too busy it stays a miss.
    ///
    /// # Cancel safety
    /// Safe: what comes up comes up all the same.
    pub async fn run(self) {
        let waiting = self.at_once();
        if waiting.is_empty() {
            return;
        }
        let volume = Arc::clone(&self.tier.volume);
        let (done, wait) = oneshot::channel();
        let job = move || {
            self.wait_for(&waiting);
            let _ = done.send(());
        };
        if volume.on_reader(job).is_ok() {
            let _ = wait.await;
        }
    }

    /// As [`Ask::run`], for threads that may block.
    pub fn wait(self) {
        let waiting = self.at_once();
        self.wait_for(&waiting);
    }

    /// Brings up what lies in the page cache; returns the rest.
    fn at_once(&self) -> SmallVec<[Candidate; 2]> {
        let key = key_below(&self.key);
        let mut waiting = SmallVec::new();
        for candidate in self.tier.volume.find(key.digest) {
            match self.tier.volume.try_record(candidate, &key) {
                Ok(Some(record)) => self.tier.raise(&self.shelf, &self.key, record),
                Err(ReadError::NotResident) => waiting.push(candidate),
                Ok(None) | Err(ReadError::Gone | ReadError::Device(_)) => {}
            }
        }
        waiting
    }

    fn wait_for(&self, candidates: &[Candidate]) {
        let key = key_below(&self.key);
        for candidate in candidates {
            if let Ok(Some(record)) = self.tier.volume.record(*candidate, &key) {
                self.tier.raise(&self.shelf, &self.key, record);
            }
        }
    }
}

#[cfg(test)]
mod tests;
