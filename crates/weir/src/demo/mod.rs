//! The built-in demo origin of `weir run --demo`: a small server on 127.0.0.1, on a thread of its own, that
//! shows each thing a cache does: lifetimes, validators, 304s, ranges, `Vary`, and what must not be stored.
//!
//! Rooms: `pages` the resources, `resource` how one is answered (RFC 9110 §13, §14), `body` bytes that come
//! slowly.

mod body;
mod pages;
mod resource;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

const HEAD_TIME: Duration = Duration::from_secs(60);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Starts the demo origin; it ends with the process.
///
/// # Errors
/// When it cannot listen or its thread cannot be started.
pub(crate) fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("weir-demo".to_owned()).spawn(move || runtime.block_on(serve(listener)))?;
    Ok(address)
}

async fn serve(listener: TcpListener) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the demo origin cannot listen"),
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        tokio::spawn(async move {
            let service = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                Ok::<_, Infallible>(pages::answer(&request.into_parts().0))
            });
            // A demo does not log a client that breaks off.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

#[cfg(test)]
mod tests;
