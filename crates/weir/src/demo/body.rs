//! The demo origin's bodies: whole, the pattern of offsets, or lines that come one by one.

use std::convert::Infallible;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

/// Bytes of the offset pattern made at a time.
const PATTERN_PIECE_BYTES: u64 = 64 << 10;

/// A body of the demo origin.
#[derive(Debug)]
pub(super) enum DemoBody {
    /// Bytes at hand.
    Whole(Option<Bytes>),
    /// An interval of the offset pattern.
    Pattern(Range<u64>),
    /// Lines with a pause before each.
    Slow(Lines),
}

/// Lines that are still to come.
#[derive(Debug)]
pub(super) struct Lines {
    left: std::vec::IntoIter<Bytes>,
    bytes: u64,
    pause: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Lines {
    pub(super) fn new(lines: Vec<Bytes>, pause: Duration) -> Lines {
        let bytes = lines.iter().map(|line| line.len() as u64).sum();
        Lines { left: lines.into_iter(), bytes, pause, sleep: None }
    }
}

/// The offset pattern: every ten bytes nine digits of their offset and a line feed.
pub(super) fn pattern(interval: Range<u64>) -> Bytes {
    let mut out = Vec::with_capacity((interval.end - interval.start) as usize + 20);
    let first = interval.start / 10 * 10;
    for offset in (first..interval.end).step_by(10) {
        out.extend_from_slice(format!("{offset:09}\n").as_bytes());
    }
    let skip = (interval.start - first) as usize;
    Bytes::from(out).slice(skip..skip + (interval.end - interval.start) as usize)
}

impl Body for DemoBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            DemoBody::Whole(bytes) => bytes.take(),
            DemoBody::Pattern(left) if left.is_empty() => None,
            DemoBody::Pattern(left) => {
                let end = left.end.min(left.start + PATTERN_PIECE_BYTES);
                let piece = pattern(left.start..end);
                left.start = end;
                Some(piece)
            }
            DemoBody::Slow(lines) => ready!(lines.poll_next(context)),
        };
        Poll::Ready(piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            DemoBody::Whole(bytes) => bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
            DemoBody::Pattern(left) => left.end - left.start,
            DemoBody::Slow(lines) => lines.bytes,
        })
    }
}

impl Lines {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.left.len() == 0 {
            return Poll::Ready(None);
        }
        let pause = self.pause;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
        ready!(sleep.as_mut().poll(context));
        self.sleep = None;
        let line = self.left.next();
        self.bytes -= line.as_ref().map_or(0, |line| line.len() as u64);
        Poll::Ready(line)
    }
}
