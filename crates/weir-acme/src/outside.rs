//! What this crate sees of the program around it: where proofs are shown, and where certificates go.

use crate::clock::Seconds;
use crate::record::HttpProof;

/// Where proofs are shown and certificates go. Called on the thread `weir-acme`; must not block.
pub trait Outside: Send + Sync {
    /// Lets the CA see an answer, until it is withdrawn.
    fn show(&self, proof: &Proof);
    /// Shows an answer no more.
    fn withdraw(&self, proof: &Proof);
    /// Serves a new certificate.
    fn issued(&self, issued: Issued);
    /// An order failed; what is valid is served as before.
    fn failed(&self, failed: Failed);
}

/// A certificate of a host.
#[derive(Clone)]
pub struct Issued {
    /// The host, as the site names it.
    pub host: String,
    /// Chain, as PEM.
    pub chain_pem: String,
    /// Key, as PEM.
    pub key_pem: String,
    /// Its last second.
    pub not_after: Seconds,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Issued")
            .field("host", &self.host)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// An order that failed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The host, as the site names it.
    pub host: String,
    /// The CA's directory.
    pub directory: String,
    /// Why.
    pub what: String,
    /// When it is tried again at the earliest.
    pub again_at: Seconds,
    /// The last second of the certificate that is served meanwhile, if there is one.
    pub not_after: Option<Seconds>,
}

/// The answer to a CA's question.
#[derive(Debug, Clone)]
pub enum Proof {
    /// For `GET /.well-known/acme-challenge/TOKEN` with this host, over plain HTTP.
    Http {
        /// The host, as a site names it.
        host: String,
        /// Path and content.
        proof: HttpProof,
    },
    /// For a handshake that offers `acme-tls/1` alone.
    TlsAlpn {
        /// What the ClientHello names.
        server_name: String,
        /// The certificate, in DER.
        certificate: Vec<u8>,
        /// Its key, in DER (PKCS #8).
        key: Vec<u8>,
    },
}
