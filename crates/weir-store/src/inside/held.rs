//! What a volume knows of a generation in memory: its bytes there, its use, its new head.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_policy::Intervals;

use crate::generation::Generation;
use crate::ledger::Ledger;
use crate::tier::{NotResident, OnDiskBody, VolumeTier, Wait};
use crate::volume::{Named, Writing, codec, key};

/// The shortest time between two written heads of one object.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

impl VolumeTier {
    /// Notes the use of a generation that lies on the volume.
    pub(crate) fn note_use(&self, generation: &Generation) {
        let key = generation.key();
        self.volume.note_use(key::digest(&key.full, key.site));
    }

    /// The intervals of a generation's body that the volume holds; `None` where it holds none. Never waits
    /// for the drive: where the record is not in the page cache, all that memory has is taken to be on the
    /// volume as well.
    pub(crate) fn held_on_disk(&self, generation: &Generation) -> Option<Intervals> {
        let object = generation.object();
        if object == 0 {
            return None;
        }
        match self.current(generation.key(), object) {
            Ok(record) => record.map(|record| self.volume.held(&record)),
            Err(NotResident) => Some(generation.held()),
        }
    }

    /// Whether the volume has a generation too. May wait for the drive.
    pub(crate) fn holds(&self, generation: &Generation) -> bool {
        let (key, object) = (generation.key(), generation.object());
        object > 0 && self.volume.has_object(Named { digest: key::digest(&key.full, key.site), object })
    }

    /// Notes where a generation that began in memory lies on the volume, so that memory can drop those bytes.
    pub(crate) fn attach(self: &Arc<VolumeTier>, generation: &Generation) {
        let object = generation.object();
        if object == 0 || generation.on_disk().is_some() {
            return;
        }
        if let Ok(Some(record)) = self.newest(generation.key(), object, Wait::Never) {
            generation.set_on_disk(OnDiskBody::new(Arc::clone(self), Arc::new(record.for_reading())));
        }
    }

    /// Whether a generation is still being written, so that missing bytes may be there in a moment.
    pub(crate) fn is_being_written(&self, generation: &Generation) -> bool {
        self.status(generation.object()).is_some_and(|status| status.error().is_none())
    }

    /// A wait for more of a generation that is still being written.
    pub(crate) fn writing(&self, generation: &Generation) -> Option<Writing> {
        self.status(generation.object())?.writing()
    }

    /// Writes a generation's new head, at most every [`REFRESH_INTERVAL`]. Where it cannot be written the old
    /// one stays, and is revalidated earlier when it is loaded.
    pub(crate) fn refresh(&self, generation: &Generation, ledger: &Ledger) {
        let now = (self.clock)();
        // A sweep waits for this lock: what it finds dead must not get a new head while it looks.
        let _gate = self.gate.read();
        let (key, stored) = (generation.key(), &generation.head().stored);
        // A retention concerns the new head as it did the old one.
        if ledger.judge(key, &stored.tags, generation.stamp()).purges(&stored.facts) {
            return;
        }
        if generation.object() == 0 || !generation.is_refresh_due(now.mono, REFRESH_INTERVAL) {
            return;
        }
        let head = codec::encode(&generation.head().stored, now);
        let (key, stamp) = (generation.key(), generation.stamp().number());
        let digest = key::digest(&key.full, key.site);
        let _ = self.volume.refresh(digest, generation.object(), Bytes::from(head), stamp);
    }
}
