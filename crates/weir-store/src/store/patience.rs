//! How long a transfer waits for the volume that its body is written to. It must not wait itself, and knows
//! neither bytes nor clocks.

use std::time::Duration;

/// How long a drive holds the foremost reader of one body back, in all. Then the reader goes on. What memory
/// does not hold of the body is given up for the drive.
pub const HELD_BACK_MAX: Duration = Duration::from_secs(1);
/// A body whose wait holds nobody back is given up once the drive has written nothing for so long.
pub const STALLED_MAX: Duration = Duration::from_secs(60);
/// A reader that has bytes to read may run out of them while its transfer waits: look at it so often.
const LOOK_AT_READERS_AFTER: Duration = Duration::from_millis(50);

/// What the readers of a transfer do while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// There are none.
    Nobody,
    /// All have yet to read some of what has arrived.
    Behind,
    /// The foremost has read all of it: the wait holds it back.
    HeldBack,
}

/// How long a transfer has waited for its volume.
#[derive(Debug, Default)]
pub(super) struct Patience {
    held_back: Duration,
    stalled: Duration,
    /// How many bytes the drive had written at the last look.
    written_bytes: u64,
}

impl Patience {
    /// Counts a wait, at whose end the drive has written so many bytes since it was opened. How long the next
    /// one may be; zero where the body is to be given up.
    pub(super) fn count(&mut self, waited: Duration, reading: Reading, written_bytes: u64) -> Duration {
        match written_bytes == self.written_bytes {
            true => self.stalled += waited,
            false => (self.stalled, self.written_bytes) = (Duration::ZERO, written_bytes),
        }
        if reading == Reading::HeldBack {
            self.held_back += waited;
        }
        let stalled_left = STALLED_MAX.saturating_sub(self.stalled);
        let held_back_left = HELD_BACK_MAX.saturating_sub(self.held_back);
        match reading {
            Reading::Nobody => stalled_left,
            Reading::Behind => stalled_left.min(held_back_left.max(LOOK_AT_READERS_AFTER)),
            Reading::HeldBack => stalled_left.min(held_back_left),
        }
    }

    /// Whether the drive has held readers back for as long as it may.
    pub(super) fn is_spent(&self) -> bool {
        self.held_back >= HELD_BACK_MAX
    }

    /// Whether the drive has written nothing for as long as anything waits for it.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled >= STALLED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_what_holds_a_reader_back_counts_towards_the_second() {
        let mut patience = Patience::default();
        for written in 1..100 {
            assert_eq!(patience.count(SECOND, Reading::Nobody, written), STALLED_MAX);
            assert_eq!(patience.count(SECOND, Reading::Behind, written), HELD_BACK_MAX);
        }
        // The drive writes all the time.
        assert_eq!(patience.count(SECOND * 3 / 4, Reading::HeldBack, 100), SECOND / 4);
        assert_eq!(patience.count(SECOND, Reading::Nobody, 101), STALLED_MAX);
        assert_eq!(patience.count(SECOND / 4, Reading::HeldBack, 102), Duration::ZERO);
        // Once it has something to read again, the drive may go on; it is looked at often.
        assert_eq!(patience.count(SECOND, Reading::Behind, 103), LOOK_AT_READERS_AFTER);
    }

    #[test]
    fn a_body_without_readers_is_given_up_where_the_drive_writes_nothing() {
        let mut patience = Patience::default();
        patience.count(Duration::ZERO, Reading::Nobody, 7);
        for _ in 0..3 {
            assert_eq!(patience.count(STALLED_MAX - SECOND, Reading::Nobody, 7), SECOND);
            assert!(patience.count(STALLED_MAX, Reading::Nobody, 8) > SECOND, "it has written something");
            patience = Patience { written_bytes: 7, ..Patience::default() };
        }
        assert_eq!(patience.count(STALLED_MAX, Reading::Nobody, 7), Duration::ZERO);
    }
}
