//! What a route inherits from its site, and a site from `[defaults]`: upstream, caching rules, changes to fields, pages.

use super::range::Range;
use super::rate::Rate;
use super::site::{Maintenance, Page};
use crate::value::{
    CookieName, Duration, FieldMatch, FieldName, FilePath, HostRule, NameGlob, PathGlob, TrustedProxy,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a route inherits from its site, and a site from `[defaults]`. The tables `stale`, `range`, `bypass`, `refresh`,
/// `key`, `request_headers`, `response_headers` (with their `set`) and `error_pages` are inherited key by key; everything else is
/// replaced as a whole.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rules {
    /// The upstream that requests go to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The Host that the origin is sent, in place of the upstream's `host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostRule>,
    /// The lifetime of responses for which the origin names none; of errors and redirects a minute at most. Default: none, so
    /// that only those with `Last-Modified` are stored, by `heuristics`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
    /// The lifetime of 200, 203 and 206 whatever the origin says of it. `no-store`, `private` and the like stay as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_override: Option<Duration>,
    /// The lifetime that browsers are told of 200, 203, 206 and 304, in place of the origin's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browser_ttl: Option<Duration>,
    /// For how long responses may be used when they are stale, in place of what the origin says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<Stale>,
    /// How long a request waits for the origin to confirm what is stale; then that goes out where `stale` or the origin
    /// allows it, and the origin's answer is for the next. Default: 2 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revalidation_wait: Option<Duration>,
    /// How ranges of objects are fetched that are not held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
    /// Whether `Cache-Status` names the key: to look into a configuration; it tells clients what tells objects apart.
    /// Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show_key: Option<bool>,
    /// Which requests go past the cache, neither answered from it nor stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bypass: Option<Triggers>,
    /// Which requests are fetched anew, the response stored in place of the old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Triggers>,
    /// Who may purge with requests: `PURGE /path` takes its own URL out of the cache. Default: nobody; they get 405.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purge: Option<Purge>,
    /// How fast the bodies of responses go out, each by itself. Default: as fast as they are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// What tells objects apart beside scheme, host and path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// What happens to responses with `Set-Cookie`. Default: `no_store`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_cookie: Option<SetCookie>,
    /// Whose `Cache-Control` in requests counts. Default: `honour`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_directives: Option<ClientDirectives>,
    /// Whether a body that ends with its connection is stored, though nothing says that it is whole. Default: `no_store`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close_delimited: Option<CloseDelimited>,
    /// For which statuses a lifetime is taken from `ttl`, or without one from `Last-Modified`: a tenth of the time that the
    /// response has not changed, a day at most. Default: `safe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heuristics: Option<Heuristics>,
    /// Whether a 5xx or a 400 is stored. Default: `explicit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<ErrorStorage>,
    /// Whether `Surrogate-Control` takes the place of `Cache-Control`. Default: `honour`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surrogate: Option<Surrogate>,
    /// Changes to the fields of requests on their way to the origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<FieldEdits>,
    /// Changes to the fields of responses on their way to the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<FieldEdits>,
    /// Pages for errors that Weir itself answers with, by status (`"503"`) or for all (`"*"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("propertyNames" = { "format": "weir-page-status" }))]
    pub error_pages: Option<BTreeMap<String, Page>>,
    /// While this is there, all requests are answered 503.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Maintenance>,
}

/// For how long responses may be used when they are stale (RFC 5861), counted from the end of their freshness.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Stale {
    /// Answered at once, while they are fetched anew in the background.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub while_revalidate: Option<Duration>,
    /// Answered when the origin fails: an error (500, 502, 503, 504), or none that can be read, or no answer
    /// at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_error: Option<Duration>,
    /// Answered when the origin gives no answer at all: it cannot be reached, closes the connection, or is
    /// silent until the time for an answer is over. Not what `must-revalidate`, `proxy-revalidate`,
    /// `s-maxage` or `no-cache` forbids. Of this and `if_error` the longer counts. Default: 1 h, or where the
    /// origin says `stale-if-error`, that. `"0s"`: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_unreachable: Option<Duration>,
}

/// Conditions on a request; one that holds is enough.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Triggers {
    /// A cookie of one of these names is sent; `*` is any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookies: Option<Vec<NameGlob>>,
    /// One of these fields is sent: `X-Preview`, or with this value: `X-Mode: debug*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Vec<FieldMatch>>,
    /// The path fits one of these globs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<PathGlob>>,
}

/// Who may purge with requests.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Purge {
    /// Clients by their address: the peer's, or where the peer is one of `trusted_proxies` the one that it speaks for by the
    /// PROXY protocol or `X-Forwarded-For`.
    pub allow: Vec<TrustedProxy>,
}

/// What tells objects apart beside scheme, host and path.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Key {
    /// Which query parameters count. What does not is not sent to the origin either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<Query>,
    /// Fields of the request whose values count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Vec<FieldName>>,
    /// Cookies whose values count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookies: Option<Vec<CookieName>>,
}

/// Which query parameters count: all but those of `drop`, or only those of `keep`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Query {
    /// Only these count; `[]`: none does. `*` is any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<Vec<NameGlob>>,
    /// All but these count; `*` is any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<Vec<NameGlob>>,
    /// Whether they are put in order, for the key and towards the origin.
    pub sort: bool,
}

/// What happens to responses with `Set-Cookie`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SetCookie {
    /// They are not stored.
    NoStore,
    /// They are stored without it, and no client gets it.
    Strip,
    /// They are stored with it: every client gets the same cookie.
    Store,
}

/// Whose `Cache-Control` in requests counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientDirectives {
    /// Everybody's.
    Honour,
    /// That of `trusted_proxies`.
    Trusted,
    /// Nobody's.
    Ignore,
}

/// Whether a body that ends with its connection is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloseDelimited {
    /// It is not.
    NoStore,
    /// It is.
    Store,
}

/// For which statuses a lifetime is taken from `Last-Modified` or `ttl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Heuristics {
    /// 200, 203, 204, 300, 301, 308, 404, 405 and 410.
    Safe,
    /// All of RFC 9110 §15.1: 414 and 501 too, which one client's odd request can bring about for all.
    Whole,
    /// None from `Last-Modified`; `ttl` as with `safe`.
    Off,
}

/// Whether a 5xx or a 400 is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorStorage {
    /// A 5xx when the origin itself gives it a lifetime, a 400 never.
    Explicit,
    /// Neither.
    NoStore,
    /// Both when the origin itself gives them a lifetime. One client's odd request that brings a 400 about denies the URL to
    /// everybody then.
    #[serde(rename = "store_400")]
    Store400,
}

/// Whether `Surrogate-Control` takes the place of `Cache-Control`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Surrogate {
    /// It does, where there is no `CDN-Cache-Control`.
    Honour,
    /// It is a field like any other.
    Ignore,
}

/// Changes to fields: first those of `remove` are removed, then those of `set` are set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FieldEdits {
    /// Fields that are set, in place of any of that name, also where that is spelled with `_` for `-`. An inherited one is undone by naming it in `remove`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = { "format": "weir-field-name" }))]
    pub set: BTreeMap<String, Text>,
    /// Fields that are removed, also where their names are spelled with `_` for `-`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove: Option<Vec<FieldName>>,
}

/// The value of a field: a text, or for secrets a file that holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Text {
    /// The text itself.
    Inline(#[schemars(extend("format" = "weir-field-value"))] String),
    /// A file whose content it is, without the line break at its end.
    File(FromFile),
}

/// What stands in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromFile {
    /// The file, read when the configuration is loaded.
    pub file: FilePath,
}
