//! `[upstream.NAME.affinity]`: whether sessions keep their origin, and how Weir tells them apart.

use crate::value::{CookieName, Duration, FilePath, ParameterName, SessionOf};
use serde::Deserialize;

/// Sessions that keep their origin. It decides where a passed request goes. Fills follow no session, and a
/// stored response is served to sessions like to all. Where the origin is gone, the session moves to another.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Affinity {
    /// How Weir tells which origin a session has.
    pub by: AffinityBy,
    /// With `own`: a file with one key on each line, at least 32 characters of chance. The first line seals
    /// cookies, all lines open them. All Weirs of a site have the same file. Users other than owner and group
    /// must have no access to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<FilePath>,
    /// The cookie: with `own` Weir's, by default `weir-origin-` and eight digits made of the upstream's name.
    /// No origin may set a cookie of that name. With `suffix` the origins'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<CookieName>,
    /// With `suffix`: the parameter of the path that has the session id where there is no cookie, as in
    /// `/shop;jsessionid=0A4F.node1`. Default: the cookie's name in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<ParameterName>,
    /// With `hash`: the cookie or field whose value chooses the origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<SessionOf>,
    /// Whether each request with a session bypasses the cache: for sites whose pages depend on it.
    #[serde(default)]
    pub bypass: bool,
    /// Whether browsers send Weir's cookie over TLS alone. Default: where it was set over TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure: Option<bool>,
    /// Whether scripts are kept from Weir's cookie.
    #[serde(default = "yes")]
    pub http_only: bool,
    /// Whether requests that begin on another site have Weir's cookie.
    #[serde(default)]
    pub same_site: SameSite,
    /// How long a session lasts after its last renewal: Weir renews its cookie once half of the time is over.
    /// Default: until the browser is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Duration>,
    /// The paths for which browsers send Weir's cookie.
    #[serde(default = "root")]
    #[cfg_attr(test, schemars(extend("format" = "weir-cookie-path")))]
    pub path: String,
    /// The host with all names below it to which browsers send Weir's cookie. Default: the one host that set
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(extend("format" = "weir-sni")))]
    pub domain: Option<String>,
}

fn yes() -> bool {
    true
}
fn root() -> String {
    "/".to_owned()
}

/// How Weir tells which origin a session has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AffinityBy {
    /// By a sealed cookie that Weir sets in passed responses. No origin sees it. It needs `key_file`.
    Own,
    /// By what follows the last dot of the session id that origins set: an origin's `id`.
    Suffix,
    /// By the value of a cookie or field. Weir cannot tell new sessions from old ones then.
    Hash,
}

/// Whether requests that begin on another site have a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SameSite {
    /// Only links have it.
    #[default]
    Lax,
    /// None has it.
    Strict,
    /// All have it. Browsers then want `secure`.
    None,
}

impl Affinity {
    /// The cookie by which clients keep a session: Weir's own, or one of the origins.
    pub fn session_cookie(&self, upstream: &str) -> Option<String> {
        match &self.of {
            Some(SessionOf::Cookie(name)) if self.by == AffinityBy::Hash => Some(name.0.clone()),
            _ => self.cookie_name(upstream),
        }
    }

    /// The name of the cookie: Weir's own, or the origins'.
    pub fn cookie_name(&self, upstream: &str) -> Option<String> {
        match (self.by, &self.cookie) {
            (AffinityBy::Hash, _) => None,
            (_, Some(name)) => Some(name.0.clone()),
            (AffinityBy::Own, None) => {
                Some(format!("weir-origin-{:08x}", weir_policy::site_hash(upstream) as u32))
            }
            (AffinityBy::Suffix, None) => None,
        }
    }
}
