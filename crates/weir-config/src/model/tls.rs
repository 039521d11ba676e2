//! TLS towards clients: `[[certificate]]`, and what a listener and a site say of it.

use crate::value::{Duration, FileGlob, FilePath};
use serde::Deserialize;

/// A certificate with its key, or several by globs. Weir chooses one by the names in it: an exact name before
/// a wildcard, ECDSA before RSA where the client can. It looks at the files twice a minute, and takes up a
/// changed pair whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The PEM file of the certificate and of those that lead to its authority, its own first. `*` stands for
    /// any text within one name: each file that matches is a certificate.
    pub chain: FileGlob,
    /// The PEM file of its key, not encrypted. The first `*` stands for what the first `*` of `chain`
    /// matched, the second for the second. Default: the key is in the file `chain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<FileGlob>,
    /// Whether clients get it that send no name, or one that no certificate has. Without such a certificate
    /// their handshake ends with `unrecognized_name`. At most one is the default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
}

/// A protocol that clients may speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
pub enum Protocol {
    /// HTTP/2.
    #[serde(rename = "h2")]
    H2,
    /// HTTP/1.1 and HTTP/1.0.
    #[serde(rename = "http/1.1")]
    Http1,
}

/// Where the certificate of a site comes from, if not from files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SiteCertificate {
    /// Weir signs one itself at each start. No client trusts it: it is for development.
    #[serde(rename = "self")]
    SelfSigned,
}

/// What is done with requests that come without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Https {
    /// They are sent to `https://` with 308, except those of `[health]` and those that prove a host to a
    /// certificate authority.
    Redirect,
}

/// For how long browsers ask for a site with TLS alone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum Hsts {
    /// For this long.
    For(Duration),
    /// For a time, with what else browsers shall do.
    Table(HstsTable),
}

/// What `Strict-Transport-Security` says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HstsTable {
    /// For how long.
    pub max_age: Duration,
    /// Whether it holds for all names below the host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub subdomains: bool,
    /// Whether browsers may ship it in their lists.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preload: bool,
}

impl Hsts {
    /// The value of `Strict-Transport-Security` (RFC 6797 §6.1).
    pub fn field_value(&self) -> String {
        let (max_age, subdomains, preload) = match self {
            Hsts::For(max_age) => (max_age, false, false),
            Hsts::Table(table) => (&table.max_age, table.subdomains, table.preload),
        };
        let mut value = format!("max-age={}", max_age.0.as_secs());
        if subdomains {
            value.push_str("; includeSubDomains");
        }
        if preload {
            value.push_str("; preload");
        }
        value
    }
}

/// Asks the clients of a site for a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClientCertificate {
    /// The PEM file of the authorities that sign them.
    pub ca: FilePath,
    /// Whether a client may be without one.
    #[serde(default)]
    pub mode: ClientCertificateMode,
}

/// Whether a client may be without a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClientCertificateMode {
    /// No: its handshake fails.
    #[default]
    Required,
    /// Yes. One that it shows must be signed by the authorities.
    Optional,
}
