//! Client certificates: what a site asks of its clients. A site's tickets open no other site
//! (CVE-2025-23419), and none of the same site after its authorities changed.

use std::fmt;
use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use self::chains::ShortChains;
use crate::tickets::{Ring, Ticketer};

mod chains;

/// Whether a client may be without a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientMode {
    /// No: its handshake fails.
    Required,
    /// Yes. One that it shows must be signed by the authorities.
    Optional,
}

/// What is asked of the clients of a site.
pub struct ClientAuth {
    /// The site's name.
    pub site: Box<str>,
    /// Whether a client may be without a certificate.
    pub mode: ClientMode,
    /// A [`ServerConfig`] without a certificate.
    pub(crate) base: ServerConfig,
}

/// The hosts of a site, and what is asked of its clients.
#[derive(Debug, Clone)]
pub struct SiteClients {
    /// Names, `*.example.com` for all names below, `*` for every other.
    pub hosts: Vec<String>,
    /// What is asked; none: nothing.
    pub auth: Option<Arc<ClientAuth>>,
}

/// What a site wants of its clients.
pub(crate) struct Wanted<'a> {
    pub(crate) site: &'a str,
    pub(crate) mode: ClientMode,
    /// The authorities as they were written.
    pub(crate) ca: &'a [u8],
    /// The authorities.
    pub(crate) roots: RootCertStore,
}

impl ClientAuth {
    pub(crate) fn new(
        wanted: Wanted<'_>,
        base: &ServerConfig,
        ring: &Arc<Ring>,
    ) -> Result<ClientAuth, String> {
        let Wanted { site, mode, ca, roots } = wanted;
        let provider = base.crypto_provider().clone();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let verifier = match mode {
            ClientMode::Required => verifier,
            ClientMode::Optional => verifier.allow_unauthenticated(),
        };
        let verifier = verifier.build().map_err(|error| error.to_string())?;
        let mut own = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(Arc::new(ShortChains(verifier)))
            .with_cert_resolver(base.cert_resolver.clone());
        own.alpn_protocols = base.alpn_protocols.clone();
        own.session_storage = Arc::new(NoServerSessionStorage {});
        own.ticketer = Arc::new(Ticketer::new(ring, namespace(site, mode, ca)));
        Ok(ClientAuth { site: site.into(), mode, base: own })
    }
}

/// Tells the tickets of one site, mode and list of authorities from all others.
fn namespace(site: &str, mode: ClientMode, ca: &[u8]) -> Box<[u8]> {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, ca);
    [digest.as_ref(), &[mode as u8], site.as_bytes()].concat().into()
}

impl fmt::Debug for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAuth")
            .field("site", &self.site)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
