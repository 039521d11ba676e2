//! Reading a body that lies on the volume, whole or in part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use weir_policy::{CacheKey, Interval, Intervals};

use super::VolumeTier;
use crate::volume::VolumeState;
use crate::volume::{Answer, Candidate, KnownReader, Part, Position, ReadError, Record, key};

/// The bytes are missing on the volume, or damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are gone from the volume")]
pub struct Gone;

/// What a reader keeps between two reads of one body on the volume.
#[derive(Debug, Default)]
pub struct Place {
    position: Position,
    /// The volume knows of the reader, and keeps for it what it has yet to read.
    known: Option<KnownReader>,
}

impl Place {
    /// Gives back the memory that was to take the next bytes.
    pub fn let_go(&mut self) {
        self.position = Position::default();
    }

    /// The reader has come to an offset.
    pub fn moved(&self, offset: u64) {
        if let Some(known) = &self.known {
            known.moved(offset);
        }
    }

    /// The reader goes on with other bytes `of` the same body.
    pub fn turn_to(&self, of: Interval) {
        if let Some(known) = &self.known {
            known.turn_to(of);
        }
    }

    /// Whether the volume could keep something no longer that the reader had yet to read.
    pub fn is_lost(&self) -> bool {
        self.known.as_ref().is_some_and(KnownReader::is_lost)
    }

    /// Whether the volume knows that the reader reads that object.
    pub(crate) fn is_of(&self, object: u64) -> bool {
        self.known.as_ref().is_some_and(|known| known.object() == object)
    }

    pub(crate) fn set_known(&mut self, known: KnownReader) {
        self.known = Some(known);
    }
}

/// Where a body lies on a volume.
#[derive(Debug)]
pub(crate) struct OnDiskBody {
    tier: Arc<VolumeTier>,
    record: ArcSwap<Record>,
    /// A read has found that part of it is missing.
    is_gone: AtomicBool,
    /// What could not be read, or was damaged.
    lost: Mutex<Intervals>,
    /// Some of its bytes were damaged.
    is_damaged: AtomicBool,
}

impl OnDiskBody {
    pub(crate) fn new(tier: Arc<VolumeTier>, record: Arc<Record>) -> OnDiskBody {
        let is_gone = AtomicBool::new(!tier.has_all(&record));
        OnDiskBody {
            tier,
            record: ArcSwap::new(record),
            is_gone,
            lost: Mutex::default(),
            is_damaged: AtomicBool::new(false),
        }
    }

    /// Whether all of it was there at the last look.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_gone.load(Ordering::Acquire) && self.record.load().was_whole()
    }

    /// What can be read, as far as is known.
    pub(crate) fn held(&self) -> Intervals {
        self.without_lost(self.tier.volume.readable(&self.record.load()))
    }

    /// What the volume holds, as far as is known: not what it keeps for readers alone.
    pub(crate) fn held_for_all(&self) -> Intervals {
        self.without_lost(self.tier.volume.held(&self.record.load()))
    }

    fn without_lost(&self, mut held: Intervals) -> Intervals {
        for run in self.lost.lock().iter() {
            held.remove(run);
        }
        held
    }

    /// Where it lies, as far as is known.
    pub(crate) fn record(&self) -> Arc<Record> {
        self.record.load_full()
    }

    /// Looks up what has been written since. False where that would have to wait for the drive.
    pub(crate) fn renew(&self, key: &CacheKey) -> bool {
        let number = self.record.load().number;
        match self.tier.newest(key, number, Wait::Never) {
            Ok(Some(record)) => self.take(record),
            // It has left the volume since, or is not written yet.
            Ok(None) if !self.tier.has_all(&self.record.load()) => {
                self.is_gone.store(true, Ordering::Release)
            }
            Ok(None) => {}
            Err(NotResident) => return false,
        }
        true
    }

    /// As [`OnDiskBody::renew`], on a thread that may wait for the drive.
    pub(crate) async fn renew_waiting(&self, key: &CacheKey) {
        if self.renew(key) {
            return;
        }
        let (tier, key, number) = (Arc::clone(&self.tier), key.clone(), self.record.load().number);
        let job = move || tier.newest(&key, number, Wait::Device);
        if let Some(answer) = self.tier.ask(job)
            && let Some(Ok(Some(record))) = answer.await
        {
            self.take(record);
        }
    }

    fn take(&self, record: Record) {
        let has_all = self.tier.has_all(&record) && self.lost.lock().is_empty();
        self.record.store(Arc::new(record.for_reading()));
        self.is_gone.store(!has_all, Ordering::Release);
    }

    /// Reads at an offset: at once where the bytes lie in the page cache, else on a thread that may wait for
    /// the drive.
    pub(crate) async fn read(
        &self,
        key: &CacheKey,
        place: &mut Place,
        offset: u64,
        max: usize,
    ) -> Result<Option<Bytes>, Gone> {
        if let Some(known) = &mut place.known {
            known.tell(|| self.record());
        }
        let mut result = self.look(place, offset, max).await;
        if let Ok(Part::Gap) = result {
            self.renew_waiting(key).await;
            result = self.look(place, offset, max).await;
        }
        match result {
            Ok(Part::Bytes(checked)) => return Ok(Some(checked.into_bytes())),
            Ok(Part::End) => return Ok(None),
            Ok(Part::Gap) => {}
            // The volume is too busy.
            Err(ReadError::NotResident) => self.lose(offset),
            Err(ReadError::Gone | ReadError::Device(_)) => {
                self.is_damaged.store(true, Ordering::Release);
                self.lose(offset);
            }
        }
        self.is_gone.store(true, Ordering::Release);
        Err(Gone)
    }

    /// Whether some of its bytes were found damaged, and so removed from the volume.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Acquire)
    }

    /// An extent is written as a whole, and counts as lost as a whole.
    fn lose(&self, offset: u64) {
        if let Some(run) = self.record.load().run_at(offset) {
            self.lost.lock().insert(Interval { start: offset, end: run.end });
        }
    }

    async fn look(&self, place: &mut Place, offset: u64, max: usize) -> Result<Part, ReadError> {
        let record = self.record.load_full();
        place.position.make_room();
        match self.tier.volume.try_read(&record, &mut place.position, offset, max) {
            Err(ReadError::NotResident) => {}
            result => return result,
        }
        let tier = Arc::clone(&self.tier);
        let mut position = std::mem::take(&mut place.position);
        let job = move || (tier.volume.read(&record, &mut position, offset, max), position);
        let answer = self.tier.ask(job).ok_or(ReadError::NotResident)?;
        // No answer in time: the drive may still have it.
        let (result, position) = answer.await.ok_or(ReadError::NotResident)?;
        place.position = position;
        result
    }
}

impl VolumeTier {
    /// Runs a job that may wait for the drive on one of the volume's threads; `None` where the volume does
    /// not keep up.
    fn ask<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<Answer<T>> {
        match self.state() {
            VolumeState::Probing | VolumeState::Slow | VolumeState::Ejected => None,
            VolumeState::Up | VolumeState::Full | VolumeState::ReadOnly => self.volume.ask(job),
        }
    }

    /// Where an object lies whole on this volume, as far as that can be said without waiting for the drive.
    pub(crate) fn on_disk_whole(self: &Arc<VolumeTier>, key: &CacheKey, number: u64) -> Option<OnDiskBody> {
        if !matches!(self.state(), VolumeState::Up | VolumeState::Full | VolumeState::ReadOnly) {
            return None;
        }
        let record = self.newest(key, number, Wait::Never).ok()??;
        let body = OnDiskBody::new(Arc::clone(self), Arc::new(record.for_reading()));
        body.is_whole().then_some(body)
    }

    /// Whether all of a body can be read.
    fn has_all(&self, record: &Record) -> bool {
        record
            .length
            .is_some_and(|length| self.volume.readable(record).contains(Interval { start: 0, end: length }))
    }

    /// The current record of an object; of one that was removed while it is read its last one, so that its
    /// readers go on.
    pub(crate) fn newest(
        &self,
        key: &CacheKey,
        number: u64,
        wait: Wait,
    ) -> Result<Option<Record>, NotResident> {
        let own = key::on_volume(key);
        if let Some(record) = self.first(self.volume.find(own.digest), &own, number, wait)? {
            return Ok(Some(record));
        }
        let known = self.volume.record_of_readers(number);
        Ok(known.filter(|known| self.volume.readable(known).length() > 0).map(Arc::unwrap_or_clone))
    }

    /// The current record of an object, which the volume counts. Never waits for the drive.
    pub(crate) fn current(&self, key: &CacheKey, number: u64) -> Result<Option<Record>, NotResident> {
        let own = key::on_volume(key);
        self.first(self.volume.find(own.digest), &own, number, Wait::Never)
    }

    fn first(
        &self,
        candidates: impl IntoIterator<Item = Candidate>,
        key: &CacheKey,
        number: u64,
        wait: Wait,
    ) -> Result<Option<Record>, NotResident> {
        for candidate in candidates {
            let found = match wait {
                Wait::Device => self.volume.record(candidate, key),
                Wait::Never => self.volume.try_record(candidate, key),
            };
            match found {
                Ok(Some(record)) if record.number == number => return Ok(Some(record)),
                Err(ReadError::NotResident) => return Err(NotResident),
                Ok(_) | Err(ReadError::Gone | ReadError::Device(_)) => {}
            }
        }
        Ok(None)
    }
}

/// The answer would have to wait for the drive.
#[derive(Debug)]
pub(crate) struct NotResident;

/// Whether to wait for the drive.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    Device,
    Never,
}
