//! The URLs being fetched, each from when its fill is planned until the response is held or known not to be
//! stored. An unsafe request marks its URL in the ledger only where something of it may be held or is on its
//! way (RFC 9111 §4.4). It must not know who fetches.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_store::{Asking, Folded, Stamp};

const SHARDS: usize = 16;

type Counts = HashMap<u128, usize, BuildHasherDefault<Folded>>;

/// How many fetches of each URL are under way, by the URL's digest.
#[derive(Debug, Default)]
pub struct UrlFetches([Mutex<Counts>; SHARDS]);

impl UrlFetches {
    fn shard(&self, url: u128) -> &Mutex<Counts> {
        &self.0[(url >> 64) as usize % SHARDS]
    }

    /// Whether something of that URL is being fetched.
    pub fn has(&self, url: u128) -> bool {
        self.shard(url).lock().contains_key(&url)
    }
}

/// One fetch of a URL; over when dropped.
#[derive(Debug)]
pub struct UrlFetch {
    urls: Arc<UrlFetches>,
    url: u128,
    asking: Asking,
}

impl UrlFetch {
    /// Begins a fetch, before its request is sent.
    pub fn begin(urls: &Arc<UrlFetches>, url: u128, asking: Asking) -> UrlFetch {
        *urls.shard(url).lock().entry(url).or_default() += 1;
        UrlFetch { urls: urls.clone(), url, asking }
    }

    /// The ledger's number when it began.
    pub fn stamp(&self) -> Stamp {
        self.asking.stamp()
    }
}

impl Drop for UrlFetch {
    fn drop(&mut self) {
        let mut counts = self.urls.shard(self.url).lock();
        if let Some(count) = counts.get_mut(&self.url) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.url);
            }
        }
    }
}
