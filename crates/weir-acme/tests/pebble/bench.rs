//! What stands around the thread in these tests: a clock that is moved, a folder, and a server that shows the
//! proofs.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use weir_acme::{Acme, AuthoritySettings, Challenge, Clock, Failed, Issued, Outside, Proof, Row, Settings};
use weir_disk::testing::Folder;
use weir_disk::{Disk, OsDisk};
use weir_testkit::{Pebble, PebbleSetup, until};

/// The world outside of the crate.
pub struct Bench {
    pub folder: Folder,
    pub shown: Arc<Shown>,
    offset: Arc<AtomicU64>,
    pub http_port: u16,
    pub tls_port: u16,
}

type Pair = (Vec<u8>, Vec<u8>);

/// What is shown to the CA, and what came.
#[derive(Default, Debug)]
pub struct Shown {
    http: Mutex<HashMap<String, (String, String)>>,
    /// Certificate and key by the name in the ClientHello.
    tls: Mutex<HashMap<String, Pair>>,
    pub issued: Mutex<Vec<Issued>>,
    pub failed: Mutex<Vec<Failed>>,
    /// Proofs shown in all.
    pub proofs: AtomicU64,
}

impl Outside for Shown {
    fn show(&self, proof: &Proof) {
        self.proofs.fetch_add(1, Ordering::SeqCst);
        match proof.clone() {
            Proof::Http { host, proof } => {
                self.http.lock().unwrap().insert(proof.token, (host, proof.authorization));
            }
            Proof::TlsAlpn { server_name, certificate, key } => {
                self.tls.lock().unwrap().insert(server_name, (certificate, key));
            }
        }
    }

    fn withdraw(&self, proof: &Proof) {
        match proof {
            Proof::Http { proof, .. } => drop(self.http.lock().unwrap().remove(&proof.token)),
            Proof::TlsAlpn { server_name, .. } => drop(self.tls.lock().unwrap().remove(server_name)),
        }
    }

    fn issued(&self, issued: Issued) {
        self.issued.lock().unwrap().push(issued);
    }

    fn failed(&self, failed: Failed) {
        self.failed.lock().unwrap().push(failed);
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = self.tls.lock().unwrap();
        let (certificate, key) = shown.get(hello.server_name()?)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.clone()));
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
        Some(Arc::new(CertifiedKey::new(vec![CertificateDer::from(certificate.clone())], key)))
    }
}

impl Shown {
    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let (mut line, mut host) = (String::new(), String::new());
        reader.read_line(&mut line)?;
        loop {
            let mut field = String::new();
            if reader.read_line(&mut field)? <= 2 {
                break;
            }
            if let Some(value) = field.to_ascii_lowercase().strip_prefix("host:") {
                host = value.trim().to_owned();
            }
        }
        let token = line.split(' ').nth(1).and_then(|path| path.strip_prefix("/.well-known/acme-challenge/"));
        let known = token.and_then(|token| self.http.lock().unwrap().get(token).cloned());
        match known.filter(|(wanted, _)| host.starts_with(wanted)) {
            Some((_, answer)) => {
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
                    answer.len()
                )
            }
            None => {
                write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            }
        }
    }
}

impl Bench {
    pub fn new(name: &str) -> Bench {
        let shown = Arc::new(Shown::default());
        let http = TcpListener::bind("127.0.0.1:0").unwrap();
        let tls = TcpListener::bind("127.0.0.1:0").unwrap();
        let (http_port, tls_port) = (http.local_addr().unwrap().port(), tls.local_addr().unwrap().port());
        let of_http = shown.clone();
        std::thread::spawn(move || {
            for stream in http.incoming() {
                let _ = of_http.answer(stream.unwrap());
            }
        });
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_cert_resolver(shown.clone());
        config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
        let config = Arc::new(config);
        std::thread::spawn(move || {
            for stream in tls.incoming() {
                let mut connection = rustls::ServerConnection::new(config.clone()).unwrap();
                let mut stream = stream.unwrap();
                let _ = connection.complete_io(&mut stream);
                let _ = stream.read(&mut [0]);
            }
        });
        Bench { folder: Folder::new(name), shown, offset: Arc::default(), http_port, tls_port }
    }

    pub fn setup(&self) -> PebbleSetup {
        PebbleSetup::new(self.http_port, self.tls_port)
    }

    pub fn pebble(&self) -> Option<Pebble> {
        self.start(self.setup())
    }

    pub fn start(&self, setup: PebbleSetup) -> Option<Pebble> {
        setup.start(&self.folder.path().join("pebble"))
    }

    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(OsDisk::at(&self.folder.path().join("acme")))
    }

    pub fn clock(&self) -> Clock {
        let (wall, offset) = (Clock::wall(), self.offset.clone());
        Clock::of(move || wall.now() + offset.load(Ordering::SeqCst))
    }

    pub fn advance(&self, seconds: u64) {
        self.offset.fetch_add(seconds, Ordering::SeqCst);
    }

    pub fn acme(&self, settings: Settings) -> Acme {
        Acme::start(self.disk(), settings, self.clock(), self.shown.clone()).unwrap()
    }

    /// The tokens for which there is an answer over HTTP.
    pub fn answered(&self) -> Vec<String> {
        self.shown.http.lock().unwrap().keys().cloned().collect()
    }

    pub fn issued(&self) -> usize {
        self.shown.issued.lock().unwrap().len()
    }

    pub fn failures(&self) -> Vec<String> {
        self.shown.failed.lock().unwrap().iter().map(|failed| failed.what.clone()).collect()
    }

    pub fn until_issued(&self, count: usize) {
        until(&format!("{count} certificates"), || self.issued() >= count);
    }
}

pub fn settings(pebble: &Pebble, hosts: &[&str]) -> Settings {
    Settings {
        authorities: vec![authority(pebble)],
        hosts: hosts.iter().map(ToString::to_string).collect(),
        challenges: vec![Challenge::Http01],
    }
}

pub fn authority(pebble: &Pebble) -> AuthoritySettings {
    AuthoritySettings { roots: Some(pebble.roots().to_owned()), ..AuthoritySettings::at(&pebble.directory()) }
}

pub fn row(acme: &Acme, host: &str) -> Row {
    acme.rows().into_iter().find(|row| row.host == host).unwrap()
}
