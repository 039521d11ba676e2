//! The fields that differ from response to response: `Age`, `Cache-Status`, `Proxy-Status`.

use weir_front::Fields;
use weir_policy::{CacheKey, cache_status};

use crate::cache_status::CacheStatus;

/// What is said about how a response came about.
#[derive(Debug, Default)]
enum Came {
    /// Nothing.
    #[default]
    Unknown,
    /// The cache answered it, or it bypassed the cache.
    Cache(CacheStatus),
    /// Weir made it; the word says why.
    Local(&'static str),
}

/// The fields that differ from response to response.
#[derive(Debug, Default)]
pub(crate) struct Late {
    age_s: Option<u64>,
    came: Came,
    key: Option<Box<CacheKey>>,
    /// The error token of `Proxy-Status` (RFC 9209).
    proxy_status: Option<&'static str>,
}

impl Late {
    /// The fields of a response by the cache or past it, with the key where the route shows it.
    pub(crate) fn of_cache(cache_status: CacheStatus, key: Option<CacheKey>) -> Late {
        Late { came: Came::Cache(cache_status), key: key.map(Box::new), ..Late::default() }
    }

    /// The fields of a response that Weir makes itself.
    pub(crate) fn local(word: &'static str, proxy_status: Option<&'static str>) -> Late {
        Late { came: Came::Local(word), proxy_status, ..Late::default() }
    }

    /// With an `Age`.
    pub(crate) fn aged(self, age_s: Option<u64>) -> Late {
        Late { age_s, ..self }
    }
}

impl weir_front::Late for Late {
    fn write(&self, to: &mut impl Fields) {
        if let Some(age_s) = self.age_s {
            to.add("age", |out| weir_wire::print::number(out, age_s));
        }
        match &self.came {
            Came::Unknown => {}
            Came::Cache(cache_status) => {
                to.add("cache-status", |out| cache_status.print(out, self.key.as_deref()))
            }
            Came::Local(word) => to.add("cache-status", |out| cache_status::local(out, word)),
        }
        if let Some(token) = self.proxy_status {
            to.add("proxy-status", |out| {
                out.extend_from_slice(b"weir; error=");
                out.extend_from_slice(token.as_bytes());
            });
        }
    }
}
