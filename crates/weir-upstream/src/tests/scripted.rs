//! An origin that does what a test says, connection by connection, and remembers what it was sent.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::{
    OriginBody, OriginError, OriginRequest, OriginResponse, OriginSettings, Timeouts, Upstream,
    UpstreamSettings,
};

/// What a test's origin reads and writes.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A scripted origin; gone when dropped.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Scripted {
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Connections taken so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// The heads of the requests that came, in order.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One connection as its script sees it.
pub(crate) struct Peer {
    pub(crate) stream: Box<dyn Stream>,
    /// Its number, from 0.
    pub(crate) index: usize,
    buffer: Vec<u8>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    pub(crate) fn new(stream: Box<dyn Stream>, index: usize, seen: Arc<Mutex<Vec<String>>>) -> Self {
        Self { stream, index, buffer: Vec::new(), seen }
    }

    /// The next request's head; `None` when the connection ends.
    pub(crate) async fn request(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                let rest = self.buffer.split_off(at + 4);
                let head = String::from_utf8(std::mem::replace(&mut self.buffer, rest)).unwrap();
                self.seen.lock().push(head.clone());
                return Some(head);
            }
            if self.stream.read_buf(&mut self.buffer).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// So many bytes of a body.
    pub(crate) async fn body(&mut self, bytes: usize) -> Vec<u8> {
        while self.buffer.len() < bytes {
            if self.stream.read_buf(&mut self.buffer).await.unwrap_or(0) == 0 {
                break;
            }
        }
        let rest = self.buffer.split_off(bytes.min(self.buffer.len()));
        std::mem::replace(&mut self.buffer, rest)
    }

    /// Everything up to and with `end`, or the end of the stream.
    pub(crate) async fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.buffer.windows(end.len()).position(|some| some == end) {
                let rest = self.buffer.split_off(at + end.len());
                return std::mem::replace(&mut self.buffer, rest);
            }
            if self.stream.read_buf(&mut self.buffer).await.unwrap_or(0) == 0 {
                return std::mem::take(&mut self.buffer);
            }
        }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
        let _ = self.stream.flush().await;
    }

    /// Answers every request with `text` until the connection ends.
    pub(crate) async fn answer_all(&mut self, text: &str) {
        while self.request().await.is_some() {
            self.send(ok(text)).await;
        }
    }

    /// Reads and does nothing else until the other side closes.
    pub(crate) async fn hold(&mut self) {
        let mut sink = [0; 4096];
        while self.stream.read(&mut sink).await.unwrap_or(0) > 0 {}
    }
}

/// Starts an origin whose connections all run `script`.
pub(crate) async fn serve<F, Done>(script: F) -> Scripted
where
    F: Fn(Peer) -> Done + Send + Sync + 'static,
    Done: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (count, heads) = (accepted.clone(), seen.clone());
    let task = tokio::spawn(async move {
        // Dropped with this task, which ends the scripts.
        let mut scripts = tokio::task::JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let index = count.fetch_add(1, Ordering::SeqCst);
            stream.set_nodelay(true).unwrap();
            scripts.spawn(script(Peer::new(Box::new(stream), index, heads.clone())));
        }
    });
    Scripted { address, accepted, seen, task }
}

/// An address where nobody listens, another each time. A port of the kernel's choice that was closed again
/// may become another test's.
pub(crate) fn gone() -> SocketAddr {
    static NEXT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(1);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    SocketAddr::from(([127, 77, number, 1], 1))
}

/// A whole response.
pub(crate) fn ok(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len())
}

/// Times short enough to wait for.
pub(crate) fn short() -> Timeouts {
    Timeouts {
        connect: Duration::from_secs(2),
        first_byte: Duration::from_millis(300),
        between_bytes: Duration::from_millis(300),
        queue: Duration::from_millis(300),
        ..Timeouts::default()
    }
}

/// Settings for these origins with [`short`] times.
pub(crate) fn settings<T: AsRef<str>>(urls: &[T]) -> UpstreamSettings {
    let mut all = urls.iter().map(|url| OriginSettings::new(url.as_ref().parse().unwrap()));
    let mut settings = UpstreamSettings::single("test", all.next().unwrap().address);
    settings.origins.extend(all);
    settings.timeouts = short();
    settings
}

/// An upstream of one scripted origin.
pub(crate) fn upstream(origin: &Scripted) -> Arc<Upstream> {
    Upstream::new(settings(&[origin.url()])).unwrap()
}

pub(crate) fn request(method: Method, path: &str) -> OriginRequest {
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("site.example"));
    OriginRequest::new(method, Bytes::copy_from_slice(path.as_bytes()), headers)
}

pub(crate) fn get(path: &str) -> OriginRequest {
    request(Method::GET, path)
}

/// Sends, and reads the body to its end.
pub(crate) async fn fetch(upstream: &Arc<Upstream>, request: OriginRequest) -> Result<String, OriginError> {
    let mut response = upstream.send(request, None).await?;
    text(&mut response.body).await
}

/// A response whose head must come.
pub(crate) async fn head(upstream: &Arc<Upstream>, request: OriginRequest) -> Box<OriginResponse> {
    upstream.send(request, None).await.unwrap()
}

/// A body to its end.
pub(crate) async fn text(body: &mut OriginBody) -> Result<String, OriginError> {
    let mut all = Vec::new();
    while let Some(data) = body.next().await? {
        all.extend_from_slice(&data);
    }
    Ok(String::from_utf8(all).unwrap())
}
