//! Listening sockets passed to this process, by the process before it or by the service manager.
//!
//! The connections in a socket's accept queue can be accepted only from that socket. So every socket is used,
//! however many workers there are now: with fewer workers each gets several, with more some share one.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::Address;
use super::bind::{Bound, Listening, SocketFile};

/// Which side removes the file of a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// The listening process removes it when it ends.
    Listener,
    /// The service manager created it and removes it.
    Manager,
}

/// The kind of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// A Unix stream socket.
    Unix,
}

/// The sockets of one listener, on their way from one process to the next.
#[derive(Debug)]
pub struct PassedListener {
    /// The address they listen on, as the configuration of the process that bound them gives it.
    pub address: Address,
    /// Each socket once, all non-blocking.
    pub sockets: Vec<OwnedFd>,
    /// Which side removes the socket's file, if it has one.
    pub keeper: Keeper,
}

/// The data plane's copy of a listener's sockets, to pass on to the next process.
#[derive(Debug)]
pub struct Kept {
    passed: PassedListener,
    file: Option<Arc<SocketFile>>,
}

impl Kept {
    /// The copy of a listener that this process bound.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn of_bound(address: &Address, bound: &[Bound]) -> io::Result<Kept> {
        // The workers share the one queue of a Unix socket.
        let distinct = match address {
            Address::Tcp(_) => bound,
            Address::Unix { .. } => &bound[..1],
        };
        let sockets = distinct.iter().map(Bound::copy).collect::<io::Result<_>>()?;
        let file = bound.first().and_then(Bound::file);
        let passed = PassedListener { address: address.clone(), sockets, keeper: Keeper::Listener };
        Ok(Kept { passed, file })
    }

    /// The copy of a listener that was passed to this process, and the sockets of each of `workers` workers.
    ///
    /// # Errors
    /// No descriptor is left, or the file of a Unix socket is gone.
    pub fn of_passed(passed: PassedListener, workers: usize) -> io::Result<(Kept, Vec<Vec<Bound>>)> {
        let file = match (&passed.address, passed.keeper) {
            (Address::Unix { path, .. }, Keeper::Listener) => Some(Arc::new(SocketFile::at(path)?)),
            _ => None,
        };
        let bound = |socket: &OwnedFd| {
            let socket = socket.try_clone()?;
            let listening = match &passed.address {
                Address::Tcp(_) => Listening::Tcp(socket.into()),
                Address::Unix { .. } => Listening::Unix(socket.into(), file.clone()),
            };
            Ok(Bound::new(listening, passed.address.clone()))
        };
        let all = &passed.sockets;
        let of_worker = |worker: usize| -> io::Result<Vec<Bound>> {
            match worker < all.len() {
                true => all.iter().skip(worker).step_by(workers).map(bound).collect(),
                false => all.get(worker % all.len().max(1)).map(bound).into_iter().collect(),
            }
        };
        let spread = (0..workers).map(of_worker).collect::<io::Result<_>>()?;
        Ok((Kept { passed, file }, spread))
    }

    /// Duplicates the sockets for the next process.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn copy(&self) -> io::Result<PassedListener> {
        let PassedListener { address, sockets, keeper } = &self.passed;
        let sockets = sockets.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        Ok(PassedListener { address: address.clone(), sockets, keeper: *keeper })
    }

    /// Leaves the removal of the socket's file to another process from now on.
    pub fn hand_over_file(&self) {
        if let Some(file) = &self.file {
            file.hand_over();
        }
    }
}
