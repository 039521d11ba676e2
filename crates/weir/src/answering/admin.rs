//! Metrics and status of `weir distributor`: `GET /metrics`, `/status` and `/health`, one request a
//! connection.

use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use weir_config::value::ListenAddress;
use weir_distributor::serve::What;

use super::Answering;

/// Connections at once.
const CONNECTIONS_MAX: usize = 16;
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest request.
const REQUEST_BYTES_MAX: usize = 8192;

/// Answers requests at an address, for good.
///
/// # Errors
/// The address cannot be listened at.
pub(crate) async fn serve(address: &ListenAddress, answering: Arc<Answering>) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    match address {
        ListenAddress::Tcp(address) => {
            let listener = TcpListener::bind(address).await?;
            loop {
                let Ok(permit) = room.clone().acquire_owned().await else { return Ok(()) };
                if let Ok((stream, _)) = listener.accept().await {
                    let answering = answering.clone();
                    tokio::spawn(async move {
                        let _ = tokio::time::timeout(PATIENCE, exchange(stream, &answering)).await;
                        drop(permit);
                    });
                }
            }
        }
        ListenAddress::Unix { path, .. } => {
            let _ = std::fs::remove_file(path);
            let listener = UnixListener::bind(path)?;
            loop {
                let Ok(permit) = room.clone().acquire_owned().await else { return Ok(()) };
                if let Ok((stream, _)) = listener.accept().await {
                    let answering = answering.clone();
                    tokio::spawn(async move {
                        let _ = tokio::time::timeout(PATIENCE, exchange(stream, &answering)).await;
                        drop(permit);
                    });
                }
            }
        }
    }
}

async fn exchange<S>(mut stream: S, answering: &Answering) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut read = Vec::new();
    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut bytes = [0; 1024];
        let length = stream.read(&mut bytes).await?;
        if length == 0 || read.len() > REQUEST_BYTES_MAX {
            return Ok(());
        }
        read.extend_from_slice(&bytes[..length]);
    }
    let line = read.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/metrics")) => ("200 OK", "text/plain; version=0.0.4", metrics(answering)),
        (Some(b"GET"), Some(b"/status")) => ("200 OK", "application/json", status(answering)),
        (Some(b"GET"), Some(b"/health")) => ("200 OK", "text/plain", "ok\n".to_owned()),
        (Some(b"GET"), _) => ("404 Not Found", "text/plain", "/metrics, /status, /health\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "GET alone\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await?;
    stream.shutdown().await
}

/// All counters in Prometheus' text.
fn metrics(answering: &Answering) -> String {
    let mut text = String::new();
    let served = answering.server.served();
    // Writing to a text does not fail.
    let _ = writeln!(text, "# HELP weir_distributor_questions_total Questions, by what became of them.");
    let _ = writeln!(text, "# TYPE weir_distributor_questions_total counter");
    for what in What::ALL {
        let (word, count) = (what.word(), served.get(what));
        let _ = writeln!(text, "weir_distributor_questions_total{{what=\"{word}\"}} {count}");
    }
    let _ = writeln!(text, "# HELP weir_distributor_origin_up Whether an origin takes requests.");
    let _ = writeln!(text, "# TYPE weir_distributor_origin_up gauge");
    let _ = writeln!(text, "# HELP weir_distributor_picks_total Answers that name an origin.");
    let _ = writeln!(text, "# TYPE weir_distributor_picks_total counter");
    for upstream in answering.upstreams.lock().values() {
        let snapshot = upstream.snapshot();
        for origin in snapshot.origins {
            let labels = format!("upstream=\"{}\",origin=\"{}\"", snapshot.name, origin.name);
            let is_up = u8::from(origin.standing.takes_share());
            let picks: u64 = origin.picks.iter().map(|(_, _, count)| *count).sum();
            let _ = writeln!(text, "weir_distributor_origin_up{{{labels}}} {is_up}");
            let _ = writeln!(text, "weir_distributor_picks_total{{{labels}}} {picks}");
        }
    }
    text
}

/// The same for people and programs, as JSON.
fn status(answering: &Answering) -> String {
    let served = answering.server.served();
    let counts: serde_json::Map<String, serde_json::Value> =
        What::ALL.iter().map(|what| (what.word().to_owned(), served.get(*what).into())).collect();
    let upstreams: serde_json::Map<String, serde_json::Value> = answering
        .upstreams
        .lock()
        .values()
        .map(|upstream| {
            let origins = upstream.snapshot().origins.into_iter();
            let origins: Vec<_> = origins
                .map(
                    |origin| serde_json::json!({ "name": &*origin.name, "standing": origin.standing.word() }),
                )
                .collect();
            (upstream.name().to_owned(), origins.into())
        })
        .collect();
    let picks = answering.maker.states();
    let all = serde_json::json!({
        "listening": answering.listening(),
        "questions": counts,
        "upstreams": upstreams,
        "picks": picks,
    });
    format!("{all:#}\n")
}
