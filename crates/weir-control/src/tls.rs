//! TLS of the control plane: the admin listener with the certificates of the listeners for clients, and the
//! connection of the commands to it.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SignatureScheme, crypto};
use tokio_rustls::{LazyConfigAcceptor, TlsConnector};
use weir_tls::Certificates;

use crate::socket::AnySocket;

/// The protocol that both speak (ALPN).
const PROTOCOL: &[u8] = b"http/1.1";

/// The record of an alert `unrecognized_name`, which ends a handshake (RFC 8446 §6.2).
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Begins TLS with a client, which gets the certificate for the name that it asks for; without a name the one
/// for the address that it has connected to.
///
/// # Errors
/// The handshake fails, or there is no certificate for the client, which is told by an alert.
pub(crate) async fn accept(
    stream: AnySocket,
    certificates: &Certificates,
    local: Option<IpAddr>,
) -> io::Result<AnySocket> {
    let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let hello = start.client_hello();
    let takes_ecdsa = hello.signature_schemes().iter().any(|scheme| {
        matches!(scheme, SignatureScheme::ECDSA_NISTP256_SHA256 | SignatureScheme::ECDSA_NISTP384_SHA384)
    });
    let set = certificates.current();
    let chosen = match (hello.server_name(), local) {
        (None, Some(local)) => set.choose_for_address(local, takes_ecdsa),
        (name, _) => set.choose(name, takes_ecdsa),
    };
    let Some(identity) = chosen else {
        let mut stream = start.io;
        stream.write_all(&UNRECOGNIZED_NAME).await?;
        return Err(io::Error::other("there is no certificate for this client"));
    };
    Ok(Box::new(start.into_stream(identity.server_for(&[PROTOCOL])).await?))
}

/// Begins TLS with a server, whose certificate must carry `host` and lead to the system's roots, or to those
/// of the file.
///
/// # Errors
/// The file holds no certificates, or the handshake fails.
pub(crate) async fn connect(stream: AnySocket, host: &str, roots: Option<&Path>) -> io::Result<AnySocket> {
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
    Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
}
