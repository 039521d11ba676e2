//! The content of a response: bytes that lie in memory, bytes that come, and what becomes of both where the
//! client is slow. It must not know where they come from.

use bytes::Bytes;
use http::HeaderMap;
use weir_sealed::SealedPart;

/// A body broke off. The connection is cut, never ended cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("body cut: {word}")]
pub struct Cut {
    /// The word for logs.
    pub word: &'static str,
}

/// The content of a response, in order.
pub trait Body {
    /// What lies in memory: blocks, the offset in the first of them, and how many bytes of all are wanted.
    /// `None` if the next bytes must be asked for by [`Body::next`].
    fn at_hand(&self) -> Option<(&[Bytes], usize, u64)>;

    /// The bytes that are wanted, where they lie in memory that nobody can change.
    fn sealed(&self) -> Option<SealedPart<'_>>;

    /// Notes that `bytes` of what is at hand or sealed were sent.
    fn advance(&mut self, bytes: u64);

    /// The next bytes, at most `bytes_max`; `None` at the clean end.
    ///
    /// # Errors
    /// The body broke off.
    ///
    /// # Cancel safety
    /// Safe: bytes are taken only when they are returned.
    fn next(&mut self, bytes_max: usize) -> impl Future<Output = Result<Option<Bytes>, Cut>>;

    /// Whether a connection to an origin waits for this client.
    fn holds_origin(&self) -> bool;

    /// The client takes nothing for now: lets go of what others could use. `unsent` are the last bytes that
    /// it gave out; it takes them back where it can have them again, and returns them where it cannot.
    fn let_go(&mut self, unsent: Bytes) -> Option<Bytes>;

    /// Whether it holds something that it could let go of later.
    fn may_let_go(&self) -> bool;

    /// The trailers behind the end that the client may see.
    fn trailers(&mut self) -> Option<HeaderMap>;
}
