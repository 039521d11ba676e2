//! Certificates and handshakes for tests.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, SignatureAlgorithm,
};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore, ServerConnection,
    SupportedProtocolVersion,
};

use crate::{Identity, Pem, Ring, Source, Template};

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// A time within the validity of all certificates here, also by the clock that clients verify with.
pub(crate) fn now() -> SystemTime {
    #[expect(clippy::disallowed_methods, reason = "rustls verifies by the same clock")]
    SystemTime::now()
}

/// A chain and a key as texts.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Pair {
    pub(crate) fn pem(&self) -> Pem<'_> {
        Pem { chain: self.chain.as_bytes(), key: self.key.as_bytes() }
    }
}

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
    der: CertificateDer<'static>,
}

pub(crate) static AUTHORITY: LazyLock<Authority> = LazyLock::new(Authority::new);

/// RSA keys take a second to make.
static RSA: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap());

impl Authority {
    pub(crate) fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Authority { issuer: Issuer::new(params, key), pem, der }
    }

    pub(crate) fn issue(&self, names: &[&str], kind: &'static SignatureAlgorithm, days: (i64, i64)) -> Pair {
        let at = |days: i64| match u32::try_from(days) {
            Ok(days) => now() + DAY * days,
            Err(_) => now() - DAY * u32::try_from(-days).unwrap(),
        };
        let fresh = (kind != &PKCS_RSA_SHA256).then(|| KeyPair::generate_for(kind).unwrap());
        let key = fresh.as_ref().unwrap_or(&RSA);
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        (params.not_before, params.not_after) = (at(days.0).into(), at(days.1).into());
        let certificate = params.signed_by(key, &self.issuer).unwrap();
        Pair { chain: certificate.pem(), key: key.serialize_pem() }
    }

    /// What clients trust.
    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        roots
    }

    /// A client that keeps its tickets, with a certificate for `own`.
    pub(crate) fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        own: Option<&str>,
    ) -> Arc<ClientConfig> {
        let mut provider = aws_lc_rs::default_provider();
        provider.kx_groups = vec![kx_group::X25519MLKEM768, kx_group::X25519];
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots());
        let mut client = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let key = KeyPair::generate().unwrap();
                let mut params = CertificateParams::new(vec![own.to_owned()]).unwrap();
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
                let certificate = params.signed_by(&key, &self.issuer).unwrap();
                let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
                builder.with_client_auth_cert(vec![certificate.der().clone()], private).unwrap()
            }
        };
        client.resumption = Resumption::in_memory_sessions(8);
        Arc::new(client)
    }
}

/// A pair of ECDSA for `names`.
pub(crate) fn ecdsa(names: &[&str]) -> Pair {
    AUTHORITY.issue(names, &PKCS_ECDSA_P256_SHA256, (-1, 90))
}

pub(crate) fn template() -> Template {
    Template::new(&Arc::new(Ring::new(now())), &[b"h2", b"http/1.1"])
}

/// An identity from a file that is called like its first name.
pub(crate) fn identity(template: &Template, pair: &Pair, name: &str) -> Arc<Identity> {
    let source = Source::Files { chain: name.into(), key: name.into() };
    Arc::new(template.identity(pair.pem(), source, now()).unwrap())
}

/// What both sides agreed on.
#[derive(Debug)]
pub(crate) struct Agreed {
    pub(crate) kind: HandshakeKind,
    pub(crate) group: Option<NamedGroup>,
    pub(crate) protocol: Option<Vec<u8>>,
    pub(crate) has_client_certificate: bool,
}

/// A handshake with `identity`, and all that is sent after it.
pub(crate) fn shake(
    client: &Arc<ClientConfig>,
    identity: &Identity,
    name: &'static str,
) -> Result<Agreed, rustls::Error> {
    let mut client = ClientConnection::new(client.clone(), ServerName::try_from(name).unwrap()).unwrap();
    let mut server = ServerConnection::new(identity.server.clone()).unwrap();
    for _ in 0..8 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets()?;
        }
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets()?;
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(Agreed {
        kind: server.handshake_kind().unwrap(),
        group: server.negotiated_key_exchange_group().map(|group| group.name()),
        protocol: server.alpn_protocol().map(<[u8]>::to_vec),
        has_client_certificate: server.peer_certificates().is_some_and(|chain| !chain.is_empty()),
    })
}
