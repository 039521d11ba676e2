//! The waits for a volume's reading threads. A wait that takes too long is given up, though the thread may be
//! stuck in the kernel.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// All waits, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// For each wait: since when, and whom to tell that it was given up. It stays until the thread is done
    /// with the job.
    all: BTreeMap<u64, (Duration, Option<oneshot::Sender<()>>)>,
}

/// Held by the job until it is done, or dropped without being done.
#[derive(Debug)]
pub(crate) struct Pending {
    waits: Arc<Waits>,
    number: u64,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.waits.0.lock().all.remove(&self.number);
    }
}

/// The result of a job on a reading thread; nothing if it does not come in time.
#[derive(Debug)]
pub struct Answer<T> {
    said: oneshot::Receiver<T>,
    /// `None` once it is known that the job has ended.
    given_up: Option<oneshot::Receiver<()>>,
}

impl<T> Future for Answer<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Poll::Ready(said) = Pin::new(&mut self.said).poll(context) {
            return Poll::Ready(said.ok());
        }
        let Some(given_up) = &mut self.given_up else { return Poll::Pending };
        match Pin::new(given_up).poll(context) {
            Poll::Ready(Ok(())) => Poll::Ready(None),
            Poll::Ready(Err(_)) => {
                // The job has ended, and has woken the task that waits for its result.
                self.given_up = None;
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Waits {
    /// Begins a wait at `now`.
    pub(crate) fn begin<T>(
        self: &Arc<Waits>,
        now: Duration,
        said: oneshot::Receiver<T>,
    ) -> (Pending, Answer<T>) {
        let (tell, given_up) = oneshot::channel();
        let mut waiting = self.0.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.all.insert(number, (now, Some(tell)));
        drop(waiting);
        (Pending { waits: Arc::clone(self), number }, Answer { said, given_up: Some(given_up) })
    }

    /// When the oldest job began to wait or to run, given up or not.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.0.lock().all.values().next().map(|(since, _)| *since)
    }

    /// How many have begun so far.
    pub(crate) fn begun(&self) -> u64 {
        self.0.lock().next
    }

    /// Gives up the waits that began before a moment. Returns how many.
    pub(crate) fn give_up_before(&self, moment: Duration) -> usize {
        let mut told = 0;
        for (since, tell) in self.0.lock().all.values_mut() {
            if *since >= moment {
                break;
            }
            if let Some(tell) = tell.take() {
                // The caller may have gone.
                let _ = tell.send(());
                told += 1;
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::Waits;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn waits_that_are_too_long_are_given_up() {
        let waits = Arc::new(Waits::default());
        let (_stuck, early) = oneshot::channel::<u32>();
        let (say, late) = oneshot::channel();
        let (_first, early) = waits.begin(ms(10), early);
        let (second, late) = waits.begin(ms(20), late);
        assert_eq!(waits.oldest(), Some(ms(10)));
        assert_eq!(waits.give_up_before(ms(20)), 1);
        assert_eq!(waits.give_up_before(ms(20)), 0, "nobody is told twice");
        assert_eq!(wait(early), None);
        say.send(7).unwrap();
        drop(second);
        assert_eq!(wait(late), Some(7));
        assert_eq!(waits.oldest(), Some(ms(10)), "the thread is stuck all the same");
    }

    #[test]
    fn a_job_that_is_dropped_is_answered() {
        let waits = Arc::new(Waits::default());
        let (say, said) = oneshot::channel::<u32>();
        let (pending, answer) = waits.begin(ms(1), said);
        drop((say, pending));
        assert_eq!(wait(answer), None);
        assert_eq!(waits.oldest(), None);
    }
}
