//! What origins are asked for in a site's name, counted on the worker that asks.

use std::fmt;
use std::sync::Arc;

use weir_upstream::Tally;

use super::counters::{Counters, SiteId};

/// Counts for one site what goes to origins and comes from them. To be used on the worker's own thread alone.
pub(super) struct SiteTally {
    pub(super) counters: Arc<Counters>,
    pub(super) site: SiteId,
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
