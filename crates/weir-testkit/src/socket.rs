//! One stream type for all connections of the kit: TCP, a unix socket, or TLS on either side.

use std::io::{Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::tls_client::Session;

/// The longest wait of any read or write of the kit, so that a broken peer fails a test and never hangs it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A unix socket's path.
    Unix(PathBuf),
}

impl From<SocketAddr> for Address {
    fn from(addr: SocketAddr) -> Self {
        Address::Tcp(addr)
    }
}

impl Address {
    /// Opens a connection with the kit's patience in both directions.
    ///
    /// # Errors
    /// Those of the system.
    pub fn connect(&self) -> Result<Socket> {
        let socket = match self {
            Address::Tcp(addr) => {
                let stream = TcpStream::connect_timeout(addr, PATIENCE)?;
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
            Address::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
        };
        socket.patience(PATIENCE)?;
        Ok(socket)
    }
}

/// A connected stream.
pub enum Socket {
    /// Plain TCP.
    Tcp(TcpStream),
    /// A unix stream.
    Unix(UnixStream),
    /// TLS, as a server.
    Tls(Box<rustls::StreamOwned<rustls::ServerConnection, TcpStream>>),
    /// TLS, as a client.
    TlsClient(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

impl Socket {
    /// Sets the longest wait of each read and write.
    ///
    /// # Errors
    /// Those of the system.
    pub fn patience(&self, longest: Duration) -> Result<()> {
        match self {
            Socket::Unix(s) => s.set_read_timeout(Some(longest)).and(s.set_write_timeout(Some(longest))),
            Socket::Tcp(s) => s.set_read_timeout(Some(longest)).and(s.set_write_timeout(Some(longest))),
            Socket::Tls(s) => {
                s.sock.set_read_timeout(Some(longest)).and(s.sock.set_write_timeout(Some(longest)))
            }
            Socket::TlsClient(s) => {
                s.sock.set_read_timeout(Some(longest)).and(s.sock.set_write_timeout(Some(longest)))
            }
        }
    }

    /// What a client knows of its TLS session; `None` where it has none.
    pub fn session(&self) -> Option<Session> {
        match self {
            Socket::TlsClient(s) => Some(Session::of(&s.conn)),
            _ => None,
        }
    }

    /// Says over TLS that no more follows (close_notify). The connection stays open.
    pub fn close_notify(&mut self) {
        match self {
            Socket::Tls(s) => s.conn.send_close_notify(),
            Socket::TlsClient(s) => s.conn.send_close_notify(),
            _ => {}
        }
        let _ = self.flush();
    }

    /// Ends one or both directions. A peer that has already gone is not an error.
    pub fn shutdown(&self, how: Shutdown) {
        let _ = match self {
            Socket::Unix(s) => s.shutdown(how),
            Socket::Tcp(s) => s.shutdown(how),
            Socket::Tls(s) => s.sock.shutdown(how),
            Socket::TlsClient(s) => s.sock.shutdown(how),
        };
    }

    /// Closes with a reset instead of an orderly end (SO_LINGER of 0; a unix socket is closed).
    pub fn reset(self) {
        let tcp = match self {
            Socket::Tcp(s) => s,
            Socket::Tls(s) => s.sock,
            Socket::TlsClient(s) => s.sock,
            Socket::Unix(s) => return drop(s),
        };
        let _ = socket2::SockRef::from(&tcp).set_linger(Some(Duration::ZERO));
    }

    /// The TCP stream below, to set its options.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Socket::Tcp(s) => Some(s),
            Socket::Tls(s) => Some(&s.sock),
            Socket::TlsClient(s) => Some(&s.sock),
            Socket::Unix(_) => None,
        }
    }

    /// A second handle, by which another thread can end the connection.
    pub(crate) fn handle(&self) -> Option<Socket> {
        match self {
            Socket::Tcp(s) => s.try_clone().ok().map(Socket::Tcp),
            Socket::Tls(s) => s.sock.try_clone().ok().map(Socket::Tcp),
            Socket::TlsClient(s) => s.sock.try_clone().ok().map(Socket::Tcp),
            Socket::Unix(s) => s.try_clone().ok().map(Socket::Unix),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        match self {
            Socket::Tcp(s) => s.read(buf),
            Socket::Unix(s) => s.read(buf),
            Socket::Tls(s) => s.read(buf),
            Socket::TlsClient(s) => s.read(buf),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        match self {
            Socket::Tcp(s) => s.write(buf),
            Socket::Unix(s) => s.write(buf),
            Socket::Tls(s) => s.write(buf),
            Socket::TlsClient(s) => s.write(buf),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Socket::Tcp(s) => s.flush(),
            Socket::Unix(s) => s.flush(),
            Socket::Tls(s) => s.flush(),
            Socket::TlsClient(s) => s.flush(),
        }
    }
}
