//! TLS of the control plane: the admin listener with the certificates of the listeners for clients, and the
//! connection of the commands to it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SignatureScheme, crypto};
use tokio_rustls::{LazyConfigAcceptor, TlsConnector, client, server};
use weir_tls::Certificates;

/// The protocol that both speak (ALPN).
const PROTOCOL: &[u8] = b"http/1.1";

/// Begins TLS with a client, which gets the certificate for the name that it asks for.
///
/// # Errors
/// The handshake fails, or there is no certificate for the client.
pub(crate) async fn accept<S>(stream: S, certificates: &Certificates) -> io::Result<server::TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let hello = start.client_hello();
    let takes_ecdsa = hello.signature_schemes().iter().any(|scheme| {
        matches!(scheme, SignatureScheme::ECDSA_NISTP256_SHA256 | SignatureScheme::ECDSA_NISTP384_SHA384)
    });
    let set = certificates.current();
    let chosen = set.choose(hello.server_name(), takes_ecdsa);
    let identity = chosen.ok_or_else(|| io::Error::other("there is no certificate for this client"))?;
    start.into_stream(identity.server_for(&[PROTOCOL])).await
}

/// Begins TLS with a server, whose certificate must carry `host` and lead to the system's roots, or to those
/// of the file.
///
/// # Errors
/// The file holds no certificates, or the handshake fails.
pub(crate) async fn connect<S>(
    stream: S,
    host: &str,
    roots: Option<&Path>,
) -> io::Result<client::TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut store = RootCertStore::empty();
    match roots {
        None => drop(store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        Some(path) => {
            for certificate in CertificateDer::pem_slice_iter(&std::fs::read(path)?) {
                store.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
            }
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(store)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}
