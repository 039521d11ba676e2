//! Changes to heads on their way: [`request`] towards the origin, [`response`] towards the client.
//! [`client`] says who the client is, [`overrides`] what overrides the method. Pure functions; they must
//! not know the cache.

pub(crate) mod client;
pub mod overrides;
pub mod request;
pub mod response;

#[cfg(test)]
mod tests;

pub use weir_front::Trust;
