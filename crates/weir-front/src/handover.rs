//! How connections go from one process to the next: each where its next request would begin, with what was
//! read of that.

use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;

use crate::listen::{Family, Held, Peer};

/// A connection between two requests, outside any process.
#[derive(Debug)]
pub struct HandedOver {
    /// Its socket.
    pub socket: OwnedFd,
    /// Which kind of socket it is.
    pub family: Family,
    /// Who is there, as a trusted PROXY header said where there was one.
    pub peer: Peer,
    /// What was read of the next request.
    pub input: Vec<u8>,
    /// Has the process that it leaves wait until it has gone: to be kept until it is sent.
    pub held: Option<Held>,
}

/// Where connections go when this process leaves.
pub type HandoverSender = Sender<HandedOver>;
