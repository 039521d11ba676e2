//! What a supervisor is told: which volumes are wanted, and what it works with.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_policy::Now;

use super::machine::Machine;
use crate::volume::Clock;

/// A volume as the configuration wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its folder: by this it is the same volume in the next configuration.
    pub path: PathBuf,
    /// The ceiling of its files in bytes; by the room that there is, where there is none.
    pub size_bytes: Option<u64>,
    /// Its share of the keys, beside the others' weights; by default its size in MiB.
    pub weight: Option<NonZeroU32>,
    /// The most that is written to it in a day of UTC, in bytes, where there is a most.
    pub write_budget_bytes: Option<u64>,
    /// A read that takes longer is a miss, and the volume is slow.
    pub read_timeout: Duration,
    /// It is to be emptied: it serves, stores nothing more, and what it holds goes to the others.
    pub is_drained: bool,
}

impl Wanted {
    /// What people call it: its folder, written in one way however the configuration writes it.
    pub(super) fn name(&self) -> String {
        self.path.components().collect::<PathBuf>().display().to_string()
    }

    /// Its share of the keys where it has so many bytes.
    pub(super) fn weight_of(&self, size_bytes: u64) -> u64 {
        self.weight.map_or((size_bytes >> 20).max(1), |weight| u64::from(weight.get()))
    }
}

/// What a supervisor works with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The memory of the cache in bytes, of which catalogues and queues take a share.
    pub memory_bytes: u64,
    /// By which it waits; volumes get it as well.
    pub clock: Clock,
    /// Both clocks, for what is stored.
    pub now: fn() -> Now,
    /// Where the drives are.
    pub machine: Arc<dyn Machine>,
}

/// When the volumes are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Before the first request.
    Now,
    /// When [`Drives::take`](super::Drives::take) says so: another process still has them.
    Later,
}
