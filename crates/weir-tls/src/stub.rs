//! Stub until the certificates are there.
use arc_swap::ArcSwap;
use std::sync::Arc;
/// One.
#[derive(Debug)]
pub struct Identity {
    /// server
    pub server: Arc<rustls::ServerConfig>,
}
impl Identity {
    /// covers
    pub fn covers(&self, _host: &str) -> bool {
        true
    }
}
/// All.
#[derive(Debug, Default)]
pub struct Set {
    /// one
    pub one: Option<Arc<Identity>>,
}
impl Set {
    /// choose
    pub fn choose(&self, _name: Option<&str>, _ecdsa: bool) -> Option<&Arc<Identity>> {
        self.one.as_ref()
    }
    /// challenge
    pub fn challenge(&self, _name: Option<&str>) -> Option<&Arc<Identity>> {
        None
    }
}
/// Handle.
impl Default for Certificates { fn default() -> Self {
 use rustls::pki_types::pem::PemObject;
 let Ok(path) = std::env::var("WEIR_STUB_PEM") else { return Certificates { set: Arc::default() } };
 let pem = std::fs::read(path).unwrap();
 let chain: Vec<_> = rustls::pki_types::CertificateDer::pem_slice_iter(&pem).collect::<Result<_,_>>().unwrap();
 let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(&pem).unwrap();
 let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
 let mut server = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
 server.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
 server.send_tls13_tickets = 2;
 server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
 let set = Set { one: Some(Arc::new(Identity { server: Arc::new(server) })) };
 Certificates { set: Arc::new(ArcSwap::from_pointee(set)) }
}}
#[derive(Clone, Debug)]
pub struct Certificates {
    set: Arc<ArcSwap<Set>>,
}
impl Certificates {
    /// current
    pub fn current(&self) -> Arc<Set> {
        self.set.load_full()
    }
}
