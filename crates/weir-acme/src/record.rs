//! What is remembered of a host and of a CA across restarts, and its form in files: JSON with a version,
//! drawn in `docs/format/acme.md`. Must not decide anything.

use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use crate::clock::Seconds;
use crate::settings::Challenge;

/// The version of the form.
const VERSION: u64 = 1;

/// What is known of one host, beside its certificate.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Attempts in a row that brought no certificate; one that is under way counts.
    pub failures: u32,
    /// No attempt is made before.
    pub not_before: Seconds,
    /// When orders were begun, oldest first; only those of the last day count.
    pub begun: Vec<Seconds>,
    /// Where between the earliest and the latest moment this host's renewals lie, in thousandths: a number
    /// drawn once for each certificate, so that not all hosts come at once.
    pub spread: u32,
    /// The latest failure.
    pub last_error: Option<Mishap>,
    /// The order under way, or what is left of it.
    pub order: Option<Pending>,
    /// The directory of the CA that issued the certificate.
    pub issued_by: Option<String>,
    /// What the CA says about renewal.
    pub renewal: Renewal,
}

/// Something that failed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Mishap {
    /// When.
    pub at: Seconds,
    /// What, in a sentence.
    pub what: String,
}

/// What ARI says about a certificate (RFC 9773 §4.2), and when it is asked again.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Renewal {
    /// The window in which to renew, once the CA has said one.
    pub window: Option<(Seconds, Seconds)>,
    /// When to ask next.
    pub ask_at: Seconds,
    /// Questions in a row without an answer.
    pub failures: u32,
}

/// An order that has begun.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Pending {
    /// The CA's directory.
    pub directory: String,
    /// The order's URL; none before the CA has answered.
    pub url: Option<String>,
    /// The key of the certificate to come, as PEM.
    pub key: String,
    /// The answer to the CA's question over HTTP, once it is known.
    pub proof: Option<HttpProof>,
    /// The way of proving it took: `http-01` or `tls-alpn-01`.
    pub challenge: Option<String>,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Pending")
            .field("directory", &self.directory)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// What `/.well-known/acme-challenge/TOKEN` answers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HttpProof {
    /// The last segment of the path.
    pub token: String,
    /// The content.
    pub authorization: String,
}

/// What is known of a CA.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AuthorityRecord {
    /// Its directory.
    pub directory: String,
    /// Pauses in a row after which it still did not answer, or refused the account.
    pub outages: u32,
    /// Hosts in a row that it answered with a rate limit.
    pub limited: u32,
    /// It is not asked before.
    pub not_before: Seconds,
    /// When new accounts were asked for, oldest first; only those of the last day count.
    pub registered: Vec<Seconds>,
    /// The latest failure.
    pub last_error: Option<Mishap>,
}

/// A file that cannot be read.
#[derive(Debug, Error)]
pub enum FormError {
    /// It is no JSON, or lacks something.
    #[error("it is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
    /// It comes from a later Weir.
    #[error("it has version {0} of the form, and this Weir knows {VERSION}")]
    Version(u64),
}

#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

fn parse<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, FormError> {
    match serde_json::from_slice::<Versioned>(bytes)?.version {
        VERSION => Ok(serde_json::from_slice(bytes)?),
        other => Err(FormError::Version(other)),
    }
}

fn printed(value: &Value) -> Vec<u8> {
    let mut text = format!("{value:#}");
    text.push('\n');
    text.into_bytes()
}

impl Record {
    pub(crate) fn of_bytes(bytes: &[u8]) -> Result<Record, FormError> {
        parse(bytes)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let order = self.order.as_ref().map(|order| {
            let proof = order.proof.as_ref();
            let proof =
                proof.map(|proof| json!({ "token": proof.token, "authorization": proof.authorization }));
            json!({ "directory": order.directory, "url": order.url, "key": order.key, "proof": proof,
                    "challenge": order.challenge })
        });
        printed(&json!({
            "version": VERSION,
            "failures": self.failures,
            "not_before": self.not_before,
            "begun": self.begun,
            "spread": self.spread,
            "last_error": mishap(self.last_error.as_ref()),
            "order": order,
            "issued_by": self.issued_by,
            "renewal": {
                "window": self.renewal.window,
                "ask_at": self.renewal.ask_at,
                "failures": self.renewal.failures,
            },
        }))
    }
}

impl AuthorityRecord {
    pub(crate) fn of_bytes(bytes: &[u8]) -> Result<AuthorityRecord, FormError> {
        parse(bytes)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        printed(&json!({
            "version": VERSION,
            "directory": self.directory,
            "outages": self.outages,
            "limited": self.limited,
            "not_before": self.not_before,
            "registered": self.registered,
            "last_error": mishap(self.last_error.as_ref()),
        }))
    }
}

fn mishap(mishap: Option<&Mishap>) -> Value {
    mishap.map_or(Value::Null, |mishap| json!({ "at": mishap.at, "what": mishap.what }))
}

impl Challenge {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Challenge::Http01 => "http-01",
            Challenge::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

#[cfg(test)]
mod tests;
