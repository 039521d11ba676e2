//! Files in memory: what was found lately, up to a limit of bytes. A look-up takes no lock. What was not
//! asked for since eviction passed it last goes first (CLOCK).

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_sealed::Draft;
use xxhash_rust::xxh3::xxh3_64;

use crate::file::{Content, Found};
use crate::open::Opens;

/// So long what was found is used without another look.
const CHECK_EVERY: Duration = Duration::from_millis(950);
/// What a version costs beside its bytes: names, fields, a printed head.
const VERSION_BYTES: u64 = 2 << 10;
/// The most files that are held sealed: each is a mapping of the process, of which Linux gives 65,530 unless
/// it is told otherwise.
const SEALED_MAX: u64 = 8192;
/// For how long files are sent from where they lie, after the system could not seal one.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(10);
/// How many large files are remembered as asked for once.
const ONCE: usize = 4096;

/// The memory for files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotLimits {
    /// The most bytes in all.
    pub memory_bytes: u64,
    /// The longest file that is held.
    pub file_bytes_max: u64,
}

#[derive(Debug, Default)]
struct Budget {
    limit: AtomicU64,
    used: AtomicU64,
    sealed: AtomicU64,
}

/// A version's share of the memory; given back when the last body of it has been sent.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
    sealed: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.budget.sealed.fetch_sub(self.sealed, Ordering::Relaxed);
    }
}

type Key = Box<[u8]>;

/// What was found lately.
#[derive(Debug)]
pub(crate) struct Hot {
    budget: Arc<Budget>,
    file_bytes_max: AtomicU64,
    /// The queue owns what is found here: the map lets go of what is removed at some later time.
    found: papaya::HashMap<Key, Weak<Found>>,
    queue: Mutex<VecDeque<(Key, Arc<Found>)>>,
    began: Instant,
    /// Keys of large files that are being read into memory.
    loading: Mutex<HashSet<Key>>,
    /// Versions that are not in memory, and being read.
    pub(crate) opens: Opens,
    /// Hashes of large files that were asked for once.
    once: Box<[AtomicU64]>,
    /// The millisecond before which no file is sealed.
    sealing_from_ms: AtomicU64,
}

/// Held while a large file is read into memory, so that it is read once.
#[derive(Debug)]
pub(crate) struct Loading<'h> {
    hot: &'h Hot,
    key: Key,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.hot.loading.lock().remove(&self.key);
    }
}

/// Writes the key of a way below a root.
pub(crate) fn write_key(out: &mut Vec<u8>, mark: u64, names: &[u8], is_folder: bool) {
    out.clear();
    out.extend_from_slice(&mark.to_le_bytes());
    out.extend_from_slice(names);
    if is_folder {
        out.push(b'/');
    }
}

impl Hot {
    pub(crate) fn new(limits: HotLimits, now: Instant) -> Hot {
        let hot = Hot {
            budget: Arc::default(),
            file_bytes_max: AtomicU64::new(0),
            found: papaya::HashMap::new(),
            queue: Mutex::default(),
            began: now,
            loading: Mutex::default(),
            opens: Opens::default(),
            sealing_from_ms: AtomicU64::new(0),
            once: (0..ONCE).map(|_| AtomicU64::new(0)).collect(),
        };
        hot.limit(limits);
        hot
    }

    /// Other limits from now on.
    pub(crate) fn limit(&self, limits: HotLimits) {
        self.budget.limit.store(limits.memory_bytes, Ordering::Relaxed);
        self.file_bytes_max.store(limits.file_bytes_max, Ordering::Relaxed);
        self.make_room(0, 0);
    }

    /// The longest file that is held.
    pub(crate) fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max.load(Ordering::Relaxed)
    }

    /// Bytes that are charged.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.budget.used.load(Ordering::Relaxed)
    }

    /// What was found under a key and looked at within the last second.
    pub(crate) fn at_hand(&self, key: &[u8], now: Instant) -> Option<Arc<Found>> {
        let found = self.known(key)?;
        let age_ms = self.ms(now).saturating_sub(found.checked_ms.load(Ordering::Relaxed));
        if u128::from(age_ms) > CHECK_EVERY.as_millis() {
            return None;
        }
        if !found.is_used.load(Ordering::Relaxed) {
            found.is_used.store(true, Ordering::Relaxed);
        }
        Some(found)
    }

    /// What was found under a key, whenever that was.
    pub(crate) fn known(&self, key: &[u8]) -> Option<Arc<Found>> {
        self.found.pin().get(key)?.upgrade()
    }

    /// Milliseconds of this moment, as versions note when they were looked at.
    pub(crate) fn ms(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }

    /// Room for a version with so many bytes; none where there is none even without what others could do
    /// without.
    pub(crate) fn charge(&self, bytes: u64) -> Option<Charge> {
        let sealed = u64::from(bytes >= crate::load::SEALED_BYTES_MIN);
        let bytes = bytes + VERSION_BYTES;
        if bytes > self.budget.limit.load(Ordering::Relaxed) || !self.make_room(bytes, sealed) {
            return None;
        }
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.budget.sealed.fetch_add(sealed, Ordering::Relaxed);
        let charge = Charge { budget: Arc::clone(&self.budget), bytes, sealed };
        // Others may have taken the room meanwhile.
        self.fits(0, 0).then_some(charge)
    }

    /// A file in memory to be written and sealed; none where the system has lately had none to spare.
    pub(crate) fn draft(&self, now: Instant) -> Option<Draft> {
        if self.ms(now) < self.sealing_from_ms.load(Ordering::Relaxed) {
            return None;
        }
        let draft = Draft::new("weir-file").ok();
        if draft.is_none() {
            self.pause_sealing(now);
        }
        draft
    }

    /// The system has no file in memory, or no mapping, to spare: others may have them for a while.
    pub(crate) fn pause_sealing(&self, now: Instant) {
        let until = self.ms(now + PAUSE_AFTER_FAILURE);
        self.sealing_from_ms.store(until, Ordering::Relaxed);
    }

    fn fits(&self, bytes: u64, sealed: u64) -> bool {
        let budget = &self.budget;
        budget.used.load(Ordering::Relaxed) + bytes <= budget.limit.load(Ordering::Relaxed)
            && budget.sealed.load(Ordering::Relaxed) + sealed <= SEALED_MAX
    }

    /// Lets go what was not used lately until so much fits. False where it does not fit all the same: bodies
    /// that are being sent keep their bytes.
    fn make_room(&self, bytes: u64, sealed: u64) -> bool {
        if self.fits(bytes, sealed) {
            return true;
        }
        let mut queue = self.queue.lock();
        // Each is passed once as used, and then once more.
        for _ in 0..2 * queue.len() {
            let Some((key, found)) = queue.pop_front() else { break };
            let is_current = self.found.pin().get(&key).is_some_and(|now| is_of(now, &found));
            if !is_current {
                continue;
            }
            if found.is_used.swap(false, Ordering::Relaxed) {
                queue.push_back((key, found));
                continue;
            }
            self.found.pin().remove(&key);
            drop(found);
            if self.fits(bytes, sealed) {
                return true;
            }
        }
        self.fits(bytes, sealed)
    }

    /// Keeps what was found, all of which is in memory.
    pub(crate) fn insert(&self, key: &[u8], found: &Arc<Found>) {
        debug_assert!(found.files().all(|file| !matches!(file.content, Content::Open(_))));
        let mut queue = self.queue.lock();
        self.found.pin().insert(key.into(), Arc::downgrade(found));
        queue.push_back((key.into(), Arc::clone(found)));
        // Versions that were replaced give back their bytes here.
        if queue.len() > 64 && queue.len() > 2 * self.found.len() {
            let held = self.found.pin();
            queue.retain(|(key, found)| held.get(key).is_some_and(|now| is_of(now, found)));
        }
    }

    /// Forgets what is under a key: it is not there any more, or another version.
    pub(crate) fn forget(&self, key: &[u8]) {
        let pinned = self.found.pin();
        if pinned.remove(key).is_some() {
            let mut queue = self.queue.lock();
            queue.retain(|(queued, _)| **queued != *key);
        }
    }

    /// Whether a large file was asked for lately; notes that it was.
    pub(crate) fn was_asked_for(&self, key: &[u8]) -> bool {
        let hash = xxh3_64(key) | 1;
        let place = usize::try_from(hash >> 1).unwrap_or(0) % self.once.len();
        self.once[place].swap(hash, Ordering::Relaxed) == hash
    }

    /// Begins to read a large file; none where it is being read.
    pub(crate) fn begin_loading(&self, key: &[u8]) -> Option<Loading<'_>> {
        let is_first = self.loading.lock().insert(key.into());
        is_first.then(|| Loading { hot: self, key: key.into() })
    }
}

fn is_of(weak: &Weak<Found>, found: &Arc<Found>) -> bool {
    std::ptr::eq(weak.as_ptr(), Arc::as_ptr(found))
}
