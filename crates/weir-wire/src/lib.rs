//! The HTTP/1 codec of Weir: heads, bodies, limits and refusals, in both directions.
//!
//! Pure: no socket, no clock, no task. Bytes go in through a [`bytes::BytesMut`] that the caller fills; typed
//! heads and body parts come out; what Weir sends is written by [`print`]. Requests of clients and responses
//! of origins are held to the same grammar (RFC 9112, RFC 9110 section 5), which is narrower than what most
//! peers take: a message that two readers could read in two ways is refused and its connection is closed.
//!
//! Decisions where the RFCs leave a choice:
//! - HTTP/1.2 and higher, and 0.9 and 2.0 named in a start line, are 505; anything else that is not
//!   `HTTP/1.0` or `HTTP/1.1` is 400 (RFC 9112 section 2.3).
//! - A `GET` or `HEAD` with content is refused (RFC 9110 section 9.3.1 allows it: "potential as a request
//!   smuggling attack"); `Content-Length: 0` is not content.
//! - Underscores are legal in field names; a name that differs from `Content-Length` or `Transfer-Encoding`
//!   only in what is not a letter (`Content_Length`) is refused.
//! - obs-text (0x80 to 0xFF) is carried in field values as opaque bytes; it is refused in names, targets and
//!   hosts.
//! - Two empty lines before a request line are skipped (RFC 9112 section 2.2), none before a status line.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod body;
mod chunk;
mod fault;
mod fields;
mod framing;
mod host;
mod limits;
mod listed;
pub mod print;
mod request;
mod response;
mod scan;
mod syntax;
mod target;

pub use body::{BodyPart, BodyReader, DATA_BYTES_MAX, JOINED_BYTES_MAX};
pub use fault::{Malformed, Refusal};
pub use framing::{Expect, Framing, Persistence, Scheme, Version};
pub use host::Host;
pub use limits::Limits;
pub use listed::{ListedContent, Pseudo, of_list};
pub use request::{RequestHead, RequestReader};
pub use response::{ResponseHead, ResponseReader};
pub use target::{PathAndQuery, Target, without_dots};

#[cfg(test)]
mod tests;
