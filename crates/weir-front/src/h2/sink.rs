//! A stream of HTTP/2 as what takes a response's bytes: it hands them to the crate `h2` as the client's
//! windows open (RFC 9113 §5.2), a bound ahead of what has left. The end of the stream means that the body is
//! whole; one that breaks off resets it. It must not decide how long the client is waited for.

use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::Reason;
use http::HeaderMap;
use weir_sealed::SealedPart;

use super::ahead::{Piece, Progress};
use super::client::{Side, StreamClient};
use super::send::Through;
use crate::limits::ClientLimits;
use crate::message::{Client, End};
use crate::out::{Gone, MEMORY_SHARE, Sink};

/// The most bytes of a piece, and the most that the crate holds of a stream.
pub(super) const AHEAD_OF_STREAM_BYTES_MAX: usize = 64 << 10;

/// The bytes of a body without a length that are taken before there is room for them.
const EARLY_BYTES_MAX: u64 = 1 << 10;

/// The head of a DATA frame.
const FRAME_HEAD_BYTES: u64 = 9;

/// A response on a stream.
pub(super) struct Handed<'c, 's> {
    pub(super) client: &'c mut StreamClient<'s>,
    through: &'c Through<'c>,
    progress: Rc<Progress>,
    body_bytes: u64,
    /// Whether the end of the stream was handed on.
    is_ended: bool,
}

impl<'c, 's> Handed<'c, 's> {
    /// That of a stream whose side is [`Side::Sending`].
    pub(super) fn new(client: &'c mut StreamClient<'s>, through: &'c Through<'c>) -> Handed<'c, 's> {
        Handed { client, through, progress: Rc::default(), body_bytes: 0, is_ended: false }
    }

    /// Hands bytes for which there is room to the crate.
    fn hand_on(&mut self, bytes: Bytes, is_last: bool) -> Result<(), Gone> {
        let length = bytes.len() as u64;
        let piece = Piece::new(bytes, self.through.ahead, Some(&self.progress));
        let mut side = self.client.side.borrow_mut();
        let Side::Sending(stream) = &mut *side else { return Err(Gone) };
        stream.send_data(piece, is_last).map_err(|_| Gone)?;
        self.through.counters.client_bytes(self.client.site, FRAME_HEAD_BYTES + length);
        self.body_bytes += length;
        self.is_ended = is_last;
        Ok(())
    }
}

/// As many of `wanted` bytes as a stream takes at a time.
fn most(wanted: u64) -> usize {
    usize::try_from(wanted).unwrap_or(usize::MAX).min(AHEAD_OF_STREAM_BYTES_MAX)
}

impl Sink for Handed<'_, '_> {
    const EARLY_BYTES_MAX: u64 = EARLY_BYTES_MAX;
    const ENDS_BY_LENGTH: bool = true;

    fn client(&mut self) -> &mut dyn Client {
        self.client
    }

    fn limits(&self) -> &ClientLimits {
        self.through.limits
    }

    fn room(&mut self, wanted: u64) -> u64 {
        let Side::Sending(stream) = &mut *self.client.side.borrow_mut() else { return 0 };
        let wanted = most(wanted);
        stream.reserve_capacity(wanted);
        if self.through.ahead.has_room() { stream.capacity().min(wanted) as u64 } else { 0 }
    }

    fn poll_room(&mut self, cx: &mut Context<'_>, wanted: u64) -> Poll<Result<u64, Gone>> {
        let Side::Sending(stream) = &mut *self.client.side.borrow_mut() else {
            return Poll::Ready(Err(Gone));
        };
        loop {
            let capacity = stream.capacity();
            if capacity > 0 && self.through.ahead.poll_room(cx).is_ready() {
                return Poll::Ready(Ok(capacity.min(most(wanted)) as u64));
            }
            match if capacity > 0 { Poll::Pending } else { stream.poll_capacity(cx) } {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return Poll::Ready(Err(Gone)),
                Poll::Pending => return stream.poll_reset(cx).map(|_| Err(Gone)),
            }
        }
    }

    fn put(&mut self, piece: &mut Bytes, most: u64, left: u64) -> Result<(), Gone> {
        let is_last = most == left;
        self.hand_on(piece.split_to(usize::try_from(most).unwrap_or(usize::MAX)), is_last)
    }

    fn gather(&mut self, blocks: &[Bytes], within: usize, most: u64, left: u64) -> Result<u64, Gone> {
        let Some(block) = blocks.first() else { return Ok(0) };
        let end = within.saturating_add(usize::try_from(most).unwrap_or(usize::MAX));
        let piece = block.slice(within..block.len().min(end));
        let bytes = piece.len() as u64;
        self.hand_on(piece, bytes == left).map(|()| bytes)
    }

    fn put_sealed(&mut self, _: SealedPart<'_>) -> Result<u64, Gone> {
        // Frames are no way for them.
        Err(Gone)
    }

    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), Gone> {
        let mut side = self.client.side.borrow_mut();
        let Side::Sending(stream) = &mut *side else { return Err(Gone) };
        let ended = match trailers {
            Some(trailers) => stream.send_trailers(trailers),
            None => stream.send_data(Piece::new(Bytes::new(), self.through.ahead, None), true),
        };
        self.is_ended = true;
        ended.map_err(|_| Gone)
    }

    fn poll_idle(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        if let Side::Sending(stream) = &mut *self.client.side.borrow_mut() {
            stream.reserve_capacity(0);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        // So much goes whole through windows and bounds, once its end is handed on.
        let is_short = self.body_bytes <= AHEAD_OF_STREAM_BYTES_MAX as u64;
        if self.is_ended && is_short || self.progress.poll_empty(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        self.client.side.borrow_mut().poll_gone(cx).map(|()| Err(Gone))
    }

    fn close(&mut self, end: End) {
        let reason = match end {
            End::Cut(MEMORY_SHARE) => Reason::ENHANCE_YOUR_CALM,
            End::Cut(_) => Reason::INTERNAL_ERROR,
            End::Whole | End::ClientGone | End::HalfClosed => return,
        };
        self.client.side.borrow_mut().reset(reason);
    }

    fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    fn left_bytes(&self) -> u64 {
        self.progress.left()
    }
}

#[cfg(test)]
mod tests;
