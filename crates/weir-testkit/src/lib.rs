//! The test kit: a scripted origin, raw clients and the real Weir as a child process.
//!
//! It knows no other crate. Its HTTP is written a second time, and strictly, so that a mistake of the codec
//! cannot hide in the tests that judge it. It runs on plain threads and blocking sockets, reads the real
//! clock, and panics where a test would. Only tests link it.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
// The kit measures the real world and fails by panicking, as the tests do that use it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

mod between;
mod byteranges;
mod client;
mod dns;
mod drive;
mod exchange;
mod fields;
mod fuzz;
mod group;
pub mod h2;
mod hung;
mod origin;
mod pattern;
mod pebble;
mod ports;
mod program;
mod random;
mod resource;
mod response;
mod room;
mod server;
mod socket;
mod tls;
mod tls_client;
mod wait;
mod weir;

pub use between::{Between, Verdict};
pub use byteranges::byteranges;
pub use client::{Client, get, get_with, narrow};
pub use dns::{Dns, Mood, Record};
pub use drive::{Drive, Frozen, Throttle};
pub use exchange::{Exchange, Request};
pub use fuzz::fuzz;
pub use group::MemoryGroup;
pub use h2::{End, Frame, H2Client, H2Frames};
pub use hung::Hung;
pub use origin::{Origin, Seen};
pub use pattern::pattern;
pub use pebble::{Pebble, PebbleSetup};
pub use ports::free_port;
pub use program::program;
pub use random::Random;
pub use resource::{Fault, Resource, Shape};
pub use response::{Head, Response, Trouble};
pub use rustls::{NamedGroup, SignatureScheme};
pub use server::Server;
pub use socket::{Address, Socket};
pub use tls::{Authority, Key, Wanted};
pub use tls_client::{Session, TlsClient};
pub use wait::{Gate, until};
pub use weir::{Output, Setup, Weir, is_alive};

#[cfg(test)]
mod tests;
