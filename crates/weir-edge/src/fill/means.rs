//! What the fills and readers of one core work with. It must not know a request or a connection.

use std::sync::Arc;

use weir_store::Store;

use super::desk::Desk;
use weir_observe::{Counters, Events, Observatory, Observer};

/// What all fills and readers of one core share.
pub(crate) struct Means {
    pub(crate) store: Store,
    pub(crate) desk: Arc<Desk>,
    pub(crate) observatory: Arc<Observatory>,
    pub(crate) observer: Observer,
    pub(crate) core: usize,
}

impl Means {
    /// The core's counters.
    pub(crate) fn counters(&self) -> &Counters {
        self.observer.counters()
    }

    /// Where events are told.
    pub(crate) fn events(&self) -> &Events {
        &self.observatory.events
    }
}
