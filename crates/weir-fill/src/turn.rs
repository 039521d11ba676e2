//! How the transfers of a worker take turns with each other and with all else that it does. An origin that is
//! faster than the worker always has more to receive: a hundred such transfers would hold hits back for
//! tenths of a second. So each stands in line after each turn, and only a few have one between two looks of
//! the worker at its sockets.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// A transfer receives so much in a turn.
const TURN_BYTES: usize = 128 << 10;
/// Or so many pieces, however short: each costs a look at what has come, and wakes the readers.
const TURN_PIECES: usize = 8;
/// So many turns between two looks at the sockets.
const TURNS: usize = 4;

thread_local! {
    static TURNS_LEFT: Arc<Semaphore> = Arc::new(Semaphore::new(TURNS));
}

/// How much a transfer has received in its turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    bytes: usize,
    pieces: usize,
}

impl Turn {
    /// Counts a piece, and waits for the next turn where this one is over.
    ///
    /// # Cancel safety
    /// Safe: the place in line is lost.
    pub(super) async fn received(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.pieces += 1;
        if self.bytes < TURN_BYTES && self.pieces < TURN_PIECES {
            return;
        }
        *self = Turn::default();
        // Held over one look at the sockets, and not for the turn: it may have to wait for its origin.
        let place = TURNS_LEFT.with(Arc::clone).acquire_owned().await;
        tokio::task::yield_now().await;
        drop(place);
    }
}

#[cfg(test)]
mod tests;
