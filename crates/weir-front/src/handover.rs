//! The handover of connections from one process to the next: each goes when its next request would begin,
//! with the bytes already read of that request.

use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;

use crate::listen::{Family, Held, Peer};

/// A connection between two requests, on its way from one process to the next.
#[derive(Debug)]
pub struct HandedOver {
    /// Its socket.
    pub socket: OwnedFd,
    /// The kind of the socket.
    pub family: Family,
    /// The peer: the one a trusted PROXY header named, if there was one.
    pub peer: Peer,
    /// The bytes already read of the next request.
    pub input: Vec<u8>,
    /// Keeps the old process alive while the connection is in it: keep this until the connection is sent.
    pub held: Option<Held>,
}

/// The sender of connections to the new process.
pub type HandoverSender = Sender<HandedOver>;
