//! The bytes of an accepted connection, over TCP or a Unix socket, as the kernel has them.
//!
//! Beside tokio's traits it has direct `try_*` calls: a hit makes one `read` and one `writev`, without
//! waiting for readiness in between.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use rustix::net::{self, RecvFlags, SendFlags};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// The most bytes of one read.
pub const READ_BYTES: usize = 16 << 10;

/// The fewest bytes that are reserved if a connection's buffer is too small.
const ROOM_BYTES: usize = 2 << 10;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// Both directions of a socket. It belongs to the runtime that accepted it.
#[derive(Debug)]
pub enum Plain {
    /// TCP, `TCP_NODELAY` set.
    Tcp(TcpStream),
    /// A Unix stream socket.
    Unix(UnixStream),
}

impl Plain {
    /// Reads what is there, at most [`READ_BYTES`], behind the content of `buffer`. `Ok(0)` is the end of the
    /// input.
    ///
    /// A read that does not fill its buffer has drained the socket, so the readiness ends without a second
    /// read that finds nothing. The bytes pass through one buffer for each thread, so that an idle connection
    /// has none.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there: wait for [`Plain::readable`].
    pub fn try_read_buf(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        SCRATCH.with_borrow_mut(|scratch| {
            let bytes = self.try_read(scratch)?;
            if buffer.capacity() - buffer.len() < bytes {
                // Room for several requests: an allocation for each would cost more than the copy.
                buffer.reserve(bytes.max(ROOM_BYTES));
            }
            buffer.extend_from_slice(&scratch[..bytes]);
            Ok(bytes)
        })
    }

    /// Reads what is there into `bytes`.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there.
    pub fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let room = bytes.len();
        self.transfer(Interest::READABLE, room, || Ok(net::recv(self, bytes, RecvFlags::empty())?.0))
    }

    /// Polls for bytes as [`Plain::try_read_buf`] reads them.
    pub fn poll_read_buf(&self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_readable(cx))?;
            match self.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return Poll::Ready(read),
            }
        }
    }

    /// Writes as much of `bytes` as the kernel takes now.
    ///
    /// # Errors
    /// `WouldBlock` if it takes nothing: wait for [`Plain::writable`].
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.transfer(Interest::WRITABLE, bytes.len(), || Ok(net::send(self, bytes, SendFlags::NOSIGNAL)?))
    }

    /// Writes as much of the slices as the kernel takes now, in one system call.
    ///
    /// # Errors
    /// `WouldBlock` when it takes nothing.
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        self.transfer(Interest::WRITABLE, bytes, || Ok(rustix::io::writev(self, slices)?))
    }

    /// Makes one system call for `wanted` bytes, if the runtime expects it to succeed. A call that moves
    /// fewer has emptied or filled the socket's buffer, so the readiness ends without another call that moves
    /// nothing; epoll reports when it begins again. The call does not use the C library, whose calls are
    /// points of cancellation and cost more instructions than entering the kernel.
    fn transfer(
        &self,
        interest: Interest,
        wanted: usize,
        call: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut moved = 0;
        let call = || {
            moved = call()?;
            if 0 < moved && moved < wanted { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        };
        let whole = match self {
            Self::Tcp(stream) => stream.try_io(interest, call),
            Self::Unix(stream) => stream.try_io(interest, call),
        };
        match whole {
            Err(error) if moved == 0 => Err(error),
            _ => Ok(moved),
        }
    }

    /// Has the kernel send up to `wanted` bytes of a file in memory, from `offset` on.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is taken: wait for [`Plain::writable`].
    pub fn try_send_file(&self, file: BorrowedFd<'_>, offset: u64, wanted: usize) -> io::Result<usize> {
        // It may move fewer for other reasons than a full buffer, so that the readiness goes on.
        let call = || {
            let mut offset = offset;
            Ok(rustix::fs::sendfile(self, file, Some(&mut offset), wanted)?)
        };
        match self {
            Self::Tcp(stream) => stream.try_io(Interest::WRITABLE, call),
            Self::Unix(stream) => stream.try_io(Interest::WRITABLE, call),
        }
    }

    /// As [`Plain::try_write`], for bytes that more follow at once: the kernel may wait for them to fill a
    /// segment.
    ///
    /// # Errors
    /// `WouldBlock` if it takes nothing: wait for [`Plain::writable`].
    pub fn try_write_ahead(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::MORE;
        self.transfer(Interest::WRITABLE, bytes.len(), || Ok(net::send(self, bytes, flags)?))
    }

    /// Waits until reading may succeed.
    ///
    /// # Errors
    /// The runtime is shutting down.
    ///
    /// # Cancel safety
    /// Safe: nothing is read.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }

    /// Waits until writing may succeed.
    ///
    /// # Errors
    /// The runtime is shutting down.
    ///
    /// # Cancel safety
    /// Safe: nothing is written.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Unix(stream) => stream.writable().await,
        }
    }

    /// Whether the other end has closed its side, or the connection is gone, behind the bytes that are still
    /// to be read. Asks only the runtime.
    pub fn is_read_closed(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let ready = match self {
            Self::Tcp(stream) => pin!(stream.ready(Interest::READABLE)).poll(&mut cx),
            Self::Unix(stream) => pin!(stream.ready(Interest::READABLE)).poll(&mut cx),
        };
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }

    /// As [`Plain::readable`], for code that polls.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    /// As [`Plain::writable`], for code that polls.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(cx),
            Self::Unix(stream) => stream.poll_write_ready(cx),
        }
    }
}

impl AsFd for Plain {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsyncRead for Plain {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Plain {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl Plain {
    /// The address of this machine that the peer connected to; `None` over a Unix socket.
    pub fn local_address(&self) -> Option<std::net::IpAddr> {
        match self {
            Self::Tcp(stream) => Some(stream.local_addr().ok()?.ip()),
            Self::Unix(_) => None,
        }
    }

    /// Has the kernel reset the connection when it is closed.
    pub fn reset_on_close(&self) {
        if let Self::Tcp(stream) = self {
            let _ = socket2::SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO));
        }
    }
}
