//! What a supervisor asks of the machine that it runs on, and whom it tells.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::catalogue::Rows;
use crate::register::Distrust;
use crate::volume::{Disk, OsDisk, Recovered, Volume, is_made};

/// The machine: its drives, the databases of catalogues, and the people who are told.
///
/// It is asked on threads that may wait for a drive, and told under the supervisor's lock: it must not call
/// the supervisor.
pub trait Machine: Debug + Send + Sync {
    /// Takes possession of a volume's folder; it is made if it is not there.
    ///
    /// # Errors
    /// `ResourceBusy` where another process uses it; those of the file system.
    fn folder(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(OsDisk::take(path)?))
    }

    /// Whether a folder, or the nearest above it that is there, is on another drive than the root of the file
    /// system.
    ///
    /// # Errors
    /// Those of the file system.
    fn is_mount(&self, path: &Path) -> io::Result<bool> {
        OsDisk::is_mount(path)
    }

    /// Whether a volume was made in a folder.
    fn is_made(&self, path: &Path) -> bool {
        is_made(path)
    }

    /// Whether volumes may have catalogues, for which memory is set aside.
    fn has_rows(&self) -> bool {
        false
    }

    /// Opens the rows of a volume's catalogue, which take so many bytes of memory. Without them the volume is
    /// walked.
    fn rows(&self, _path: &Path, _volume: &Volume, _memory_bytes: u64) -> Option<Arc<dyn Rows>> {
        None
    }

    /// A volume has changed. It is named by its folder.
    fn volume_changed(&self, name: &str, change: &Change);

    /// The register of volumes has changed.
    fn register_changed(&self, change: &RegisterChange);
}

/// What has happened to a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is open.
    Opened {
        /// Its ceiling in bytes.
        size_bytes: u64,
        /// What was found there.
        found: Recovered,
        /// How long that took.
        took: Duration,
    },
    /// It could not be opened, for another reason than the last time.
    NotOpened(String),
    /// What it holds is not used as it is.
    Distrusted(Distrust),
    /// Another volume was expected in its folder.
    InPlaceOf {
        /// That one.
        expected: u128,
        /// This one.
        found: u128,
    },
    /// It has another ceiling now, in bytes.
    Resized(u64),
    /// It has another write budget now.
    Budgeted,
    /// Something took longer than that: nobody waits for it any more.
    Slow(Duration),
    /// It stores nothing more, and why.
    Unstoring(&'static str),
    /// It stores again.
    Storing,
    /// It is waited for again.
    Up,
    /// It has failed and is let go, and why.
    LetGo(String),
    /// It is closed to be opened again, and why.
    OpenedAgain(&'static str),
    /// It was emptied, and can be taken out.
    Emptied,
    /// It cannot be closed: there is no thread for it.
    Unclosed,
}

/// What has happened to the register.
#[derive(Debug)]
pub enum RegisterChange {
    /// It cannot be read.
    Unread(io::Error),
    /// It cannot be written; that is tried again every second.
    Unwritten(io::Error),
    /// It is written again.
    Written,
}
