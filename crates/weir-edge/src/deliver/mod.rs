//! Delivery: the bodies of responses. [`source`] says where the bytes come from; [`multipart`] puts several
//! parts into one body. It must not decide what is sent.

pub(crate) mod multipart;
pub(crate) mod source;

use bytes::Bytes;

pub(crate) use weir_fill::reader::Cut;

/// Bytes of a response in order.
pub(crate) trait Body {
    /// The next piece of at most `bytes_max` bytes; `None` at the clean end.
    ///
    /// # Errors
    /// The body broke off.
    ///
    /// # Cancel safety
    /// Safe: a piece is taken only when it is returned.
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut>;
}
