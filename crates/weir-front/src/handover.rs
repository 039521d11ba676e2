//! The handover of connections from one process to the next: each goes when its next request would begin,
//! with the bytes already read of that request. The keys of a TLS connection cannot move. So the old process
//! keeps its socket, and relays what is within it to the new process, which answers one more request.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;

use tokio::net::UnixStream;
use weir_tls::Agreed;

use crate::listen::{Family, Held, Peer, Stream};
use crate::message::Secured;

/// A connection between two requests, on its way from one process to the next.
#[derive(Debug)]
pub struct HandedOver {
    /// Its socket.
    pub socket: OwnedFd,
    /// The kind of the socket.
    pub family: Family,
    /// The peer: the one a trusted PROXY header named, if there was one.
    pub peer: Peer,
    /// The port of the listener that took it; `None` for a unix socket.
    pub port: Option<u16>,
    /// The bytes already read of the next request.
    pub input: Vec<u8>,
    /// What TLS agreed on, where the other process keeps the connection itself.
    pub relayed: Option<Relayed>,
    /// Keeps the old process alive while the connection is in it: keep this until the connection is sent.
    pub held: Option<Held>,
}

/// What TLS agreed on for a connection whose keys another process holds.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// The name that the client asked for (SNI).
    pub name: Option<Box<str>>,
    /// Version, group, resumption.
    pub agreed: Agreed,
    /// The client's verified certificate, in DER.
    pub client_certificate: Option<Box<[u8]>>,
    /// The site for which the client was asked for one.
    pub asked_by: Option<Box<str>>,
}

impl Relayed {
    pub(crate) fn of(secured: &Secured) -> Relayed {
        Relayed {
            name: secured.name.clone(),
            agreed: secured.agreed,
            client_certificate: secured.client_certificate.clone(),
            asked_by: secured.identity.client_auth.as_ref().map(|auth| auth.site.clone()),
        }
    }
}

/// The sender of connections to the new process.
pub type HandoverSender = Sender<HandedOver>;

/// A connection that leaves for another process.
pub(crate) struct Departure {
    pub(crate) handed_over: HandedOver,
    /// What stays here, to be relayed.
    pub(crate) relay: Option<Relay>,
}

/// Both ends of what is relayed.
pub(crate) struct Relay {
    client: Stream,
    process: UnixStream,
}

impl Relay {
    /// Moves bytes in both directions until either side ends.
    pub(crate) async fn run(mut self) {
        // Either end may be lost at any time: then the other is closed.
        let _ = tokio::io::copy_bidirectional(&mut self.client, &mut self.process).await;
    }
}

/// Takes a connection out of this process: its socket, or one end of a pair whose other end stays here.
///
/// # Errors
/// No descriptor is left, or the runtime refuses. The connection is then lost.
pub(crate) fn depart(stream: Stream) -> io::Result<(OwnedFd, Family, Option<Relay>)> {
    match stream {
        Stream::Plain(socket) => socket.into_socket().map(|(socket, family)| (socket, family, None)),
        client @ Stream::Tls(_) => {
            let (process, there) = UnixStream::pair()?;
            Ok((there.into_std()?.into(), Family::Unix, Some(Relay { client, process })))
        }
    }
}
