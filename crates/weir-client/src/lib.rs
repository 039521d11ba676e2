//! Speaks HTTP to one origin: its addresses, its connections, and the messages on them.
//!
//! It knows no other origin, no cache, and of a client only which share of the pool it uses. It must not
//! alter a header, follow a redirect, buffer a body, or use a connection again after anything unexpected
//! happened on it (RFC 9110 §9.2.2, RFC 9112 §9, RFC 9209).
//!
//! A [`Server`] is one origin. Its [`Pool`] gives out [`Grant`]s; `slot` makes a [`Slot`] of each, which is
//! the right to one request, sends that (`h1`), and gives a [`Response`] whose [`Incoming`] body gives the
//! slot back once it has come whole. `single` asks on a connection of its own.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod clock;
mod connect;
mod connection;
mod error;
mod exchange;
mod h1;
mod incoming;
mod login;
mod message;
mod page;
mod pool;
mod server;
mod service;
mod settings;
mod share;
mod single;
mod slot;
mod tally;
mod timer;
mod tls;
mod transport;
mod tunnel;

#[cfg(test)]
mod tests;

pub use address::{Addresses, Resolver, system as system_resolver};
pub use error::{Blame, Bound, ExchangeError, Seen, SetupError};
pub use exchange::{Failed, Failure, Kind, Stage, Terms};
pub use incoming::{Incoming, Response};
pub use login::{Carries, Kept, LoginUse, Logins, logs_in, on_own};
pub use message::{Interim, InterimSender, Length, OutBody, OutPart, RequestHead};
pub use page::{PageFault, PageServer};
pub use pool::slot::{Grant, Permit, Slot, Took};
pub use pool::{Client, Demand, Pool, PoolBounds, Usage};
pub use server::{Server, ServerSettings};
pub use service::is_service;
pub use settings::{Bounds, ClientCertificate, OriginAddress, Timeouts, TlsSettings, Verify};
pub use share::{Hurry, Share};
pub use single::{BodyFault, Feed, Single};
pub use tally::{AttemptEnd, Link, Meter, Tally, Trace};
pub use tunnel::Tunnel;
