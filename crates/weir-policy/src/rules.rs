//! The caching choices of a route, as plain data that the configuration fills in. No decisions here.

use http::HeaderName;
use std::time::Duration;

/// The caching rules of one route. `Default` is Weir's safe default for every choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CacheRules {
    /// The lifetime if the origin gives none (`ttl`); at most a minute for errors and redirects. `None`: only
    /// Last-Modified gives one.
    pub ttl: Option<Duration>,
    /// The lifetime of 200 and 203, whatever the origin says (`ttl_override`). It never makes a response
    /// storable that no-store, private, Set-Cookie, Authorization or the status forbid, and `no-cache` still
    /// demands validation.
    pub ttl_override: Option<Duration>,
    /// The lifetime that browsers are told (`browser_ttl`) in place of the origin's max-age and Expires, for
    /// statuses that are [`is_of_content`](crate::is_of_content).
    pub browser_ttl: Option<Duration>,
    /// Windows in which a stale response may be used.
    pub stale: StaleRules,
    /// What to do with a response that sets a cookie.
    pub set_cookie: SetCookie,
    /// When a request bypasses the cache: it is neither answered from it nor stored.
    pub bypass: Triggers,
    /// When a request fetches again and replaces the stored response.
    pub refresh: Triggers,
    /// Whose Cache-Control in requests counts.
    pub client_directives: ClientDirectives,
    /// Whether a body that ends with the connection may be stored.
    pub close_delimited: CloseDelimited,
    /// Which statuses a lifetime is guessed for.
    pub heuristics: Heuristics,
    /// Whether a 5xx or a 400 may be stored when the origin gives it a lifetime.
    pub errors: Errors,
    /// Whether Surrogate-Control counts.
    pub surrogate: Surrogate,
    /// What a key is made of.
    pub key: KeyRules,
}

/// A route's windows for stale responses (RFC 5861), counted from the moment the response becomes stale.
/// `None` leaves a window to the origin's directives. What the origin forbids (must-revalidate,
/// proxy-revalidate, s-maxage, no-cache) stays forbidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaleRules {
    /// stale-while-revalidate in place of the origin's.
    pub while_revalidate: Option<Duration>,
    /// stale-if-error in place of the origin's.
    pub if_error: Option<Duration>,
    /// The window if the origin gives no answer at all. `None`: an hour, or what the origin says by
    /// stale-if-error.
    pub if_unreachable: Option<Duration>,
}

/// What to do with a response that carries Set-Cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetCookie {
    /// Do not store it.
    #[default]
    NoStore,
    /// Store it without the cookie.
    Strip,
    /// Store it with the cookie: every client gets the same one.
    Store,
}

/// Whose Cache-Control in requests counts (RFC 9111 §5.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientDirectives {
    /// Every client's.
    #[default]
    Honour,
    /// Those from trusted proxies.
    Trusted,
    /// Nobody's.
    Ignore,
}

/// What to do with a body that ends with the connection, since nothing says that it arrived whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloseDelimited {
    /// Do not store it.
    #[default]
    NoStore,
    /// Store it.
    Store,
}

/// For which statuses a lifetime is guessed from Last-Modified (RFC 9111 §4.2.2) or taken from the route's
/// `ttl`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heuristics {
    /// 200, 203, 204, 300, 301, 308, 404, 405, 410: the statuses of RFC 9110 §15.1 that one client's odd
    /// request cannot cause for all others.
    #[default]
    Safe,
    /// All statuses of RFC 9110 §15.1, including 501 and 414, which is never stored otherwise.
    Whole,
    /// Never from Last-Modified; the route's `ttl` is used as with `Safe`.
    Off,
}

/// Whether a 5xx or a 400 may be stored. Heuristics and a route's `ttl` never make it so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Errors {
    /// A 5xx if the origin itself gives it a lifetime; never a 400, since one client's odd request causes it.
    #[default]
    Explicit,
    /// Neither.
    NoStore,
    /// Both, if the origin itself gives them a lifetime.
    Store400,
}

/// Whether Surrogate-Control (W3C Edge Architecture) takes the place of Cache-Control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surrogate {
    /// It does, below CDN-Cache-Control.
    #[default]
    Honour,
    /// It is a field like any other.
    Ignore,
}

/// Conditions on a request. One that holds is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    /// Patterns of cookie names; `*` stands for any run of characters.
    pub cookies: Vec<String>,
    /// Fields.
    pub headers: Vec<HeaderTrigger>,
    /// Patterns of paths; `*` stops at `/`, `**` does not.
    pub paths: Vec<String>,
}

/// A condition on a request field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderTrigger {
    /// The field.
    pub name: HeaderName,
    /// A pattern for its value, in which `*` stands for any run of characters. `None`: any value.
    pub value: Option<String>,
}

/// What a key is made of beyond scheme, host and path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRules {
    /// Which query parameters count.
    pub query: QueryRule,
    /// Whether their order counts.
    pub order: QueryOrder,
    /// Request fields whose values are part of the key.
    pub headers: Vec<HeaderName>,
    /// Cookies whose values are part of the key (exact names).
    pub cookies: Vec<String>,
}

/// Which query parameters are part of the key. The others are dropped from the origin's request as well.
/// Names are compared as received, without decoding; `*` in a pattern stands for any run of characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum QueryRule {
    /// All.
    #[default]
    All,
    /// None: the whole query is dropped.
    None,
    /// Only these.
    Keep(Vec<String>),
    /// All but these.
    Drop(Vec<String>),
}

/// Whether the order of query parameters counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueryOrder {
    /// As received.
    #[default]
    Received,
    /// Sorted by name, parameters of one name in the order received. The origin gets them sorted as well.
    Sorted,
}

/// How missing ranges are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeRules {
    /// A range is fetched to the end of the chunk in which it ends, in bytes.
    pub chunk_bytes: u64,
    /// Whether the rest of the object is fetched in the background.
    pub fills_whole: bool,
    /// Whether parts are stored that do not say which version they belong to, each by itself.
    pub keeps_unvalidated_parts: bool,
    /// How far ahead of a reader missing bytes are requested.
    pub ahead_bytes: u64,
    /// The most origin requests that one response has under way for its missing bytes.
    pub parallel: usize,
}

/// The defaults.
impl Default for RangeRules {
    fn default() -> RangeRules {
        RangeRules {
            chunk_bytes: 1 << 20,
            fills_whole: false,
            keeps_unvalidated_parts: false,
            ahead_bytes: 8 << 20,
            parallel: 4,
        }
    }
}
