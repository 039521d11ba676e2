//! A byte stream to an origin: TCP, TLS over TCP, or a unix socket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// The stream of a connection.
#[derive(Debug)]
pub(crate) enum Transport {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    /// Whether nothing has arrived and the other side has not closed. It asks the kernel, since tokio may not
    /// know yet. Otherwise the connection is not used again (RFC 9112 §9.3).
    pub(crate) fn is_quiet(&mut self) -> bool {
        let socket = match self {
            Self::Tcp(stream) => SockRef::from(&*stream),
            Self::Unix(stream) => SockRef::from(&*stream),
            Self::Tls(stream) => {
                let (stream, session) = stream.get_mut();
                match session.process_new_packets() {
                    Ok(state) if state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed() => {}
                    _ => return false,
                }
                SockRef::from(&*stream)
            }
        };
        let mut byte = [std::mem::MaybeUninit::uninit(); 1];
        matches!(socket.peek(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// The address of the other side; `None` for a unix socket, or where it has gone.
    pub(crate) fn peer(&self) -> Option<String> {
        let stream = match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
            Self::Unix(_) => return None,
        };
        stream.peer_addr().ok().map(|peer| peer.to_string())
    }

    /// Whether the stream can be moved to another runtime's reactor.
    pub(crate) fn is_movable(&self) -> bool {
        !matches!(self, Self::Tls(_))
    }

    /// Registers the stream with the current runtime's reactor instead of the one it was made in.
    ///
    /// # Errors
    /// When a reactor refuses, or the stream cannot be moved; the stream is closed then.
    pub(crate) fn moved_here(self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => Ok(Self::Tcp(TcpStream::from_std(stream.into_std()?)?)),
            Self::Unix(stream) => Ok(Self::Unix(UnixStream::from_std(stream.into_std()?)?)),
            Self::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(_) | Self::Unix(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
