//! The fields that differ from response to response: `Age`, `Cache-Status`, `Proxy-Status`.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderName;
use weir_front::Fields;
use weir_policy::{CacheKey, cache_status, http_date};

use crate::values::Rendered;

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
    /// It is a file, sent at this time.
    File(&'static str, SystemTime),
}

/// The fields that differ from response to response.
#[derive(Debug, Default)]
pub(crate) struct Late {
    age_s: Option<u64>,
    came: Came,
    key: Option<Box<CacheKey>>,
    /// The error token of `Proxy-Status` (RFC 9209).
    proxy_status: Option<&'static str>,
    /// What the route sets to values with placeholders.
    rendered: Option<Box<Rendered>>,
    /// What a client may see that asks for it.
    debug: Box<[(HeaderName, Vec<u8>)]>,
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

    /// The fields of a file that goes out now.
    pub(crate) fn file(word: &'static str, now: SystemTime) -> Late {
        Late { came: Came::File(word, now), ..Late::default() }
    }

    /// The `Age`, where it has one.
    pub(crate) fn age_s(&self) -> Option<u64> {
        self.age_s
    }

    /// Whether the response has the fields that the route sets: an origin's, or one that the route itself
    /// says.
    pub(crate) fn is_presented(&self) -> bool {
        match self.came {
            Came::Unknown => false,
            Came::Cache(_) | Came::File(..) => true,
            Came::Local(word) => is_of_route(word),
        }
    }

    /// Leaves `Cache-Status` out.
    pub(crate) fn hide_cache_status(&mut self) {
        self.came = Came::Unknown;
    }

    /// Adds what the route sets.
    pub(crate) fn set(&mut self, rendered: Rendered) {
        self.rendered = Some(Box::new(rendered));
    }

    /// Adds what shows how the response came about.
    pub(crate) fn show(&mut self, debug: Vec<(HeaderName, Vec<u8>)>) {
        self.debug = debug.into();
    }

    /// With an `Age`.
    pub(crate) fn aged(self, age_s: Option<u64>) -> Late {
        Late { age_s, ..self }
    }
}

thread_local! {
    /// The date that was printed last, and its second since 1970.
    static DATE: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
}

/// Adds a date (RFC 9110 §5.6.7), where there is one for the time; each second's is made once.
fn add_date(now: SystemTime, to: &mut impl Fields) {
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    DATE.with_borrow_mut(|(printed, text)| {
        if *printed != second || text.is_empty() {
            (*printed, *text) = (second, http_date(now).unwrap_or_default());
        }
        if !text.is_empty() {
            to.add("date", |out| out.extend_from_slice(text.as_bytes()));
        }
    });
}

/// Whether the word of a local answer is that of one which a route says in full: no error, no order.
pub(crate) fn is_of_route(word: &str) -> bool {
    matches!(word, "static" | "redirect")
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
            Came::File(word, now) => {
                add_date(*now, to);
                to.add("cache-status", |out| cache_status::local(out, word));
            }
            Came::Local(word) => to.add("cache-status", |out| cache_status::local(out, word)),
        }
        if let Some(token) = self.proxy_status {
            to.add("proxy-status", |out| {
                out.extend_from_slice(b"weir; error=");
                out.extend_from_slice(token.as_bytes());
            });
        }
        if let Some(rendered) = &self.rendered {
            rendered.write(to);
        }
        self.debug.iter().for_each(|(name, value)| to.field(name, value));
    }
}
