//! How much of something is held.

use std::ops::{AddAssign, SubAssign};

/// How much of something there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stock {
    /// Objects, those that are held in part included: one for each version of a variant.
    pub objects: u64,
    /// Bytes of their bodies that are held.
    pub bytes: u64,
}

impl Stock {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        *self == Stock::default()
    }
}

impl AddAssign for Stock {
    fn add_assign(&mut self, other: Stock) {
        self.objects += other.objects;
        self.bytes += other.bytes;
    }
}

impl SubAssign for Stock {
    fn sub_assign(&mut self, other: Stock) {
        self.objects = self.objects.saturating_sub(other.objects);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}
