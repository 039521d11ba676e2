//! The way of a response's content to its client: one loop of sending for all versions of HTTP ([`sending`]),
//! on what takes the bytes ([`sink`]). A version prints or encodes its heads and frames behind its own
//! [`Sink`]; pace, patience and their words are here once. It must not name a version or a socket.

mod extent;
mod lent;
mod sending;
mod sink;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use self::extent::Extent;
pub(crate) use self::sending::{MEMORY_SHARE, Sending, unsent};
pub(crate) use self::sink::{Gone, Sink};
