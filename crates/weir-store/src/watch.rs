//! Who is told when something leaves memory, or a volume because it had to: one that is set once, outside of the store. It is
//! called under the queues' lock, and by a volume's writer, so that it must not wait.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use crate::generation::{Generation, Retirement};
use crate::tier::split_key;

/// Who is told.
pub trait Watcher: Debug + Send + Sync {
    /// Whether it wants to be told of memory at all; asked each time.
    fn wants(&self) -> bool;

    /// A generation has left, and why. Must not wait, nor call the store.
    fn left(&self, generation: &Generation, why: Retirement);

    /// Whether it wants to be told of volumes; asked each time.
    fn wants_volumes(&self) -> bool;

    /// An object has left a volume since something had to. Memory may have it all the same. Must not wait, nor call the store.
    fn left_volume(&self, evicted: &Evicted<'_>);

    /// So many have left a volume of which the volume could not tell what they were.
    fn untold(&self, count: u64);
}

/// Why something had to leave a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// Room was needed: its segment was dropped.
    Room,
    /// Its site had more than its quota.
    Quota,
}

/// What has left a volume.
#[derive(Debug)]
pub struct Evicted<'a> {
    /// What people call the volume.
    pub volume: &'a Arc<str>,
    /// The site, by its hash.
    pub site: u64,
    /// The full key.
    pub key: &'a [u8],
    /// How many bytes of its body were held there.
    pub bytes: u64,
    /// Why.
    pub why: Eviction,
}

/// The shelf's place for a watcher, which may come later than those who tell.
pub(crate) type Watched = Arc<OnceLock<Arc<dyn Watcher>>>;

/// A volume's way to who is told; by default there is nobody.
#[derive(Debug, Clone, Default)]
pub struct VolumeWatcher {
    volume: Arc<str>,
    watched: Watched,
}

impl VolumeWatcher {
    pub(crate) fn new(volume: &str, watched: &Watched) -> VolumeWatcher {
        VolumeWatcher { volume: volume.into(), watched: Arc::clone(watched) }
    }

    /// Whether somebody wants to be told.
    pub(crate) fn is_listening(&self) -> bool {
        self.watched.get().is_some_and(|watcher| watcher.wants_volumes())
    }

    /// Tells that what lay under that key of the volume's has left.
    pub(crate) fn tell(&self, below: &[u8], bytes: u64, why: Eviction) {
        if let Some(watcher) = self.watched.get() {
            let (site, key) = split_key(below).unwrap_or((0, below));
            watcher.left_volume(&Evicted { volume: &self.volume, site, key, bytes, why });
        }
    }

    /// Tells that so many have left of which nothing can be told.
    pub(crate) fn miss(&self, count: u64) {
        if let Some(watcher) = self.watched.get().filter(|_| count > 0) {
            watcher.untold(count);
        }
    }
}
