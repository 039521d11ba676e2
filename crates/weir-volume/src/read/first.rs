//! How many bytes are read first at a record's place.
//!
//! A record is looked for in the page cache first. Where it is not there, the kernel begins to fetch what was
//! asked for, though nobody waits. So the read that waits asks for the same bytes: the drive is asked once,
//! and not a second time for what the first try left out. More than the record costs copies, and memory of
//! the page cache.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The most bytes that are read at a record's place at once: a small object whole.
pub const FIRST_READ_BYTES: usize = 16 << 10;
const PAGE_BYTES: usize = 4 << 10;
/// By so much a shorter record lowers the length, in bytes. A longer one raises it by [`LONGER_COUNT`] times
/// that.
const STEP_BYTES: usize = 64;
/// For each record that is longer than the first read there are so many that are not.
const LONGER_COUNT: usize = 7;

/// A length in bytes that seven of eight of the records that were read from the drive do not exceed, within a
/// page and [`FIRST_READ_BYTES`].
#[derive(Debug)]
pub(crate) struct FirstRead(AtomicUsize);

impl Default for FirstRead {
    fn default() -> FirstRead {
        FirstRead(AtomicUsize::new(PAGE_BYTES))
    }
}

impl FirstRead {
    /// Whole pages.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed).next_multiple_of(PAGE_BYTES)
    }

    /// Notes how long a record was. Threads may overwrite each other's notes.
    pub(crate) fn note(&self, bytes: usize) {
        let now = self.0.load(Ordering::Relaxed);
        let next = if bytes > now { now + LONGER_COUNT * STEP_BYTES } else { now - STEP_BYTES };
        self.0.store(next.clamp(PAGE_BYTES, FIRST_READ_BYTES), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(records: impl IntoIterator<Item = usize>) -> usize {
        let first = FirstRead::default();
        records.into_iter().for_each(|bytes| first.note(bytes));
        first.bytes()
    }

    #[test]
    fn it_is_as_long_as_most_records() {
        assert_eq!(after([]), PAGE_BYTES);
        assert_eq!(after(std::iter::repeat_n(10_600, 20)), 3 * PAGE_BYTES);
        assert_eq!(after(std::iter::repeat_n(10_600, 1000)), 3 * PAGE_BYTES);
        assert_eq!(after(std::iter::repeat_n(300, 1000)), PAGE_BYTES);
        assert_eq!(after(std::iter::repeat_n(100_000, 1000)), FIRST_READ_BYTES);
        // One of four is long, one of sixteen is long.
        assert_eq!(after((0..4000).map(|at| if at % 4 == 0 { 15_000 } else { 300 })), FIRST_READ_BYTES);
        assert_eq!(after((0..4000).map(|at| if at % 16 == 0 { 15_000 } else { 300 })), PAGE_BYTES);
    }
}
