//! Speaking HTTP to one origin: its addresses, its connections, and the messages on them. It must not know
//! that there are others.

pub(crate) mod address;
pub(crate) mod body;
pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod exchange;
pub(crate) mod login;
pub(crate) mod outgoing;
pub(crate) mod page;
pub(crate) mod pool;
pub(crate) mod service;
pub(crate) mod tally;
pub(crate) mod timer;
pub(crate) mod tls;
pub(crate) mod transport;
pub(crate) mod tunnel;
