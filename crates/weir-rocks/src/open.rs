//! Opening and destroying: the options of the database, and the errors where it cannot be opened.

use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rocksdb::statistics::StatsLevel;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DB, DBCompressionType, Env, ErrorKind, LogLevel, Options,
};
use weir_volume::catalogue::{Rows, RowsError, Wanted};

use crate::pace::Sieves;
use crate::rows::{RocksRows, failed};

/// The time between two attempts to take the database's lock.
const LOCK_RETRY: Duration = Duration::from_millis(50);
/// With less memory RocksDB writes tables that are too small to be worth a file each.
pub const MEMORY_BYTES_MIN: usize = 4 << 20;

/// The size of a table's blocks before compression, in bytes. Nothing is looked up by key, so that a search
/// reads many in a row.
const BLOCK_BYTES: usize = 16 << 10;
/// The size of a block of a table's index, in bytes.
const INDEX_BLOCK_BYTES: usize = 4 << 10;
/// The size of a table in bytes.
const TABLE_BYTES: u64 = 16 << 20;
/// About the most bytes of the tables that a compaction reads. This much more is on the drive until it is
/// done.
const COMPACTION_BYTES: u64 = 4 * TABLE_BYTES;
/// The most tables that are open.
const OPEN_TABLES_MAX: i32 = 256;
/// The size of a write to a table, in bytes: the work at full speed before the limiter is asked.
const WRITE_BYTES: u64 = 256 << 10;
/// How often the rate limiter grants bytes, in microseconds. One grant is written at full speed.
const REFILL_MICROSECONDS: i64 = 10_000;
/// One in this many grants goes to compactions even if a flush waits.
const FAIRNESS: i32 = 10;
/// The files of RocksDB's own log (`LOG`), and the bytes of each.
const DIARIES: usize = 2;
const DIARY_BYTES: usize = 256 << 10;
/// The size of the list of tables (`MANIFEST`) before it begins again, and the bytes reserved for it in
/// advance.
const LIST_BYTES: usize = 1 << 20;
const LIST_AHEAD_BYTES: usize = 64 << 10;

/// What rows may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of memory: half for rows that are not on the drive yet, half for indexes of tables. At least
    /// [`MEMORY_BYTES_MIN`] are taken.
    pub memory_bytes: usize,
    /// The bytes a second that flushes and compactions may write together. A caller that applies more over a
    /// longer time is delayed.
    pub write_bytes_per_second: u64,
    /// Thousandths of a core that a compaction may take, over some hundred milliseconds.
    pub compaction_permille: u32,
    /// A table that is older than this is written again, so that unwanted rows are removed even if nothing is
    /// applied.
    pub rewrite_after: Duration,
    /// How long to wait for the database's lock. A killed process holds it until the kernel has removed the
    /// process.
    pub lock_patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            write_bytes_per_second: 16 << 20,
            compaction_permille: 400,
            rewrite_after: Duration::from_secs(7 * 24 * 60 * 60),
            lock_patience: Duration::from_secs(10),
        }
    }
}

/// Why the rows cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// A process has them open and did not release them within [`Settings::lock_patience`].
    Held(RowsError),
    /// The folder has no sound database: [`destroy`] it and make the rows again.
    Damaged(RowsError),
    /// The drive or the file system refuses. The rows may be sound.
    Refused(RowsError),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Held(error) | Self::Damaged(error) | Self::Refused(error)) = self;
        error.fmt(f)
    }
}

impl std::error::Error for OpenError {}

/// Opens the rows in a folder, and makes the folder if it is missing or empty. Blocks, and waits for the lock
/// of a process that was just killed. RocksDB's compaction thread calls `wanted` until the rows are dropped.
/// [`Rows::apply`] may wait for that thread, so `wanted` must not wait for a caller of it. If `wanted`
/// panics, the row stays.
///
/// The folder belongs to RocksDB: nothing else may lie in it.
///
/// # Errors
/// See [`OpenError`]. Nothing was changed, but the folder may have been made.
pub fn open(folder: &Path, settings: &Settings, wanted: Wanted) -> Result<Arc<dyn Rows>, OpenError> {
    let memory = settings.memory_bytes.max(MEMORY_BYTES_MIN);
    let cache = Cache::new_hyper_clock_cache(memory / 2, 0);
    let options = options(settings, memory / 4, &cache, wanted);
    std::fs::create_dir_all(folder)
        .map_err(|error| OpenError::Refused(RowsError { act: "make its folder", why: error.to_string() }))?;
    let mut tries = settings.lock_patience.as_millis() / LOCK_RETRY.as_millis();
    loop {
        match DB::open(&options, folder) {
            Ok(database) => {
                let (folder, listed) = (folder.to_owned(), Mutex::default());
                return Ok(Arc::new(RocksRows {
                    database: RwLock::new(Some(database)),
                    folder,
                    options,
                    cache,
                    listed,
                }));
            }
            Err(error) if is_held(&error) && tries > 0 => {
                tries -= 1;
                sleep(LOCK_RETRY);
            }
            Err(error) => return Err(judged(error)),
        }
    }
}

/// Removes the rows in a folder and all that RocksDB kept beside them. A missing folder is not an error.
///
/// # Errors
/// A process has them open, or the file system refuses. Some files may be gone.
pub fn destroy(folder: &Path) -> Result<(), RowsError> {
    DB::destroy(&Options::default(), folder).map_err(|error| failed("be removed", error))?;
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(RowsError { act: "be removed", why: error.to_string() })
        }
        _ => Ok(()),
    }
}

fn options(settings: &Settings, buffer_bytes: usize, cache: &Cache, wanted: Wanted) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(buffer_bytes);
    options.set_max_write_buffer_number(2);
    // One thread flushes and one compacts. The limiter counts both.
    options.set_max_background_jobs(1);
    options.set_ratelimiter(settings.write_bytes_per_second as i64, REFILL_MICROSECONDS, FAIRNESS);
    options.set_compaction_filter_factory(Sieves { wanted, permille: settings.compaction_permille });
    options.set_periodic_compaction_seconds(settings.rewrite_after.as_secs());
    options.set_target_file_size_base(TABLE_BYTES);
    options.set_max_compaction_bytes(COMPACTION_BYTES);
    options.set_max_bytes_for_level_base(buffer_bytes as u64 * 4);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_block_based_table_factory(&tables(cache));
    options.set_max_open_files(OPEN_TABLES_MAX);
    options.set_writable_file_max_buffer_size(WRITE_BYTES);
    options.set_skip_stats_update_on_db_open(true);
    options.set_avoid_unnecessary_blocking_io(true);
    options.set_max_manifest_file_size(LIST_BYTES);
    options.set_manifest_preallocation_size(LIST_AHEAD_BYTES);
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(DIARIES);
    options.set_max_log_file_size(DIARY_BYTES);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options.enable_statistics();
    options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    if let Ok(mut env) = Env::new() {
        env.lower_thread_pool_cpu_priority();
        env.lower_thread_pool_io_priority();
        options.set_env(&env);
    }
    options
}

/// Tables without filters, since nothing is looked up by key. Their indexes lie in the cache and nowhere
/// else.
fn tables(cache: &Cache) -> BlockBasedOptions {
    let mut tables = BlockBasedOptions::default();
    tables.set_block_cache(cache);
    tables.set_block_size(BLOCK_BYTES);
    tables.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    tables.set_metadata_block_size(INDEX_BLOCK_BYTES);
    tables.set_cache_index_and_filter_blocks(true);
    tables
}

/// The kernel says that another process has the lock, or RocksDB that this process has it.
fn is_held(error: &rocksdb::Error) -> bool {
    let why = error.as_ref();
    error.kind() == ErrorKind::IOError
        && (why.contains("While lock file") || why.contains("lock hold by current process"))
}

/// A listed file that is missing or changed cannot be mended. Other errors of the file system may pass.
fn is_damaged(error: &rocksdb::Error) -> bool {
    match error.kind() {
        ErrorKind::Corruption | ErrorKind::InvalidArgument | ErrorKind::NotSupported => true,
        ErrorKind::IOError => error.as_ref().contains("No such file or directory"),
        _ => false,
    }
}

fn judged(error: rocksdb::Error) -> OpenError {
    let (held, damaged) = (is_held(&error), is_damaged(&error));
    let error = failed("be opened", error);
    match (held, damaged) {
        (true, _) => OpenError::Held(error),
        (false, true) => OpenError::Damaged(error),
        (false, false) => OpenError::Refused(error),
    }
}
