//! The caching choices of a route, as plain data that the configuration fills in.

use crate::by_status::{Lifetimes, Windows};
use crate::control::Ignored;
use crate::cookies::CookieRule;
use crate::glob;
use crate::set_cookie::FlagRule;
use crate::value::{Placeholder, Value, What};
use http::{HeaderName, Method};
use std::sync::Arc;
use std::time::Duration;

/// The caching rules of one route. `Default` is Weir's safe default for every choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CacheRules {
    /// The lifetimes if the origin gives none (`ttl`). For other statuses only Last-Modified gives one.
    pub ttl: Lifetimes,
    /// The lifetimes whatever the origin says (`ttl_override`). They never make a response storable that
    /// no-store, private, Set-Cookie, Authorization or the status forbid, and `no-cache` still demands
    /// validation.
    pub ttl_override: Lifetimes,
    /// The lifetime that browsers are told (`browser_ttl`) in place of the origin's max-age and Expires, for
    /// statuses that are [`is_of_content`](crate::is_of_content).
    pub browser_ttl: Option<Duration>,
    /// Windows in which a stale response may be used.
    pub stale: StaleRules,
    /// Directives of the origin that do not count. Nothing is stored in spite of them for a request with
    /// credentials or with cookies that are not in the key, nor where the response sets a cookie.
    pub ignore: Ignored,
    /// Which cookies of a request the cache and the origin see.
    pub cookies: CookieRule,
    /// Names of cookies that are taken out of every response, where `*` stands for any run of characters.
    pub stripped_cookies: Vec<String>,
    /// What becomes of the attributes of cookies that responses set.
    pub cookie_flags: Vec<FlagRule>,
    /// What to do with a response that sets another cookie.
    pub set_cookie: SetCookie,
    /// The cookie by which clients keep a session with an origin. A response that gives it to a client is not
    /// stored.
    pub session_cookie: Option<String>,
    /// The cookies that Weir sets itself, for any upstream. An origin's lines of these names are taken out of
    /// every response.
    pub own_cookies: Arc<[String]>,
    /// When a request bypasses the cache: it is neither answered from it nor stored.
    pub bypass: Triggers,
    /// When a request fetches again and replaces the stored response.
    pub refresh: Triggers,
    /// When a request may be answered from the cache, and the response to it is not stored.
    pub no_store: Triggers,
    /// Fields that select no variant, though `Vary` names them.
    pub vary_ignored: Vec<HeaderName>,
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
    /// What is done with a HEAD that the cache does not answer.
    pub head: HeadRequests,
    /// From which request to a key on its response is kept.
    pub min_uses: MinUses,
    /// What a key is made of.
    pub key: KeyRules,
}

/// A route's windows for stale responses (RFC 5861), counted from the moment the response becomes stale.
/// `None` leaves a window to the origin's directives. What the origin forbids (must-revalidate,
/// proxy-revalidate, no-cache) stays forbidden; of s-maxage alone these windows count (ADR 0095).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaleRules {
    /// stale-while-revalidate in place of the origin's.
    pub while_revalidate: Option<Duration>,
    /// stale-if-error in place of the origin's.
    pub if_error: Option<Duration>,
    /// The window if the origin gives no answer at all. `None`: an hour, or what the origin says by
    /// stale-if-error.
    pub if_unreachable: Option<Duration>,
    /// The windows while the origin answers with one of these statuses, in place of `if_error`.
    pub if_status: Windows,
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

/// For which statuses a lifetime is guessed from Last-Modified (RFC 9111 §4.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heuristics {
    /// 200, 203, 204, 300, 301, 308, 404, 405, 410: the statuses of RFC 9110 §15.1 that one client's odd
    /// request cannot cause for all others.
    #[default]
    Safe,
    /// All statuses of RFC 9110 §15.1, including 501 and 414, which is never stored otherwise.
    Whole,
    /// For none.
    Off,
}

/// Whether a 5xx or a 400 may be stored. Heuristics never make it so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Errors {
    /// A 5xx if the origin itself gives it a lifetime, or the route's lifetimes name it; never a 400, since
    /// one client's odd request causes it.
    #[default]
    Explicit,
    /// Neither.
    NoStore,
    /// Both, if the origin itself gives them a lifetime, or the route's lifetimes name them.
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

/// What is done with a HEAD that the cache does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadRequests {
    /// It goes to the origin as it is, past the cache.
    #[default]
    Pass,
    /// The origin is asked with a GET, whose response is stored as any. The client gets the head.
    Fill,
}

/// From which request to a key on its response is kept. One is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinUses {
    /// In memory, and so at all.
    pub memory: u8,
    /// On a volume as well.
    pub volume: u8,
}

/// From the first on.
impl Default for MinUses {
    fn default() -> MinUses {
        MinUses { memory: 1, volume: 1 }
    }
}

/// Conditions on a request. One that holds is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    /// Cookies.
    pub cookies: Vec<PairTrigger>,
    /// Query parameters. Names and values are compared decoded as well as received.
    pub query: Vec<PairTrigger>,
    /// Methods.
    pub methods: Vec<Method>,
    /// Fields.
    pub headers: Vec<HeaderTrigger>,
    /// Patterns of paths; `*` stops at `/`, `**` does not.
    pub paths: Vec<String>,
    /// Results of maps. [`consult`](crate::consult()) does not look at them: what a map says of a request is
    /// known beside it.
    pub maps: Vec<MapTrigger>,
}

/// A condition on what a map says of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapTrigger {
    /// The map's name.
    pub name: String,
    /// A pattern for its result, in which `*` stands for any run of characters. `None`: any result.
    pub result: Option<String>,
}

impl MapTrigger {
    /// Whether it holds for a result; `None` where the map says nothing.
    pub fn fits(&self, result: Option<&[u8]>) -> bool {
        result.is_some_and(|said| self.result.as_ref().is_none_or(|pattern| glob::fits(pattern, said)))
    }
}

/// A condition on a cookie or a query parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairTrigger {
    /// A pattern for its name, in which `*` stands for any run of characters.
    pub name: String,
    /// A pattern for its value. `None`: any value, or none.
    pub value: Option<String>,
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
    /// Placeholders whose values are part of the key.
    pub values: Vec<Placeholder>,
    /// What these placeholders look at.
    pub sources: KeySources,
    /// What tells the key from those of other routes that may have the same target, where rewriting gives
    /// objects of several routes one.
    pub origin: Option<String>,
}

/// What the placeholders of a key look at in a request, through filters and maps, and what the maps of
/// conditions look at. Where an origin may find it under another spelling, the key says too little.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySources {
    /// Fields.
    pub headers: Vec<HeaderName>,
    /// Cookies.
    pub cookies: Vec<String>,
    /// Query parameters.
    pub parameters: Vec<String>,
}

impl KeySources {
    /// The sources of placeholders, and of the maps of conditions; `of_map` is what a map looks at.
    pub fn of<'a>(
        values: &[Placeholder],
        conditions: &[&str],
        of_map: &dyn Fn(&str) -> Option<&'a Value>,
    ) -> KeySources {
        let mut sources = KeySources::default();
        let mut maps: Vec<&str> = conditions.to_vec();
        for placeholder in values {
            match &placeholder.what {
                What::Map(name) => maps.push(name),
                what => sources.add(what),
            }
        }
        for name in maps {
            let placeholders = of_map(name).into_iter().flat_map(Value::placeholders);
            placeholders.for_each(|placeholder| sources.add(&placeholder.what));
        }
        sources
    }

    fn add(&mut self, what: &What) {
        match what {
            What::Header(name) => self.headers.push(name.clone()),
            What::Cookie(name) => self.cookies.push(name.clone()),
            What::QueryOf(name) => self.parameters.push(name.clone()),
            _ => {}
        }
    }
}

impl KeyRules {
    /// Whether all requests for one object agree in a placeholder.
    pub fn has(&self, placeholder: &Placeholder) -> bool {
        let is_keyed = match &placeholder.what {
            What::Header(name) => self.headers.contains(name),
            What::Cookie(name) => self.cookies.contains(name),
            What::Query | What::Uri | What::QueryOf(_) => !matches!(self.query, QueryRule::Unkeyed(_)),
            what => what.is_of_object(),
        };
        is_keyed || self.values.contains(placeholder)
    }

    /// Whether scheme, host, path and query are the whole key.
    pub fn is_of_url(&self) -> bool {
        !self.has_parts_of_requests() && self.origin.is_none()
    }

    /// Whether fields, cookies or values are in the key, so that it cannot be told from a URL.
    pub fn has_parts_of_requests(&self) -> bool {
        !(self.headers.is_empty() && self.cookies.is_empty() && self.values.is_empty())
    }
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
    /// None, but only these are dropped from the origin's request: it answers by a query that no key has.
    Unkeyed(Vec<String>),
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
