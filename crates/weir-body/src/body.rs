//! The content of a message: bytes that lie in memory, bytes that come, and what becomes of both where the
//! reader is slow. It must not know where they come from.

use std::pin::Pin;

use bytes::Bytes;
use http::HeaderMap;
use weir_sealed::SealedPart;

/// A body broke off. The connection is cut inside the message, which never ends cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("body cut: {word}")]
pub struct Cut {
    /// The word for logs.
    pub word: &'static str,
}

/// The content of a message, in order. A stream implements [`Body::next`] alone.
pub trait Body {
    /// The next bytes: at least one, and at most `bytes_max`, which is not 0; `None` at the clean end.
    ///
    /// # Errors
    /// The body broke off.
    ///
    /// # Cancel safety
    /// Safe: bytes are taken only when they are returned.
    fn next(&mut self, bytes_max: usize) -> impl Future<Output = Result<Option<Bytes>, Cut>>
    where
        Self: Sized;

    /// What lies in memory: blocks, the offset in the first of them, and how many bytes of all are wanted.
    /// `None` if the next bytes must be asked for by [`Body::next`].
    fn at_hand(&self) -> Option<(&[Bytes], usize, u64)> {
        None
    }

    /// The bytes that are wanted, where they lie in memory that nobody can change.
    fn sealed(&self) -> Option<SealedPart<'_>> {
        None
    }

    /// Notes that `bytes` of what is at hand or sealed were sent.
    fn advance(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// The reader takes nothing for now: lets go of what others could use. `unsent` are the last bytes that
    /// the body gave out; it takes them back where it can have them again, and returns them where it cannot.
    fn let_go(&mut self, unsent: Bytes) -> Option<Bytes> {
        kept(unsent)
    }

    /// Whether it holds something that it could let go of later.
    fn may_let_go(&self) -> bool {
        false
    }

    /// Whether a connection to an origin waits for the reader.
    fn holds_origin(&self) -> bool {
        false
    }

    /// The trailers behind the end that the reader may see.
    fn trailers(&mut self) -> Option<HeaderMap> {
        None
    }
}

/// What [`Body::let_go`] returns where it takes nothing back.
pub fn kept(unsent: Bytes) -> Option<Bytes> {
    Some(unsent).filter(|unsent| !unsent.is_empty())
}

/// The next bytes of an [`AnyBody`].
pub type Next<'b> = Pin<Box<dyn Future<Output = Result<Option<Bytes>, Cut>> + 'b>>;

/// A body whose type nobody names. Each call of its `next` allocates.
pub trait AnyBody: Body {
    /// As [`Body::next`].
    fn next_boxed(&mut self, bytes_max: usize) -> Next<'_>;
}

impl<B: Body> AnyBody for B {
    fn next_boxed(&mut self, bytes_max: usize) -> Next<'_> {
        Box::pin(self.next(bytes_max))
    }
}

/// Bytes that are all there.
#[derive(Clone, Debug, Default)]
pub struct Ready(pub Bytes);

impl Body for Ready {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        Ok(kept(self.0.split_to(self.0.len().min(bytes_max))))
    }
}
