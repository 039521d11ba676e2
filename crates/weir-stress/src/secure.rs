//! TLS towards the target: what is believed, offered and kept.

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::args::StressArgs;
use crate::plan::StressError;

/// TLS for the connections of a load.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    /// The name that is said, and that the certificate must have.
    pub(crate) name: ServerName<'static>,
    config: Arc<ClientConfig>,
    sessions: Sessions,
}

/// What new connections do with earlier sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sessions {
    Forgotten,
    Resumed,
}

impl Tls {
    /// TLS with the server that `authority` names.
    pub(crate) fn new(args: &StressArgs, authority: &str) -> Result<Self, StressError> {
        let bad = |what: String| StressError::Tls(what);
        let provider = Arc::new(provider(args.group.as_deref())?);
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(error.to_string()))?;
        let mut config = if args.insecure {
            let every = Arc::new(AnyCertificate { provider });
            builder.dangerous().with_custom_certificate_verifier(every).with_no_client_auth()
        } else {
            builder.with_root_certificates(roots(args.ca.as_deref())?).with_no_client_auth()
        };
        config.alpn_protocols = vec![if args.http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        config.resumption = Resumption::disabled();
        let host = host(authority);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| bad(format!("`{host}` is no name that a certificate can have")))?;
        let sessions = if args.resume { Sessions::Resumed } else { Sessions::Forgotten };
        Ok(Self { name, config: Arc::new(config), sessions })
    }

    /// The settings of one user's connections. Where sessions are resumed, each user has its own memory of
    /// them: one ticket serves one connection.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        match self.sessions {
            Sessions::Forgotten => self.config.clone(),
            Sessions::Resumed => {
                let mut config = (*self.config).clone();
                config.resumption = Resumption::in_memory_sessions(4);
                Arc::new(config)
            }
        }
    }
}

fn host(authority: &str) -> &str {
    let without_port = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    };
    without_port.trim_start_matches('[').trim_end_matches(']')
}

fn provider(group: Option<&str>) -> Result<CryptoProvider, StressError> {
    let mut provider = aws_lc_rs::default_provider();
    if let Some(name) = group {
        let said = |known: &&dyn rustls::crypto::SupportedKxGroup| {
            known.name().as_str().is_some_and(|known| known.eq_ignore_ascii_case(name))
        };
        provider.kx_groups = aws_lc_rs::ALL_KX_GROUPS.iter().copied().filter(said).collect();
        if provider.kx_groups.is_empty() {
            return Err(StressError::Tls(format!("there is no group `{name}`")));
        }
    }
    Ok(provider)
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, StressError> {
    let mut store = RootCertStore::empty();
    let Some(path) = file else {
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(store);
    };
    let bad = |why: String| StressError::Tls(format!("{}: {why}", path.display()));
    let found = CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        store.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    Ok(store)
}

/// Why a handshake failed, and what can be done about it.
pub(crate) fn said(error: &rustls::Error) -> String {
    use rustls::CertificateError as Wrong;
    let rustls::Error::InvalidCertificate(wrong) = error else { return error.to_string() };
    let advice = match wrong {
        Wrong::UnknownIssuer => {
            "no authority of --ca (without it: of this machine) has signed the server's certificate; \
             name its authority with --ca, or believe every certificate with --insecure"
        }
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => {
            "ask for a name that the certificate has, or believe every certificate with --insecure"
        }
        Wrong::Expired | Wrong::ExpiredContext { .. } => {
            "renew it, or believe every certificate with --insecure"
        }
        Wrong::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "the server shows the certificate of an authority as its own, which no client of TLS takes with \
             --ca; sign one for the server with it, or believe every certificate with --insecure"
        }
        _ => return error.to_string(),
    };
    format!("{error}: {advice}")
}

/// Believes every certificate, as `--insecure` asks. Signatures are still checked, so that a handshake costs
/// what it costs.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
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
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
