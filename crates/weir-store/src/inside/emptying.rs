//! Emptying a volume: each object moves to the volume that its key belongs to now, with its number, its stamp
//! and its head, so that it is the same object there. It is removed from the old place once it is durable at
//! the new one.
//!
//! Meanwhile it is served from the old place. What is removed meanwhile is removed at both places
//! ([`super::layout::Tiers::remove`]); after the move it is checked again.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use weir_policy::{Interval, Intervals};

use super::Inside;
use crate::ledger::{Judged, Stamp};
use crate::tier::{LATE_PAUSE, VolumeTier};
use crate::volume::{Named, Part, Position, Put, ReadError, Record, codec, key};

/// So many objects are looked at, or bytes moved, between two syncs.
const BATCH_OBJECTS: usize = 256;
const BATCH_BYTES: u64 = 32 << 20;
/// The largest read, in bytes.
const READ_BYTES: usize = 256 << 10;
/// How often, [`LATE_PAUSE`] apart, bytes are offered to a volume that has no room for them.
const TRIES_MAX: u32 = 5000;

/// What one pass over a volume that is being emptied did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Emptied {
    /// Objects that are elsewhere now.
    pub moved: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Objects that could not be moved: there is no room for them, or they are still being written.
    pub left: u64,
}

/// One pass over a volume.
pub(crate) struct Emptying<'a> {
    inside: &'a Inside,
    from: &'a Arc<VolumeTier>,
    done: Emptied,
    /// What was written elsewhere and is not durable there yet.
    batch: HashMap<u128, (Arc<VolumeTier>, Vec<Named>)>,
    looked: usize,
    bytes: u64,
}

impl<'a> Emptying<'a> {
    pub(crate) fn new(inside: &'a Inside, from: &'a Arc<VolumeTier>) -> Emptying<'a> {
        Emptying { inside, from, done: Emptied::default(), batch: HashMap::new(), looked: 0, bytes: 0 }
    }

    /// Moves all objects that it finds. Blocks for as long as reading and writing takes, with pauses as long
    /// as the work. Ends early when the volume is detached.
    ///
    /// # Errors
    /// The drive fails.
    pub(crate) fn run(mut self) -> Result<Emptied, ReadError> {
        let volume = self.from.volume.clone();
        let mut begun = self.from.now();
        volume.walk(|record| {
            if !self.one(record) {
                self.done.left += 1;
            }
            // Pause even where nothing finds room, and end when asked to.
            self.looked += 1;
            if self.looked >= BATCH_OBJECTS || self.bytes >= BATCH_BYTES {
                self.settle();
                if self.from.rest_since(begun) || !self.from.is_draining() {
                    return ControlFlow::Break(());
                }
                begun = self.from.now();
            }
            ControlFlow::Continue(())
        })?;
        self.settle();
        Ok(self.done)
    }

    /// Moves an object. False where it stays.
    fn one(&mut self, record: &Record) -> bool {
        let named = Named { digest: record.digest, object: record.number };
        let Some(head) = self.head(record) else {
            if self.from.volume.is_replaced(record) {
                // The head in its place is looked at the next time.
                return false;
            }
            // It is dead, or cannot be used.
            self.from.remove(named);
            return true;
        };
        let Some(to) = self.inside.volumes.tiers.home(record.digest) else { return false };
        let held = self.from.volume.held(record);
        let there = to.volume.records_of(named).first().map(|there| to.volume.held(there));
        if let Some(there) = there {
            if held.iter().all(|run| there.contains(run)) {
                self.note(&to, named, 0);
                return true;
            }
            // A move was interrupted.
            to.remove(named);
            return false;
        }
        let Some(bytes) = self.copy(record, &to, head, &held) else { return false };
        self.note(&to, named, bytes);
        true
    }

    fn note(&mut self, to: &Arc<VolumeTier>, named: Named, bytes: u64) {
        let (_, all) = self.batch.entry(to.volume.id()).or_insert_with(|| (Arc::clone(to), Vec::new()));
        all.push(named);
        self.bytes += bytes;
    }

    /// The head to store; `None` for what is dead.
    fn head(&self, record: &Record) -> Option<Bytes> {
        let (site, full) = key::split(&record.key)?;
        let now = self.from.now();
        let mut stored = codec::decode(&record.head, now).ok()?;
        let judged = self.inside.memory.ledger.judge(
            &key::cache_key(site, full),
            &stored.tags,
            Stamp::of(record.stamp),
        );
        if judged == Judged::Dead || record.asked < self.from.dead_before().number() {
            return None;
        }
        if record.asked < self.from.suspect_before().number() {
            stored.suspect(now.mono);
        }
        judged.apply(&mut stored.facts);
        Some(Bytes::from(codec::encode(&stored, now)))
    }

    /// Writes what the volume holds of an object to another volume. Returns how many bytes, or `None` where
    /// it failed.
    fn copy(&self, record: &Record, to: &Arc<VolumeTier>, head: Bytes, held: &Intervals) -> Option<u64> {
        let key = weir_policy::CacheKey::new(record.key.clone()).of_site(key::split(&record.key)?.0);
        let put = to.volume.begin_as(record.number, &key, head, record.stamp, record.length).ok()?;
        let mut bytes = 0;
        for run in held.iter() {
            bytes += self.copy_run(record, &put, run)?;
        }
        let length = record.length.filter(|length| held.contains(Interval { start: 0, end: *length }));
        let ended = match length {
            Some(length) => put.finish(length).map(drop),
            None => put.rest(),
        };
        ended.ok().map(|()| bytes)
    }

    fn copy_run(&self, record: &Record, put: &Put, run: Interval) -> Option<u64> {
        let (mut at, mut position) = (run.start, Position::default());
        while at < run.end {
            let most = usize::try_from(run.end - at).map_or(READ_BYTES, |left| left.min(READ_BYTES));
            let Ok(Part::Bytes(checked)) = self.from.volume.read(record, &mut position, at, most) else {
                return None;
            };
            let bytes = checked.into_bytes();
            let mut tries = 0;
            while !put.has_room(bytes.len() as u64) {
                tries += 1;
                if tries > TRIES_MAX {
                    return None;
                }
                std::thread::sleep(LATE_PAUSE);
            }
            let count = bytes.len() as u64;
            put.push(at, bytes).ok()?;
            at += count;
        }
        Some(run.end - run.start)
    }

    /// Makes the moved objects durable, and removes them from their old place.
    fn settle(&mut self) {
        for (to, all) in std::mem::take(&mut self.batch).into_values() {
            let is_durable = to.volume.sync().is_some();
            // Removals that reached the old place before the object was at the new one are done after this
            // sync.
            self.from.volume.sync();
            for named in all {
                let has_moved = is_durable && to.volume.has_object(named);
                if !has_moved {
                    self.done.left += 1;
                } else if self.from.volume.has_object(named) {
                    self.from.remove(named);
                    self.done.moved += 1;
                } else {
                    // It was removed or evicted while it was being moved.
                    to.remove(named);
                }
            }
        }
        self.done.bytes += self.bytes;
        (self.looked, self.bytes) = (0, 0);
    }
}
