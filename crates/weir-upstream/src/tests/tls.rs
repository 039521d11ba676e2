//! https: verification, names, client certificates, and what failing them is called.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::scripted::{Peer, fetch, get, settings};
use crate::{ClientCertificate, ExchangeError, OriginError, TlsSettings, Upstream, Verify};

/// An authority of its own and a folder for the files; the folder is removed with it.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        let folder = std::env::temp_dir().join(format!("weir-tls-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    fn ca(&self) -> Verify {
        Verify::CaFile(self.folder.join("ca.pem"))
    }

    fn certificate(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    fn client(&self) -> ClientCertificate {
        let (certificate, key) = self.certificate("weir.example");
        let files = ClientCertificate {
            certificate: self.folder.join("client.pem"),
            key: self.folder.join("client.key"),
        };
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    /// An https origin with a certificate for `name`, on localhost's port that is given back.
    async fn serve(&self, name: &str, ask_client: bool) -> (u16, tokio::task::JoinHandle<()>) {
        let (certificate, key) = self.certificate(name);
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = if ask_client {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.unwrap().with_client_cert_verifier(verifier)
        } else {
            builder.unwrap().with_no_client_auth()
        };
        accept(builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()).await
    }
}

/// An https origin on a port of localhost that is given back; it answers with the name that it was asked by.
async fn accept(config: ServerConfig) -> (u16, tokio::task::JoinHandle<()>) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let sni = stream.get_ref().1.server_name().unwrap_or("none").to_owned();
                Peer::new(Box::new(stream), 0, Arc::new(Mutex::new(Vec::new()))).answer_all(&sni).await;
            });
        }
    });
    (port, task)
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn upstream(host: &str, port: u16, tls: TlsSettings) -> Arc<Upstream> {
    let mut settings = settings(&[format!("https://{host}:{port}")]);
    settings.tls = tls;
    Upstream::new(settings).unwrap()
}

#[tokio::test]
async fn a_good_certificate_is_accepted_and_the_session_reused() {
    let authority = Authority::new();
    let (port, serving) = authority.serve("localhost", false).await;
    let tls = TlsSettings { verify: authority.ca(), ..TlsSettings::default() };
    let upstream = upstream("localhost", port, tls);
    for _ in 0..5 {
        assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "localhost");
    }
    assert_eq!(upstream.snapshot().origins[0].connects, 1);
    serving.abort();
}

#[test]
fn a_session_of_another_runtime_is_closed_for_its_permit() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let authority = Authority::new();
    let home = runtime();
    let (port, serving) = home.block_on(authority.serve("localhost", false));
    let stop = tokio::sync::oneshot::channel::<()>();
    let running = std::thread::spawn(move || home.block_on(async { stop.1.await.ok() }));
    let mut settings = settings(&[format!("https://localhost:{port}")]);
    settings.tls.verify = authority.ca();
    settings.bounds.connections_max = 1;
    let upstream = Upstream::new(settings).unwrap();
    let (first, second) = (runtime(), runtime());
    for _ in 0..3 {
        for worker in [&first, &second] {
            assert_eq!(worker.block_on(fetch(&upstream, get("/"))).unwrap(), "localhost");
        }
    }
    let counts = &upstream.snapshot().origins[0];
    assert_eq!((counts.connects, counts.connections_open, counts.busy), (6, 1, 0));
    serving.abort();
    stop.0.send(()).unwrap();
    running.join().unwrap();
}

#[tokio::test]
async fn the_name_can_be_set() {
    let authority = Authority::new();
    let (port, serving) = authority.serve("inner.example", false).await;
    let tls = TlsSettings {
        verify: authority.ca(),
        server_name: Some("inner.example".to_owned()),
        ..TlsSettings::default()
    };
    assert_eq!(fetch(&upstream("127.0.0.1", port, tls), get("/")).await.unwrap(), "inner.example");
    serving.abort();
}

#[tokio::test]
async fn a_wrong_name_and_an_unknown_issuer_are_refused_but_not_without_verification() {
    let authority = Authority::new();
    let (port, serving) = authority.serve("other.example", false).await;
    let believed = TlsSettings { verify: authority.ca(), ..TlsSettings::default() };
    let error = fetch(&upstream("localhost", port, believed), get("/")).await.unwrap_err();
    assert_eq!((error.proxy_status(), error.status().as_u16()), ("tls_certificate_error", 502));
    let error = fetch(&upstream("localhost", port, TlsSettings::default()), get("/")).await.unwrap_err();
    assert!(matches!(error, OriginError::Exchange(ExchangeError::Certificate { .. })), "{error:?}");
    let trusting = TlsSettings { verify: Verify::Nothing, ..TlsSettings::default() };
    assert_eq!(fetch(&upstream("localhost", port, trusting), get("/")).await.unwrap(), "localhost");
    serving.abort();
}

/// `openssl x509 -req` of Debian 12 makes them where no extension is asked for.
#[tokio::test]
async fn without_verification_a_certificate_of_version_1_is_taken() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let certificate = CertificateDer::from_pem_slice(include_bytes!("v1/certificate.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("v1/key.pem")).unwrap();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let key = provider.key_provider.load_private_key(key).unwrap();
        let shown = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
        let builder = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version])
            .unwrap();
        let (port, serving) = accept(builder.with_no_client_auth().with_cert_resolver(Arc::new(shown))).await;
        let trusting = TlsSettings { verify: Verify::Nothing, ..TlsSettings::default() };
        assert_eq!(fetch(&upstream("localhost", port, trusting), get("/")).await.unwrap(), "localhost");
        let error = fetch(&upstream("localhost", port, TlsSettings::default()), get("/")).await.unwrap_err();
        assert!(matches!(error, OriginError::Exchange(ExchangeError::Certificate { .. })), "{error:?}");
        serving.abort();
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_one_is_asked_for() {
    let authority = Authority::new();
    let (port, serving) = authority.serve("localhost", true).await;
    let without = TlsSettings { verify: authority.ca(), ..TlsSettings::default() };
    let error = fetch(&upstream("localhost", port, without), get("/")).await.unwrap_err();
    assert_eq!(error.proxy_status(), "tls_alert_received", "{error:?}");
    let with = TlsSettings {
        verify: authority.ca(),
        client_certificate: Some(authority.client()),
        ..TlsSettings::default()
    };
    assert_eq!(fetch(&upstream("localhost", port, with), get("/")).await.unwrap(), "localhost");
    serving.abort();
}

#[tokio::test]
async fn a_plain_origin_behind_https_is_a_tls_error() {
    let origin = super::scripted::serve(|mut peer| async move {
        peer.send("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        peer.hold().await;
    })
    .await;
    let tls = TlsSettings { verify: Verify::Nothing, ..TlsSettings::default() };
    let error = fetch(&upstream("127.0.0.1", origin.address.port(), tls), get("/")).await.unwrap_err();
    assert_eq!(error.proxy_status(), "tls_protocol_error", "{error:?}");
}
