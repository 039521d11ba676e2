//! Opening one volume: its folder, the volume in it, the rows of its catalogue.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::machine::Change;
use super::settings::{Settings, Wanted};
use crate::catalogue::Rows;
use crate::register::Register;
use crate::volume::{EvictionListener, OpenError, Opening, Volume, VolumeSettings};
use crate::volumes::AttachError;

/// The size where none is given, at most; in bytes.
const SIZE_BYTES: u64 = 10 << 30;
/// And at most this share of what is free.
const FREE_SHARE: u64 = 4;
/// What waits to be written takes at most this share of the memory.
const QUEUE_SHARE: u64 = 4;
/// The catalogue takes this share of the memory, within these limits in bytes.
const ROWS_SHARE: u64 = 16;
const ROWS_BYTES_MIN: u64 = 4 << 20;
const ROWS_BYTES_MAX: u64 = 64 << 20;
/// Below this there is none: it would take too much of the cache's.
const ROWS_MEMORY_BYTES_MIN: u64 = 32 << 20;

/// How the memory of the cache is shared among what volumes need of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// For the catalogue of one volume; 0 where there is none.
    rows_bytes: u64,
    /// For what waits to be written to one volume.
    queue_bytes: u64,
}

impl Share {
    /// Of the memory, for so many volumes.
    pub(super) fn of(settings: &Settings, volumes: usize) -> Share {
        let (count, memory_bytes) = (volumes.max(1) as u64, settings.memory_bytes);
        let all_rows = (memory_bytes / ROWS_SHARE).clamp(ROWS_BYTES_MIN, ROWS_BYTES_MAX);
        let has_rows = settings.machine.has_rows() && memory_bytes / count >= ROWS_MEMORY_BYTES_MIN;
        Share {
            rows_bytes: if has_rows { (all_rows / count).max(ROWS_BYTES_MIN) } else { 0 },
            queue_bytes: memory_bytes / QUEUE_SHARE / count,
        }
    }
}

/// A volume that was opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) volume: Volume,
    pub(super) opening: Opening,
    pub(super) rows: Option<Arc<dyn Rows>>,
    /// What the rows take of the memory, in bytes.
    pub(super) rows_bytes: u64,
    /// Its folder is on a drive of its own.
    pub(super) is_mount: bool,
}

/// Why a volume is not there.
#[derive(Debug, thiserror::Error)]
pub enum Unopened {
    /// Its folder is locked.
    #[error("another Weir uses the volume {0}; stop it, or give this one its own folder")]
    InUse(String),
    /// The file system refuses the folder.
    #[error("cannot use the volume {name}")]
    Folder {
        /// The folder.
        name: String,
        /// What it says.
        source: io::Error,
    },
    /// The folder is there, and no volume that can be used.
    #[error("cannot use the volume {name}")]
    Volume {
        /// The folder.
        name: String,
        /// What is wrong with it.
        source: OpenError,
    },
    /// A drive was mounted there, and the folder beneath is empty.
    #[error("no drive is mounted where {0} was")]
    Unmounted(String),
    /// It cannot be written down that the volume has come.
    #[error("cannot write the register of volumes")]
    Register(#[source] io::Error),
    /// It cannot be put below the memory.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// There is no thread that could open it.
    #[error("no thread can be started that opens it")]
    Thread(#[source] io::Error),
}

/// Whose fault it is that a volume is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blame {
    /// The configuration asks for what cannot be: a person has to mend it.
    Config,
    /// The folder cannot be used as a volume: a mistake of the configuration, unless a volume was there.
    Folder,
    /// The drive fails, or is not there: it may come back.
    Drive,
}

impl Unopened {
    pub(super) fn blame(&self) -> Blame {
        use io::ErrorKind::{AlreadyExists, NotADirectory, PermissionDenied};
        match self {
            Unopened::InUse(_) => Blame::Config,
            Unopened::Folder { source, .. } => match source.kind() {
                PermissionDenied | NotADirectory | AlreadyExists => Blame::Config,
                _ => Blame::Drive,
            },
            Unopened::Volume { source, .. } => match source {
                OpenError::Drive { .. } => Blame::Drive,
                OpenError::Superblock(_) | OpenError::NoSuperblock => Blame::Folder,
                OpenError::Size(_) => Blame::Config,
            },
            Unopened::Unmounted(_) | Unopened::Register(_) | Unopened::Attach(_) | Unopened::Thread(_) => {
                Blame::Drive
            }
        }
    }

    /// The whole sentence, with what lies behind it.
    pub(super) fn sentence(&self) -> String {
        let mut sentence = self.to_string();
        let mut next = self.source();
        while let Some(error) = next {
            sentence = format!("{sentence}: {error}");
            next = error.source();
        }
        sentence
    }
}

/// All that is needed to open one volume, on a thread of its own.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) wanted: Wanted,
    pub(super) share: Share,
    /// Where all volumes of the house get the numbers of their objects from.
    pub(super) numbers: Arc<AtomicU64>,
    /// Knows the folder, and the number of the opening.
    pub(super) register: Arc<Register>,
    /// Listens to what has to leave the volume.
    pub(super) listener: Arc<dyn EvictionListener>,
    pub(super) settings: Settings,
}

impl Opener {
    /// Opens the volume, or makes it, and its catalogue. Blocks for as long as recovery takes.
    ///
    /// # Errors
    /// [`Unopened`].
    pub(super) fn open(self) -> Result<Opened, Unopened> {
        let Opener { wanted, share, numbers, register, listener, settings } = self;
        let (path, name, machine) = (&wanted.path, wanted.name(), &*settings.machine);
        let folder = |error| refused(&name, error);
        let is_mount = machine.is_mount(path).map_err(folder)?;
        if register.was_mount(&name) && !is_mount && !machine.is_made(path) {
            return Err(Unopened::Unmounted(name));
        }
        let disk = machine.folder(path).map_err(folder)?;
        let size_bytes = match wanted.size_bytes {
            Some(size_bytes) => size_bytes,
            None => SIZE_BYTES.min(disk.room().map_err(folder)?.free_bytes / FREE_SHARE),
        };
        let begun = settings.clock.now();
        let mut of = VolumeSettings::of(size_bytes, settings.clock.clone());
        of.write_budget_bytes = wanted.write_budget_bytes;
        // What waits to be written holds its blocks in memory.
        of.queue_bytes = of.queue_bytes.min(share.queue_bytes);
        of.numbers = numbers;
        of.listener = listener;
        let opened = Volume::open(disk, &of);
        let (volume, found) = opened.map_err(|source| Unopened::Volume { name: name.clone(), source })?;
        let took = settings.clock.now().saturating_sub(begun);
        machine.volume_changed(&name, &Change::Opened { size_bytes, found, took });
        let rows = Some(share.rows_bytes).filter(|bytes| *bytes > 0);
        let rows = rows.and_then(|bytes| machine.rows(path, &volume, bytes));
        let rows_bytes = rows.as_ref().map_or(0, |_| share.rows_bytes);
        let opening = volume.renew_opening(register.opening(volume.id()));
        Ok(Opened { volume, opening, rows, rows_bytes, is_mount })
    }
}

/// What the file system says of a folder.
fn refused(name: &str, source: io::Error) -> Unopened {
    match source.kind() {
        io::ErrorKind::ResourceBusy => Unopened::InUse(name.to_owned()),
        _ => Unopened::Folder { name: name.to_owned(), source },
    }
}
