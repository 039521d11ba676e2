//! Answers on their way out. A long one leaves piece by piece, and counts as unsent until all of it has left:
//! so much for each caller, and so much for all. One of which nothing is taken is given up, with its
//! connection.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Answers up to this length count for nothing: the places bound how many there are.
const SMALL_BYTES: usize = 64 << 10;
/// What leaves at a time.
const PIECE_BYTES: usize = 64 << 10;
/// The bytes that one caller may have unsent, unless one answer alone has more.
const OWN_BYTES_MAX: usize = 16 << 20;
/// The same for all of a server.
const ALL_BYTES_MAX: usize = 32 << 20;
/// An answer of which nothing was taken for so long is given up.
const STALL_TIME: Duration = Duration::from_secs(30);

/// What is unsent of one server, by caller.
#[derive(Debug, Default)]
pub(crate) struct Unsent(Mutex<HashMap<String, usize>>);

/// An answer's part of it, given back when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    unsent: Arc<Unsent>,
    who: String,
    bytes: usize,
    moves: Arc<Moves>,
}

/// When something of a connection's long answer was taken last; none is being sent where that is zero.
#[derive(Debug)]
pub(crate) struct Moves {
    begun: Instant,
    last_ms: AtomicU64,
    /// The turn of its last change between idle and working, or of the last bytes that came. The smallest
    /// has been idle for the longest.
    pub(crate) since: AtomicU64,
    turns: Arc<AtomicU64>,
}

/// The whole content of an answer.
#[derive(Debug)]
pub(crate) struct Whole {
    rest: Bytes,
    charge: Option<Charge>,
}

impl Unsent {
    fn take(self: &Arc<Unsent>, who: &str, bytes: usize, moves: &Arc<Moves>) -> Option<Charge> {
        let mut of = self.0.lock();
        let own = of.get(who).copied().unwrap_or_default();
        let all: usize = of.values().sum();
        let is_alone = own == 0 && all + bytes <= ALL_BYTES_MAX.max(bytes);
        if !is_alone && (own + bytes > OWN_BYTES_MAX || all + bytes > ALL_BYTES_MAX) {
            return None;
        }
        of.insert(who.to_owned(), own + bytes);
        moves.note();
        Some(Charge { unsent: Arc::clone(self), who: who.to_owned(), bytes, moves: Arc::clone(moves) })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut of = self.unsent.0.lock();
        if let Some(own) = of.get_mut(&self.who) {
            *own = own.saturating_sub(self.bytes);
            if *own == 0 {
                of.remove(&self.who);
            }
        }
        self.moves.last_ms.store(0, Ordering::Relaxed);
    }
}

impl Moves {
    /// Of a new connection; all of a server share `turns`.
    pub(crate) fn new(turns: &Arc<AtomicU64>) -> Moves {
        let (begun, turns) = (Instant::now(), Arc::clone(turns));
        let moves = Moves { begun, last_ms: AtomicU64::new(0), since: AtomicU64::new(0), turns };
        moves.gets_on();
        moves
    }

    /// Notes that something has come or changed: of those that wait it is not the one that has been idle for
    /// the longest.
    pub(crate) fn gets_on(&self) {
        self.since.store(self.turns.fetch_add(1, Ordering::Relaxed), Ordering::Release);
    }

    fn now_ms(&self) -> u64 {
        let since = Instant::now().saturating_duration_since(self.begun);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX) + 1
    }

    fn note(&self) {
        self.last_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Ready when a long answer stands still.
    pub(crate) async fn stalled(&self) {
        loop {
            tokio::time::sleep(STALL_TIME / 4).await;
            let last = self.last_ms.load(Ordering::Relaxed);
            if last > 0 && u128::from(self.now_ms() - last) >= STALL_TIME.as_millis() {
                return;
            }
        }
    }
}

impl Whole {
    pub(crate) fn new(bytes: impl Into<Bytes>) -> Whole {
        Whole { rest: bytes.into(), charge: None }
    }

    /// Counts it as unsent. Whether there is room for it.
    #[must_use]
    pub(crate) fn count(&mut self, unsent: &Arc<Unsent>, who: &str, moves: &Arc<Moves>) -> bool {
        if self.rest.len() <= SMALL_BYTES {
            return true;
        }
        self.charge = unsent.take(who, self.rest.len(), moves);
        self.charge.is_some()
    }
}

impl Body for Whole {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        self.charge.iter().for_each(|charge| charge.moves.note());
        let length = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_reads_nothing_takes_so_much_and_leaves_room_for_others() {
        let (unsent, moves) = (Arc::<Unsent>::default(), Arc::new(Moves::new(&Arc::default())));
        let answer = |name: &str, bytes: usize| {
            let mut whole = Whole::new(vec![0; bytes]);
            whole.count(&unsent, name, &moves).then_some(whole)
        };
        // A token that has sixty connections and reads none of its answers.
        let kept: Vec<Whole> = (0..60).filter_map(|_| answer("a", 5 << 20)).collect();
        assert_eq!(kept.len(), OWN_BYTES_MAX / (5 << 20));
        assert!(answer("a", SMALL_BYTES).is_some(), "what is short counts for nothing");
        let other = answer("b", 5 << 20);
        assert!(other.is_some());
        // However many there are.
        let more: Vec<Whole> = (0..100).filter_map(|number| answer(&number.to_string(), 2 << 20)).collect();
        let all: usize = unsent.0.lock().values().sum();
        assert!(all <= ALL_BYTES_MAX, "{all}");
        drop((kept, other, more));
        assert!(unsent.0.lock().is_empty());
        assert!(answer("a", 40 << 20).is_some(), "one alone may be longer");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_takes_is_given_up_and_one_that_moves_is_not() {
        let (unsent, moves) = (Arc::<Unsent>::default(), Arc::new(Moves::new(&Arc::default())));
        let mut whole = Whole::new(vec![0; 1 << 20]);
        assert!(whole.count(&unsent, "a", &moves));
        let is_stalled = async |time| tokio::time::timeout(time, moves.stalled()).await.is_ok();
        for _ in 0..10 {
            assert!(!is_stalled(STALL_TIME / 2).await);
            let piece =
                std::future::poll_fn(|cx| Pin::new(&mut whole).poll_frame(cx)).await.unwrap().unwrap();
            assert_eq!(piece.into_data().unwrap().len(), PIECE_BYTES);
        }
        assert!(is_stalled(2 * STALL_TIME).await);
        drop(whole);
        assert!(!is_stalled(10 * STALL_TIME).await, "nothing is being sent");
    }
}
