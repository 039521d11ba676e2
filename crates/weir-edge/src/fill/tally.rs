//! What origins are asked for in a site's name, counted on the worker that asks.

use std::fmt;
use std::sync::Arc;

use weir_upstream::Tally;

use weir_observe::{Counters, Observer, SiteId};

/// Counts for one site what goes to origins and comes from them. To be used on the worker's own thread alone.
struct SiteTally {
    counters: Arc<Counters>,
    site: SiteId,
}

/// Counts what origins are asked for in a site's name. To be used on the worker's own thread alone.
pub(crate) fn of_site(observer: &Observer, site: SiteId) -> Arc<dyn Tally> {
    Arc::new(SiteTally { counters: observer.counters_shared(), site })
}

impl fmt::Debug for SiteTally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("SiteTally").field(&self.site).finish()
    }
}

impl Tally for SiteTally {
    fn sent(&self) {
        self.counters.origin_sent(self.site);
    }

    fn received(&self, bytes: u64) {
        self.counters.origin_read(self.site, bytes);
    }
}
