//! Makes a connection: tries the addresses one after another with a short lead each (RFC 8305, simplified),
//! then TLS. It must not look up a name that has known addresses.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};

use crate::address::{Addresses, Known};
use crate::connection::Connection;
use crate::error::ExchangeError;
use crate::tls::Tls;
use crate::transport::Transport;

/// How long an address is tried alone before the next one is tried beside it (RFC 8305 §5).
const LEAD: Duration = Duration::from_millis(250);
/// The most addresses that one connection is tried at.
const TRIED_MAX: usize = 8;

/// How a server is reached.
#[derive(Debug)]
pub(crate) enum Place {
    Tcp {
        addresses: Arc<Addresses>,
        tls: Option<Tls>,
    },
    Unix {
        path: PathBuf,
    },
    #[cfg(test)]
    Scripted(crate::tests::scripted::Script),
}

/// Connects, TLS handshake included, within `limit`. Name lookups have their own limit.
///
/// # Errors
/// That of the last address, where none answered.
///
/// # Cancel safety
/// Dropped, it closes what was under way.
pub(crate) async fn connect(place: &Place, limit: Duration) -> Result<Box<Connection>, ExchangeError> {
    let transport = match place {
        Place::Unix { path } => within(limit, unix(path)).await?,
        #[cfg(test)]
        Place::Scripted(_) => unreachable!("it is no stream of bytes"),
        Place::Tcp { addresses, tls } => {
            let known = addresses.current().await?;
            within(limit, tcp(&known, tls.as_ref())).await?
        }
    };
    Ok(Box::new(Connection::new(transport)))
}

async fn within<F>(limit: Duration, work: F) -> Result<Transport, ExchangeError>
where
    F: Future<Output = Result<Transport, ExchangeError>>,
{
    tokio::time::timeout(limit, work).await.unwrap_or(Err(ExchangeError::ConnectTimeout))
}

async fn unix(path: &Path) -> Result<Transport, ExchangeError> {
    UnixStream::connect(path).await.map(Transport::Unix).map_err(refused)
}

async fn tcp(known: &Known, tls: Option<&Tls>) -> Result<Transport, ExchangeError> {
    let stream = match known.list.as_slice() {
        [one] => TcpStream::connect(*one).await.map_err(refused)?,
        list => race(list, known).await?,
    };
    // Heads and bodies are written whole: waiting for more bytes would only delay them.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return Ok(Transport::Tcp(stream)) };
    let session = tls.connector.connect(tls.name.clone(), stream).await.map_err(handshake)?;
    Ok(Transport::Tls(Box::new(session)))
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Tries the addresses in turn, beginning with the one that answered last; the next begins when one fails or
/// has had its lead.
async fn race(list: &[SocketAddr], known: &Known) -> Result<TcpStream, ExchangeError> {
    let first = known.preferred.load(Ordering::Relaxed);
    let mut order = (0..list.len()).map(|step| (first + step) % list.len()).take(TRIED_MAX);
    let mut running: Vec<(usize, Connecting)> = Vec::new();
    let mut last = None;
    loop {
        match order.next() {
            Some(index) => running.push((index, Box::pin(TcpStream::connect(list[index])))),
            None if running.is_empty() => break,
            None => {}
        }
        let more = order.len() > 0;
        let mut lead = pin!(tokio::time::sleep(LEAD));
        let ended = poll_fn(|cx| match poll_any(&mut running, cx) {
            Poll::Pending if more => lead.as_mut().poll(cx).map(|()| None),
            other => other.map(Some),
        });
        match ended.await {
            Some((index, Ok(stream))) => {
                known.preferred.store(index, Ordering::Relaxed);
                return Ok(stream);
            }
            Some((_, Err(error))) => last = Some(error),
            None => {}
        }
    }
    Err(refused(last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into())))
}

fn poll_any(
    running: &mut Vec<(usize, Connecting)>,
    cx: &mut Context<'_>,
) -> Poll<(usize, io::Result<TcpStream>)> {
    for slot in 0..running.len() {
        let (index, connecting) = &mut running[slot];
        let index = *index;
        if let Poll::Ready(result) = connecting.as_mut().poll(cx) {
            drop(running.remove(slot));
            return Poll::Ready((index, result));
        }
    }
    Poll::Pending
}

fn refused(error: io::Error) -> ExchangeError {
    let kind = error.kind();
    let source = Arc::new(error);
    match kind {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => ExchangeError::Refused { source },
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            ExchangeError::Unroutable { source }
        }
        io::ErrorKind::TimedOut => ExchangeError::ConnectTimeout,
        _ => ExchangeError::Connect { source },
    }
}

/// The error of a failed handshake, or of a TLS session that has failed.
pub(crate) fn handshake(error: io::Error) -> ExchangeError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let certificate =
        matches!(inner, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented));
    let alert = matches!(inner, Some(rustls::Error::AlertReceived(_)));
    let source = Arc::new(error);
    match (certificate, alert) {
        (true, _) => ExchangeError::Certificate { source },
        (_, true) => ExchangeError::Alert { source },
        _ => ExchangeError::Tls { source },
    }
}
