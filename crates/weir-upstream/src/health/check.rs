//! Active checks: Weir asks each origin on its own whether it is up, off the data plane.
//!
//! `state` decides by rise and fall, `record` is what is remembered of an origin, `pace` says when the next
//! is due, `tempo` whether checks keep to that, `ask` is one check, `tend` begins checks and connections to
//! agents. A check must not use the connections of requests, and says nothing but by
//! [`crate::origin::Origin::mark`].

mod ask;
pub(crate) mod pace;
pub(crate) mod record;
pub(crate) mod state;
pub(crate) mod tempo;
pub(crate) mod tend;

pub use ask::CheckLog;

#[cfg(test)]
mod tests;
