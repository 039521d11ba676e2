//! What a route inherits from its site, and a site from `[defaults]`: upstream, caching rules, changes to
//! fields, pages.

use super::cookies::{Cookies, SetCookieRule};
use super::files::FilesRules;
use super::limits::RouteLimits;
use super::pick::PickRule;
use super::range::Range;
use super::rate::RateRule;
use super::rewrite::{Back, KeyPath, Rewrite};
use super::site::{Maintenance, Page};
use crate::value::{
    CookieName, Duration, Fallback, FieldMatch, FieldName, FilePath, HostRule, KeyValue, MapMatch,
    MethodName, NameGlob, PairMatch, PathGlob, PathText, TrustedProxy, UpstreamRule,
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a route inherits from its site, and a site from `[defaults]`. The tables `files`, `stale`, `range`,
/// `bypass`, `refresh`, `no_store`, `limits`, `key`, `request_headers`, `response_headers` (with their `set`)
/// and `error_pages` are inherited key by key; everything else is replaced as a whole.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default)]
pub struct Rules {
    /// The upstream that requests go to. A map may say which: its result is then a part of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<UpstreamRule>,
    /// The folder of the files that are served here: the whole path of a request, as `rewrite` leaves it, is
    /// looked for below it. Weir answers 404 for what is not there, and asks no upstream. A route or site
    /// that names its own `upstream`, `answer` or `redirect` does not inherit it. Default: no files are
    /// served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<PathText>,
    /// What answers for what is not below `root`: `"upstream"`, which then gets other methods than GET and
    /// HEAD as well, or one of its files, by its path: `"/index.html"`. Default: 404.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// What is served below `root`, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesRules>,
    /// Which of the upstream's origins gets a request, in place of the upstream's `pick`. Example:
    /// `pick = { hash = { of = "cookie:sid" } }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pick: Option<PickRule>,
    /// The `Host` that Weir sends to the origin, in place of the upstream's `host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostRule>,
    /// The lifetime of responses for which the origin names none. A time alone is for 200, 203, 206, 301 and
    /// 308. A table has times by status: a status beats a class (`5xx`), and a class beats `any`. Classes and
    /// `any` leave out what one client's request alone may cause: 400, 401, 403, 405, 406, 407, 414, 430, 494
    /// to 499, 501, 505, 506 and 510. Default: none, so that only responses with `Last-Modified` are stored,
    /// by `heuristics`. Example:
    /// `ttl = { "200,301" = "1d", "404" = "1m", "5xx" = "5s", "any" = "10s" }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Lifetime>,
    /// The lifetime whatever the origin names, in the forms of `ttl` and for the same statuses. `no-store`,
    /// `private` and the like still hold. Example: `ttl_override = { "200" = "1h", "404" = "1m" }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_override: Option<Lifetime>,
    /// The lifetime that browsers are told for 200, 203, 206 and 304, in place of the origin's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browser_ttl: Option<Duration>,
    /// How long Weir may use stale responses, in place of what the origin says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<Stale>,
    /// How long a request waits for the origin to confirm a stale response. Then the stale response goes out
    /// where `stale` or the origin allows it, and the origin's answer serves the next request. Default: 2 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revalidation_wait: Option<Duration>,
    /// How Weir fetches ranges that it does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
    /// Whether `Cache-Status` names the key, to debug a configuration. It shows clients what tells objects
    /// apart. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show_key: Option<bool>,
    /// Whether all clients get the fields of tags `X-Magento-Tags`, `X-Cache-Tags`, `Cache-Tags`,
    /// `Purge-Cache-Tags` and `xkey`. They have kilobytes, and only caches read them. Default: false; only
    /// `trusted_proxies` get them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show_tags: Option<bool>,
    /// What the origin says in `Cache-Control` (or in a field that counts before it) that does not count
    /// here: `no-store`, `private`, `no-cache`, and `must-revalidate`, which stands for `proxy-revalidate`
    /// and for what `s-maxage` says about stale responses. A table has lists by status, in the form of
    /// `ttl`. Even so Weir stores no response to a request with `Authorization`, none to a request with a
    /// cookie that is not in the key, and none that sets a cookie. Clients and the caches behind Weir still
    /// read what the origin says. `[]` undoes what the site ignores. Default: all counts. Example:
    /// `ignore = { "404" = ["no-store", "private", "no-cache"] }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore: Option<Ignore>,
    /// Which requests go past the cache: Weir neither answers them from it nor stores their responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bypass: Option<Triggers>,
    /// Which requests Weir fetches again; the new response replaces the stored one. A client that can
    /// send such a request can have the origin asked each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Triggers>,
    /// Which requests Weir answers from the cache, but never stores a response for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_store: Option<Triggers>,
    /// What Weir makes of `Vary`. Default: a variant for each value of each field that it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vary: Option<Vary>,
    /// The only clients that get an answer here; others get 403. A client is known by its address: that of
    /// the connection, or the one that a trusted proxy names. One that is not known gets 403. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<TrustedProxy>>,
    /// Clients that get 403, also where `allow` has them. A client that is not known gets 403 as well.
    /// Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<TrustedProxy>>,
    /// What a request may have here, where that differs from `[limits]`. What Weir answers by itself takes
    /// any body. Example: `limits = { body = "2GiB", body_rate = "64KiB", fields = 50 }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<RouteLimits>,
    /// Who may purge with requests: `PURGE`, `BAN`, `PURGEKEYS` and `URIBAN`, as applications send them to
    /// Varnish. What is more than one URL needs the rules of the site itself, or `[defaults]`. Default:
    /// nobody; these methods are answered 405, unless a route's `method` names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purge: Option<Purge>,
    /// How fast the body of each response goes out: a limit alone, as `rate = "500kB/s"`, or a table.
    /// Default: as fast as the client takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateRule>,
    /// Other paths for the origin: the first rule that fits the client's path. What the origin says of its
    /// own paths is mapped back, as far as the rule can be read backwards (`back`). A path with dot segments
    /// is answered 400 where a rule fits it. Default: the origin is asked for what the client asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<Vec<Rewrite>>,
    /// How what the origin says of its own paths and names is mapped back to those of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<Back>,
    /// What tells objects apart beside scheme, host and path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// Which cookies of a request are left. The others are taken out before `key`, `bypass`, `Vary: Cookie`
    /// and the origin see the request. What is left becomes one field, sorted by name. A cookie that some
    /// origins would read as one that is taken out is taken out as well. Default: all, as they came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookies: Option<Cookies>,
    /// What happens to responses with `Set-Cookie`. `no_store`: they are not stored. `strip`: they are stored
    /// without it, and no client gets it. `store`: they are stored with it, and every client gets the same
    /// cookie. Or cookies by name: `{ strip = ["_ga*"] }`, and attributes that they get or lose:
    /// `{ flags = [{ cookies = ["session*"], add = ["secure", "httponly", "samesite=lax"] }] }`. Default:
    /// `no_store`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_cookie: Option<SetCookieRule>,
    /// Whose `Cache-Control` in requests counts. Default: `honour`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_directives: Option<ClientDirectives>,
    /// Whether Weir stores a body that ends with its connection, although nothing says that it is whole.
    /// Default: `no_store`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close_delimited: Option<CloseDelimited>,
    /// For which statuses Weir takes a lifetime from `Last-Modified` where neither the origin nor `ttl` gives
    /// one: a tenth of the time since the response last changed, a day at most. Default: `safe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heuristics: Option<Heuristics>,
    /// Whether a 5xx or a 400 is stored. Default: `explicit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<ErrorStorage>,
    /// Whether `Surrogate-Control` takes the place of `Cache-Control`. Default: `honour`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surrogate: Option<Surrogate>,
    /// From which request to a URL on Weir stores its response: 1 is the first. A number is for memory, and
    /// so for storing at all. Default: 1. Example: `min_uses = { memory = 2, volume = 3 }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_uses: Option<MinUses>,
    /// What happens to a HEAD that the cache does not answer. Default: `pass`. Example: `head = "fill"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<HeadRequests>,
    /// Changes to the fields of requests on their way to the origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<FieldEdits>,
    /// Changes to the fields of responses on their way to the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<FieldEdits>,
    /// Pages for the errors that Weir itself answers with, by status (`"503"`) or for all (`"*"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(extend("propertyNames" = { "format": "weir-page-status" })))]
    pub error_pages: Option<BTreeMap<String, Page>>,
    /// While this table is there, every request is answered 503.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Maintenance>,
}

/// A lifetime: one, or one by status.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum Lifetime {
    /// One, for content and for redirects that last.
    Plain(Duration),
    /// By status.
    ByStatus(
        #[cfg_attr(test, schemars(extend("propertyNames" = { "format": "weir-stored-statuses" })))]
        BTreeMap<String, Duration>,
    ),
}

/// What of the origin's `Cache-Control` does not count: for all statuses, or by status.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum Ignore {
    /// For all statuses.
    All(Vec<IgnoredDirective>),
    /// By status.
    ByStatus(
        #[cfg_attr(test, schemars(extend("propertyNames" = { "format": "weir-stored-statuses" })))]
        BTreeMap<String, Vec<IgnoredDirective>>,
    ),
}

/// A directive that does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum IgnoredDirective {
    /// `no-store`.
    NoStore,
    /// `private`, for the whole response.
    Private,
    /// `no-cache`, for the whole response.
    NoCache,
    /// `must-revalidate` and `proxy-revalidate`, and of `s-maxage` that it forbids stale responses.
    MustRevalidate,
}

/// How long Weir may use stale responses (RFC 5861), counted from the end of their freshness.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Stale {
    /// Stale responses go out at once, while Weir fetches them again in the background.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub while_revalidate: Option<Duration>,
    /// Stale responses go out when the origin fails: with an error (500, 502, 503, 504), with an answer that
    /// cannot be read, or with no answer at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_error: Option<Duration>,
    /// Stale responses go out when the origin gives no answer at all: it cannot be reached, closes the
    /// connection, or stays silent until the time for an answer is over. `must-revalidate`,
    /// `proxy-revalidate` and `no-cache` forbid it. Of this and `if_error` the longer counts. Default: 1 h,
    /// or the origin's `stale-if-error`; for a response with `s-maxage` that alone. `"0s"`: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_unreachable: Option<Duration>,
    /// Stale responses go out when the origin answers with one of these statuses, each for so long: a status
    /// beats its class. For 500, 502, 503 and 504 it takes the place of `if_error`. Such an answer does not
    /// replace the stored response meanwhile. Example:
    /// `stale = { if_error = "1d", if_status = { "403,404" = "10m", "429" = "1h" } }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(extend("propertyNames" = { "format": "weir-error-statuses" })))]
    pub if_status: Option<BTreeMap<String, Duration>>,
}

/// Conditions on a request. One that holds is enough.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Triggers {
    /// The request has one of these cookies: `session*`, or with a value: `mode=debug*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookies: Option<Vec<PairMatch>>,
    /// The query has one of these parameters: `preview`, or with a value: `mode=debug*`. They are compared as
    /// received and decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<Vec<PairMatch>>,
    /// The request has one of these fields: `X-Preview`, or with a value: `X-Mode: debug*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Vec<FieldMatch>>,
    /// The path matches one of these globs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<PathGlob>>,
    /// The method is one of these. Only `GET` and `HEAD` ask the cache at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<MethodName>>,
    /// The client's address is in one of these networks, as in `allow`. Where the client is not known,
    /// `bypass` and `no_store` hold, and `refresh` does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<Vec<TrustedProxy>>,
    /// A map gives something: `robot`, or one of these results: `device=phone`. Where the request has what
    /// the map looks at more than once, or the map looks at a client that is not known, `bypass` and
    /// `no_store` hold, and `refresh` does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<Vec<MapMatch>>,
}

/// What Weir makes of `Vary`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Vary {
    /// Fields that select no variant: the response to the first request goes to all. Not `Cookie`,
    /// `Authorization` and `Accept-Encoding`.
    pub ignore: Vec<FieldName>,
}

/// Who may purge with requests.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Purge {
    /// Clients by their address: that of the connection, or, where it comes from one of `trusted_proxies`,
    /// the client that the proxy names by the PROXY protocol or `X-Forwarded-For`. Where a trusted proxy
    /// names no client, it is good for one URL only, unless `local` is true.
    pub allow: Vec<TrustedProxy>,
    /// A field with a secret: a client that sends it may purge from any address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PurgeKey>,
    /// Whether requests from `trusted_proxies` that name no client may purge more than one URL, where `allow`
    /// has the proxy's address. Behind a proxy that does not name its clients, everybody may then. Default:
    /// false.
    pub local: bool,
}

/// A field with a secret, by which a client may purge.
#[derive(Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PurgeKey {
    /// The field. Origins do not get it.
    pub header: FieldName,
    /// Its value: at least 16 characters, or `{ file = "…" }`. `${NAME}` takes it from the environment.
    pub secret: Text,
}

impl std::fmt::Debug for PurgeKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("PurgeKey").field("header", &self.header).finish_non_exhaustive()
    }
}

/// What tells objects apart beside scheme, host and path.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Key {
    /// Which query parameters count. Weir does not send the others to the origin either. `"none"`: none
    /// counts, but the origin gets them all, so that the first client's query decides what all others get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<KeyQuery>,
    /// Fields of the request whose values count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Vec<FieldName>>,
    /// Cookies whose values count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookies: Option<Vec<CookieName>>,
    /// Which path counts, where `rewrite` gives the origin another one. Default: `received`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<KeyPath>,
    /// [Placeholders](#placeholders) whose values count. Of several fields, cookies or parameters of a name
    /// all count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<KeyValue>>,
}

/// Which query parameters count.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum KeyQuery {
    /// In one word.
    Word(QueryWord),
    /// By name.
    ByName(Query),
}

/// A query in the key, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum QueryWord {
    /// None of it counts, and the origin gets all of it.
    None,
}

/// Which query parameters count: all but those of `drop`, or only those of `keep`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Query {
    /// Only these count; with `[]` none does. `*` is any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<Vec<NameGlob>>,
    /// All but these count. `*` is any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<Vec<NameGlob>>,
    /// Whether Weir sorts the parameters, for the key and towards the origin.
    pub sort: bool,
}

/// Whose `Cache-Control` in requests counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClientDirectives {
    /// Every client's.
    Honour,
    /// That of `trusted_proxies`.
    Trusted,
    /// Nobody's.
    Ignore,
}

/// Whether a body that ends with its connection is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CloseDelimited {
    /// It is not.
    NoStore,
    /// It is.
    Store,
}

/// For which statuses Weir takes a lifetime from `Last-Modified`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Heuristics {
    /// 200, 203, 204, 300, 301, 308, 404, 405 and 410.
    Safe,
    /// All of RFC 9110 §15.1: also 414 and 501, which one client's odd request can cause for everybody.
    Whole,
    /// None.
    Off,
}

/// Whether a 5xx or a 400 is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorStorage {
    /// A 5xx when the origin itself gives it a lifetime, or `ttl` names it; a 400 never.
    Explicit,
    /// Neither.
    NoStore,
    /// Both, when the origin itself gives them a lifetime, or `ttl` names them. One client's odd request that
    /// causes a 400 then denies the URL to everybody.
    #[serde(rename = "store_400")]
    Store400,
}

/// Whether `Surrogate-Control` takes the place of `Cache-Control`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Surrogate {
    /// It does, unless there is a `CDN-Cache-Control`.
    Honour,
    /// It is a field like any other.
    Ignore,
}

/// From which request to a URL on its response is stored.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum MinUses {
    /// In memory, and so at all.
    Stored(#[cfg_attr(test, schemars(range(min = 1, max = 16)))] u8),
    /// In memory and on volumes.
    Each(EachMinUses),
}

/// From which request to a URL on its response is stored: requests that Weir remembers, a few for each object
/// that memory or the volumes may hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct EachMinUses {
    /// In memory, and so at all. Requests before go past the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 16)))]
    pub memory: Option<u8>,
    /// On a volume, where `admission` allows it, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 4)))]
    pub volume: Option<u8>,
}

/// What happens to a HEAD that the cache does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HeadRequests {
    /// It goes to the origin as it is, and nothing is stored.
    Pass,
    /// Weir asks the origin with a GET and stores the response as it would for a GET; the client gets the
    /// head alone.
    Fill,
}

/// Changes to fields: Weir first removes those of `remove`, then sets those of `set`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct FieldEdits {
    /// Fields to set, with [placeholders](#placeholders) where they are wanted. They replace fields of that
    /// name, also where it is spelled with `_` for `-`. A field whose value turns out empty is left out.
    /// Naming an inherited one in `remove` undoes it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schemars(extend("propertyNames" = { "format": "weir-field-name" })))]
    pub set: BTreeMap<String, FieldText>,
    /// Fields to remove, also where their names are spelled with `_` for `-`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove: Option<Vec<FieldName>>,
}

/// The value of a field: a text with [placeholders](#placeholders), or for secrets a file that holds it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum FieldText {
    /// The text itself.
    Inline(#[cfg_attr(test, schemars(extend("format" = "weir-value")))] String),
    /// A file whose content it is, without the line break at its end.
    File(FromFile),
}

/// A secret: a text, or a file that holds it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum Text {
    /// The text itself.
    Inline(#[cfg_attr(test, schemars(extend("format" = "weir-field-value")))] String),
    /// A file whose content it is, without the line break at its end.
    File(FromFile),
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FromFile {
    /// The file, read when the configuration is loaded.
    pub file: FilePath,
}
