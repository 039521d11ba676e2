//! Opening and destroying: the options of the database, and what is said where it cannot be opened.

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

/// Between two tries to take the database's lock.
const LOCK_RETRY: Duration = Duration::from_millis(50);
/// Below this RocksDB writes tables too small to be worth a file each.
pub const MEMORY_BYTES_MIN: usize = 4 << 20;

/// Of a table's blocks, in bytes before compression. Nothing is looked up by key, so that a search reads many
/// in a row.
const BLOCK_BYTES: usize = 16 << 10;
/// Of a block of a table's index.
const INDEX_BLOCK_BYTES: usize = 4 << 10;
/// Of a table in bytes.
const TABLE_BYTES: u64 = 16 << 20;
/// Of the tables that a compaction reads, mostly: so much more is on the drive until it is done.
const COMPACTION_BYTES: u64 = 4 * TABLE_BYTES;
/// Tables held open.
const OPEN_TABLES_MAX: i32 = 256;
/// Of one write to a table: what is worked for at full speed before the limiter is asked.
const WRITE_BYTES: u64 = 256 << 10;
/// How often the rate limiter grants bytes, in microseconds: what it grants at once is written at full speed.
const REFILL_MICROSECONDS: i64 = 10_000;
/// One in so many grants goes to compactions although a flush waits.
const FAIRNESS: i32 = 10;
/// The diary that RocksDB keeps of itself (`LOG`): files, and bytes a file.
const DIARIES: usize = 2;
const DIARY_BYTES: usize = 256 << 10;
/// Of the list of tables (`MANIFEST`) before it is begun anew, and of what is set aside for it ahead.
const LIST_BYTES: usize = 1 << 20;
const LIST_AHEAD_BYTES: usize = 64 << 10;

/// What rows may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of memory: half for rows that are not yet on the drive, half for indexes of tables. At least
    /// [`MEMORY_BYTES_MIN`] are taken.
    pub memory_bytes: usize,
    /// Bytes a second that are written by flushes and compactions together. Who applies more for long is made
    /// to wait.
    pub write_bytes_per_second: u64,
    /// Thousandths of a core that a compaction takes at most, over some hundred milliseconds.
    pub compaction_permille: u32,
    /// A table that was not written anew for so long is, so that what is unwanted leaves also where nothing
    /// is applied.
    pub rewrite_after: Duration,
    /// How long the database's lock is waited for: a process that was killed holds it until the kernel has
    /// taken it down.
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

/// Why there are no rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// Another process, or this one, has them open and did not let go within [`Settings::lock_patience`].
    Held(RowsError),
    /// What is there is no sound database: [`destroy`] it and make the rows anew.
    Damaged(RowsError),
    /// The drive or the file system refuses; the rows may be sound.
    Refused(RowsError),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Held(error) | Self::Damaged(error) | Self::Refused(error)) = self;
        error.fmt(f)
    }
}

impl std::error::Error for OpenError {}

/// Opens the rows in a folder; where it is not there or empty, it is made. Blocks, and waits for the lock of
/// a process that was just killed. `wanted` is asked by RocksDB's thread for compactions until the rows are
/// dropped; as [`Rows::apply`] may wait for that thread, it must not wait for who applies. Where it panics,
/// the row stays.
///
/// The folder belongs to RocksDB: nothing else may lie in it.
///
/// # Errors
/// See [`OpenError`]; nothing was changed, but the folder may have been made.
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

/// Removes the rows in a folder and what RocksDB kept beside them; a folder that is not there is no error.
///
/// # Errors
/// Where someone has them open, or the file system refuses; some may be gone.
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
    // One thread flushes and one compacts, both written for by the limiter.
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

/// Tables without filters, because nothing is looked up by key, whose indexes are in the cache and nowhere
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

/// The kernel says that the lock is another's, or RocksDB that it is this process's own.
fn is_held(error: &rocksdb::Error) -> bool {
    let why = error.as_ref();
    error.kind() == ErrorKind::IOError
        && (why.contains("While lock file") || why.contains("lock hold by current process"))
}

/// What is listed and not there, or not as it was written, cannot be mended; anything else that the file
/// system says may pass.
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
