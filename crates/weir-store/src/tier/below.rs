//! Reading a body that lies on the volume, whole or in part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use weir_policy::{CacheKey, Interval, Intervals};

use super::Tier;
use crate::body::Piece;
use crate::generation::Generation;
use crate::volume::VolumeState;
use crate::volume::{Answer, Part, Position, ReadError, Record, key};

/// The bytes are there no more, or are not what was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are gone from the volume")]
pub struct Gone;

/// What a reader remembers between two reads of one body on the volume.
#[derive(Debug, Default)]
pub struct Place(Position);

/// Where the bytes of a generation are that came up without them.
#[derive(Debug)]
pub(crate) struct Below {
    tier: Arc<Tier>,
    record: ArcSwap<Record>,
    /// A read has found that something of it is gone.
    is_gone: AtomicBool,
    /// What could not be read, or was not what was stored.
    lost: Mutex<Intervals>,
    /// Something was not what was stored.
    is_damaged: AtomicBool,
}

impl Below {
    pub(crate) fn new(tier: Arc<Tier>, record: Arc<Record>) -> Below {
        let is_gone = AtomicBool::new(!tier.has_all(&record));
        Below {
            tier,
            record: ArcSwap::new(record),
            is_gone,
            lost: Mutex::default(),
            is_damaged: AtomicBool::new(false),
        }
    }

    /// Whether all of it was there when it was last looked at.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_gone.load(Ordering::Acquire) && self.record.load().was_whole()
    }

    /// What can be read, as far as is known.
    pub(crate) fn held(&self) -> Intervals {
        let mut held = self.tier.volume.held(&self.record.load());
        for run in self.lost.lock().iter() {
            held.remove(run);
        }
        held
    }

    /// Looks up what has been written since. False where that would need waiting for the drive.
    pub(crate) fn renew(&self, key: &CacheKey) -> bool {
        let number = self.record.load().number;
        match self.tier.newest(key, number, Wait::Never) {
            Ok(Some(record)) => self.take(record),
            Ok(None) => {}
            Err(NotResident) => return false,
        }
        true
    }

    /// As [`Below::renew`], by a thread that may wait for the drive where that is needed.
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

    /// What is at an offset: at once where it lies in the page cache, else by a thread that may wait for the
    /// drive.
    pub(crate) async fn read(
        &self,
        key: &CacheKey,
        place: &mut Place,
        offset: u64,
        max: usize,
    ) -> Result<Option<Piece>, Gone> {
        let mut result = self.look(place, offset, max).await;
        if let Ok(Part::Gap) = result {
            self.renew_waiting(key).await;
            result = self.look(place, offset, max).await;
        }
        match result {
            Ok(Part::Bytes(checked)) => return Ok(Some(Piece::Bytes(checked.into_bytes()))),
            Ok(Part::End) => return Ok(None),
            Ok(Part::Gap) => {}
            // The volume is too busy to be waited for.
            Err(ReadError::NotResident) => self.lose(offset),
            Err(ReadError::Gone | ReadError::Device(_)) => {
                self.is_damaged.store(true, Ordering::Release);
                self.lose(offset);
            }
        }
        self.is_gone.store(true, Ordering::Release);
        Err(Gone)
    }

    /// Whether something of it was not what was stored, so that it is no more on the volume.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Acquire)
    }

    /// What is written in one piece is lost in one piece.
    fn lose(&self, offset: u64) {
        if let Some(run) = self.record.load().run_at(offset) {
            self.lost.lock().insert(Interval { start: offset, end: run.end });
        }
    }

    async fn look(&self, place: &mut Place, offset: u64, max: usize) -> Result<Part, ReadError> {
        let record = self.record.load_full();
        place.0.make_room();
        match self.tier.volume.try_read(&record, &mut place.0, offset, max) {
            Err(ReadError::NotResident) => {}
            result => return result,
        }
        let tier = Arc::clone(&self.tier);
        let mut position = std::mem::take(&mut place.0);
        let job = move || (tier.volume.read(&record, &mut position, offset, max), position);
        let answer = self.tier.ask(job).ok_or(ReadError::NotResident)?;
        // Where it does not come in time, the drive may still have it.
        let (result, position) = answer.await.ok_or(ReadError::NotResident)?;
        place.0 = position;
        result
    }
}

impl Tier {
    /// Lets a thread of the volume's do something that may wait for the drive; `None` where it does not keep
    /// up.
    fn ask<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<Answer<T>> {
        match self.state() {
            VolumeState::Probing | VolumeState::Slow | VolumeState::Ejected => None,
            VolumeState::Up | VolumeState::Full | VolumeState::ReadOnly => self.volume.ask(job),
        }
    }

    /// Says of a generation that began in memory where it lies on the volume, so that what lies there can
    /// leave memory.
    pub(crate) fn attach(self: &Arc<Tier>, generation: &Generation) {
        let object = generation.object();
        if object == 0 || generation.below().is_some() {
            return;
        }
        if let Ok(Some(record)) = self.newest(generation.key(), object, Wait::Never) {
            generation.set_below(Below::new(Arc::clone(self), Arc::new(record.for_reading())));
        }
    }

    /// Whether the segments of all of a body are there.
    fn has_all(&self, record: &Record) -> bool {
        record
            .length
            .is_some_and(|length| self.volume.held(record).contains(Interval { start: 0, end: length }))
    }

    /// The record of an object as it is now.
    pub(super) fn newest(
        &self,
        key: &CacheKey,
        number: u64,
        wait: Wait,
    ) -> Result<Option<Record>, NotResident> {
        let key = key::on_volume(key);
        for candidate in self.volume.find(key.digest) {
            let found = match wait {
                Wait::Device => self.volume.record(candidate, &key),
                Wait::Never => self.volume.try_record(candidate, &key),
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

/// It would need waiting for the drive.
pub(super) struct NotResident;

/// Whether to wait for the drive.
#[derive(Clone, Copy)]
pub(super) enum Wait {
    Device,
    Never,
}
