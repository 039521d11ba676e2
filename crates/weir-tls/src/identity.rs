//! A certificate with its key, as sessions need it. It must not choose.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, SignatureAlgorithm};

use crate::{ClientAuth, Leaf, Names};

/// A certificate with its key.
#[derive(Clone)]
pub struct Identity {
    /// What a session is made from: this certificate and no other.
    pub server: Arc<ServerConfig>,
    /// The names in the certificate.
    pub names: Names,
    /// Since when it is valid.
    pub not_before: SystemTime,
    /// Until when it is valid.
    pub not_after: SystemTime,
    /// The kind of its key.
    pub key_kind: KeyKind,
    /// Where it comes from.
    pub source: Source,
    /// Whether clients get it that send no name, or one without a certificate.
    pub is_default: bool,
    /// What is asked of clients that get it. It is never that of another site.
    pub client_auth: Option<Arc<ClientAuth>>,
    pub(crate) certified: Arc<CertifiedKey>,
}

/// The kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// ECDSA, which signs ten times as fast as RSA.
    Ecdsa,
    /// RSA, for clients that know nothing else.
    Rsa,
    /// Ed25519, which browsers do not know.
    Ed25519,
}

/// Where a certificate comes from. Of two for one name that of the smaller source is taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Two files, or one for both.
    Files {
        /// The file of the chain.
        chain: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// A certificate authority, by ACME.
    Acme,
    /// Weir's own signature.
    SelfSigned,
    /// The answer to a challenge of a certificate authority (RFC 8737).
    Challenge,
}

impl Source {
    /// Its rank among sources, the first before others.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Source::Files { .. } => 0,
            Source::Acme => 1,
            Source::SelfSigned => 2,
            Source::Challenge => 3,
        }
    }
}

/// For people: the path of the chain, or a word.
impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Files { chain, .. } => write!(out, "{}", chain.display()),
            Source::Acme => out.write_str("acme"),
            Source::SelfSigned => out.write_str("self"),
            Source::Challenge => out.write_str("challenge"),
        }
    }
}

impl Identity {
    pub(crate) fn new(base: &ServerConfig, certified: CertifiedKey, leaf: Leaf, source: Source) -> Identity {
        let certified = Arc::new(certified);
        Identity {
            server: Arc::new(with_certificate(base, &certified)),
            names: leaf.names,
            not_before: leaf.not_before,
            not_after: leaf.not_after,
            key_kind: match certified.key.algorithm() {
                SignatureAlgorithm::RSA => KeyKind::Rsa,
                SignatureAlgorithm::ECDSA => KeyKind::Ecdsa,
                _ => KeyKind::Ed25519,
            },
            source,
            is_default: false,
            client_auth: None,
            certified,
        }
    }

    /// The same, given to clients without a name or with one that has no certificate.
    pub fn as_default(mut self) -> Identity {
        self.is_default = true;
        self
    }

    /// The same, for clients of which `auth` asks for a certificate.
    pub(crate) fn with_clients(&self, auth: &Arc<ClientAuth>) -> Identity {
        let server = Arc::new(with_certificate(&auth.base, &self.certified));
        Identity { server, client_auth: Some(auth.clone()), ..self.clone() }
    }

    /// Whether requests for `host` may come on a connection that has this certificate: a name or an address,
    /// without a port. Where it is the default, all may.
    pub fn covers(&self, host: &str) -> bool {
        self.is_default || self.names.cover(host)
    }

    /// What a session is made from on a listener whose clients may speak these protocols (ALPN), the
    /// preferred one first.
    pub fn server_for(&self, protocols: &[&[u8]]) -> Arc<ServerConfig> {
        if self.server.alpn_protocols == protocols {
            return self.server.clone();
        }
        let mut server = ServerConfig::clone(&self.server);
        server.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(server)
    }

    /// The certificate and those that lead to its authority, in DER, its own first.
    pub fn chain(&self) -> impl Iterator<Item = &[u8]> {
        self.certified.cert.iter().map(AsRef::as_ref)
    }
}

fn with_certificate(base: &ServerConfig, certified: &Arc<CertifiedKey>) -> ServerConfig {
    let mut server = base.clone();
    server.cert_resolver = Arc::new(SingleCertAndKey::from(certified.clone()));
    server
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("names", &self.names)
            .field("key_kind", &self.key_kind)
            .field("source", &self.source)
            .field("client_auth", &self.client_auth)
            .finish_non_exhaustive()
    }
}
