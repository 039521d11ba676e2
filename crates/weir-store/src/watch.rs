//! Who is told when something leaves memory, or a volume because it had to: one that is set once, outside of
//! the store. It is called under the queues' lock, and by a volume's writer, so that it must not wait.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use crate::generation::{Generation, Retirement};
use crate::volume::{Eviction, EvictionListener, key};

/// Who is told.
pub trait Watcher: Debug + Send + Sync {
    /// Whether it wants to be told of memory at all; asked each time.
    fn wants(&self) -> bool;

    /// A generation has left, and why. Must not wait, nor call the store.
    fn left(&self, generation: &Generation, why: Retirement);

    /// Whether it wants to be told of volumes; asked each time.
    fn wants_volumes(&self) -> bool;

    /// An object has left a volume since something had to. Memory may have it all the same. Must not wait,
    /// nor call the store.
    fn left_volume(&self, evicted: &Evicted<'_>);

    /// So many have left a volume of which the volume could not tell what they were.
    fn untold(&self, count: u64);
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

/// What a volume tells, on its way to the watcher.
#[derive(Debug)]
pub(crate) struct VolumeWatcher {
    volume: Arc<str>,
    watched: Watched,
}

impl VolumeWatcher {
    pub(crate) fn new(volume: &str, watched: &Watched) -> VolumeWatcher {
        VolumeWatcher { volume: volume.into(), watched: Arc::clone(watched) }
    }
}

impl EvictionListener for VolumeWatcher {
    fn is_listening(&self) -> bool {
        self.watched.get().is_some_and(|watcher| watcher.wants_volumes())
    }

    fn evicted(&self, on_volume: &[u8], bytes: u64, why: Eviction) {
        if let Some(watcher) = self.watched.get() {
            let (site, key) = key::split(on_volume).unwrap_or((0, on_volume));
            watcher.left_volume(&Evicted { volume: &self.volume, site, key, bytes, why });
        }
    }

    fn missed(&self, count: u64) {
        if let Some(watcher) = self.watched.get().filter(|_| count > 0) {
            watcher.untold(count);
        }
    }
}
