//! A catalogue beside its volume: rows that follow the log.
//!
//! The log is the queue: nothing is handed over by the volume's writer. Behind the marker the log is read as
//! far as it is durable, some hundred records a batch, and the marker moves in the same batch as the rows; so
//! nothing can overflow, and after a crash only what lies behind the marker is read again. Rows of another
//! volume or version, and those beside an index that was made again, are taken away first.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use weir_policy::{Now, Tags};

use super::rows::{Change, Rows, RowsError, Wanted};
use super::schema;
use super::schema::{MARKER, Marker, Named, Row, key_of};
use crate::format::codec;
use crate::key::split as split_key;
use crate::volume::log::Logged;
use crate::{Charge, Place, ReadError, Volume};

/// Records a batch.
const RECORDS_A_BATCH: usize = 256;
/// Keys and heads of a batch, in bytes, about.
const BATCH_BYTES: usize = 1 << 20;
/// Rows that are taken away at once.
const CLEARED_AT_ONCE: usize = 1024;
/// What was applied is made durable so often; what was not is read again after a crash.
const SYNC_EVERY: Duration = Duration::from_secs(30);
/// What rows may grow by before they are asked again what they take: this part of what they take, and this
/// part of the volume.
const GROWTH_PART: u64 = 4;
const GROWTH_OF_VOLUME: u64 = 64;
const GROWTH_BYTES_MAX: u64 = 64 << 20;

/// Why covering does not go on.
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
    /// There is.
    More,
    /// All that is durable is in the rows.
    Done,
    /// There is no room for more rows yet.
    NoRoom,
}

/// The rows of a volume. One thread covers; all may search.
#[derive(Debug)]
pub struct Catalogue {
    rows: Arc<dyn Rows>,
    volume: Arc<Volume>,
    state: Mutex<State>,
    charge: Charge,
    /// Something failed: whoever searches walks the volume.
    is_broken: AtomicBool,
    records: AtomicU64,
    /// Held while rows are written, so that none is put in place of a newer one.
    writing: Mutex<()>,
}

#[derive(Debug)]
struct State {
    /// `None` while rows of no use are taken away.
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
    /// Bytes written since it was opened, those of tidying up included.
    pub written_bytes: u64,
    /// Records of the log that were taken in since it was opened.
    pub records: u64,
    /// Bytes of the log that are not taken in yet.
    pub behind_bytes: u64,
    /// Whether it cannot be used until a restart; the volume is walked instead.
    pub is_broken: bool,
}

/// Says which rows of that volume's catalogue are still wanted: for whoever opens the rows.
pub fn wanted(volume: &Volume) -> Wanted {
    let may_return = volume.may_return();
    Arc::new(move |key, value| match schema::read_key(key) {
        // The marker, and what is not known here, is left to those who read it.
        None => true,
        Some(_) => Row::read(value).is_some_and(|row| may_return(row.hash, row.place)),
    })
}

impl Catalogue {
    /// Those rows, of that volume: from the marker on where they are of it, otherwise they are cleared first.
    pub fn new(rows: Arc<dyn Rows>, volume: Arc<Volume>) -> Catalogue {
        let charge = volume.charge_beside();
        let is_broken = AtomicBool::new(false);
        let mut covered = None;
        let read = rows.scan(MARKER, &mut |key, value| {
            let marker = Marker::read(value).filter(|_| key == MARKER);
            // Beside an index made again, records may be back whose rows were taken away.
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

    /// What it takes, and how far it is.
    pub fn usage(&self) -> CatalogueUsage {
        let usage = self.rows.usage();
        let covered = self.state.lock().covered.unwrap_or(Place::BEGIN);
        CatalogueUsage {
            disk_bytes: usage.disk_bytes,
            memory_bytes: usage.memory_bytes,
            written_bytes: usage.written_bytes,
            records: self.records.load(Ordering::Relaxed),
            behind_bytes: self.volume.log_bytes_behind(covered),
            is_broken: self.is_broken.load(Ordering::Relaxed),
        }
    }

    /// Whether all that the log has before a place is in the rows, and they can be read.
    pub fn has_covered(&self, place: Place) -> bool {
        !self.is_broken() && self.state.lock().covered.is_some_and(|covered| covered >= place)
    }

    /// Up to where the log is covered; `None` while rows of no use are taken away.
    pub(super) fn covered(&self) -> Option<Place> {
        self.state.lock().covered
    }

    /// Keeps others from writing rows.
    pub(super) fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
    }

    pub(super) fn rows(&self) -> &dyn Rows {
        &*self.rows
    }

    pub(super) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Whether something failed, so that the volume is walked instead.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Takes in one batch more. For one thread, which may block.
    ///
    /// # Errors
    /// Rows or volume cannot be read or written; where it is the rows, they are not used any more.
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

    /// Makes durable what is in the rows and lets another open them.
    pub fn close(&self) {
        self.sync();
        self.rows.close();
    }

    /// Takes away rows that are of no use; the marker goes first, so that a crash begins this again.
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

    /// Sets room aside for what the rows take and a batch may add; false where the volume has yet to make it.
    fn has_room(&self) -> bool {
        let disk_bytes = self.rows.usage().disk_bytes;
        let size_bytes = self.volume.size_bytes();
        let growth = (disk_bytes / GROWTH_PART + size_bytes / GROWTH_OF_VOLUME).min(GROWTH_BYTES_MAX);
        self.charge.set(disk_bytes + growth);
        self.volume.used_bytes() <= size_bytes
    }

    /// Hands the rows to `visit` whose keys begin with `prefix`, from the first on that is not before `from`:
    /// the key, by what it is found, the object's number, and what the row says. What is not the index's
    /// entry any more is passed over.
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

/// What is called with each row that is found: its key, by what it is found, the object's number, and what it
/// says.
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
            self.rows.push((key, value));
        }
    }
}

/// The rows of a record; none where it is outdone already and cannot come back.
pub(super) fn rows_of(volume: &Volume, logged: &Logged<'_>, now: Now) -> Vec<(Vec<u8>, Vec<u8>)> {
    let hash = (logged.digest >> 64) as u64;
    let Some((site, full)) = split_key(logged.key).filter(|_| volume.may_be(hash, logged.place)) else {
        return Vec::new();
    };
    let row = Row { place: logged.place, hash, stamp: logged.stamp }.to_bytes();
    let mut rows = vec![(key_of(Named::Key { site, full }, logged.number), row.clone())];
    let tags = tags_of(&Bytes::copy_from_slice(logged.head), now);
    rows.extend(tags.hashes().iter().map(|tag| (key_of(Named::Tag(*tag), logged.number), row.clone())));
    if !tags.is_complete() {
        rows.push((key_of(Named::ManyTags, logged.number), row));
    }
    rows
}

/// The tags of a head; none where it cannot be read, since nobody can use it then.
fn tags_of(head: &Bytes, now: Now) -> Tags {
    codec::decode(head, now).map(|stored| stored.tags).unwrap_or_default()
}
