//! What is known of a request that the cache may answer. It must not decide anything.

use std::sync::Arc;

use http::HeaderMap;
use weir_fill::reader::refill::Refill;
use weir_policy::Ask;
use weir_store::Generation;

use crate::cache_status::CacheStatus;
use crate::fetch::Asks;

/// A request that the cache may answer.
pub(crate) struct Job {
    pub(crate) ask: Ask,
    /// How the response comes about, as far as that is known.
    pub(crate) cache_status: CacheStatus,
    /// The generation that the request selects and the origin may confirm.
    pub(crate) validating: Option<Arc<Generation>>,
    /// The fields that the origin sent to the lead of a fill, where they differ from the stored ones.
    pub(crate) own_fields: Option<Box<HeaderMap>>,
    /// What the fill asks that it leads.
    pub(crate) asks: Asks,
    /// How the missing bytes of the response are brought, where they were already asked for.
    pub(crate) refill: Option<Box<Refill>>,
    /// Whether the request found a part that cannot be completed.
    pub(crate) found_gone: bool,
    /// Whether the part being served came out of another cache.
    pub(crate) had_age: bool,
}

impl Job {
    /// Of a request of which nothing is known but what it asks of the cache.
    pub(crate) fn new(ask: Ask, cache_status: CacheStatus) -> Job {
        Job {
            ask,
            cache_status,
            validating: None,
            own_fields: None,
            asks: Asks::Alike,
            refill: None,
            found_gone: false,
            had_age: false,
        }
    }
}
