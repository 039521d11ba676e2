//! Charges traffic with origins to a site, on the worker that asks.

use std::fmt;
use std::sync::Arc;

use weir_upstream::Tally;

use weir_observe::{Counters, Observer, SiteId};

/// Charges one site with what goes to origins and comes from them. Only for the worker's own thread.
struct SiteTally {
    counters: Arc<Counters>,
    site: SiteId,
}

/// A tally that charges this site. Only for the worker's own thread.
pub fn of_site(observer: &Observer, site: SiteId) -> Arc<dyn Tally> {
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
