//! A client of TLS: what it trusts, offers and shows, and what a handshake came to.

use std::io::{Error, Result};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, NamedGroup, ProtocolVersion,
    RootCertStore, SignatureScheme, StreamOwned, SupportedProtocolVersion,
};

use crate::socket::{Address, PATIENCE, Socket};
use crate::tls::Authority;

/// A client of TLS. Its connections share what it has kept of earlier sessions, as a browser's do.
#[derive(Clone)]
pub struct TlsClient {
    trusted: Option<String>,
    protocols: Vec<Vec<u8>>,
    versions: Vec<&'static SupportedProtocolVersion>,
    groups: Vec<&'static dyn SupportedKxGroup>,
    schemes: Option<Vec<SignatureScheme>>,
    own: Option<(String, String)>,
    sessions: Sessions,
    made: Option<Arc<ClientConfig>>,
}

/// What a client does with sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sessions {
    Resumed,
    Forgotten,
}

impl TlsClient {
    /// A client that trusts this authority alone.
    pub fn trusting(authority: &Authority) -> TlsClient {
        TlsClient { trusted: Some(authority.pem().to_owned()), ..TlsClient::insecure() }.remade()
    }

    /// A client that believes every certificate.
    pub fn insecure() -> TlsClient {
        TlsClient {
            trusted: None,
            protocols: Vec::new(),
            versions: rustls::ALL_VERSIONS.to_vec(),
            groups: aws_lc_rs::ALL_KX_GROUPS.to_vec(),
            schemes: None,
            own: None,
            sessions: Sessions::Resumed,
            made: None,
        }
        .remade()
    }

    /// Offers these protocols by ALPN, for example `h2` and `http/1.1`.
    pub fn protocols(self, protocols: &[&str]) -> TlsClient {
        let protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsClient { protocols, ..self }.remade()
    }

    /// Speaks TLS 1.2 only.
    pub fn only_1_2(self) -> TlsClient {
        TlsClient { versions: vec![&rustls::version::TLS12], ..self }.remade()
    }

    /// Speaks TLS 1.3 only.
    pub fn only_1_3(self) -> TlsClient {
        TlsClient { versions: vec![&rustls::version::TLS13], ..self }.remade()
    }

    /// Offers these key exchange groups only.
    ///
    /// # Panics
    /// One is not known.
    pub fn groups(self, groups: &[NamedGroup]) -> TlsClient {
        let known = |group: &NamedGroup| {
            let found = aws_lc_rs::ALL_KX_GROUPS.iter().find(|known| known.name() == *group);
            *found.unwrap_or_else(|| panic!("no group {group:?}"))
        };
        TlsClient { groups: groups.iter().map(known).collect(), ..self }.remade()
    }

    /// Accepts signatures of these schemes only, for example [`SignatureScheme::RSA_PSS_SHA256`]. Such a
    /// client does not look at certificates.
    pub fn schemes(self, schemes: &[SignatureScheme]) -> TlsClient {
        TlsClient { schemes: Some(schemes.to_vec()), trusted: None, ..self }.remade()
    }

    /// Shows this certificate where it is asked for one; chain and key are PEM.
    pub fn certificate(self, own: (String, String)) -> TlsClient {
        TlsClient { own: Some(own), ..self }.remade()
    }

    /// Resumes no session.
    pub fn forgetful(self) -> TlsClient {
        TlsClient { sessions: Sessions::Forgotten, ..self }.remade()
    }

    /// The same client with no memory of earlier sessions.
    #[must_use]
    pub fn remade(mut self) -> TlsClient {
        self.made = Some(Arc::new(self.config()));
        self
    }

    /// Connects, says this name, and completes the handshake. An address as the name is not said.
    ///
    /// # Errors
    /// Those of the system, such as that nobody listens, and of TLS, such as `received fatal alert:
    /// UnrecognisedName`.
    pub fn connect(&self, to: SocketAddr, name: &str) -> Result<Socket> {
        match Address::Tcp(to).connect()? {
            Socket::Tcp(stream) => self.over(stream, name),
            _ => Err(Error::other("an address of TCP gives a socket of TCP")),
        }
    }

    /// As [`TlsClient::connect`], over an open stream, on which a PROXY header may have been sent.
    ///
    /// # Errors
    /// As above.
    pub fn over(&self, mut stream: TcpStream, name: &str) -> Result<Socket> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from(name.to_owned()).map_err(Error::other)?;
        let config = self.made.clone().expect("a client is made");
        let mut session = ClientConnection::new(config, name).map_err(Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(Socket::TlsClient(Box::new(StreamOwned::new(session, stream))))
    }

    /// The bytes of a ClientHello that asks for this name.
    ///
    /// # Panics
    /// It is no name.
    pub fn hello(&self, name: &str) -> Vec<u8> {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let config = self.made.clone().expect("a client is made");
        let mut bytes = Vec::new();
        ClientConnection::new(config, name).unwrap().write_tls(&mut bytes).unwrap();
        bytes
    }

    fn config(&self) -> ClientConfig {
        let provider =
            Arc::new(CryptoProvider { kx_groups: self.groups.clone(), ..aws_lc_rs::default_provider() });
        let builder =
            ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&self.versions);
        let builder = builder.unwrap();
        let builder = match &self.trusted {
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
                builder.with_root_certificates(roots)
            }
            None => {
                let every = provider.signature_verification_algorithms.supported_schemes();
                let schemes = self.schemes.clone().unwrap_or(every);
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(Credulous { provider, schemes }))
            }
        };
        let mut config = match &self.own {
            Some((chain, key)) => {
                let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(|der| der.unwrap());
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain.collect(), key).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.protocols.clone();
        if self.sessions == Sessions::Forgotten {
            config.resumption = rustls::client::Resumption::disabled();
        }
        config
    }
}

/// What a client's handshake came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Of the protocol.
    pub version: Option<ProtocolVersion>,
    /// The protocol above, by ALPN.
    pub protocol: Option<String>,
    /// The group of the key exchange; with a session resumed over TLS 1.2 there is none.
    pub group: Option<NamedGroup>,
    /// Whether an earlier session went on.
    pub resumed: bool,
    /// The server's certificates as DER, its own first.
    pub certificates: Vec<Vec<u8>>,
}

impl Session {
    pub(crate) fn of(client: &ClientConnection) -> Session {
        let protocol = client.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
        let certificates = client.peer_certificates().unwrap_or_default();
        Session {
            version: client.protocol_version(),
            protocol,
            group: client.negotiated_key_exchange_group().map(|group| group.name()),
            resumed: client.handshake_kind() == Some(HandshakeKind::Resumed),
            certificates: certificates.iter().map(|der| der.to_vec()).collect(),
        }
    }
}

/// Believes every certificate, and checks only that the server has its key.
#[derive(Debug)]
struct Credulous {
    provider: Arc<CryptoProvider>,
    schemes: Vec<SignatureScheme>,
}

type Verified<T> = std::result::Result<T, rustls::Error>;

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Verified<ServerCertVerified> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
