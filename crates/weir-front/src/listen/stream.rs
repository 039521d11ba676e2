//! The bytes of a connection as the protocols see them: over a plain socket, or over TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Plain, Tls};

/// Both directions of a connection.
#[derive(Debug)]
pub enum Stream {
    /// Without TLS.
    Plain(Plain),
    /// With TLS.
    Tls(Box<Tls>),
}

impl Stream {
    /// The socket beneath.
    pub fn socket(&self) -> &Plain {
        match self {
            Stream::Plain(plain) => plain,
            Stream::Tls(tls) => tls.socket(),
        }
    }

    /// Polls for bytes; see [`Plain::try_read_buf`].
    pub fn poll_read_buf(&mut self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(plain) => plain.poll_read_buf(cx, buffer),
            Stream::Tls(tls) => tls.poll_read_buf(cx, buffer),
        }
    }

    /// Writes as much of the slices as is taken now, in one system call; over TLS, in one for each 64 KiB.
    /// Over TLS, bytes that were taken may wait for [`Stream::try_flush`].
    ///
    /// # Errors
    /// `WouldBlock` if nothing is taken: wait for [`Stream::poll_writable`].
    pub fn try_write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match (self, slices) {
            (Stream::Plain(plain), [slice]) => plain.try_write(slice),
            (Stream::Plain(plain), slices) => plain.try_write_vectored(slices),
            (Stream::Tls(tls), slices) => tls.try_write_vectored(slices),
        }
    }

    /// The socket, where the kernel may send a file's bytes over it as they are.
    pub fn unsecured(&self) -> Option<&Plain> {
        match self {
            Stream::Plain(plain) => Some(plain),
            Stream::Tls(_) => None,
        }
    }

    /// Whether all bytes that were taken are with the kernel.
    pub fn is_flushed(&self) -> bool {
        match self {
            Stream::Plain(_) => true,
            Stream::Tls(tls) => tls.is_flushed(),
        }
    }

    /// How many bytes wait for the kernel.
    pub fn unsent_bytes(&self) -> usize {
        match self {
            Stream::Plain(_) => 0,
            Stream::Tls(tls) => tls.unsent_bytes(),
        }
    }

    /// Gives the kernel what it takes of the bytes that wait.
    ///
    /// # Errors
    /// `WouldBlock` if some still wait: wait for [`Stream::poll_writable`].
    pub fn try_flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(tls) => tls.try_flush(),
        }
    }

    /// Polls whether reading may succeed.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_readable(cx)
    }

    /// Polls whether writing may succeed.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_writable(cx)
    }

    /// Whether the other end has closed its side behind the bytes that are still to be read.
    pub fn is_read_closed(&self) -> bool {
        self.socket().is_read_closed()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(plain).poll_read(cx, buffer),
            Self::Tls(tls) => Pin::new(&mut **tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(plain).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(&mut **tls).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(plain).poll_write_vectored(cx, slices),
            Self::Tls(tls) => Pin::new(&mut **tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => Pin::new(&mut **tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(plain).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(&mut **tls).poll_shutdown(cx),
        }
    }
}
