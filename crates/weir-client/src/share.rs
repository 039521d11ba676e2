//! What a request may have of what all clients share, and what tells it that one waits for it by now.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// What happens where a client has used up its share of an origin's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// The request waits until the client has fewer.
    #[default]
    Bounded,
    /// It counts and does not wait. For transfers of gaps, which other clients wait for as well.
    Counted,
    /// No client waits for the request: it takes a connection only where some are left for others, and waits
    /// behind all of them ([`crate::Pool::has_spare`]).
    Spare,
}

/// Tells a request with [`Share::Spare`] that a client waits for it: from then on it waits in its turn.
#[derive(Debug, Default)]
pub struct Hurry {
    is_told: AtomicBool,
    told: Notify,
}

impl Hurry {
    /// A client waits for the request.
    pub fn tell(&self) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            self.told.notify_one();
        }
    }

    /// Whether a client waits for it.
    pub fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    /// Waits until a client does.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn told(&self) {
        while !self.is_told() {
            self.told.notified().await;
        }
    }
}
