//! What the fills and readers of one core use. It must not know a request or a connection.

use std::sync::Arc;

use weir_store::Store;

use super::inflight::Inflight;
use weir_observe::{Counters, Events, Observatory, Observer};

/// What all fills and readers of one core share.
pub struct Resources {
    /// The store.
    pub store: Store,
    /// The fills in flight, of all cores.
    pub inflight: Arc<Inflight>,
    /// Where events go.
    pub observatory: Arc<Observatory>,
    /// The core's counters and logs.
    pub observer: Observer,
    /// The core's number.
    pub core: usize,
}

impl Resources {
    /// The core's counters.
    pub fn counters(&self) -> &Counters {
        self.observer.counters()
    }

    /// Where events are told.
    pub fn events(&self) -> &Events {
        &self.observatory.events
    }
}
