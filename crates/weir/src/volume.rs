//! Opens a volume of the configuration.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use weir_config::model;
use weir_store::catalogue::Rows;
use weir_store::volume::{Clock, Disk, OpenError, OsDisk, Volume, VolumeSettings};
use weir_store::{EvictionListener, Opening, Register};

/// The largest default size in bytes.
const SIZE_BYTES: u64 = 10 << 30;
/// The default size is at most this share of the free space.
const FREE_SHARE: u64 = 4;
/// Bytes that wait to be written take at most this share of the memory.
const QUEUE_SHARE: u64 = 4;
/// The catalogue takes this share of the memory, within these limits in bytes.
const ROWS_SHARE: u64 = 16;
const ROWS_BYTES_MIN: u64 = 4 << 20;
const ROWS_BYTES_MAX: u64 = 64 << 20;
/// With less memory than this there is no catalogue: it would take too much of the cache's.
const ROWS_MEMORY_BYTES_MIN: u64 = 32 << 20;

/// The shares of the cache's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// For the catalogue of one volume; 0 without one.
    rows_bytes: u64,
    /// For bytes that wait to be written to one volume.
    queue_bytes: u64,
}

impl Share {
    /// The shares of this much memory for this many volumes.
    pub(crate) fn of(memory_bytes: u64, volumes: usize) -> Share {
        let count = volumes.max(1) as u64;
        let all_rows = (memory_bytes / ROWS_SHARE).clamp(ROWS_BYTES_MIN, ROWS_BYTES_MAX);
        let has_rows = cfg!(feature = "rocksdb") && memory_bytes / count >= ROWS_MEMORY_BYTES_MIN;
        Share {
            rows_bytes: if has_rows { (all_rows / count).max(ROWS_BYTES_MIN) } else { 0 },
            queue_bytes: memory_bytes / QUEUE_SHARE / count,
        }
    }
}

/// A volume that was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) volume: Volume,
    pub(crate) opening: Opening,
    pub(crate) rows: Option<Arc<dyn Rows>>,
    /// Memory for the rows, in bytes.
    pub(crate) rows_bytes: u64,
    /// Its folder is on a drive of its own.
    pub(crate) is_mount: bool,
}

/// Why a volume was not opened.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The configuration asks for something impossible: the start does not try again.
    Config(anyhow::Error),
    /// The folder cannot be a volume: a mistake of the configuration, unless a volume was there.
    Folder(anyhow::Error),
    /// The drive fails or is absent: it may come back.
    Drive(anyhow::Error),
}

impl Refused {
    /// A sentence that says what to do.
    pub(crate) fn error(&self) -> &anyhow::Error {
        match self {
            Refused::Config(error) | Refused::Folder(error) | Refused::Drive(error) => error,
        }
    }
}

/// Opens the rows of a volume's catalogue. Damaged rows are removed and made again. Without rows, searches
/// read through the volume.
#[cfg(feature = "rocksdb")]
fn rows(of: &model::Volume, volume: &Volume, share: &Share) -> Option<Arc<dyn Rows>> {
    if share.rows_bytes == 0 {
        return None;
    }
    let folder = of.path.0.join("catalogue");
    let settings = weir_rocks::Settings {
        memory_bytes: usize::try_from(share.rows_bytes).unwrap_or(usize::MAX),
        ..weir_rocks::Settings::default()
    };
    let wanted = weir_store::catalogue::wanted(volume);
    let opened = weir_rocks::open(&folder, &settings, wanted.clone());
    let opened = match opened {
        Err(weir_rocks::OpenError::Damaged(error)) => {
            tracing::warn!(%error, "the catalogue is damaged; Weir makes it again from the volume");
            let destroyed = weir_rocks::destroy(&folder).map_err(weir_rocks::OpenError::Refused);
            destroyed.and_then(|()| weir_rocks::open(&folder, &settings, wanted))
        }
        opened => opened,
    };
    opened
        .inspect_err(|error| {
            tracing::error!(%error, "no catalogue; searches read through the volume \
                                                      instead")
        })
        .ok()
}

/// Without RocksDB there are none.
#[cfg(not(feature = "rocksdb"))]
fn rows(_: &model::Volume, _: &Volume, _: &Share) -> Option<Arc<dyn Rows>> {
    None
}

/// Opens the volume, or makes it, and its catalogue. `numbers` gives the numbers of objects for all volumes
/// of the server. `register` says what is known of the folder, and numbers the opening. `watcher` is told
/// what has to leave the volume. Blocks for as long as recovery takes.
///
/// # Errors
/// [`Refused`].
pub(crate) fn open(
    of: &model::Volume,
    share: &Share,
    numbers: &Arc<AtomicU64>,
    register: &Register,
    watcher: Arc<dyn EvictionListener>,
) -> Result<Opened, Refused> {
    let path = &of.path.0;
    let is_mount = OsDisk::is_mount(path).map_err(|error| refused(path, error))?;
    let was_mount = register.was_mount(&path.display().to_string());
    if was_mount && !is_mount && !weir_store::volume::is_made(path) {
        return Err(Refused::Drive(anyhow::anyhow!("no drive is mounted where {} was", path.display())));
    }
    let disk = OsDisk::take(path).map_err(|error| refused(path, error))?;
    let size_bytes = match of.size {
        Some(size) => size.0,
        None => SIZE_BYTES.min(disk.room().map_err(|error| refused(path, error))?.free_bytes / FREE_SHARE),
    };
    let begun = weir_clock::now().mono;
    let mut settings = VolumeSettings::of(size_bytes, Clock::new(move || weir_clock::now().since(begun)));
    settings.write_budget_bytes = of.write_budget.map(|budget| budget.0);
    // Bytes that wait to be written hold their blocks in memory.
    settings.queue_bytes = settings.queue_bytes.min(share.queue_bytes);
    settings.numbers = Arc::clone(numbers);
    settings.listener = watcher;
    let (volume, found) = Volume::open(Arc::new(disk), &settings).map_err(|error| unopened(path, error))?;
    tracing::info!(
        objects = found.objects,
        segments = found.segments,
        scanned = found.scanned,
        rebuilt = found.was_rebuilt,
        ms = weir_clock::now().since(begun).as_millis() as u64,
        "volume {} of {size_bytes} bytes is open",
        path.display()
    );
    let rows = rows(of, &volume, share);
    let rows_bytes = rows.as_ref().map_or(0, |_| share.rows_bytes);
    let opening = volume.renew_opening(register.opening(volume.id()));
    Ok(Opened { volume, opening, rows, rows_bytes, is_mount })
}

/// An error of the file system. What a person has to mend is not the drive's fault.
fn refused(path: &Path, error: io::Error) -> Refused {
    let kind = error.kind();
    let said = format!("cannot use the volume {}", path.display());
    match kind {
        io::ErrorKind::ResourceBusy => Refused::Config(anyhow::anyhow!(
            "another Weir uses the volume {}; stop it, or give this one its own folder",
            path.display()
        )),
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            Refused::Config(anyhow::Error::new(error).context(said))
        }
        _ => Refused::Drive(anyhow::Error::new(error).context(said)),
    }
}

fn unopened(path: &Path, error: OpenError) -> Refused {
    let refused = match &error {
        OpenError::Drive { .. } => Refused::Drive,
        OpenError::Superblock(_) | OpenError::NoSuperblock => Refused::Folder,
        OpenError::Size(_) => Refused::Config,
    };
    refused(anyhow::Error::new(error).context(format!("cannot use the volume {}", path.display())))
}

/// Its share of the keys, relative to the other volumes': by default its size in MiB.
pub(crate) fn weight(of: &model::Volume, size_bytes: u64) -> u64 {
    of.weight.map_or((size_bytes >> 20).max(1), |weight| u64::from(weight.get()))
}
