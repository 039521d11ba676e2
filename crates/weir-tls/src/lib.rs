//! TLS for clients' connections: certificates, which of them a client gets, and sessions without I/O. It must
//! not know HTTP, a socket or the configuration.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod session;
pub mod stub;

pub use session::{Agreed, Handshake, Hello, Opening, RECORD_BYTES_MAX, Session, Step, TlsError};
pub use stub::*;
