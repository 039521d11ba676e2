//! Bytes in memory that nobody can change, and their way into a socket without a copy (ADR 0087).
//!
//! A body is written to a file in memory ([`Draft`]), which the kernel seals against every change, and is
//! mapped ([`Sealed`]). [`send`] has the kernel refer to the pages themselves. The socket keeps them until
//! the client has them, whatever becomes of the file and the mapping meanwhile: so the pages of something
//! that may change, or be used again, must never be sent this way, and only a [`SealedPart`] can be.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod memory;
mod pipe;
mod system;
mod way;

pub use memory::{Draft, Sealed, SealedPart};
pub use pipe::send;
pub use way::Way;
