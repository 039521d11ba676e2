//! Cookies by name: which of a request's are left, and which of a response's are taken out.

use crate::value::NameGlob;
use serde::Deserialize;

/// Which cookies of a request are left: all but those of `drop`, or only those of `keep`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Cookies {
    /// Only these are left; with `[]` none is. `*` is any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<Vec<NameGlob>>,
    /// All but these are left. `*` is any text; case does not matter, and `.` is `_`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<Vec<NameGlob>>,
}

/// What happens to responses with `Set-Cookie`: one word, or the cookies that are taken out.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum SetCookieRule {
    /// The same for all cookies.
    All(SetCookie),
    /// By the cookie's name.
    ByName(NamedCookies),
}

/// What happens to responses with `Set-Cookie`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SetCookie {
    /// They are not stored.
    NoStore,
    /// They are stored without it; no client gets it.
    Strip,
    /// They are stored with it: every client gets the same cookie.
    Store,
}

/// Cookies of responses, by name.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct NamedCookies {
    /// These are taken out of every response, stored or not; no client gets them. A response that sets
    /// another one is not stored. `*` is any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strip: Option<Vec<NameGlob>>,
    /// Attributes that cookies get or lose on their way to clients: the first rule that has the cookie's
    /// name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub flags: Option<Vec<CookieFlags>>,
}

/// Attributes of some cookies. At least one of `add` and `remove` is given.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CookieFlags {
    /// Their names; `*` is any text.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub cookies: Vec<NameGlob>,
    /// Attributes that they have then, in place of others of that name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<AddedFlag>,
    /// Attributes that they no longer have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<RemovedFlag>,
}

/// An attribute that a cookie gets (RFC 6265 §4.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
pub enum AddedFlag {
    /// Browsers send the cookie over TLS alone.
    #[serde(rename = "secure")]
    Secure,
    /// Scripts cannot read the cookie.
    #[serde(rename = "httponly")]
    HttpOnly,
    /// Requests that begin on another site do not have the cookie.
    #[serde(rename = "samesite=strict")]
    SameSiteStrict,
    /// Of requests that begin on another site, links alone have the cookie.
    #[serde(rename = "samesite=lax")]
    SameSiteLax,
    /// All requests have the cookie. Browsers want `secure` beside it.
    #[serde(rename = "samesite=none")]
    SameSiteNone,
    /// Each site that embeds this one has cookies of its own.
    #[serde(rename = "partitioned")]
    Partitioned,
}

/// An attribute that a cookie loses, whatever its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
pub enum RemovedFlag {
    /// `Secure`.
    #[serde(rename = "secure")]
    Secure,
    /// `HttpOnly`.
    #[serde(rename = "httponly")]
    HttpOnly,
    /// `SameSite`.
    #[serde(rename = "samesite")]
    SameSite,
    /// `Partitioned`.
    #[serde(rename = "partitioned")]
    Partitioned,
}
