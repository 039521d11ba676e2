//! Asking the volumes what they hold under a key, and loading it.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use weir_policy::CacheKey;

use super::Inside;
use crate::budget::{Charge, block};
use crate::generation::{BLOCK_BYTES, Body, Generation, Head, Residence, Retirement, detached, head_bytes};
use crate::ledger::Stamp;
use crate::memory::{Memory, cost_bytes, overhead_bytes};
use crate::tier::{OnDiskBody, VolumeTier};
use crate::volume::VolumeState;
use crate::volume::{Candidate, Checked, Named, ReadError, Record, codec, key};

/// Up to this size a body is loaded with its head.
const SMALL_BYTES_MAX: u64 = BLOCK_BYTES as u64;

/// Candidates whose records must be read from the drive.
type Waiting = SmallVec<[(Arc<VolumeTier>, Candidate); 2]>;

/// Generations that memory does not keep.
type Visitors = SmallVec<[Arc<Generation>; 1]>;

/// A generation that was loaded from a volume for one request. Memory does not keep it: it is found by nobody
/// else. Hand it back to [`crate::Store::visit`] or [`crate::Store::keep`].
#[derive(Debug)]
pub struct Visitor(pub(crate) Arc<Generation>);

impl Visitor {
    /// What was loaded.
    pub fn generation(&self) -> &Arc<Generation> {
        &self.0
    }
}

/// A question to the volumes: what they hold under a key.
#[derive(Debug)]
pub struct Ask {
    inside: Arc<Inside>,
    key: CacheKey,
}

impl Ask {
    pub(crate) fn new(inside: &Arc<Inside>, key: CacheKey) -> Ask {
        Ask { inside: Arc::clone(inside), key }
    }

    /// Loads what the volumes hold under the key; then look again. What lies in the page cache is read at
    /// once. The rest is read by the volumes' threads, in parallel. Where a volume is too busy or too slow it
    /// stays a miss. What memory does not keep is returned as a [`Visitor`], if there is nothing else.
    ///
    /// # Cancel safety
    /// Safe: what memory keeps is loaded in any case. What it does not is loaded again by the next request.
    pub async fn run(self) -> Option<Visitor> {
        let (waiting, mut visitors) = self.at_once();
        let mut asked = SmallVec::<[_; 2]>::new();
        for (tier, candidate) in waiting.into_iter().filter(|(tier, _)| tier.state() != VolumeState::Slow) {
            let (inside, own, key) = (Arc::clone(&self.inside), Arc::clone(&tier), self.key.clone());
            let job = move || bring(&inside.memory, &own, &key, candidate);
            asked.extend(tier.volume.ask(job));
        }
        for answer in asked {
            visitors.extend(answer.await.flatten());
        }
        if visitors.len() > 1 {
            visitors.drain(..).for_each(|visitor| drop(self.inside.memory.add_loaded(&visitor)));
        }
        visitors.pop().map(Visitor)
    }

    /// As [`Ask::run`], for threads that may block.
    pub fn wait(self) {
        let (waiting, mut visitors) = self.at_once();
        for (tier, candidate) in waiting {
            visitors.extend(bring(&self.inside.memory, &tier, &self.key, candidate));
        }
        visitors.iter().for_each(|visitor| drop(self.inside.memory.add_loaded(visitor)));
    }

    /// Loads what lies in the page cache. Returns the rest, and what memory does not keep.
    fn at_once(&self) -> (Waiting, Visitors) {
        let key = key::on_volume(&self.key);
        let (mut waiting, mut visitors) = (Waiting::new(), Visitors::new());
        let layout = self.inside.volumes.tiers.all();
        for tier in layout.iter().filter(|tier| tier.state() != VolumeState::Ejected) {
            for candidate in tier.volume.find(key.digest) {
                match tier.volume.try_record(candidate, &key) {
                    Ok(Some(record)) => {
                        visitors.extend(tier.raise(&self.inside.memory, &self.key, record));
                    }
                    Err(ReadError::NotResident) => waiting.push((Arc::clone(tier), candidate)),
                    Ok(None) | Err(ReadError::Gone | ReadError::Device(_)) => {}
                }
            }
        }
        (waiting, visitors)
    }
}

/// Loads a candidate. May wait for the drive.
fn bring(
    memory: &Memory,
    tier: &Arc<VolumeTier>,
    key: &CacheKey,
    candidate: Candidate,
) -> Option<Arc<Generation>> {
    let record = tier.volume.record(candidate, &key::on_volume(key)).ok()??;
    tier.raise(memory, key, record)
}

impl VolumeTier {
    /// Makes a generation of a record, with its head in memory, and its body too where that is small. Returns
    /// one whose body is there and that memory does not keep.
    fn raise(
        self: &Arc<VolumeTier>,
        memory: &Memory,
        key: &CacheKey,
        mut record: Record,
    ) -> Option<Arc<Generation>> {
        // One that was replaced while it was read may look older than it was judged to be.
        let length = record.length.filter(|_| self.volume.is_current(&record))?;
        let now = (self.clock)();
        let stored = codec::decode(&record.head, now).ok()?;
        let is_superseded = self.is_superseded(record.digest, record.number);
        if is_superseded || record.asked < self.dead_before().number() {
            self.remove(Named { digest: record.digest, object: record.number });
            return None;
        }
        let mut stored = detached(stored);
        if record.asked < self.suspect_before().number() {
            stored.suspect(now.mono);
        }
        let (number, stamp) = (record.number, Stamp::of(record.stamp));
        let (head_bytes, own_bytes) = (head_bytes(&stored), overhead_bytes(key));
        let small = small(&mut record, length).and_then(|bytes| {
            let cost = head_bytes + own_bytes + cost_bytes(length);
            let is_kept = memory.keeps_loaded(key.digest, cost);
            Some((bytes, memory.charge_loaded(cost)?, is_kept))
        });
        let (body, mut charge, on_disk, is_kept) = match small {
            Some((bytes, mut charge, is_kept)) => {
                let own = charge.split(cost_bytes(length));
                let bytes = if bytes.is_empty() { bytes } else { whole_block(bytes, own) };
                (Body::small(bytes), charge, None, is_kept)
            }
            None => {
                let (record, bytes) = record_on_disk(record);
                let charge = memory.charge_loaded(head_bytes + own_bytes + bytes)?;
                (Body::elsewhere(length), charge, Some(record), true)
            }
        };
        let head = Head::new(stored, charge.split(head_bytes));
        let generation = Generation::new(key.clone(), number, stamp, head, body, charge);
        generation.set_home(number, self);
        if let Some(record) = on_disk {
            generation.set_on_disk(OnDiskBody::new(Arc::clone(self), record));
        }
        let generation = Arc::new(generation);
        if is_kept {
            memory.add_loaded(&generation);
            return None;
        }
        // As if it were evicted the moment it was found.
        generation.set_residence(Residence::Retired(Retirement::Evicted));
        Some(generation)
    }
}

/// Takes a small body out of the record that it was read with.
fn small(record: &mut Record, length: u64) -> Option<Bytes> {
    match length {
        0 => Some(Bytes::new()),
        1..=SMALL_BYTES_MAX => record.take_body().map(Checked::into_bytes),
        _ => None,
    }
}

/// A body of one block, in the memory that it was read to.
fn whole_block(bytes: Bytes, charge: Charge) -> Bytes {
    block(Vec::from(bytes).into_boxed_slice(), charge)
}

/// The part of a record that a generation keeps for reading, and how much memory that takes.
fn record_on_disk(record: Record) -> (Arc<Record>, u64) {
    let record = record.for_reading();
    let bytes = record.memory_bytes() + size_of::<OnDiskBody>() as u64;
    (Arc::new(record), bytes)
}
