//! What takes the bytes of a response: a connection of HTTP/1, a stream of HTTP/2. It frames them, and knows
//! whether there is room for more. It must not know where they come from, nor how long a client is waited
//! for.

use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use weir_sealed::SealedPart;

use crate::limits::ClientLimits;
use crate::message::{Client, End};

/// The client takes nothing any more: it has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// The client's side of one response, whose head is printed or handed on already. Dropped before
/// [`Sink::close`], it leaves no client in the belief that its part is the whole.
pub(crate) trait Sink {
    /// The bytes of a body without a length that may be taken while there is no room, to see whether it ends.
    const EARLY_BYTES_MAX: u64 = 0;

    /// Whether the last of a known number of bytes ends the message for the client, whatever follows.
    const ENDS_BY_LENGTH: bool = false;

    /// The client.
    fn client(&mut self) -> &mut dyn Client;

    /// How sending ends with a client that takes no more.
    fn gone(&mut self) -> End {
        if self.client().has_ended() { End::HalfClosed } else { End::ClientGone }
    }

    /// How long the client is waited for, and how fast it must be.
    fn limits(&self) -> &ClientLimits;

    /// For how many of `wanted` bytes there is room now.
    fn room(&mut self, wanted: u64) -> u64;

    /// Ready once there is room, after [`Sink::room`] found none for the same bytes.
    fn poll_room(&mut self, cx: &mut Context<'_>, wanted: u64) -> Poll<Result<u64, Gone>>;

    /// Takes at most `most` bytes, for which there is room, from the front of a piece. `left` bytes of the
    /// body are still to come with these; `u64::MAX` where nobody knows.
    fn put(&mut self, piece: &mut Bytes, most: u64, left: u64) -> Result<(), Gone>;

    /// As [`Sink::put`], from blocks that lie in memory, `within` the first of them. Returns how many bytes
    /// were taken. It holds no block.
    fn gather(&mut self, blocks: &[Bytes], within: usize, most: u64, left: u64) -> Result<u64, Gone>;

    /// As [`Sink::gather`], from sealed memory. Asked only where its client's way is
    /// [`Way::Plain`](crate::Way::Plain).
    fn put_sealed(&mut self, part: SealedPart<'_>) -> Result<u64, Gone>;

    /// Ends a body whose length nobody knew.
    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), Gone>;

    /// Nothing comes for a while. Ready once what was printed for it has left, and room that it does not use
    /// is others'.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>>;

    /// Ready once all that was taken has left, or is sure to.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        self.poll_idle(cx)
    }

    /// Notes how sending has ended. A body that was cut does not end cleanly.
    fn close(&mut self, end: End);

    /// How many bytes of the body were taken, without framing.
    fn body_bytes(&self) -> u64;

    /// How many bytes of all have left for the client so far. It only grows.
    fn left_bytes(&self) -> u64;

    /// The client takes nothing: gives back memory that is not needed until it does.
    fn let_go(&mut self) {}
}
