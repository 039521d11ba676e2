//! The bytes of an accepted connection, over TCP or a Unix socket, as the kernel has them.
//!
//! Beside tokio's traits it has direct `try_*` calls: a hit makes one `read` and one `writev`, without
//! waiting for readiness in between.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use weir_sealed::SealedPart;

use super::Family;

/// The most bytes of one read.
pub const READ_BYTES: usize = 16 << 10;

/// The fewest bytes that are reserved if a connection's buffer is too small.
const ROOM_BYTES: usize = 2 << 10;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// Both directions of a non-blocking socket. It joins the runtime of the thread that first waits for it: a
/// new connection often has its request with it, and may be over before anything is waited for.
#[derive(Debug)]
pub struct Plain {
    watch: RefCell<Watch>,
    family: Family,
}

/// A socket, and whether the runtime tells when it is ready.
#[derive(Debug)]
enum Watch {
    /// It does not, and nothing was tried yet.
    Untried(OwnedFd),
    /// It does not, and the kernel had no more bytes to be read.
    Drained(OwnedFd),
    Tcp(TcpStream),
    Unix(UnixStream),
    /// The runtime has refused it.
    Lost,
}

impl Watch {
    fn socket(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(match self {
            Self::Untried(socket) | Self::Drained(socket) => socket.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Lost => return Err(io::ErrorKind::NotConnected.into()),
        })
    }

    /// Makes a system call, unless the runtime knows that it would block.
    fn try_io(
        &mut self,
        interest: Interest,
        call: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => return stream.try_io(interest, || call(stream.as_fd())),
            Self::Unix(stream) => return stream.try_io(interest, || call(stream.as_fd())),
            _ => {}
        }
        let called = call(self.socket()?);
        if interest.is_readable() && called.as_ref().is_err_and(would_block) {
            *self = match mem::replace(self, Self::Lost) {
                Self::Untried(socket) => Self::Drained(socket),
                other => other,
            };
        }
        called
    }

    /// Has the runtime tell when it is ready.
    fn join(&mut self, family: Family) -> io::Result<()> {
        if let Self::Tcp(_) | Self::Unix(_) = self {
            return Ok(());
        }
        *self = match (mem::replace(self, Self::Lost), family) {
            (Self::Untried(socket) | Self::Drained(socket), Family::Tcp) => {
                Self::Tcp(TcpStream::from_std(socket.into())?)
            }
            (Self::Untried(socket) | Self::Drained(socket), Family::Unix) => {
                Self::Unix(UnixStream::from_std(socket.into())?)
            }
            (other, _) => other,
        };
        Ok(())
    }
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

impl Plain {
    /// A connected socket, which must not block.
    pub fn new(socket: OwnedFd, family: Family) -> Plain {
        Plain { watch: RefCell::new(Watch::Untried(socket)), family }
    }

    /// Takes the socket out of its runtime.
    ///
    /// # Errors
    /// Those of the runtime. The connection is then lost.
    pub fn into_socket(self) -> io::Result<(OwnedFd, Family)> {
        let socket = match self.watch.into_inner() {
            Watch::Untried(socket) | Watch::Drained(socket) => socket,
            Watch::Tcp(stream) => stream.into_std()?.into(),
            Watch::Unix(stream) => stream.into_std()?.into(),
            Watch::Lost => return Err(io::ErrorKind::NotConnected.into()),
        };
        Ok((socket, self.family))
    }

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
        self.transfer(Interest::READABLE, room, |socket| Ok(net::recv(socket, bytes, RecvFlags::empty())?.0))
    }

    /// Polls for bytes as [`Plain::try_read_buf`] reads them.
    pub fn poll_read_buf(&self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_readable(cx))?;
            match self.try_read_buf(buffer) {
                Err(error) if is_to_be_tried_again(&error) => {}
                read => return Poll::Ready(read),
            }
        }
    }

    /// Writes as much of `bytes` as the kernel takes now.
    ///
    /// # Errors
    /// `WouldBlock` if it takes nothing: wait for [`Plain::writable`].
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL;
        self.transfer(Interest::WRITABLE, bytes.len(), |socket| Ok(net::send(socket, bytes, flags)?))
    }

    /// Writes as much of the slices as the kernel takes now, in one system call.
    ///
    /// # Errors
    /// `WouldBlock` when it takes nothing.
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        self.transfer(Interest::WRITABLE, bytes, |socket| Ok(rustix::io::writev(socket, slices)?))
    }

    /// Makes one system call for `wanted` bytes, if the runtime expects it to succeed. A call that moves
    /// fewer has emptied or filled the socket's buffer, so the readiness ends without another call that moves
    /// nothing; epoll reports when it begins again. The call does not use the C library, whose calls are
    /// points of cancellation and cost more instructions than entering the kernel.
    fn transfer(
        &self,
        interest: Interest,
        wanted: usize,
        call: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut moved = 0;
        let call = |socket: BorrowedFd<'_>| {
            moved = call(socket)?;
            if 0 < moved && moved < wanted { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        };
        let whole = self.watch.borrow_mut().try_io(interest, call);
        match whole {
            Err(error) if moved == 0 => Err(error),
            _ => Ok(moved),
        }
    }

    /// Has the kernel send as much of a part of sealed bytes as it takes now.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is taken: wait for [`Plain::writable`].
    pub fn try_send_sealed(&self, part: SealedPart<'_>) -> io::Result<usize> {
        self.transfer(Interest::WRITABLE, part.len(), |socket| weir_sealed::send(socket, part))
    }

    /// As [`Plain::try_write`], for bytes that more follow at once: the kernel may wait for them to fill a
    /// segment.
    ///
    /// # Errors
    /// `WouldBlock` if it takes nothing: wait for [`Plain::writable`].
    pub fn try_write_ahead(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::MORE;
        self.transfer(Interest::WRITABLE, bytes.len(), |socket| Ok(net::send(socket, bytes, flags)?))
    }

    /// Waits until reading may succeed.
    ///
    /// # Errors
    /// The runtime is shutting down.
    ///
    /// # Cancel safety
    /// Safe: nothing is read.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_readable(cx)).await
    }

    /// Waits until writing may succeed.
    ///
    /// # Errors
    /// The runtime is shutting down.
    ///
    /// # Cancel safety
    /// Safe: nothing is written.
    pub async fn writable(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_writable(cx)).await
    }

    /// Whether the other end has closed its side, or the connection is gone, behind the bytes that are still
    /// to be read. Asks only the runtime, which may know a moment later.
    pub fn is_read_closed(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let mut watch = self.watch.borrow_mut();
        if watch.join(self.family).is_err() {
            return true;
        }
        let ready = match &*watch {
            Watch::Tcp(stream) => pin!(stream.ready(Interest::READABLE)).poll(&mut cx),
            Watch::Unix(stream) => pin!(stream.ready(Interest::READABLE)).poll(&mut cx),
            Watch::Untried(_) | Watch::Drained(_) | Watch::Lost => return true,
        };
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }

    /// As [`Plain::readable`], for code that polls.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut watch = self.watch.borrow_mut();
        if let Watch::Untried(_) = *watch {
            return Poll::Ready(Ok(()));
        }
        watch.join(self.family)?;
        match &*watch {
            Watch::Tcp(stream) => stream.poll_read_ready(cx),
            Watch::Unix(stream) => stream.poll_read_ready(cx),
            _ => Poll::Ready(watch.socket().map(drop)),
        }
    }

    /// As [`Plain::writable`], for code that polls.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut watch = self.watch.borrow_mut();
        watch.join(self.family)?;
        match &*watch {
            Watch::Tcp(stream) => stream.poll_write_ready(cx),
            Watch::Unix(stream) => stream.poll_write_ready(cx),
            _ => Poll::Ready(watch.socket().map(drop)),
        }
    }
}

impl AsyncRead for Plain {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_readable(cx))?;
            match self.try_read(buffer.initialize_unfilled()) {
                Err(error) if is_to_be_tried_again(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(bytes) => {
                    buffer.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for Plain {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            let written = match slices {
                [slice] => self.try_write(slice),
                slices => self.try_write_vectored(slices),
            };
            match written {
                Err(error) if would_block(&error) => ready!(self.poll_writable(cx))?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let watch = self.watch.borrow();
        Poll::Ready(watch.socket().and_then(|socket| Ok(net::shutdown(socket, net::Shutdown::Write)?)))
    }
}

/// Whether a read that failed has only found nothing.
fn is_to_be_tried_again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Plain {
    /// The address of this machine that the peer connected to; `None` over a Unix socket.
    pub fn local_address(&self) -> Option<IpAddr> {
        let watch = self.watch.borrow();
        let name = net::getsockname(watch.socket().ok()?).ok()?;
        SocketAddr::try_from(name).ok().map(|at| at.ip())
    }

    #[cfg(test)]
    pub(super) fn is_undelayed(&self) -> bool {
        net::sockopt::tcp_nodelay(self.watch.borrow().socket().unwrap()).unwrap()
    }

    /// Whether the kernel has no byte to be read now. Asks it, whatever the runtime knows.
    pub fn is_empty(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let watch = self.watch.borrow();
        let Ok(socket) = watch.socket() else { return true };
        matches!(net::recv(socket, &mut [0; 1], flags), Ok((_, 0)) | Err(Errno::AGAIN))
    }

    /// Has the kernel reset the connection when it is closed.
    pub fn reset_on_close(&self) {
        if self.family == Family::Tcp {
            let watch = self.watch.borrow();
            let linger = |socket| net::sockopt::set_socket_linger(socket, Some(std::time::Duration::ZERO));
            let _ = watch.socket().map(linger);
        }
    }
}
