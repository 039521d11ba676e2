//! What fills and readers work with: the means of one core, and what a route says about what is fetched by it. It must not know a
//! request or a connection.

use std::sync::Arc;

use http::HeaderMap;
use weir_policy::{CacheRules, RangeRules};
use weir_store::{Generation, Store};

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

/// What a route says about what is fetched by it.
pub(crate) trait Settings: Send + Sync {
    /// The caching rules.
    fn rules(&self) -> &CacheRules;
    /// How ranges are fetched that are not held.
    fn range(&self) -> &RangeRules;
    /// The fields of a fill's request again, in nobody's name: what no client has chosen, as far as the stored response does not
    /// depend on it.
    fn for_nobody(&self, fields: &HeaderMap, generation: &Generation) -> HeaderMap;
}
