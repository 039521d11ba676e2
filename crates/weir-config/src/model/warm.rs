//! `[[warm]]`: what Weir asks for by itself.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::value::{Duration, PathText};
use serde::Deserialize;
use serde_json::Value as Json;

/// URLs that Weir asks for by itself once it has started, so that it holds them before clients want them:
/// those of `urls`, `list`, `sitemaps` and `folder`. Entries are gone through one after another. A reload
/// begins those that are new. `weir warm` does the same at any time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Warm {
    /// URLs, as clients ask for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
    /// A file with a URL a line. Weir reads it each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<PathText>,
    /// URLs of sitemaps or of indexes of sitemaps, of the sites of this Weir.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sitemaps: Vec<String>,
    /// A folder whose files are put in as if the origin had answered with them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathText>,
    /// The URL of `folder`.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Fields of each request, such as `Accept-Encoding`, to warm that variant.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// URLs a second at most. Default: as fast as clients leave room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<NonZeroU32>,
    /// URLs at a time at most, 1 to 64.
    pub parallel: u16,
    /// Whether what is fresh is fetched as well.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refresh: bool,
    /// The time after which it begins again. Default: only once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
}

impl Warm {
    /// Fields that a warming does not send, in lower case: the connection's, those of parts and conditions,
    /// those that make a response one client's, and those that name a client.
    pub const NOT_SENT: [&str; 28] = [
        "authorization",
        "connection",
        "content-length",
        "cookie",
        "cookie2",
        "expect",
        "forwarded",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "range",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-proto",
        "x-real-ip",
        "x-request-id",
    ];
}

impl Warm {
    /// The entry as one line of JSON: what tells it from others, also across restarts.
    pub fn line(&self) -> String {
        let texts = |texts: &[String]| Json::from(texts);
        let path = |path: &Option<PathText>| path.as_ref().map(|path| Json::from(path.to_string()));
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), Json::from(value.as_str())));
        let entries = [
            ("urls", (!self.urls.is_empty()).then(|| texts(&self.urls))),
            ("list", path(&self.list)),
            ("sitemaps", (!self.sitemaps.is_empty()).then(|| texts(&self.sitemaps))),
            ("folder", path(&self.folder)),
            ("as", self.url.as_deref().map(Json::from)),
            ("headers", (!self.headers.is_empty()).then(|| headers.collect())),
            ("rate", self.rate.map(|rate| Json::from(rate.get()))),
            ("parallel", Some(Json::from(self.parallel))),
            ("refresh", self.refresh.then_some(Json::Bool(true))),
            ("every", self.every.map(|every| Json::from(every.to_string()))),
        ];
        let entries = entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        entries.collect::<Json>().to_string()
    }
}

impl Default for Warm {
    fn default() -> Warm {
        Warm {
            urls: Vec::new(),
            list: None,
            sitemaps: Vec::new(),
            folder: None,
            url: None,
            headers: BTreeMap::new(),
            rate: None,
            parallel: 4,
            refresh: false,
            every: None,
        }
    }
}

#[cfg(test)]
mod tests;
