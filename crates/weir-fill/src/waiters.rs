//! The readers that wait for a transfer: one list of wakers a core. A transfer rings each core's bell once,
//! and that core wakes its own readers, so that a thousand readers elsewhere cost one system call. It must
//! not know what is waited for.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The wakers of one core.
#[derive(Default)]
struct List {
    round: u64,
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
    /// The core's bell has been rung and not yet answered.
    is_rung: bool,
}

impl List {
    fn is_empty(&self) -> bool {
        self.wakers.len() == self.free.len()
    }

    fn put(&mut self, waker: Waker) -> usize {
        if let Some(slot) = self.free.pop() {
            self.wakers[slot] = Some(waker);
            return slot;
        }
        self.wakers.push(Some(waker));
        self.wakers.len() - 1
    }
}

/// The readers waiting for one transfer, core by core.
pub struct Waiters {
    lists: Box<[Mutex<List>]>,
}

/// One reader's slot in a list, given back when the reader stops waiting.
struct Slot<'w> {
    list: &'w Mutex<List>,
    /// The round and the slot in it.
    taken: Option<(u64, usize)>,
}

impl Slot<'_> {
    /// Takes a slot in this round, or renews the waker in the slot that is held.
    fn take(&mut self, cx: &Context<'_>) {
        let mut list = self.list.lock();
        match self.taken {
            Some((round, slot)) if round == list.round => {
                if let Some(waker) = list.wakers[slot].as_mut() {
                    waker.clone_from(cx.waker());
                }
            }
            _ => {
                let slot = list.put(cx.waker().clone());
                self.taken = Some((list.round, slot));
            }
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let Some((round, slot)) = self.taken else { return };
        let mut list = self.list.lock();
        if round == list.round && list.wakers[slot].take().is_some() {
            list.free.push(slot);
        }
    }
}

impl Waiters {
    /// No one waits yet on any of the bells' cores.
    pub fn new(bells: &Bells) -> Arc<Waiters> {
        Arc::new(Waiters { lists: bells.0.iter().map(|_| Mutex::default()).collect() })
    }

    /// Waits on core `core` until `ready` yields something.
    ///
    /// # Cancel safety
    /// Dropping the future gives its slot back.
    pub async fn until<T>(&self, core: usize, mut ready: impl FnMut() -> Option<T>) -> T {
        let mut slot = Slot { list: &self.lists[core], taken: None };
        poll_fn(|cx| {
            if let Some(value) = ready() {
                return Poll::Ready(value);
            }
            slot.take(cx);
            // The transfer may have moved on between the first look and the registration.
            ready().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Wakes all readers: those of this core at once, those of each other core by one ring.
    pub fn wake(self: &Arc<Self>, core: usize, bells: &Bells) {
        for (other, list) in self.lists.iter().enumerate() {
            if other == core {
                self.wake_core(core);
                continue;
            }
            let must_ring = {
                let mut list = list.lock();
                !list.is_empty() && !std::mem::replace(&mut list.is_rung, true)
            };
            if must_ring {
                bells.0[other].ring(self.clone());
            }
        }
    }

    fn wake_core(&self, core: usize) {
        let wakers = {
            let mut list = self.lists[core].lock();
            list.round += 1;
            list.is_rung = false;
            list.free.clear();
            std::mem::take(&mut list.wakers)
        };
        for waker in wakers.into_iter().flatten() {
            waker.wake();
        }
    }
}

/// One core's bell: which transfers have moved on.
#[derive(Default)]
struct Bell {
    rung: Mutex<Vec<Arc<Waiters>>>,
    notify: Notify,
}

impl Bell {
    fn ring(&self, waiters: Arc<Waiters>) {
        self.rung.lock().push(waiters);
        self.notify.notify_one();
    }
}

/// The bells of all cores.
pub struct Bells(Box<[Bell]>);

impl Bells {
    /// One bell for each of `cores` cores.
    pub fn new(cores: usize) -> Bells {
        Bells((0..cores).map(|_| Bell::default()).collect())
    }

    /// Wakes the readers of one core whenever its bell is rung. Each worker runs this once.
    pub async fn answer(&self, core: usize) {
        let bell = &self.0[core];
        loop {
            bell.notify.notified().await;
            let rung = std::mem::take(&mut *bell.rung.lock());
            for waiters in rung {
                waiters.wake_core(core);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_waiter_that_gave_up_leaves_nothing_behind() {
        let bells = Bells::new(2);
        let waiters = Waiters::new(&bells);
        let waker = Waker::noop();
        for _ in 0..100 {
            let mut waiting = pin!(waiters.until(1, || None::<()>));
            let _ = waiting.as_mut().poll(&mut Context::from_waker(waker));
            let _ = waiting.as_mut().poll(&mut Context::from_waker(waker));
        }
        assert_eq!(waiters.lists[1].lock().wakers.len(), 1, "places are used again");
        assert!(waiters.lists[1].lock().is_empty());
    }

    #[test]
    fn another_core_is_rung_once_until_it_answers() {
        let bells = Bells::new(2);
        let waiters = Waiters::new(&bells);
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut waiting = pin!(waiters.until(1, || None::<()>));
        let _ = waiting.as_mut().poll(&mut Context::from_waker(&waker));
        waiters.wake(0, &bells);
        waiters.wake(0, &bells);
        assert_eq!(bells.0[1].rung.lock().len(), 1);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        waiters.wake_core(1);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }
}
