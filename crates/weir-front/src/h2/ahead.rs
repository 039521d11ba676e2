//! What was handed to the crate `h2` and has not left for the socket yet: at most 64 KiB a stream, which the
//! crate sees to, and a bound for all streams of a connection. It must not know what is sent.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};

/// The most bytes of bodies that a connection holds for its client.
const AHEAD_BYTES_MAX: usize = 256 << 10;

/// The bytes ahead of a connection.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    bytes: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

impl Ahead {
    /// Whether another piece may be handed on.
    pub(super) fn has_room(&self) -> bool {
        self.bytes.get() < AHEAD_BYTES_MAX
    }

    /// Ready once another piece may be handed on; the bound may be passed by one piece.
    pub(super) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn left(&self, bytes: usize) {
        let before = self.bytes.get();
        self.bytes.set(before - bytes);
        if before >= AHEAD_BYTES_MAX && before - bytes < AHEAD_BYTES_MAX {
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// The bytes ahead of one stream, for those that wait until all have left.
#[derive(Debug, Default)]
pub(super) struct Progress {
    bytes: Cell<usize>,
    /// All bytes that have left.
    left: Cell<u64>,
    waiting: RefCell<Option<Waker>>,
}

impl Progress {
    /// All bytes that have left so far.
    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    /// Ready once nothing is ahead.
    pub(super) fn poll_empty(&self, cx: &Context<'_>) -> Poll<()> {
        if self.bytes.get() == 0 {
            return Poll::Ready(());
        }
        self.waiting.replace(Some(cx.waker().clone()));
        Poll::Pending
    }
}

/// A piece of a body. It is ahead until the crate has written or dropped it.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    all: Rc<Ahead>,
    own: Option<Rc<Progress>>,
}

impl Piece {
    /// A piece of a stream; without `own`, the stream does not wait for it.
    pub(super) fn new(bytes: Bytes, all: &Rc<Ahead>, own: Option<&Rc<Progress>>) -> Piece {
        all.bytes.set(all.bytes.get() + bytes.len());
        if let Some(own) = own {
            own.bytes.set(own.bytes.get() + bytes.len());
        }
        Piece { bytes, all: Rc::clone(all), own: own.map(Rc::clone) }
    }

    fn leave(&self, bytes: usize) {
        self.all.left(bytes);
        let Some(own) = &self.own else { return };
        own.bytes.set(own.bytes.get() - bytes);
        own.left.set(own.left.get() + bytes as u64);
        if let Some(waker) = own.waiting.take() {
            waker.wake();
        }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, bytes: usize) {
        self.bytes.advance(bytes);
        self.leave(bytes);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.leave(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_ahead_until_it_is_written_or_dropped() {
        let (all, own) = (Rc::new(Ahead::default()), Rc::new(Progress::default()));
        let cx = Context::from_waker(Waker::noop());
        let mut piece = Piece::new(Bytes::from(vec![0; AHEAD_BYTES_MAX]), &all, Some(&own));
        assert!(all.poll_room(&cx).is_pending() && own.poll_empty(&cx).is_pending());
        piece.advance(10);
        assert_eq!((all.poll_room(&cx), own.left()), (Poll::Ready(()), 10));
        drop(piece);
        assert_eq!((all.poll_room(&cx), own.poll_empty(&cx)), (Poll::Ready(()), Poll::Ready(())));
        assert_eq!(own.left(), AHEAD_BYTES_MAX as u64);
    }
}
