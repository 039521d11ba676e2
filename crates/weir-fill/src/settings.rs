//! What fills and readers want to know of the route by which something is fetched. It must not know a
//! request.

use http::HeaderMap;
use weir_policy::{CacheRules, RangeRules};
use weir_store::Generation;

/// What a route says about what is fetched by it.
pub trait Settings: Send + Sync {
    /// The caching rules.
    fn rules(&self) -> &CacheRules;
    /// How ranges are fetched that are not held.
    fn range(&self) -> &RangeRules;
    /// The fields of a fill's request again, in nobody's name: what no client has chosen, as far as the
    /// stored response does not depend on it.
    fn anonymous_fields(&self, fields: &HeaderMap, generation: &Generation) -> HeaderMap;
}
