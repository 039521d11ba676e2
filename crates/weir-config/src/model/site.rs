//! `[[site]]` and `[[site.route]]`: which requests they are for, and answers that need no origin.

use super::rules::{FieldText, FromFile, Rules};
use super::tls::{ClientCertificate, Hsts, Https, SiteCertificate};
use crate::value::{
    Duration, FilePath, HostPattern, MethodName, PathGlob, PathPrefix, PathRegex, RouteHost, Size, Target,
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A site, chosen by the host of a request: an exact name before a wildcard, a longer wildcard before a
/// shorter one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct Site {
    /// The hosts it answers for: names, `*.example.com` for all names below, `*` for every other host.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub hosts: Vec<HostPattern>,
    /// Whose site it is, for people and for accounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<String>,
    /// What the site is, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The most bytes that the volumes hold of the site. Beyond it the site's own oldest content goes, never
    /// another site's. `0`: no volume stores it. Memory does not count. Default: as much as there is room
    /// for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Size>,
    /// Where its certificate comes from, if not from `[[certificate]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<SiteCertificate>,
    /// What is done with requests that come without TLS. Default: they are answered like others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<Https>,
    /// For how long browsers ask for the site with TLS alone (`Strict-Transport-Security`, RFC 6797). Weir
    /// sends it in responses over TLS and never stores it. Default: not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hsts: Option<Hsts>,
    /// Asks clients for a certificate. Default: they are not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<ClientCertificate>,
    /// What its routes inherit, and the rules for requests that match no route.
    #[serde(rename = "*")]
    #[cfg_attr(test, schemars(flatten))]
    pub rules: Rules,
    /// Its routes. The first that matches a request is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route: Vec<Route>,
}

/// A route of a site. All of its conditions must hold. At most one of `path`, `prefix` and `regex` is given.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default)]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct Route {
    /// The path matches this glob: `*` is any text up to the next `/`, `**` any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathGlob>,
    /// The path begins with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<PathPrefix>,
    /// This regular expression is found in the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<PathRegex>,
    /// The method is this one or one of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Methods>,
    /// The scheme that the client used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<SchemeName>,
    /// The request's host is one of these: names, globs in which `*` is any text, or expressions behind `~`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub hosts: Option<Vec<RouteHost>>,
    /// The port of the listener that took the connection is this one or one of these, whatever the client or
    /// a proxy in front says. It is then a part of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<Ports>,
    /// What differs from the site's rules.
    #[serde(rename = "*")]
    #[cfg_attr(test, schemars(flatten))]
    pub rules: Rules,
    /// An answer that needs no origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// A redirect to another place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Redirect>,
}

/// One port or several.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum Ports {
    /// One.
    One(#[cfg_attr(test, schemars(range(min = 1, max = 65535)))] u16),
    /// Several.
    Several(#[cfg_attr(test, schemars(inner(range(min = 1, max = 65535))))] Vec<u16>),
}

impl Ports {
    /// All of them.
    pub fn all(&self) -> &[u16] {
        match self {
            Ports::One(port) => std::slice::from_ref(port),
            Ports::Several(ports) => ports,
        }
    }
}

/// One method or several.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum Methods {
    /// One.
    One(MethodName),
    /// Several.
    Several(Vec<MethodName>),
}

impl Methods {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &MethodName> {
        match self {
            Methods::One(method) => std::slice::from_ref(method),
            Methods::Several(methods) => methods,
        }
        .iter()
    }
}

/// The scheme that a client used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SchemeName {
    /// Without TLS.
    Http,
    /// With TLS, here or at a trusted proxy.
    Https,
}

/// A status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(transparent)]
pub struct Status(#[cfg_attr(test, schemars(range(min = 200, max = 599)))] pub u16);

/// An answer that needs no origin.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Its status.
    #[serde(default = "status_ok")]
    pub status: Status,
    /// Its fields, with [placeholders](#placeholders) where they are wanted. Where `Content-Type` is missing,
    /// Weir guesses it from the ending of `body_file`, else it is `text/plain`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schemars(extend("propertyNames" = { "format": "weir-field-name" })))]
    pub headers: BTreeMap<String, FieldText>,
    /// Its body, as it is written: nothing is replaced in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(extend("format" = "weir-body")))]
    pub body: Option<String>,
    /// A file that is its body, read when the configuration is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_file: Option<FilePath>,
}

fn status_ok() -> Status {
    Status(200)
}

/// A redirect to another place.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum Redirect {
    /// Its target; the status is 301.
    To(Target),
    /// Its target and status.
    Table(RedirectTable),
}

/// A target and its status.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RedirectTable {
    /// The target.
    pub to: Target,
    /// The status: 301, 302, 303, 307 or 308.
    #[serde(default = "status_moved")]
    #[cfg_attr(test, schemars(range(min = 301, max = 308)))]
    pub status: u16,
}

fn status_moved() -> u16 {
    301
}

impl Redirect {
    /// The target.
    pub fn to(&self) -> &Target {
        match self {
            Redirect::To(to) => to,
            Redirect::Table(table) => &table.to,
        }
    }

    /// The status.
    pub fn status(&self) -> u16 {
        match self {
            Redirect::To(_) => status_moved(),
            Redirect::Table(table) => table.status,
        }
    }
}

/// A page: a text, or a file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum Page {
    /// The text itself, HTML or plain.
    Text(#[cfg_attr(test, schemars(extend("format" = "weir-page")))] String),
    /// A file. Its ending tells its type.
    File(FromFile),
}

/// Answers every request with 503 while something is being repaired.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Maintenance {
    /// Whether it is on.
    pub on: bool,
    /// How long clients are told to wait (`Retry-After`).
    pub retry_after: Duration,
    /// The page that clients get. Default: the error page of 503.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<Page>,
}

impl Default for Maintenance {
    fn default() -> Maintenance {
        Maintenance { on: true, retry_after: Duration::seconds(300), page: None }
    }
}
