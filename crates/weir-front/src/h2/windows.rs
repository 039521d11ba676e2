//! The windows for content of requests (RFC 9113 §5.2). The crate takes content that its origin does not take
//! from the connection's window until it is taken: streams that stand still would close that for all others.
//! So it is as wide as the windows of all streams with content together, and each but the first is held in
//! memory before it opens. It must not know a frame, nor who pays.

use std::cell::Cell;

/// The window of a stream.
pub(super) const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// The window of a connection at first, which no server can make smaller.
pub(super) const WINDOW_BYTES: u32 = (64 << 10) - 1;

/// The window of one connection.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// Streams with content under way.
    streams: Cell<u32>,
}

impl Windows {
    /// A stream with content begins, if `hold` has memory for its window. The first one needs none.
    pub(super) fn begin(&self, hold: impl FnOnce(usize) -> bool) -> bool {
        let begins = self.streams.get() == 0 || hold(STREAM_WINDOW_BYTES as usize);
        if begins {
            self.streams.set(self.streams.get() + 1);
        }
        begins
    }

    /// It has ended.
    pub(super) fn end(&self, give_back: impl FnOnce(usize)) {
        self.streams.set(self.streams.get() - 1);
        if self.streams.get() > 0 {
            give_back(STREAM_WINDOW_BYTES as usize);
        }
    }

    /// The bytes of the window.
    pub(super) fn bytes(&self) -> u32 {
        match self.streams.get() {
            0 | 1 => WINDOW_BYTES,
            streams => streams * STREAM_WINDOW_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{STREAM_WINDOW_BYTES, WINDOW_BYTES, Windows};

    #[test]
    fn each_stream_with_content_has_its_own_window_within_the_connections() {
        let (windows, held) = (Windows::default(), Cell::new(0));
        let hold = |bytes| held.replace(held.get() + bytes) < 1 << 30;
        let give_back = |bytes| held.set(held.get() - bytes);
        assert_eq!(windows.bytes(), WINDOW_BYTES);
        for number in 1..=100 {
            assert!(windows.begin(hold));
            assert_eq!(
                windows.bytes(),
                WINDOW_BYTES.max(number * STREAM_WINDOW_BYTES - u32::from(number == 1))
            );
            assert_eq!(held.get() as u32, (number - 1) * STREAM_WINDOW_BYTES);
        }
        for number in (0..100).rev() {
            windows.end(give_back);
            assert_eq!(held.get() as u32, number.max(1) * STREAM_WINDOW_BYTES - STREAM_WINDOW_BYTES);
        }
        assert_eq!(windows.bytes(), WINDOW_BYTES);
    }

    #[test]
    fn the_first_stream_with_content_needs_no_room() {
        let windows = Windows::default();
        let end = || windows.end(|bytes| assert_eq!(bytes, STREAM_WINDOW_BYTES as usize));
        assert!(windows.begin(|_| false) && !windows.begin(|_| false));
        assert!(windows.begin(|_| true));
        assert_eq!(windows.bytes(), 2 * STREAM_WINDOW_BYTES);
        end();
        assert_eq!(windows.bytes(), WINDOW_BYTES);
        windows.end(|_| unreachable!("the last one holds nothing"));
        assert!(windows.begin(|_| false));
    }
}
