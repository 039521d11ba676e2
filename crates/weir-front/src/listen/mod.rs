//! Listening: sockets are bound, connections accepted and spread over the workers, and the PROXY protocol is
//! read.
//!
//! Every worker owns one `SO_REUSEPORT` socket for each TCP address. The kernel spreads new connections by
//! hash, which is uneven for few long ones. So a worker clearly above the mean hands what it accepts to the
//! least loaded one. Knows nothing of HTTP. Flow: [`Address`] → [`bind`] → [`Bound`] (one a worker) →
//! [`Arrivals::next`] → [`Arrival`] → [`greet`] if the listener speaks PROXY.

mod accept;
mod address;
mod balance;
mod bind;
mod idle;
mod passed;
mod peer;
mod plain;
mod proxy;
mod stream;
mod tls;

pub use accept::{Arrival, Arrivals};
pub use address::{Address, AddressError};
pub use balance::Table;
pub use balance::{Held, Seat, seats};
pub use bind::{BACKLOG, BindError, Bound, bind};
pub(crate) use idle::{Idle, Slot};
pub use passed::Kept;
pub use passed::{Family, Keeper, PassedListener};
pub use peer::{Peer, Trusted, UnixPeers};
pub use plain::{Plain, READ_BYTES};
pub use proxy::{Announced, Form, GreetError, Malformed, Parsed, V1_BYTES_MAX, V2_BYTES_MAX, greet, parse};
pub use stream::Stream;
pub use tls::Tls;
pub use weir_share::{Clients, Counted, TooMany};

#[cfg(test)]
mod tests;
