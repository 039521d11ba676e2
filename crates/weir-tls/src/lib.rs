//! TLS for clients' connections: certificates, which of them a client gets, and sessions without I/O. It must
//! not know HTTP, a socket, a file or the configuration.
//!
//! An [`Identity`] is a certificate with its key, made by a [`Template`]. A [`Set`] chooses one for a client.
//! [`Certificates`] is the handle on the set in use, which is swapped whole. A [`Session`] is a connection
//! without its socket.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod certificates;
mod clients;
mod identity;
mod leaf;
mod names;
mod own;
mod session;
mod set;
mod template;
mod tickets;

#[cfg(test)]
mod sample;

pub use certificates::Certificates;
pub use clients::{ClientAuth, ClientMode, SiteClients};
pub use identity::{Identity, KeyKind, Source};
pub use leaf::{Leaf, LeafError};
pub use names::Names;
pub use own::self_signed;
pub use session::{
    Agreed, CHALLENGE_PROTOCOL, Handshake, Hello, Opening, RECORD_BYTES_MAX, Session, Step, TlsError,
};
pub use set::Set;
pub use template::{PairError, Part, Pem, Template};
pub use tickets::{Ring, RingError};
