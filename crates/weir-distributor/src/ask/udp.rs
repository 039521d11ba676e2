//! The sockets for datagrams of one worker: one for each family of addresses. They are not connected, so that
//! answers of strangers are seen and counted.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::task::{Context, Poll, ready};

use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::unix::AsyncFd;

use crate::readable::readable;

/// What the system is asked to hold of answers that were not read yet.
const RECEIVE_BYTES: usize = 8 << 20;
/// Datagrams that are read before others have their turn.
const AT_ONCE: usize = 64;

/// A socket for datagrams.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: AsyncFd<UdpSocket>,
}

impl Datagrams {
    /// One for these addresses, all of one family; `None` where there are none.
    ///
    /// # Errors
    /// The system gives no socket.
    pub(super) fn towards(addresses: &[SocketAddr]) -> io::Result<Option<Datagrams>> {
        let Some(first) = addresses.first() else { return Ok(None) };
        let socket = bound(first, addresses.iter().all(|address| address.ip().is_loopback()))?;
        let socket = readable(socket)?;
        Ok(Some(Datagrams { socket }))
    }

    /// Sends a datagram. Whether it went out.
    pub(super) fn send(&self, bytes: &[u8], to: SocketAddr) -> bool {
        self.socket.get_ref().send_to(bytes, to).is_ok_and(|sent| sent == bytes.len())
    }

    /// Gives what has arrived to `take`. Pending once nothing is left.
    pub(super) fn poll(
        &self,
        cx: &mut Context<'_>,
        take: &mut dyn FnMut(&[u8], SocketAddr),
    ) -> Poll<io::Result<()>> {
        // What is longer than any answer is longer here as well.
        let mut bytes = [0; 256];
        for _ in 0..AT_ONCE {
            let mut guard = ready!(self.socket.poll_read_ready(cx))?;
            match self.socket.get_ref().recv_from(&mut bytes) {
                Ok((length, from)) => take(&bytes[..length], from),
                Err(error) if error.kind() == ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // What an earlier datagram has met. The socket goes on.
                Err(_) => {}
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A socket that does not wait, on any port.
pub(super) fn bound(towards: &SocketAddr, is_local: bool) -> io::Result<UdpSocket> {
    let ip: IpAddr = match (towards, is_local) {
        (SocketAddr::V4(_), true) => Ipv4Addr::LOCALHOST.into(),
        (SocketAddr::V4(_), false) => Ipv4Addr::UNSPECIFIED.into(),
        (SocketAddr::V6(_), true) => Ipv6Addr::LOCALHOST.into(),
        (SocketAddr::V6(_), false) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = Socket::new(Domain::for_address(*towards), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // Without the right to more, the system gives as much as it allows.
    if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES).is_err() {
        socket.set_recv_buffer_size(RECEIVE_BYTES)?;
    }
    socket.bind(&SocketAddr::from((ip, 0)).into())?;
    Ok(socket.into())
}
