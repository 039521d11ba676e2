//! The rows themselves: one column family, a batch a change, no log of single writes.

use std::fmt;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rocksdb::statistics::Ticker;
use rocksdb::{Cache, DB, Options, ReadOptions, WriteBatch, WriteOptions, properties};
use rustix::time::ClockId;
use weir_volume::catalogue::{Change, Rows, RowsError, RowsUsage, Visit};

use crate::pace::now;

/// How old the figure for the bytes on the drive may be.
const LIST_EVERY: Duration = Duration::from_secs(1);
/// The unit in which a file's blocks are counted, whatever the file system's own is.
const STAT_BLOCK_BYTES: u64 = 512;

/// Rows in a RocksDB database. Dropping it writes what is in memory and closes the database.
pub(crate) struct RocksRows {
    /// `None` once it is closed.
    pub(crate) database: RwLock<Option<DB>>,
    pub(crate) folder: PathBuf,
    /// Kept because the counters are asked through them.
    pub(crate) options: Options,
    pub(crate) cache: Cache,
    pub(crate) listed: Mutex<Listed>,
}

/// The bytes of the folder when it was last listed. It is asked more often than it changes.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    at: Option<Duration>,
    bytes: u64,
}

impl fmt::Debug for RocksRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksRows").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Rows for RocksRows {
    fn apply(&self, changes: &[Change<'_>]) -> Result<(), RowsError> {
        let mut batch = WriteBatch::default();
        for change in changes {
            match *change {
                Change::Put { key, value } => batch.put(key, value),
                Change::Remove { key } => batch.delete(key),
            }
        }
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        let database = self.database.read();
        let database = database.as_ref().ok_or_else(|| closed("write rows"))?;
        database.write_opt(batch, &options).map_err(|error| failed("write rows", error))
    }

    fn scan(&self, from: &[u8], visit: &mut Visit<'_>) -> Result<(), RowsError> {
        let database = self.database.read();
        let database = database.as_ref().ok_or_else(|| closed("read rows"))?;
        let mut rows = database.raw_iterator_opt(reading());
        rows.seek(from);
        while let Some((key, value)) = rows.item() {
            if let ControlFlow::Break(()) = visit(key, value) {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(|error| failed("read rows", error))
    }

    fn find(&self, keys: &[Vec<u8>], visit: &mut Visit<'_>) -> Result<(), RowsError> {
        let database = self.database.read();
        let database = database.as_ref().ok_or_else(|| closed("read rows"))?;
        // One iterator keeps the block that it is in: keys in order are often in the same one.
        let mut rows = database.raw_iterator_opt(reading());
        for key in keys {
            rows.seek(key);
            if let Some((own, value)) = rows.item().filter(|(own, _)| own == key)
                && visit(own, value).is_break()
            {
                return Ok(());
            }
        }
        rows.status().map_err(|error| failed("read rows", error))
    }

    fn sync(&self) -> Result<(), RowsError> {
        // Tables are written whole and synced before they are listed, oldest first. So after a crash the list
        // is a prefix.
        let result = match &*self.database.read() {
            Some(database) => database.flush().map_err(|error| failed("sync rows", error)),
            None => Err(closed("sync rows")),
        };
        self.listed.lock().at = None;
        result
    }

    fn close(&self) {
        drop(self.database.write().take());
    }

    fn usage(&self) -> RowsUsage {
        let database = self.database.read();
        let number = |name| {
            let value = database.as_ref().and_then(|database| database.property_int_value(name).ok());
            value.flatten().unwrap_or_default()
        };
        let tables = number(properties::ESTIMATE_TABLE_READERS_MEM);
        let buffers = number(properties::SIZE_ALL_MEM_TABLES);
        let written = [Ticker::FlushWriteBytes, Ticker::CompactWriteBytes];
        RowsUsage {
            disk_bytes: self.disk_bytes(),
            memory_bytes: self.cache.get_usage() as u64 + tables + buffers,
            written_bytes: written.map(|ticker| self.options.get_ticker_count(ticker)).iter().sum(),
        }
    }
}

impl RocksRows {
    /// The bytes of the whole folder, including tables that only a search still reads. 0 if it cannot be
    /// listed.
    fn disk_bytes(&self) -> u64 {
        let (mut listed, now) = (self.listed.lock(), now(ClockId::Monotonic));
        if listed.at.is_none_or(|at| now.saturating_sub(at) >= LIST_EVERY) {
            *listed = Listed { at: Some(now), bytes: bytes_of(&self.folder) };
        }
        listed.bytes
    }
}

/// How searches read: much, and seldom the same twice. The cache is for the tables' indexes.
fn reading() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.fill_cache(false);
    // RocksDB's own thread unlinks files that were replaced during a search, not the searching thread.
    options.set_background_purge_on_iterator_cleanup(true);
    options
}

fn bytes_of(folder: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(folder) else { return 0 };
    let blocks = |file: std::fs::DirEntry| file.metadata().map_or(0, |metadata| metadata.blocks());
    files.flatten().map(blocks).sum::<u64>() * STAT_BLOCK_BYTES
}

fn closed(act: &'static str) -> RowsError {
    RowsError { act, why: "it is closed".to_owned() }
}

pub(crate) fn failed(act: &'static str, error: rocksdb::Error) -> RowsError {
    RowsError { act, why: error.into_string() }
}
