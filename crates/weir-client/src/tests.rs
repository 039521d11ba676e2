//! Tests of the room without sockets: connections as a script has them.

pub(crate) mod scripted;
mod slots;
