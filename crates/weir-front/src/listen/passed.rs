//! Listening sockets that come from elsewhere: from the process before this one, or from the service manager.
//!
//! What waits in the accept queue of a socket goes with that socket and with no other, so all of them are
//! taken, however many workers there are now: with fewer workers each gets several, with more some share one.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::Address;
use super::bind::{Bound, Listening, SocketFile};

/// Whose business the file of a Unix socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// The process that listens removes it at its end.
    Listener,
    /// The service manager has made it and removes it.
    Manager,
}

/// Which kind of socket it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// A Unix stream socket.
    Unix,
}

/// The sockets of one listener, to go from one process to the next.
#[derive(Debug)]
pub struct PassedListener {
    /// Where they listen, as the configuration of the process that bound them says it.
    pub address: Address,
    /// Each of them once; none blocks.
    pub sockets: Vec<OwnedFd>,
    /// Whose business the file is, where they have one.
    pub keeper: Keeper,
}

/// What the data plane keeps of a listener beside the sockets of its workers.
#[derive(Debug)]
pub struct Kept {
    passed: PassedListener,
    file: Option<Arc<SocketFile>>,
}

impl Kept {
    /// Of a listener that was bound here.
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

    /// Of one that was bound elsewhere, and the sockets of each of `workers` workers.
    ///
    /// # Errors
    /// No descriptor is left; a file is gone.
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

    /// Copies for the process that comes.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn copy(&self) -> io::Result<PassedListener> {
        let PassedListener { address, sockets, keeper } = &self.passed;
        let sockets = sockets.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        Ok(PassedListener { address: address.clone(), sockets, keeper: *keeper })
    }

    /// The file is another process's from now on.
    pub fn hand_over_file(&self) {
        if let Some(file) = &self.file {
            file.hand_over();
        }
    }
}
