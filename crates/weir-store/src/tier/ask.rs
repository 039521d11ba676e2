//! Asking the volume what it holds under a key.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::sync::oneshot;
use weir_policy::CacheKey;

use super::{Tier, key_below};
use crate::shelf::Shelf;
use crate::volume::{Candidate, ReadError};

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
