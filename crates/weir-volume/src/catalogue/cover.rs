//! A catalogue beside its volume: rows that follow the log.
//!
//! The log is the queue: the volume's writer hands nothing over. The durable log behind the marker is read
//! some hundred records a batch, and the marker moves in the same batch as the rows. So nothing can overflow,
//! and after a crash only the log behind the marker is read again. Rows of another volume or version are
//! removed first, and so are rows beside an index that was made again.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use weir_policy::Now;

use super::rows::{Change, Rows, RowsError, Wanted};
use super::schema;
use super::schema::{MARKER, Marker, Named, Row, key_of};
use super::summary::Summary;
use crate::format::codec;
use crate::key::split as split_key;
use crate::volume::log::Logged;
use crate::{Charge, Place, ReadError, Volume};

/// Records a batch.
const RECORDS_A_BATCH: usize = 256;
/// About how many bytes of keys and heads a batch has.
const BATCH_BYTES: usize = 1 << 20;
/// Rows that are removed at once.
const CLEARED_AT_ONCE: usize = 1024;
/// How often applied rows are made durable. Others are applied again after a crash.
const SYNC_EVERY: Duration = Duration::from_secs(30);
/// How much rows may grow before their size is asked again: by this part of it, and by this part of the
/// volume.
const GROWTH_PART: u64 = 4;
const GROWTH_OF_VOLUME: u64 = 64;
const GROWTH_BYTES_MAX: u64 = 64 << 20;

/// Why covering stops.
#[derive(Debug, thiserror::Error)]
pub enum Uncovered {
    /// The rows fail.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The drive fails.
    #[error(transparent)]
    Volume(#[from] ReadError),
}

/// Whether there is more to do at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is more.
    More,
    /// The rows have all that is durable.
    Done,
    /// There is no room for more rows yet.
    NoRoom,
}

/// The rows of a volume. One thread covers; any may search.
#[derive(Debug)]
pub struct Catalogue {
    rows: Arc<dyn Rows>,
    volume: Arc<Volume>,
    state: Mutex<State>,
    charge: Charge,
    /// Something has failed: searches walk the volume.
    is_broken: AtomicBool,
    records: AtomicU64,
    /// Held while rows are written, so that none replaces a newer one.
    writing: Mutex<()>,
}

#[derive(Debug)]
struct State {
    /// `None` while useless rows are removed.
    covered: Option<Place>,
    synced_at: Option<Now>,
}

/// What a catalogue takes, and how far it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CatalogueUsage {
    /// Bytes on the drive.
    pub disk_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes written since it was opened, compaction included.
    pub written_bytes: u64,
    /// Records of the log that were covered since it was opened.
    pub records: u64,
    /// Bytes of the log that are not covered yet.
    pub behind_bytes: u64,
    /// Whether it cannot be used until a restart. Searches walk the volume in the meantime.
    pub is_broken: bool,
}

/// The judge of which rows of a volume's catalogue are still wanted: pass it to what opens the rows.
pub fn wanted(volume: &Volume) -> Wanted {
    let may_return = volume.may_return();
    Arc::new(move |key, value| match schema::read_key(key) {
        // Readers judge the marker, and rows that are unknown here.
        None => true,
        Some(_) => Row::read(value).is_some_and(|row| may_return(row.hash, row.place)),
    })
}

impl Catalogue {
    /// A catalogue of these rows for that volume. Covers from the marker on if the rows belong to the volume;
    /// clears them first otherwise.
    pub fn new(rows: Arc<dyn Rows>, volume: Arc<Volume>) -> Catalogue {
        let charge = volume.charge_beside();
        let is_broken = AtomicBool::new(false);
        let mut covered = None;
        let read = rows.scan(MARKER, &mut |key, value| {
            let marker = Marker::read(value).filter(|_| key == MARKER);
            // Beside an index that was made again, records may be back whose rows were removed.
            let own = marker.filter(|marker| marker.volume == volume.id() && !volume.was_rebuilt());
            covered = own.map(|marker| marker.covered);
            ControlFlow::Break(())
        });
        if read.is_err() {
            is_broken.store(true, Ordering::Relaxed);
        }
        let state = Mutex::new(State { covered, synced_at: None });
        let catalogue = Catalogue {
            rows,
            volume,
            state,
            charge,
            is_broken,
            records: AtomicU64::new(0),
            writing: Mutex::new(()),
        };
        catalogue.has_room();
        catalogue
    }

    /// What the catalogue takes, and how far it is.
    pub fn usage(&self) -> CatalogueUsage {
        let usage = self.rows.usage();
        CatalogueUsage {
            disk_bytes: usage.disk_bytes,
            memory_bytes: usage.memory_bytes,
            written_bytes: usage.written_bytes,
            records: self.records.load(Ordering::Relaxed),
            behind_bytes: self.behind_bytes(),
            is_broken: self.is_broken.load(Ordering::Relaxed),
        }
    }

    /// The bytes of the log that are not covered yet.
    pub fn behind_bytes(&self) -> u64 {
        self.volume.log_bytes_behind(self.state.lock().covered.unwrap_or(Place::BEGIN))
    }

    /// Whether the rows have the whole log before a place and can be read.
    pub fn has_covered(&self, place: Place) -> bool {
        !self.is_broken() && self.state.lock().covered.is_some_and(|covered| covered >= place)
    }

    /// The place up to which the log is covered; `None` while useless rows are removed.
    pub(super) fn covered(&self) -> Option<Place> {
        self.state.lock().covered
    }

    /// Keeps other threads from writing rows.
    pub(super) fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
    }

    pub(super) fn rows(&self) -> &dyn Rows {
        &*self.rows
    }

    pub(super) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Notes that the rows have failed: searches walk the volume from now on.
    pub(super) fn give_up(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }

    /// Whether something has failed, so that searches walk the volume.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Covers one more batch. For one thread, which may block.
    ///
    /// # Errors
    /// Rows or volume cannot be read or written. Rows that fail are not used any more.
    pub fn cover(&self, now: Now) -> Result<Progress, Uncovered> {
        if self.is_broken() {
            return Ok(Progress::Done);
        }
        let result = self.cover_some(now);
        if let Err(Uncovered::Rows(_)) = result {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        result
    }

    fn cover_some(&self, now: Now) -> Result<Progress, Uncovered> {
        let _writing = self.writing.lock();
        let Some(covered) = self.state.lock().covered else { return self.clear() };
        if !self.has_room() {
            return Ok(Progress::NoRoom);
        }
        let mut batch = Batch::default();
        let next = self.volume.read_log(covered, |logged| {
            batch.add(&self.volume, logged, now);
            if batch.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if next != covered {
            let marker = Marker { volume: self.volume.id(), covered: next }.to_bytes();
            let mut changes: Vec<Change<'_>> =
                batch.rows.iter().map(|(key, value)| Change::Put { key, value }).collect();
            changes.push(Change::Put { key: MARKER, value: &marker });
            self.rows.apply(&changes)?;
            self.records.fetch_add(batch.records as u64, Ordering::Relaxed);
            self.state.lock().covered = Some(next);
        }
        self.sync_due(now)?;
        Ok(if batch.is_full() { Progress::More } else { Progress::Done })
    }

    fn sync_due(&self, now: Now) -> Result<(), RowsError> {
        let mut state = self.state.lock();
        let is_due = state.synced_at.is_none_or(|then| now.since(then.mono) >= SYNC_EVERY);
        if is_due {
            state.synced_at = Some(now);
            drop(state);
            self.rows.sync()?;
        }
        Ok(())
    }

    /// Makes durable what was applied.
    pub(crate) fn sync(&self) {
        if !self.is_broken() && self.rows.sync().is_err() {
            self.is_broken.store(true, Ordering::Relaxed);
        }
    }

    /// Makes the rows durable and closes them, so that another may open them.
    pub fn close(&self) {
        self.sync();
        self.rows.close();
    }

    /// Removes useless rows. The marker goes first, so that a crash begins this again.
    fn clear(&self) -> Result<Progress, Uncovered> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        self.rows.scan(&[], &mut |key, _| {
            keys.push(key.to_vec());
            if keys.len() < CLEARED_AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let mut changes: Vec<Change<'_>> = keys.iter().map(|key| Change::Remove { key }).collect();
        let marker = Marker { volume: self.volume.id(), covered: Place::BEGIN }.to_bytes();
        let is_last = keys.len() < CLEARED_AT_ONCE;
        if is_last {
            changes.push(Change::Put { key: MARKER, value: &marker });
        }
        self.rows.apply(&changes)?;
        if is_last {
            self.state.lock().covered = Some(Place::BEGIN);
        }
        Ok(Progress::More)
    }

    /// Reserves room for the rows and for what a batch may add. False if the volume must first make room.
    fn has_room(&self) -> bool {
        let disk_bytes = self.rows.usage().disk_bytes;
        let size_bytes = self.volume.size_bytes();
        let growth = (disk_bytes / GROWTH_PART + size_bytes / GROWTH_OF_VOLUME).min(GROWTH_BYTES_MAX);
        self.charge.set(disk_bytes + growth);
        self.volume.used_bytes() <= size_bytes
    }

    /// Hands the rows to `visit` whose keys begin with `prefix`, beginning with the first that is not before
    /// `from`: the key, the name by which the row is found, the object's number, and the row. Skips rows that
    /// are not the index's entries any more.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn search(&self, prefix: &[u8], from: &[u8], visit: &mut VisitRow<'_>) -> Result<(), RowsError> {
        let result = self.rows.scan(prefix.max(from), &mut |key, value| {
            if !key.starts_with(prefix) {
                return ControlFlow::Break(());
            }
            let Some(((named, number), row)) = schema::read_key(key).zip(Row::read(value)) else {
                return ControlFlow::Continue(());
            };
            if !self.volume.has_record(row.hash, row.place) {
                return ControlFlow::Continue(());
            }
            visit(key, named, number, row)
        });
        if result.is_err() {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        result
    }
}

/// Called for each row that is found: its key, the name by which it is found, the object's number, and the
/// row.
pub type VisitRow<'a> = dyn FnMut(&[u8], Named<'_>, u64, Row) -> ControlFlow<()> + 'a;

/// Rows for some records.
#[derive(Debug, Default)]
struct Batch {
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    records: usize,
    bytes: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.records >= RECORDS_A_BATCH || self.bytes >= BATCH_BYTES
    }

    fn add(&mut self, volume: &Volume, logged: &Logged<'_>, now: Now) {
        self.records += 1;
        self.bytes += logged.key.len() + logged.head.len();
        for (key, value) in rows_of(volume, logged, now) {
            self.bytes += key.len() + value.len();
            self.rows.push((key, value));
        }
    }
}

/// The rows of a record; none if it is superseded already and cannot come back.
pub(super) fn rows_of(volume: &Volume, logged: &Logged<'_>, now: Now) -> Vec<(Vec<u8>, Vec<u8>)> {
    let hash = (logged.digest >> 64) as u64;
    let Some((site, full)) = split_key(logged.key).filter(|_| volume.may_be(hash, logged.place)) else {
        return Vec::new();
    };
    let row = Row { place: logged.place, hash, stamp: logged.stamp };
    let by_key = key_of(Named::Key { site, full }, logged.number);
    // Nobody can use a head that cannot be read; the sweeper finds it by its key.
    let Ok(stored) = codec::decode(&Bytes::copy_from_slice(logged.head), now) else {
        return vec![(by_key, row.by_key(None))];
    };
    let summary = Summary::of(&stored, logged.length, logged.held.clone(), now);
    let mut rows = vec![(by_key, row.by_key(Some(&summary)))];
    let tags = &stored.tags;
    let by_tag = |tag: &u64| (key_of(Named::Tag(*tag), logged.number), row.to_bytes());
    rows.extend(tags.hashes().iter().map(by_tag));
    if !tags.hashes().is_empty() {
        rows.push((key_of(Named::Object, logged.number), row.by_number(&summary, site, full)));
    }
    if !tags.is_complete() {
        rows.push((key_of(Named::ManyTags, logged.number), row.to_bytes()));
    }
    rows
}
