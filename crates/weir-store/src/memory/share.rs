//! What arriving bodies share of the memory: how many windows there are, and how much readers have not read
//! of bodies that are whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::generation::BLOCK_BYTES;

/// A window is never narrowed below this, however many there are.
const WINDOW_BYTES_MIN: u64 = 4 * BLOCK_BYTES as u64;

/// The limits of memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The ceiling of memory: bodies, heads, keys and everything else that an object costs.
    pub(crate) memory_bytes: u64,
    /// How many of its newest bytes a window keeps.
    pub(crate) window_bytes: u64,
    /// What all such windows may take together.
    pub(crate) windows_bytes_max: u64,
}

impl Limits {
    /// The largest body that is kept: half of the memory.
    pub(crate) fn object_bytes_max(&self) -> u64 {
        self.memory_bytes / 2
    }

    /// The fewest bytes that a window keeps.
    pub(super) fn window_bytes_min(&self) -> u64 {
        WINDOW_BYTES_MIN.min(self.window_bytes)
    }
}

/// How many windows there are, and the sum of all [`Lag`]s.
#[derive(Debug, Default)]
pub(super) struct Shares {
    pub(super) windows: AtomicU64,
    pub(super) lagging_bytes: AtomicU64,
}

/// One of the windows that share the memory for windows; given back on drop.
#[derive(Debug)]
pub(crate) struct Window(Arc<Shares>);

impl Window {
    pub(super) fn open(shares: &Arc<Shares>) -> Window {
        shares.windows.fetch_add(1, Ordering::Relaxed);
        Window(Arc::clone(shares))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.0.windows.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes that readers have not read of a whole body at rest. Evicting the body would not free them. Forgotten
/// on drop.
#[derive(Debug)]
pub struct Lag {
    shares: Arc<Shares>,
    bytes: u64,
}

impl Lag {
    pub(super) fn new(shares: &Arc<Shares>, bytes: u64) -> Lag {
        shares.lagging_bytes.fetch_add(bytes, Ordering::Relaxed);
        Lag { shares: Arc::clone(shares), bytes }
    }
}

impl Drop for Lag {
    fn drop(&mut self) {
        self.shares.lagging_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
