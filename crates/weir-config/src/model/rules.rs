//! What a route inherits from its site, and a site from `[defaults]`: upstream, caching rules, changes to
//! fields, pages.

use super::range::Range;
use super::rate::Rate;
use super::site::{Maintenance, Page};
use crate::value::{
    CookieName, Duration, FieldMatch, FieldName, FilePath, HostRule, NameGlob, PathGlob, TrustedProxy,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a route inherits from its site, and a site from `[defaults]`. The tables `stale`, `range`, `bypass`,
/// `refresh`, `key`, `request_headers`, `response_headers` (with their `set`) and `error_pages` are inherited
/// key by key; everything else is replaced as a whole.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rules {
    /// The upstream that requests go to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The `Host` that Weir sends to the origin, in place of the upstream's `host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostRule>,
    /// The lifetime of responses for which the origin names none; at most a minute for errors and redirects.
    /// Default: none, so that only responses with `Last-Modified` are stored, by `heuristics`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
    /// The lifetime of 200, 203 and 206, whatever lifetime the origin names. `no-store`, `private` and the
    /// like still hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_override: Option<Duration>,
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
    /// Which requests go past the cache: Weir neither answers them from it nor stores their responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bypass: Option<Triggers>,
    /// Which requests Weir fetches again; the new response replaces the stored one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Triggers>,
    /// Who may purge with requests: `PURGE`, `BAN`, `PURGEKEYS` and `URIBAN`, as applications send them to
    /// Varnish. What is more than one URL needs the rules of the site itself, or `[defaults]`. Default:
    /// nobody; these methods are answered 405, unless a route's `method` names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purge: Option<Purge>,
    /// How fast the body of each response goes out. Default: as fast as the client takes it.
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
    /// Whether Weir stores a body that ends with its connection, although nothing says that it is whole.
    /// Default: `no_store`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close_delimited: Option<CloseDelimited>,
    /// For which statuses Weir takes a lifetime from `ttl`, or else from `Last-Modified`: a tenth of the time
    /// since the response last changed, a day at most. Default: `safe`.
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
    /// Pages for the errors that Weir itself answers with, by status (`"503"`) or for all (`"*"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("propertyNames" = { "format": "weir-page-status" }))]
    pub error_pages: Option<BTreeMap<String, Page>>,
    /// While this table is there, every request is answered 503.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Maintenance>,
}

/// How long Weir may use stale responses (RFC 5861), counted from the end of their freshness.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
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
    /// `proxy-revalidate`, `s-maxage` and `no-cache` forbid it. Of this and `if_error` the longer counts.
    /// Default: 1 h, or the origin's `stale-if-error`. `"0s"`: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_unreachable: Option<Duration>,
}

/// Conditions on a request. One that holds is enough.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Triggers {
    /// The request has a cookie of one of these names; `*` is any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookies: Option<Vec<NameGlob>>,
    /// The request has one of these fields: `X-Preview`, or with a value: `X-Mode: debug*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Vec<FieldMatch>>,
    /// The path matches one of these globs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<PathGlob>>,
}

/// Who may purge with requests.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Key {
    /// Which query parameters count. Weir does not send the others to the origin either.
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
    /// Only these count; with `[]` none does. `*` is any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<Vec<NameGlob>>,
    /// All but these count. `*` is any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<Vec<NameGlob>>,
    /// Whether Weir sorts the parameters, for the key and towards the origin.
    pub sort: bool,
}

/// What happens to responses with `Set-Cookie`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SetCookie {
    /// They are not stored.
    NoStore,
    /// They are stored without it; no client gets it.
    Strip,
    /// They are stored with it: every client gets the same cookie.
    Store,
}

/// Whose `Cache-Control` in requests counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloseDelimited {
    /// It is not.
    NoStore,
    /// It is.
    Store,
}

/// For which statuses Weir takes a lifetime from `Last-Modified` or `ttl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Heuristics {
    /// 200, 203, 204, 300, 301, 308, 404, 405 and 410.
    Safe,
    /// All of RFC 9110 §15.1: also 414 and 501, which one client's odd request can cause for everybody.
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
    /// Both, when the origin itself gives them a lifetime. One client's odd request that causes a 400 then
    /// denies the URL to everybody.
    #[serde(rename = "store_400")]
    Store400,
}

/// Whether `Surrogate-Control` takes the place of `Cache-Control`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Surrogate {
    /// It does, unless there is a `CDN-Cache-Control`.
    Honour,
    /// It is a field like any other.
    Ignore,
}

/// Changes to fields: Weir first removes those of `remove`, then sets those of `set`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FieldEdits {
    /// Fields to set. They replace fields of that name, also where it is spelled with `_` for `-`. Naming an
    /// inherited one in `remove` undoes it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = { "format": "weir-field-name" }))]
    pub set: BTreeMap<String, Text>,
    /// Fields to remove, also where their names are spelled with `_` for `-`.
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

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromFile {
    /// The file, read when the configuration is loaded.
    pub file: FilePath,
}
