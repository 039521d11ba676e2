//! The front: where clients connect and what they speak. It reads requests, has a [`Service`] answer each
//! with a value, and sends that. It knows bytes, streams and deadlines, and no word of caching.
//!
//! Read [`message`] first: it has all that passes between a connection and the service. Inside, [`listen`]
//! accepts and spreads connections, [`worker`] keeps those of one core, and `h1` and `h2`
//! speak HTTP/1 and HTTP/2.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod entrance;
mod h1;
mod h2;
mod handover;
mod handshakes;
mod interim;
mod limits;
pub mod listen;
pub mod message;
mod mode;
mod out;
mod taking;
mod tunnel;
pub mod worker;

pub use handover::{HandedOver, HandoverSender, Relayed};
pub use limits::{CHARGE_BYTES, ClientLimits, ContentLimits};
pub use message::{
    Client, ContentError, Done, End, Fields, Head, HeldContent, Late, Length, LocalFuture, Pace, Part,
    PeerInfo, Prepared, Refused, Request, Response, Secured, Sent, Service, Switch, Trust, Turn, Upload,
};
pub use mode::{ListenerMode, Protocols, Transport};
pub use weir_sealed::Way;
pub use weir_tls::Certificates;
