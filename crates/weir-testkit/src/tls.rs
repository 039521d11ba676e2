//! A temporary certificate authority, for origins and Weirs that speak https.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// An authority that issues certificates. Each test makes its own.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A new authority with its own key.
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Without a name of its own OpenSSL would take what it issues for self-signed.
        params.distinguished_name = named("the test's authority");
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// The authority's certificate, for the CA file of the trusting side.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate and its key for `names` (DNS names or addresses), both PEM.
    pub fn issue(&self, names: &[&str]) -> (String, String) {
        self.certificate(names).issue()
    }

    /// A certificate for `names` that is still to be described.
    pub fn certificate(&self, names: &[&str]) -> Wanted<'_> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let day = Duration::from_secs(24 * 3600);
        let now = SystemTime::now();
        Wanted { authority: self, names, key: Key::P256, from: now - day, until: now + 90 * day }
    }

    /// A server's settings with a certificate for `names`.
    pub(crate) fn server(&self, names: &[&str], clients: Clients) -> Arc<rustls::ServerConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            Clients::Anybody => builder.with_no_client_auth(),
            Clients::Certified => builder.with_client_cert_verifier(self.verifier(provider)),
        };
        Arc::new(builder.with_single_cert(vec![certificate.der().clone()], private).unwrap())
    }

    fn verifier(
        &self,
        provider: Arc<rustls::crypto::CryptoProvider>,
    ) -> Arc<dyn rustls::server::danger::ClientCertVerifier> {
        use rustls::pki_types::pem::PemObject;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(rustls::pki_types::CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .unwrap()
    }
}

/// The kind of a certificate's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// RSA with 2048 bits.
    Rsa,
    /// Ed25519.
    Ed25519,
}

/// A certificate that is being described: by default on P-256, valid from yesterday for three months.
pub struct Wanted<'a> {
    authority: &'a Authority,
    names: Vec<String>,
    key: Key,
    from: SystemTime,
    until: SystemTime,
}

impl Wanted<'_> {
    /// With a key of this kind.
    pub fn key(self, key: Key) -> Self {
        Wanted { key, ..self }
    }

    /// Valid from then on.
    pub fn from(self, from: SystemTime) -> Self {
        Wanted { from, ..self }
    }

    /// Valid until then.
    pub fn until(self, until: SystemTime) -> Self {
        Wanted { until, ..self }
    }

    /// The certificate and its key, both PEM.
    pub fn issue(self) -> (String, String) {
        let kind = match self.key {
            Key::P256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            Key::P384 => &rcgen::PKCS_ECDSA_P384_SHA384,
            Key::Rsa => &rcgen::PKCS_RSA_SHA256,
            Key::Ed25519 => &rcgen::PKCS_ED25519,
        };
        let key = KeyPair::generate_for(kind).unwrap();
        let mut params = CertificateParams::new(self.names.clone()).unwrap();
        params.distinguished_name = named(self.names.first().map_or("nobody", String::as_str));
        (params.not_before, params.not_after) = (self.from.into(), self.until.into());
        let certificate = params.signed_by(&key, &self.authority.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

/// The clients that an https origin accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    Anybody,
    Certified,
}
