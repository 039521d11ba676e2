//! The windows for content of requests (RFC 9113 §5.2). The crate takes content that its origin does not take
//! from the connection's window until it is taken: streams that stand still would close that for all others.
//! So it is as wide as the windows of all streams with content together, and what is beyond a few is charged.
//! It must not know a frame.

use std::any::Any;
use std::cell::{Cell, RefCell};

/// The window of a stream.
pub(super) const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// The window of a connection for the first streams with content, which is not charged.
pub(super) const WINDOW_BYTES: u32 = 256 << 10;

/// The window of one connection.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// Streams with content under way.
    streams: Cell<usize>,
    /// The memory of those beyond the first ones.
    charged: RefCell<Vec<Box<dyn Any>>>,
}

impl Windows {
    /// A stream with content begins. Where there is no memory for its window, it shares that of the others.
    pub(super) fn begin(&self, charge: impl FnOnce(u64) -> Option<Box<dyn Any>>) {
        self.streams.set(self.streams.get() + 1);
        let mut charged = self.charged.borrow_mut();
        if self.beyond() > charged.len() {
            charged.extend(charge(STREAM_WINDOW_BYTES.into()));
        }
    }

    /// It has ended.
    pub(super) fn end(&self) {
        self.streams.set(self.streams.get() - 1);
        self.charged.borrow_mut().truncate(self.beyond());
    }

    /// The bytes of the window.
    pub(super) fn bytes(&self) -> u32 {
        // Invariant: a hundred streams at most.
        let charged = u32::try_from(self.charged.borrow().len()).unwrap_or(0);
        WINDOW_BYTES + charged * STREAM_WINDOW_BYTES
    }

    /// Streams beyond the first ones.
    fn beyond(&self) -> usize {
        self.streams.get().saturating_sub((WINDOW_BYTES / STREAM_WINDOW_BYTES) as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::{STREAM_WINDOW_BYTES, WINDOW_BYTES, Windows};

    #[test]
    fn each_stream_with_content_has_its_own_window_within_the_connections() {
        let windows = Windows::default();
        let charge = |bytes: u64| Some(Box::new(bytes) as Box<dyn Any>);
        for number in 1..=100 {
            windows.begin(charge);
            assert_eq!(windows.bytes(), WINDOW_BYTES.max(number * STREAM_WINDOW_BYTES));
        }
        (0..98).for_each(|_| windows.end());
        assert_eq!((windows.bytes(), windows.charged.borrow().len()), (WINDOW_BYTES, 0));
        (0..8).for_each(|_| windows.begin(|_| None));
        assert_eq!(windows.bytes(), WINDOW_BYTES, "nothing is charged");
        windows.begin(charge);
        assert_eq!(windows.bytes(), WINDOW_BYTES + STREAM_WINDOW_BYTES);
    }
}
