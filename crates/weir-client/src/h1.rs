//! HTTP/1 towards origins (RFC 9112): a request as it is sent, the head that answers it, and the body.

pub(crate) mod answered;
pub(crate) mod body;
pub(crate) mod exchange;
pub(crate) mod outgoing;
