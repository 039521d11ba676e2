//! The listener that is told when something leaves memory, or is evicted from a volume. It is set once, from
//! outside of the store. It is called under the queues' lock and by a volume's writer, so that it must not
//! wait.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use crate::generation::{Generation, Retirement};
use crate::volume::{Eviction, EvictionListener, key};

/// A listener.
pub trait Watcher: Debug + Send + Sync {
    /// Whether it wants to be told of memory; asked each time.
    fn wants(&self) -> bool;

    /// A generation has left memory. Must not wait, nor call the store.
    fn left(&self, generation: &Generation, why: Retirement);

    /// Whether it wants to be told of volumes; asked each time.
    fn wants_volumes(&self) -> bool;

    /// An object was evicted from a volume. Memory may still have it. Must not wait, nor call the store.
    fn left_volume(&self, evicted: &Evicted<'_>);

    /// So many objects were evicted that the volume could not name.
    fn untold(&self, count: u64);
}

/// An object that was evicted from a volume.
#[derive(Debug)]
pub struct Evicted<'a> {
    /// The name of the volume.
    pub volume: &'a Arc<str>,
    /// The site, by its hash.
    pub site: u64,
    /// The full key.
    pub key: &'a [u8],
    /// How many bytes of its body were held there.
    pub bytes: u64,
    /// Why it was evicted.
    pub why: Eviction,
}

/// The place for a listener, which may be set after volumes were opened.
pub(crate) type Watched = Arc<OnceLock<Arc<dyn Watcher>>>;

/// Passes on what a volume reports.
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
