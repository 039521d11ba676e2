//! The order in which the tasks of a worker think and send, between two looks of its runtime at the kernel.
//!
//! A task that sends as soon as it can wakes the other side for one message, and the kernel's code pushes
//! its own out of the processor's caches. Where all tasks that are ready think first and send then, the
//! other side is awake for all of their messages, and both kinds of code stay in the caches (ADR 0086).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// A step that moves at least so many bytes in one system call is long: short messages do not wait behind it.
const LONG_BYTES: u64 = 32 << 10;
/// So many messages after a long step leave at once.
const HURRIED_MESSAGES: u32 = 64;

thread_local! {
    /// How many messages of this thread leave at once, because a long step may be ready behind them.
    static HURRIED: Cell<u32> = const { Cell::new(0) };
}

/// Lets the tasks that are ready now run first, each once. Call it before a message is sent. Where a long
/// step was made on this thread a moment ago, it waits for nothing: the next one may be ready.
///
/// # Cancel safety
/// Safe.
pub async fn before_sending() {
    let mut behind = Behind::default();
    poll_fn(|cx| behind.poll(cx)).await;
}

/// The state of [`before_sending`], for code that is polled.
#[derive(Debug, Default)]
pub struct Behind {
    is_behind: bool,
}

impl Behind {
    /// Ready once the others have run. After that it can be used again.
    pub fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.is_behind) {
            return Poll::Ready(());
        }
        let hurried = HURRIED.get();
        if hurried > 0 {
            HURRIED.set(hurried - 1);
            return Poll::Ready(());
        }
        self.is_behind = true;
        // To the end of the tasks that are ready.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Notes that a task of this thread has moved `bytes` in one system call.
pub fn moved(bytes: u64) {
    if bytes >= LONG_BYTES {
        HURRIED.set(HURRIED_MESSAGES);
    }
}

/// A task whose peer always has more, or takes all, lets the others run after so many bytes.
const STINT_BYTES: u64 = 1 << 20;
/// And after so many pieces, however short: each costs a look at what has come, and a system call.
const STINT_PIECES: u32 = 8;

/// How much a task has moved since it let the others of its worker run.
#[derive(Debug, Default)]
pub struct Stint {
    bytes: u64,
    pieces: u32,
}

impl Stint {
    /// Counts a piece. True where the others are due: the caller yields to them, and the next stint begins.
    pub fn is_over(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        self.pieces += 1;
        let is_over = self.bytes >= STINT_BYTES || self.pieces >= STINT_PIECES;
        if is_over {
            *self = Stint::default();
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::task::LocalSet;

    use super::{HURRIED_MESSAGES, LONG_BYTES, STINT_BYTES, STINT_PIECES, Stint, before_sending, moved};

    /// What two tasks did that were ready together: each thinks, and sends then.
    fn two() -> Vec<&'static str> {
        let did = Rc::new(RefCell::new(Vec::new()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        LocalSet::new().block_on(&runtime, async {
            let task = |thinks, sends| {
                let did = Rc::clone(&did);
                tokio::task::spawn_local(async move {
                    did.borrow_mut().push(thinks);
                    before_sending().await;
                    did.borrow_mut().push(sends);
                })
            };
            let (a, b) = (task("a thinks", "a sends"), task("b thinks", "b sends"));
            (a.await.expect("a ends"), b.await.expect("b ends"))
        });
        did.take()
    }

    const ONE_AFTER_ANOTHER: [&str; 4] = ["a thinks", "a sends", "b thinks", "b sends"];
    const TOGETHER: [&str; 4] = ["a thinks", "b thinks", "a sends", "b sends"];

    #[test]
    fn all_that_are_ready_think_before_the_first_sends() {
        assert_eq!(two(), TOGETHER);
    }

    #[test]
    fn nobody_waits_behind_long_steps() {
        moved(LONG_BYTES - 1);
        assert_eq!(two(), TOGETHER);
        moved(LONG_BYTES);
        for _ in 0..HURRIED_MESSAGES / 2 {
            assert_eq!(two(), ONE_AFTER_ANOTHER);
        }
        assert_eq!(two(), TOGETHER);
    }

    #[test]
    fn a_stint_ends_by_bytes_and_by_pieces() {
        let stints = |bytes, pieces| {
            let mut stint = Stint::default();
            (0..pieces).filter(|_| stint.is_over(bytes)).count() as u32
        };
        assert_eq!(stints(STINT_BYTES, 5), 5);
        assert_eq!(stints(STINT_BYTES / 2, 10), 5);
        assert_eq!(stints(1, 5 * STINT_PIECES + 1), 5);
        assert_eq!(stints(0, STINT_PIECES - 1), 0);
    }
}
