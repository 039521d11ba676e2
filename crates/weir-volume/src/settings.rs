//! The settings of a volume, and its limits by name.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::eviction::{EvictionListener, Nobody};
use crate::key::owner_of;
use crate::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};

/// The smallest volume in bytes.
pub const SIZE_BYTES_MIN: u64 = 2 << 20;
/// The largest volume in bytes: what 40 bits of location reach, less a thousandth.
pub const SIZE_BYTES_MAX: u64 = (1 << 46) - (1 << 36);
/// The longest key in bytes.
pub const KEY_BYTES_MAX: usize = 16 << 10;
/// The longest head in bytes.
pub const HEAD_BYTES_MAX: usize = 1 << 20;
/// The longest extent in bytes.
pub const EXTENT_BYTES_MAX: u64 = 4 << 20;
/// How many extents an object has at most.
pub const EXTENTS_MAX: usize = 1 << 18;
/// How often a body that is still arriving is written, as far as it has come.
pub const EXTENT_DELAY: Duration = Duration::from_millis(200);
/// How often written bytes are made durable.
pub const SYNC_INTERVAL: Duration = Duration::from_millis(500);
/// The share of the file system that stays free, in percent of what can be used of it.
pub const FREE_PERCENT: u64 = 5;
/// And the most that stays free, in bytes: on a large file system the share would be more than anybody needs.
pub const FREE_BYTES_MAX: u64 = 4 << 30;
/// After this many failed writes nothing more is stored.
pub const WRITE_ERRORS_MAX: u64 = 8;
/// After this many failed reads nothing more is read.
pub const READ_ERRORS_MAX: u64 = 32;
/// How long storing pauses after the file system was full.
pub const FULL_PAUSE: Duration = Duration::from_secs(2);
/// The shortest length of a journal before a checkpoint is written, in bytes; less in a small volume.
const JOURNAL_BYTES_MIN: u64 = 1 << 20;
/// The longest length of the journals before a checkpoint is written, in bytes: what a restart reads beside
/// the checkpoint.
pub(crate) const JOURNAL_BYTES_MAX: u64 = 256 << 20;
/// The default limit of bytes that wait to be written.
const QUEUE_BYTES: u64 = 64 << 20;
/// The default number of threads that read.
const READERS: usize = 4;
/// The index of a volume of at least this size has more shards.
const LARGE_BYTES: u64 = 256 << 30;

/// How much of a file system with so many usable bytes stays free, in bytes.
pub(crate) fn spare_bytes(total_bytes: u64) -> u64 {
    (total_bytes / 100 * FREE_PERCENT).min(FREE_BYTES_MAX)
}

/// A monotonic clock: the time since some moment that does not change.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    /// The clock that a function reads.
    pub fn new(read: impl Fn() -> Duration + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(read))
    }

    /// The time by it.
    pub fn now(&self) -> Duration {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// The settings of a volume.
#[derive(Debug, Clone)]
pub struct VolumeSettings {
    /// The ceiling of all its files together, in bytes.
    pub size_bytes: u64,
    /// The most bytes that wait to be written. A body that does not fit is not stored.
    pub queue_bytes: u64,
    /// How many threads read what is not in the page cache.
    pub readers: usize,
    /// The clock.
    pub clock: Clock,
    /// The counter that numbers objects. All volumes share it, so that of two objects on two volumes the
    /// newer one is known.
    pub numbers: Arc<AtomicU64>,
    /// The length of a segment, if it is not to follow from the size. A volume keeps the length that it was
    /// made with.
    pub segment_bytes: Option<u64>,
    /// The owner of an object, by its key: the first eight bytes, little endian, by default.
    pub(crate) owner_of: fn(&[u8]) -> u64,
    /// The most bytes that are written in a day, if there is a limit.
    pub write_budget_bytes: Option<u64>,
    /// Hears of evictions.
    pub listener: Arc<dyn EvictionListener>,
    /// Identity and secret of a new volume; random if there are none.
    pub identity: Option<(u128, u64)>,
    /// The shortest length of a journal, if it is not to follow from the size.
    pub journal_bytes_min: Option<u64>,
}

impl VolumeSettings {
    /// The default settings for a size.
    pub fn of(size_bytes: u64, clock: Clock) -> VolumeSettings {
        VolumeSettings {
            size_bytes,
            queue_bytes: QUEUE_BYTES,
            readers: READERS,
            clock,
            numbers: Arc::default(),
            segment_bytes: None,
            owner_of,
            write_budget_bytes: None,
            listener: Arc::new(Nobody),
            identity: None,
            journal_bytes_min: None,
        }
    }

    /// A sixty-fourth of the volume, between 8 MiB and 1 GiB; a thirty-second of a small one. One segment is
    /// filled while another is dropped, so that longer ones would cost hits.
    pub(crate) fn segment_bytes(&self) -> u64 {
        const SMALL_BYTES: u64 = 256 << 20;
        let wanted = self.segment_bytes.unwrap_or(match self.size_bytes {
            0..SMALL_BYTES => self.size_bytes / 32,
            size => (size / 64).max(8 << 20),
        });
        let floor = 1 << wanted.max(1).ilog2();
        u64::clamp(floor, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
    }

    pub(crate) fn shard_bits(&self) -> u32 {
        match self.size_bytes {
            0..SMALLEST_BYTES => 6,
            SMALLEST_BYTES..LARGE_BYTES => 12,
            _ => 16,
        }
    }

    pub(crate) fn journal_bytes_min(&self) -> u64 {
        self.journal_bytes_min.unwrap_or(JOURNAL_BYTES_MIN.min(self.size_bytes / 256))
    }
}

/// Below this size an index with few shards is enough.
const SMALLEST_BYTES: u64 = 64 << 20;
