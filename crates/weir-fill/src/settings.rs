//! What fills and readers need to know of a route. It must not know a request.

use http::HeaderMap;
use weir_policy::{CacheRules, RangeRules};
use weir_store::Generation;

/// What a route says about its fills.
pub trait Settings: Send + Sync {
    /// The caching rules.
    fn rules(&self) -> &CacheRules;
    /// How missing ranges are fetched.
    fn range(&self) -> &RangeRules;
    /// The fields of a fill's request without those that a client has chosen, unless the stored response
    /// depends on them.
    fn anonymous_fields(&self, fields: &HeaderMap, generation: &Generation) -> HeaderMap;
}
