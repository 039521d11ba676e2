//! The caching choices of a route, as plain data that the configuration fills in. No decisions here.

use http::HeaderName;
use std::time::Duration;

/// The caching rules of one route. `Default` is Weir's safe default for every choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CacheRules {
    /// The lifetime where the origin names none (`ttl`), of errors and redirects a minute at most. `None`:
    /// then only Last-Modified gives one.
    pub ttl: Option<Duration>,
    /// The lifetime of 200 and 203 whatever the origin names (`ttl_override`). It never makes storable what
    /// no-store, private, Set-Cookie, Authorization or the status forbid, and `no-cache` still asks for
    /// validation.
    pub ttl_override: Option<Duration>,
    /// The lifetime told to browsers (`browser_ttl`) in place of the origin's max-age and Expires, where the
    /// status is [`is_of_content`](crate::is_of_content).
    pub browser_ttl: Option<Duration>,
    /// Windows in which a stale response may be used.
    pub stale: StaleRules,
    /// What to do with a response that sets a cookie.
    pub set_cookie: SetCookie,
    /// When a request goes past the cache: neither answered from it nor stored.
    pub bypass: Triggers,
    /// When a request fetches anew and what comes is stored in place of what is held.
    pub refresh: Triggers,
    /// Whose Cache-Control in requests counts.
    pub client_directives: ClientDirectives,
    /// Whether a body delimited by the end of the connection may be stored.
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

/// Grace windows of a route (RFC 5861), each counted from the moment the response turns stale. `None` leaves
/// it to the origin's directives. What the origin forbids (must-revalidate, proxy-revalidate, s-maxage,
/// no-cache) stays forbidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaleRules {
    /// stale-while-revalidate in place of the origin's.
    pub while_revalidate: Option<Duration>,
    /// stale-if-error in place of the origin's.
    pub if_error: Option<Duration>,
    /// Where the origin gives no answer at all. `None`: an hour, or what the origin says by stale-if-error.
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
    /// Everybody's.
    #[default]
    Honour,
    /// Those of trusted proxies only.
    Trusted,
    /// Nobody's.
    Ignore,
}

/// What to do with a body that ends with the connection: nothing says that it arrived whole.
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
    /// 200, 203, 204, 300, 301, 308, 404, 405, 410: those of RFC 9110 §15.1 that one client's odd request
    /// cannot bring about for all others.
    #[default]
    Safe,
    /// All of RFC 9110 §15.1, with 414, which is never stored otherwise, and 501.
    Whole,
    /// Never from Last-Modified; the route's `ttl` is used as with `Safe`.
    Off,
}

/// Whether a 5xx or a 400 may be stored. By heuristics or a route's `ttl` none ever is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Errors {
    /// A 5xx where the origin itself gives it a lifetime; a 400 never, since one client's odd request brings
    /// it about.
    #[default]
    Explicit,
    /// Neither.
    NoStore,
    /// Both where the origin itself gives them a lifetime.
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

/// Conditions on a request; any one that holds is enough.
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
    /// A pattern for its value (`*` stands for any run of characters); `None`: it is enough that it is there.
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

/// Which query parameters are part of the key; what is not is dropped from the origin's request too. Names
/// are compared as received, without decoding; `*` in a pattern stands for any run of characters.
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
    /// Sorted by name, parameters of one name in the order received; so towards the origin, too.
    Sorted,
}

/// How ranges are fetched that are not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeRules {
    /// A range is fetched to the end of the chunk in which it ends, in bytes.
    pub chunk_bytes: u64,
    /// Whether the rest of the object is fetched in the background.
    pub fills_whole: bool,
    /// Whether parts are kept that do not say which version they are of, each by itself.
    pub keeps_unvalidated_parts: bool,
    /// How far ahead of a reader what is missing is asked for, in bytes.
    pub ahead_bytes: u64,
    /// How many origin requests a response has under way for what it is missing.
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
