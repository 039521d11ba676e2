//! Who a client is where something that all need is shared out, and what of it each client has. A share of
//! anything in Weir is counted here or by what is here, so that a client is the same everywhere. It must not
//! know what is shared out, nor wait.
//!
//! A client is an IPv4 address, or the /64 of an IPv6 address, which a customer has at least. A customer may
//! have a /48: all clients of one have eight times the share of a client ([`NETWORK_SHARES`]).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod by_client;
mod client;
mod clients;
mod room;

pub use by_client::{ByClient, gives_way, leaves_some};
pub use client::{Client, NETWORK_SHARES, Network};
pub use clients::{Clients, Counted, TooMany};
pub use room::{Room, Taken};
