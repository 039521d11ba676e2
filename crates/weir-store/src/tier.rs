//! The tier below memory: a volume as the shelf uses it.
//!
//! What arrives is written down while it arrives ([`Stowing`]). What memory does not hold is looked for there ([`Ask`])
//! and comes up into the index as a generation whose bytes stay where they are ([`Below`]) or, where they are few, come
//! along. Whatever fails here is a miss: nothing waits for the volume but who asked it, and no byte comes up unchecked.

mod ask;
mod below;
mod stocks;
mod stowing;
mod sweeper;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::{Mutex, RwLock};
use weir_policy::{CacheKey, Now};
use xxhash_rust::xxh3::Xxh3Default;

pub use self::ask::Ask;
pub(crate) use self::below::Below;
pub use self::below::{Gone, Place};
pub(crate) use self::stowing::{Keeper, SharedPut, Stowing};
pub use self::sweeper::SweepUsage;
pub(crate) use self::sweeper::start;
use crate::body::{BLOCK_BYTES, Body};
use crate::budget::{BLOCK_OVERHEAD_BYTES, block};
use crate::catalogue::{Catalogue, Recounted, Rows};
use crate::generation::{Generation, overhead_bytes};
use crate::head::{Head, detached, head_bytes};
use crate::index::Index;
use crate::ledger::{Judged, Ledger, Stamp};
use crate::shelf::Shelf;
use crate::volume::codec;
use crate::volume::put::Fate;
use crate::volume::{Health, Named, Put, ReadError, Record, Verified, Volume, VolumeUsage};

/// Two heads of one object are written down at least so far apart.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// How often, and how long apart, the rest of a body is offered to a volume that has no room for it.
pub(crate) const LATE_TRIES_MAX: u32 = 5000;
pub(crate) const LATE_PAUSE: Duration = Duration::from_millis(1);
/// The list of what is being written is looked through when it has doubled beyond this.
const GOING_DOWN_LOOKED_THROUGH: usize = 64;
/// Up to so many bytes a body comes up into memory with its head.
const SMALL_BYTES_MAX: u64 = BLOCK_BYTES as u64;

/// A volume below the shelf.
#[derive(Debug)]
pub(crate) struct Tier {
    volume: Arc<Volume>,
    clock: fn() -> Now,
    /// Bodies whose rest waits for room.
    late: stowing::Line,
    /// Bodies that were not kept because the volume had no room for them in time.
    unkept: AtomicU64,
    /// Held by who judges a head and writes it down.
    gate: RwLock<()>,
    pub(crate) catalogue: Option<Catalogue>,
    sweeping: sweeper::Counts,
    pub(crate) thread: Arc<sweeper::Thread>,
    /// What is being written, by its number on the volume; what no longer is stays until it is looked through.
    going_down: Mutex<HashMap<u64, Weak<Fate>>>,
}

impl Tier {
    pub(crate) fn new(volume: Volume, rows: Option<Arc<dyn Rows>>, clock: fn() -> Now) -> Arc<Tier> {
        let volume = Arc::new(volume);
        let catalogue = rows.map(|rows| Catalogue::new(rows, Arc::clone(&volume)));
        Arc::new(Tier {
            volume,
            clock,
            late: stowing::Line::default(),
            unkept: AtomicU64::new(0),
            gate: RwLock::new(()),
            catalogue,
            sweeping: sweeper::Counts::default(),
            thread: Arc::default(),
            going_down: Mutex::default(),
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
        let verified = self.volume.verify()?;
        let Some(catalogue) = &self.catalogue else { return Ok(verified) };
        let Recounted { missing, superfluous } = catalogue.recount(self.now())?;
        Ok(Verified { rows_missing: missing, rows_superfluous: superfluous, ..verified })
    }

    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    pub(crate) fn now(&self) -> Now {
        (self.clock)()
    }

    /// Whether a generation lies on the volume, too. May wait for the drive.
    pub(crate) fn holds(&self, generation: &Generation) -> bool {
        let (key, object) = (generation.key(), generation.object());
        object > 0 && self.volume.has_object(Named { digest: digest_below(&key.full, key.site), object })
    }

    /// Whether what marks have made dead can be taken out of the volume.
    pub(crate) fn can_sweep(&self) -> bool {
        self.volume.health() == Health::Well
    }

    #[cfg(test)]
    pub(crate) fn sync_for_tests(&self) -> bool {
        self.volume.sync().is_some()
    }

    /// Blocks until what waits is written, what has no room yet included, and takes nothing more.
    pub(crate) fn close(&self) {
        self.thread.stop();
        for _ in 0..LATE_TRIES_MAX {
            if self.late.is_empty() {
                break;
            }
            std::thread::sleep(LATE_PAUSE);
        }
        self.volume.close();
        if let Some(catalogue) = &self.catalogue {
            catalogue.sync();
        }
    }

    /// Whether the volume may hold more under a key than has come up. Looks at memory alone.
    pub(crate) fn holds_more(&self, digest: u128, full: &[u8], site: u64, index: &Index) -> bool {
        let below = self.volume.find(digest_below(full, site)).len();
        below > 0 && below > index.all(digest).iter().filter(|generation| generation.object() > 0).count()
    }

    /// Begins to write a generation down; `None` where the volume takes nothing.
    pub(crate) fn begin(self: &Arc<Tier>, generation: &Generation) -> Option<Stowing> {
        Some(Stowing::new(self.begin_put(generation)?, Arc::clone(self)))
    }

    fn begin_put(&self, generation: &Generation) -> Option<Put> {
        let head = codec::encode(&generation.head().stored, (self.clock)());
        let (key, stamp) = (key_below(generation.key()), generation.stamp().number());
        let put = self.volume.begin(&key, Bytes::from(head), stamp, generation.length()).ok()?;
        generation.set_object(put.number());
        self.note_going_down(put.number(), put.fate());
        Some(put)
    }

    fn note_going_down(&self, number: u64, fate: &Arc<Fate>) {
        let mut going_down = self.going_down.lock();
        going_down.insert(number, Arc::downgrade(fate));
        if going_down.len() > GOING_DOWN_LOOKED_THROUGH && going_down.len().is_power_of_two() {
            going_down.retain(|_, fate| fate.strong_count() > 0);
        }
    }

    /// Whether a generation is still being written, so that what is not found of it may be found in a moment.
    pub(crate) fn is_going_down(&self, generation: &Generation) -> bool {
        let going_down = self.going_down.lock();
        going_down
            .get(&generation.object())
            .and_then(Weak::upgrade)
            .is_some_and(|fate| fate.ended().is_none())
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
    pub(crate) fn refresh(&self, generation: &Generation, ledger: &Ledger) {
        let now = (self.clock)();
        // A sweep waits for who is between these two: what it is to find dead must not move while it looks for it.
        let _gate = self.gate.read();
        let (key, stored) = (generation.key(), &generation.head().stored);
        if ledger.judge(key, &stored.tags, generation.stamp()) != Judged::Alive {
            return;
        }
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
        let Some(length) = record.length else { return };
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
            generation.set_below(Below::new(Arc::clone(self), record));
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

/// The site and the full key of what lies on the volume under a key.
pub(crate) fn split_key(below: &[u8]) -> Option<(u64, &[u8])> {
    let (site, full) = below.split_first_chunk()?;
    Some((u64::from_le_bytes(*site), full))
}

/// The digest of that key, which the volume demands to be its key's.
fn digest_below(full: &[u8], site: u64) -> u128 {
    let mut digest = Xxh3Default::new();
    digest.update(&site.to_le_bytes());
    digest.update(full);
    digest.digest128()
}

#[cfg(test)]
mod tests;
