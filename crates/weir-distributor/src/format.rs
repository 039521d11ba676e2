//! Questions and answers as bytes: `docs/format/distributor.md`. Pure; it must not know a socket.

mod answer;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzing;
mod head;
mod keys;
mod plain;
mod question;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;

pub use answer::AnswerHead;
pub use head::{Head, Printed};
pub use keys::{KEY_BYTES_MIN, Keys, KeysError};
pub use plain::{plain_answer, plain_answer_text, plain_question, read_plain_question};
pub use question::{Marks, Question};

/// The version of the format.
pub const VERSION: u8 = 1;
/// The most bytes of a question in a datagram: what passes every network that IPv6 allows, with its heads
/// (RFC 8200 §5).
pub const DATAGRAM_MAX: usize = 1232;
/// The most bytes of a question or an answer in a stream.
pub const FRAME_MAX: usize = 60 * 1024;
/// The fewest bytes of a question. No answer is longer, so that nobody gets more bytes sent to a third party
/// than it sends itself.
pub const QUESTION_BYTES_MIN: usize = 96;
/// The most bytes of an answer.
pub const ANSWER_BYTES_MAX: usize = QUESTION_BYTES_MIN;
/// The bytes of HMAC-SHA-256 at the end of what is signed.
pub const MAC_BYTES: usize = 32;

/// What a distributor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing: the next pick decides.
    Nothing,
    /// The address of an origin.
    Address(SocketAddr),
    /// The request is refused.
    Denial {
        /// 400 to 599.
        status: u16,
        /// Seconds for `Retry-After`.
        retry_after: Option<u32>,
    },
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Nothing => Ok(()),
            Answer::Address(address) => address.fmt(f),
            Answer::Denial { status, retry_after: None } => status.fmt(f),
            Answer::Denial { status, retry_after: Some(seconds) } => write!(f, "{status} {seconds}"),
        }
    }
}

/// Why bytes are no question or no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// They do not have the form.
    #[error("it does not have the form")]
    Malformed,
    /// They have another version.
    #[error("it has another version")]
    Version,
    /// They are not signed with a known key, or signed where no key is known.
    #[error("it is not signed with a known key")]
    Forged,
}
