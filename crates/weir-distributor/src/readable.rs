//! Waiting until a socket for datagrams can be read, and for nothing else: each datagram that leaves would
//! wake a socket of tokio's once more.

use std::io;
use std::net::UdpSocket;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A socket that the runtime tells when it can be read.
#[expect(deprecated, reason = "a socket of the standard library keeps its descriptor, as this asks for")]
pub(crate) fn readable(socket: UdpSocket) -> io::Result<AsyncFd<UdpSocket>> {
    AsyncFd::with_interest(socket, Interest::READABLE)
}
