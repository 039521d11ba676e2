//! TLS towards origins: rustls on aws-lc-rs, roots of the system or of a file, a client certificate where one
//! is set.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::error::SetupError;
use crate::service::domain_of;
use crate::settings::{ClientCertificate, OriginAddress, TlsSettings, Verify};

/// How to begin TLS with one `https` origin.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) connector: TlsConnector,
    pub(crate) name: ServerName<'static>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The name that an origin's certificate must carry.
///
/// # Errors
/// When it is neither a DNS name nor an IP address.
pub(crate) fn server_name(
    settings: &TlsSettings,
    address: &OriginAddress,
) -> Result<ServerName<'static>, SetupError> {
    let text = settings.server_name.as_deref().or(address.host().map(domain_of)).unwrap_or_default();
    let bad = || SetupError::Tls { reason: format!("{text:?} is not a name that a certificate can carry") };
    ServerName::try_from(text.to_owned()).map_err(|_| bad())
}

/// The connector of an upstream.
///
/// # Errors
/// When a file cannot be read or does not hold what it should.
pub(crate) fn connector(settings: &TlsSettings) -> Result<TlsConnector, SetupError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match &settings.verify {
        Verify::Native => builder.with_root_certificates(NATIVE_ROOTS.clone()),
        Verify::CaFile(path) => builder.with_root_certificates(roots_from(path)?),
        Verify::Nothing => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate { provider }))
        }
    };
    let mut config = match &settings.client_certificate {
        None => builder.with_no_client_auth(),
        Some(files) => {
            let (chain, key) = client_certificate(files)?;
            builder.with_client_auth_cert(chain, key).map_err(unusable)?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The system's roots, read once.
static NATIVE_ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    let (_, unusable) = store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        tracing::warn!(unusable, "the system has no root certificates: no https origin can be verified");
    }
    Arc::new(store)
});

fn roots_from(path: &Path) -> Result<RootCertStore, SetupError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(unusable)?;
    }
    Ok(store)
}

fn client_certificate(
    files: &ClientCertificate,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), SetupError> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|error| SetupError::Tls { reason: format!("{}: {error}", files.key.display()) })?;
    Ok((chain, key))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let bad = |reason: String| SetupError::Tls { reason: format!("{}: {reason}", path.display()) };
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(list) if list.is_empty() => Err(bad("no certificate in the file".to_owned())),
        Ok(list) => Ok(list),
        Err(error) => Err(bad(error.to_string())),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, SetupError> {
    /// More than all roots that browsers know.
    const BYTES_MAX: u64 = 16 << 20;
    let read = || {
        // A device or a pipe might never end.
        if !std::fs::metadata(path)?.is_file() {
            return Err(std::io::Error::other("this is no file"));
        }
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(
            &mut std::io::Read::take(std::fs::File::open(path)?, BYTES_MAX),
            &mut bytes,
        )?;
        Ok(bytes)
    };
    read().map_err(|source| SetupError::File { path: path.to_owned(), source })
}

fn unusable(error: rustls::Error) -> SetupError {
    SetupError::Tls { reason: error.to_string() }
}

/// Trusts any certificate, as `verify = false` asks. Signatures are still checked where webpki can read the
/// certificate (not one of version 1). The check adds no security: an attacker in between shows a certificate
/// of its own, which is trusted, too.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

/// Whether there is a key to check a signature with.
fn is_readable(leaf: &CertificateDer<'_>) -> bool {
    ParsedCertificate::try_from(leaf).is_ok()
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if !is_readable(leaf) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, leaf, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if !is_readable(leaf) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, leaf, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
