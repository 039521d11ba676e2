//! Asking the volumes what they hold under a key.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_policy::CacheKey;

use super::Tier;
use crate::shelf::Shelf;
use crate::volume::VolumeState;
use crate::volume::{Candidate, ReadError, key};

/// What has to be waited for: the volume, and what it may hold.
type Waiting = SmallVec<[(Arc<Tier>, Candidate); 2]>;

/// A question to the volumes: what they hold under a key.
#[derive(Debug)]
pub struct Ask {
    shelf: Arc<Shelf>,
    key: CacheKey,
}

impl Ask {
    pub(crate) fn new(shelf: &Arc<Shelf>, key: CacheKey) -> Ask {
        Ask { shelf: Arc::clone(shelf), key }
    }

    /// Brings up what the volumes hold under the key: then look again. What lies in the page cache is read at
    /// once, the rest by the volumes' threads, those of several at the same time; where they are too busy, or
    /// too slow, it stays a miss.
    ///
    /// # Cancel safety
    /// Safe: what comes up comes up all the same.
    pub async fn run(self) {
        let waiting = self.at_once();
        let mut asked = SmallVec::<[_; 2]>::new();
        for (tier, candidate) in waiting.into_iter().filter(|(tier, _)| tier.state() != VolumeState::Slow) {
            let (shelf, below, key) = (Arc::clone(&self.shelf), Arc::clone(&tier), self.key.clone());
            let job = move || bring(&shelf, &below, &key, candidate);
            asked.extend(tier.volume.ask(job));
        }
        for answer in asked {
            answer.await;
        }
    }

    /// As [`Ask::run`], for threads that may block.
    pub fn wait(self) {
        for (tier, candidate) in self.at_once() {
            bring(&self.shelf, &tier, &self.key, candidate);
        }
    }

    /// Brings up what lies in the page cache; returns the rest.
    fn at_once(&self) -> Waiting {
        let key = key::on_volume(&self.key);
        let mut waiting = Waiting::new();
        let layout = self.shelf.tiers.all();
        for tier in layout.iter().filter(|tier| tier.state() != VolumeState::Ejected) {
            for candidate in tier.volume.find(key.digest) {
                match tier.volume.try_record(candidate, &key) {
                    Ok(Some(record)) => tier.raise(&self.shelf, &self.key, record),
                    Err(ReadError::NotResident) => waiting.push((Arc::clone(tier), candidate)),
                    Ok(None) | Err(ReadError::Gone | ReadError::Device(_)) => {}
                }
            }
        }
        waiting
    }
}

/// Brings up what a candidate is. May wait for the drive.
fn bring(shelf: &Shelf, tier: &Arc<Tier>, key: &CacheKey, candidate: Candidate) {
    if let Ok(Some(record)) = tier.volume.record(candidate, &key::on_volume(key)) {
        tier.raise(shelf, key, record);
    }
}
