//! What carries requests to an origin: a connection, by how many it carries at once. One of HTTP/1 carries
//! one after another. It must not know the queue.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use crate::connection::{Connection, Home};
#[cfg(test)]
use crate::tests::scripted;

/// A connection with a place on it for one request. Dropped, the place is free; without any the connection
/// is closed.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// It has one place.
    H1(Box<Connection>),
    /// It has several.
    #[cfg(test)]
    Scripted(scripted::Place),
}

/// A connection that carries several requests at once.
pub(crate) trait Trunk: Debug + Send + Sync {
    /// Where it lives. It can be used nowhere else.
    fn home(&self) -> Home;

    /// Whether it takes no more requests, now and later.
    fn is_over(&self) -> bool;

    /// A place beside those that are taken, if there is one.
    fn place(self: Arc<Self>) -> Option<Carrier>;
}

impl Carrier {
    pub(crate) fn home(&self) -> Home {
        match self {
            Carrier::H1(connection) => connection.home,
            #[cfg(test)]
            Carrier::Scripted(place) => place.home(),
        }
    }

    /// The address of the other side, where that is known.
    pub(crate) fn peer(&self) -> Option<String> {
        match self {
            Carrier::H1(connection) => connection.transport.peer(),
            #[cfg(test)]
            Carrier::Scripted(_) => None,
        }
    }

    /// Whether it can be moved to another runtime.
    pub(crate) fn is_movable(&self) -> bool {
        match self {
            Carrier::H1(connection) => connection.transport.is_movable(),
            #[cfg(test)]
            Carrier::Scripted(_) => false,
        }
    }

    /// Whether its place may be used for one more request.
    pub(crate) fn is_quiet(&mut self) -> bool {
        match self {
            Carrier::H1(connection) => connection.is_quiet(),
            #[cfg(test)]
            Carrier::Scripted(place) => !place.is_over(),
        }
    }

    /// Whether requests have other places on it.
    pub(crate) fn carries_others(&self) -> bool {
        match self {
            Carrier::H1(_) => false,
            #[cfg(test)]
            Carrier::Scripted(place) => place.carries_others(),
        }
    }

    /// Moves it to the current runtime.
    ///
    /// # Errors
    /// When it cannot be moved; it is closed then.
    pub(crate) fn moved_here(self) -> io::Result<Carrier> {
        match self {
            Carrier::H1(connection) => connection.moved_here().map(Carrier::H1),
            #[cfg(test)]
            Carrier::Scripted(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The connection, where it has more places than this one.
    pub(crate) fn trunk(&self) -> Option<Arc<dyn Trunk>> {
        match self {
            Carrier::H1(_) => None,
            #[cfg(test)]
            Carrier::Scripted(place) => Some(place.trunk()),
        }
    }
}
