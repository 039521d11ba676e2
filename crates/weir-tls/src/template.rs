//! What all identities have in common: versions, groups, protocols, tickets. It makes identities from PEM,
//! and says what is wrong with a pair. It must not open a file.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::aws_lc_rs::kx_group;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, RootCertStore, ServerConfig};

use crate::clients::{ClientAuth, ClientMode, Wanted};
use crate::tickets::{Ring, Ticketer};
use crate::{Identity, Leaf, Source};

/// The protocol of a challenge (RFC 8737 §3).
const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";
/// How far a clock may be behind that of the authority which has just signed a certificate.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// What all identities have in common.
#[derive(Debug, Clone)]
pub struct Template {
    provider: Arc<CryptoProvider>,
    base: Arc<ServerConfig>,
    ring: Arc<Ring>,
}

/// A chain and its key, as texts. Both may be the same text.
#[derive(Clone, Copy)]
pub struct Pem<'a> {
    /// The certificate and those that lead to its authority, its own first.
    pub chain: &'a [u8],
    /// The key.
    pub key: &'a [u8],
}

/// Which of the two texts of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// That of the chain.
    Chain,
    /// That of the key.
    Key,
}

/// Why a pair cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// The text has something that is no PEM.
    #[error("it is no PEM file: {reason}")]
    NotPem {
        /// Of which text.
        part: Part,
        /// What the reader says.
        reason: String,
    },
    /// No certificate.
    #[error("there is no certificate in it")]
    NoCertificate,
    /// A certificate that cannot be read.
    #[error("its certificate cannot be read: {0}")]
    Certificate(String),
    /// A certificate without a name that clients look at.
    #[error("its certificate is for no name (no subject alternative name)")]
    NoNames,
    /// No key.
    #[error("there is no key in it")]
    NoKey,
    /// A key that asks for a password.
    #[error("its key is encrypted: write it without a password (openssl pkey)")]
    Encrypted,
    /// A key of a kind that is not known.
    #[error("its key cannot be used: {0}")]
    Key(String),
    /// The key of another certificate.
    #[error("its key does not belong to the certificate")]
    Unfit,
    /// The certificate's time is over.
    #[error("its certificate has expired on {}", date(*.0))]
    Expired(SystemTime),
    /// The certificate's time has not begun.
    #[error("its certificate is not valid before {}", date(*.0))]
    NotYet(SystemTime),
}

/// A date for people.
fn date(at: SystemTime) -> String {
    /// The year 10000, in seconds since 1970.
    const YEAR_10000_S: u64 = 253_402_300_800;
    match at.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) if since.as_secs() < YEAR_10000_S => httpdate::fmt_http_date(at),
        Ok(_) => "a day after the year 9999".to_owned(),
        Err(_) => "a day before 1970".to_owned(),
    }
}

impl PairError {
    /// Which of the two texts is to blame.
    pub fn part(&self) -> Part {
        match self {
            PairError::NotPem { part, .. } => *part,
            PairError::NoKey | PairError::Encrypted | PairError::Key(_) | PairError::Unfit => Part::Key,
            _ => Part::Chain,
        }
    }
}

impl Template {
    /// Identities with tickets of `ring`, whose clients may speak `protocols` (ALPN), the preferred one
    /// first.
    pub fn new(ring: &Arc<Ring>, protocols: &[&[u8]]) -> Template {
        let mut provider = aws_lc_rs::default_provider();
        provider.kx_groups =
            vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];
        let provider = Arc::new(provider);
        #[expect(clippy::expect_used, reason = "the provider has suites and groups of both versions")]
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .expect("TLS 1.3 and 1.2");
        let nothing = Arc::new(rustls::server::ResolvesServerCertUsingSni::new());
        let mut base = builder.with_no_client_auth().with_cert_resolver(nothing);
        base.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        base.session_storage = Arc::new(NoServerSessionStorage {});
        base.ticketer = Arc::new(Ticketer::new(ring, Box::default()));
        Template { provider, base: Arc::new(base), ring: ring.clone() }
    }

    /// An identity from a pair, usable at `now`.
    ///
    /// # Errors
    /// What is wrong with the pair.
    pub fn identity(&self, pem: Pem<'_>, source: Source, now: SystemTime) -> Result<Identity, PairError> {
        if is_encrypted(pem.key) {
            return Err(PairError::Encrypted);
        }
        let chain = certificates(pem.chain)?;
        let leaf = leaf(&chain, now)?;
        let certified = self.certified(chain, key(pem.key)?)?;
        Ok(Identity::new(&self.base, certified, leaf, source))
    }

    /// An identity from DER, usable at `now`.
    ///
    /// # Errors
    /// What is wrong with the pair.
    pub fn identity_from_der(
        &self,
        (chain, key): (Vec<Vec<u8>>, &[u8]),
        source: Source,
        now: SystemTime,
    ) -> Result<Identity, PairError> {
        let chain: Vec<_> = chain.into_iter().map(CertificateDer::from).collect();
        let leaf = leaf(&chain, now)?;
        let key =
            PrivateKeyDer::try_from(key.to_vec()).map_err(|reason| PairError::Key(reason.to_owned()))?;
        if source == Source::Challenge {
            let certified = self.unverified(chain, key)?;
            return Ok(challenge(Identity::new(&self.base, certified, leaf, source)));
        }
        let certified = self.certified(chain, key)?;
        Ok(Identity::new(&self.base, certified, leaf, source))
    }

    /// What is asked of the clients of a site: certificates that one of the authorities in `ca` has signed.
    ///
    /// # Errors
    /// What is wrong with `ca`, a PEM file.
    pub fn client_auth(&self, site: &str, mode: ClientMode, ca: &[u8]) -> Result<Arc<ClientAuth>, PairError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            roots.add(certificate).map_err(|error| PairError::Certificate(error.to_string()))?;
        }
        ClientAuth::new(Wanted { site, mode, ca, roots }, &self.base, &self.ring)
            .map(Arc::new)
            .map_err(PairError::Certificate)
    }

    /// The ring of ticket keys.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// The critical extension of a challenge (RFC 8737 §3) makes it unreadable for a verifier.
    fn unverified(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<CertifiedKey, PairError> {
        let key = self.provider.key_provider.load_private_key(key);
        let key = key.map_err(|error| PairError::Key(error.to_string()))?;
        Ok(CertifiedKey::new(chain, key))
    }

    fn certified(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<CertifiedKey, PairError> {
        CertifiedKey::from_der(chain, key, &self.provider).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => PairError::Unfit,
            Error::InvalidCertificate(reason) => PairError::Certificate(reason.to_string()),
            Error::General(reason) => PairError::Key(reason),
            other => PairError::Key(other.to_string()),
        })
    }
}

/// A challenge is answered in its own protocol alone (RFC 8737 §3), and never resumed.
fn challenge(mut identity: Identity) -> Identity {
    let mut server = ServerConfig::clone(&identity.server);
    server.alpn_protocols = vec![CHALLENGE_PROTOCOL.to_vec()];
    server.send_tls13_tickets = 0;
    identity.server = Arc::new(server);
    identity
}

fn leaf(chain: &[CertificateDer<'_>], now: SystemTime) -> Result<Leaf, PairError> {
    let first = chain.first().ok_or(PairError::NoCertificate)?;
    let leaf = Leaf::read(first).map_err(|error| PairError::Certificate(error.to_string()))?;
    if leaf.not_after <= now {
        return Err(PairError::Expired(leaf.not_after));
    }
    if leaf.not_before > now + CLOCK_SKEW {
        return Err(PairError::NotYet(leaf.not_before));
    }
    if leaf.names.is_empty() {
        return Err(PairError::NoNames);
    }
    Ok(leaf)
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PairError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match found {
        Ok(list) if list.is_empty() => Err(PairError::NoCertificate),
        Ok(list) => Ok(list),
        Err(error) => Err(PairError::NotPem { part: Part::Chain, reason: error.to_string() }),
    }
}

fn key(text: &[u8]) -> Result<PrivateKeyDer<'static>, PairError> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => PairError::NoKey,
        error => PairError::NotPem { part: Part::Key, reason: error.to_string() },
    })
}

/// Whether a key asks for a password: in PKCS #8, or in the older form of openssl, which others cannot read.
fn is_encrypted(text: &[u8]) -> bool {
    const SIGNS: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED"];
    SIGNS.iter().any(|sign| text.windows(sign.len()).any(|window| window == *sign))
}

#[cfg(test)]
mod tests;
