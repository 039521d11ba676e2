//! How a CA is reached: HTTP/1.1 over TLS, with deadlines and bounds, connections kept for the next request.
//! What is no answer of ACME (no connection, 5xx) is an error here, so that it is told from a refusal. What a
//! CA asks for by `Retry-After` is noted for the task that asked.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::clock::{Clock, Seconds};

/// How long one request may take, connecting included.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// The longest response: a chain of certificates.
const RESPONSE_BYTES_MAX: usize = 1 << 20;
/// How many idle connections are kept.
const IDLE_MAX: usize = 4;
const PROGRAM: HeaderValue =
    HeaderValue::from_static(concat!("weir/", env!("CARGO_PKG_VERSION"), " instant-acme"));

/// Why a CA has not answered.
#[derive(Debug, Error)]
pub enum TransportError {
    /// The address is none that can be asked.
    #[error("{0} is no https address")]
    Address(Uri),
    /// The roots cannot be used.
    #[error("the CA's roots cannot be used: {0}")]
    Roots(String),
    /// No connection.
    #[error("cannot connect to {host}: {source}")]
    Connect {
        /// Where.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke, or it spoke no HTTP.
    #[error("no answer from {host}: {source}")]
    Broken {
        /// Where.
        host: String,
        /// Why.
        source: hyper::Error,
    },
    /// The content could not be read, or was too long.
    #[error("cannot read the answer of {host}: {reason}")]
    Content {
        /// Where.
        host: String,
        /// Why.
        reason: String,
    },
    /// The deadline passed.
    #[error("no answer from {0} in {n} s", n = REQUEST_TIME_MAX.as_secs())]
    Late(String),
    /// It says that it does not work.
    #[error("{host} answers {status}: {detail}")]
    Unavailable {
        /// Where.
        host: String,
        /// The status.
        status: u16,
        /// The beginning of the content.
        detail: String,
    },
}

tokio::task_local! {
    /// What the latest response to this task asked for by `Retry-After`, in seconds.
    static ASKED_TO_WAIT: Cell<Option<Seconds>>;
}

/// Runs a task and tells what the last response to it asked for by `Retry-After`, in seconds.
pub(crate) async fn noting<T>(task: impl Future<Output = T>) -> (T, Option<Seconds>) {
    let noted = async {
        let done = task.await;
        (done, ASKED_TO_WAIT.with(Cell::get))
    };
    ASKED_TO_WAIT.scope(Cell::new(None), noted).await
}

/// The way to one CA; clones share their connections.
#[derive(Clone)]
pub(crate) struct Transport {
    tls: TlsConnector,
    idle: Arc<Mutex<Vec<Idle>>>,
    clock: Clock,
}

struct Idle {
    authority: String,
    sender: SendRequest<Full<Bytes>>,
}

impl Transport {
    /// # Errors
    /// The roots hold no certificate.
    pub(crate) fn new(roots_pem: Option<&str>, clock: Clock) -> Result<Transport, TransportError> {
        let bad = |reason: &dyn std::fmt::Display| TransportError::Roots(reason.to_string());
        let mut roots = RootCertStore::empty();
        match roots_pem {
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                    roots.add(certificate.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err(bad(&"there are none"));
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Transport { tls: TlsConnector::from(Arc::new(config)), idle: Arc::default(), clock })
    }

    async fn ask(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, TransportError> {
        let (mut parts, body) = request.into_parts();
        let uri = parts.uri.clone();
        let (Some("https"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(TransportError::Address(uri));
        };
        let Ok(host) = HeaderValue::from_str(authority.as_str()) else {
            return Err(TransportError::Address(uri.clone()));
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let Ok(path) = path.parse() else { return Err(TransportError::Address(uri.clone())) };
        parts.uri = path;
        parts.headers.insert(HOST, host);
        parts.headers.insert(USER_AGENT, PROGRAM);
        let content = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let request = Request::from_parts(parts, Full::new(content));
        match tokio::time::timeout(REQUEST_TIME_MAX, self.exchange(&uri, authority.as_str(), request)).await {
            Ok(answer) => answer,
            Err(_) => Err(TransportError::Late(authority.to_string())),
        }
    }

    async fn exchange(
        &self,
        uri: &Uri,
        authority: &str,
        request: Request<Full<Bytes>>,
    ) -> Result<BytesResponse, TransportError> {
        let mut sender = match self.kept(authority).await {
            Some(sender) => sender,
            None => self.connect(uri, authority).await?,
        };
        let broken = |source| TransportError::Broken { host: authority.to_owned(), source };
        let response = sender.send_request(request).await.map_err(broken)?;
        let (parts, body) = response.into_parts();
        let content = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
        let content = content
            .map_err(|error| TransportError::Content {
                host: authority.to_owned(),
                reason: error.to_string(),
            })?
            .to_bytes();
        let wait = parts.headers.get(RETRY_AFTER).and_then(|value| self.seconds(value));
        // Outside of a task that wants to know it, nobody does.
        let _ = ASKED_TO_WAIT.try_with(|asked| asked.set(wait));
        if parts.status.is_server_error() {
            let detail = String::from_utf8_lossy(&content).chars().take(200).collect();
            let (host, status) = (authority.to_owned(), parts.status.as_u16());
            return Err(TransportError::Unavailable { host, status, detail });
        }
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(Idle { authority: authority.to_owned(), sender });
        }
        drop(idle);
        Ok(Response::from_parts(parts, Full::new(content)).into())
    }

    /// A kept connection that is still open.
    async fn kept(&self, authority: &str) -> Option<SendRequest<Full<Bytes>>> {
        loop {
            let mut sender = {
                let mut idle = self.idle.lock();
                let at = idle.iter().position(|idle| idle.authority == authority)?;
                idle.swap_remove(at).sender
            };
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    async fn connect(&self, uri: &Uri, authority: &str) -> Result<SendRequest<Full<Bytes>>, TransportError> {
        let failed = |source| TransportError::Connect { host: authority.to_owned(), source };
        let host = uri.host().unwrap_or_default();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned();
        let stream =
            TcpStream::connect((bare.as_str(), uri.port_u16().unwrap_or(443))).await.map_err(failed)?;
        let name = ServerName::try_from(bare).map_err(|_| TransportError::Address(uri.clone()))?;
        let stream = self.tls.connect(name, stream).await.map_err(failed)?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|source| TransportError::Broken { host: authority.to_owned(), source })?;
        // The connection ends with its sender.
        tokio::spawn(async move { connection.await.is_ok() });
        Ok(sender)
    }

    /// The seconds from now on of a `Retry-After` (RFC 9110 §10.2.3).
    fn seconds(&self, value: &HeaderValue) -> Option<Seconds> {
        let text = value.to_str().ok()?.trim();
        text.parse().ok().or_else(|| {
            let at = httpdate::parse_http_date(text).ok()?;
            let at = at.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
            Some(at.saturating_sub(self.clock.now()))
        })
    }
}

impl HttpClient for Transport {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let transport = self.clone();
        Box::pin(async move { transport.ask(request).await.map_err(|error| Error::Other(Box::new(error))) })
    }
}
