//! A connection after `101 Switching Protocols`: bytes both ways, and no more HTTP (RFC 9110 §7.8).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Connection;
use crate::error::{Bound, ExchangeError};
use crate::pool::slot::Lease;

/// A byte stream to the origin. Counts among the origin's streams until dropped. Where it gives way to
/// another client's, its connection is closed, and it ends as if the origin had left; flushing it says
/// [`io::ErrorKind::ConnectionAborted`] from then on.
#[derive(Debug)]
pub struct Tunnel {
    /// None once it has given way.
    lease: Option<Lease>,
}

impl Tunnel {
    pub(crate) fn new(mut lease: Lease) -> Self {
        if let Some(trace) = &mut lease.connection.trace {
            trace.lasts();
        }
        Self { lease: Some(lease) }
    }

    /// Its connection, unless it has given way.
    fn poll_connection(&mut self, cx: &mut Context<'_>) -> Option<&mut Connection> {
        if self.lease.as_mut().is_some_and(|lease| lease.permit.poll_gone(cx).is_ready())
            && let Some(mut lease) = self.lease.take()
        {
            let (bound, retry_after) = (Bound::ClientShare, Duration::ZERO);
            lease.connection.fail_attempt(&ExchangeError::Busy { bound, retry_after });
        }
        self.lease.as_mut().map(|lease| &mut *lease.connection)
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(connection) = self.get_mut().poll_connection(cx) else { return Poll::Ready(Ok(())) };
        let early = &mut connection.incoming;
        if early.is_empty() {
            let before = buf.filled().len();
            let read = Pin::new(&mut connection.transport).poll_read(cx, buf);
            connection.received(buf.filled().len() - before);
            return read;
        }
        let taken = early.len().min(buf.remaining());
        buf.put_slice(&early[..taken]);
        early.advance(taken);
        Poll::Ready(Ok(()))
    }
}

/// What writing meets once it has given way.
fn gone() -> Poll<io::Result<usize>> {
    Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
}

/// Notes what was written.
fn note(connection: &mut Connection, written: &Poll<io::Result<usize>>) {
    if let Poll::Ready(Ok(bytes)) = written {
        connection.sent(*bytes as u64);
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Some(connection) = self.get_mut().poll_connection(cx) else { return gone() };
        let written = Pin::new(&mut connection.transport).poll_write(cx, buf);
        note(connection, &written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Some(connection) = self.get_mut().poll_connection(cx) else { return gone() };
        let written = Pin::new(&mut connection.transport).poll_write_vectored(cx, bufs);
        note(connection, &written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().poll_connection(cx) {
            Some(connection) => Pin::new(&mut connection.transport).poll_flush(cx),
            None => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().poll_connection(cx) {
            Some(connection) => Pin::new(&mut connection.transport).poll_shutdown(cx),
            None => Poll::Ready(Ok(())),
        }
    }
}
