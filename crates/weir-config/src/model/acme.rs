//! `[acme]`: certificates that Weir orders itself.

use crate::value::{DirectoryUrl, FilePath};
use serde::Deserialize;

/// Orders certificates by ACME (RFC 8555) for the hosts of sites that no `[[certificate]]` covers, and renews
/// them. Who writes this table agrees to the terms of service of the certificate authority that it names.
/// Weir orders for hosts that stand in `hosts` of a site, never for wildcards, and never for a name because a
/// client asked for it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Acme {
    /// The directory of the certificate authority. Default: that of Let's Encrypt.
    pub directory: DirectoryUrl,
    /// Addresses for messages of the authority: `admin@example.com`, or a URL.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contact: Vec<String>,
    /// The certificates (PEM) that the authority's own TLS is verified by, in place of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<FilePath>,
    /// The profile of the certificates, as the authority names it: Let's Encrypt has `classic`, `tlsserver`
    /// and `shortlived`. Default: the authority's own choice; `shortlived` for addresses by Let's Encrypt,
    /// which issues for them in no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Binds the account to one that the authority knows already, where it asks for that (RFC 8555 §7.3.4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eab: Option<ExternalAccount>,
    /// How Weir proves that a host is its own: `http-01` on port 80 by any listener without TLS,
    /// `tls-alpn-01` on port 443 by any listener with it. Default: the one for which there is a listener;
    /// with both `http-01` first, and they take turns after failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub challenge: Option<AcmeChallenge>,
    /// Another certificate authority: asked where the first one refuses again and again, or is down while a
    /// certificate is missing or near its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<AcmeFallback>,
}

impl Default for Acme {
    fn default() -> Acme {
        Acme {
            directory: DirectoryUrl::lets_encrypt(),
            contact: Vec::new(),
            ca_file: None,
            profile: None,
            eab: None,
            challenge: None,
            fallback: None,
        }
    }
}

/// The second certificate authority.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AcmeFallback {
    /// Its directory.
    pub directory: DirectoryUrl,
    /// As in `[acme]`. Default: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<Vec<String>>,
    /// As in `[acme]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<FilePath>,
    /// As in `[acme]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// As in `[acme]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eab: Option<ExternalAccount>,
}

/// An account that the certificate authority knows already.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExternalAccount {
    /// The name of the key.
    pub key_id: String,
    /// The key, base64url as the authority prints it. `${NAME}` takes it from the environment.
    pub hmac_key: String,
}

impl std::fmt::Debug for ExternalAccount {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// How Weir proves that a host is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
pub enum AcmeChallenge {
    /// By a response on port 80 (RFC 8555 §8.3).
    #[serde(rename = "http-01")]
    Http01,
    /// By a certificate in a handshake on port 443 (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}
