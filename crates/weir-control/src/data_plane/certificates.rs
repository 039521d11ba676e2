//! The certificates for clients, as they are shown.

use serde::{Deserialize, Serialize};

/// The certificates for clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CertificatesUse {
    /// All of them, those included that cannot be used.
    pub all: Vec<CertificateUse>,
    /// How often files could not be used, since the start.
    pub failures: u64,
    /// Orders that have ended since the start; absent without `[acme]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orders: Option<OrdersEnded>,
}

/// How many orders of certificates have ended, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OrdersEnded {
    /// With a certificate.
    pub issued: u64,
    /// Without one.
    pub failed: u64,
}

/// A certificate, or a pair of files that is to be one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CertificateUse {
    /// Its names and addresses; empty where nothing could be read yet.
    pub names: Vec<String>,
    /// The file of its chain, `acme`, or `self`.
    pub source: String,
    /// The kind of its key: `ecdsa`, `rsa` or `ed25519`.
    pub key: String,
    /// `valid`, `near-end` or `expired`; `failed` where there is none to use, `ordered` where it is to come.
    pub state: String,
    /// Until when it is valid, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// For how long, in seconds; 0 once it has expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<u64>,
    /// Whether clients get it that ask for no name, or for one without a certificate.
    pub default: bool,
    /// What comes next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Why its files cannot be used as they are, or the last order failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
