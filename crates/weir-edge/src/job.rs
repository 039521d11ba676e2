//! What is known of a request once a route is chosen and the cache may be asked. It must not decide anything.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use weir_policy::Ask;
use weir_store::Generation;

use crate::cache_status::CacheStatus;
use crate::exchange::Exchange;
use crate::plan::Route;

/// A request that the cache may answer.
pub(crate) struct Job<'j, 'c, 'k> {
    pub(crate) exchange: &'j mut Exchange<'c, 'k>,
    pub(crate) route: &'c Arc<Route>,
    pub(crate) ask: Ask,
    /// The generation that the request selects and the origin may confirm.
    pub(crate) validating: Option<Arc<Generation>>,
    /// How the response comes about, as far as that is known.
    pub(crate) cache_status: CacheStatus,
}

impl<'c, 'k> Deref for Job<'_, 'c, 'k> {
    type Target = Exchange<'c, 'k>;

    fn deref(&self) -> &Exchange<'c, 'k> {
        self.exchange
    }
}

impl<'c, 'k> DerefMut for Job<'_, 'c, 'k> {
    fn deref_mut(&mut self) -> &mut Exchange<'c, 'k> {
        self.exchange
    }
}
