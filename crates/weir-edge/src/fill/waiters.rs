//! Who waits for a fill: one list of wakers a core. A fill rings each core once, and the core wakes its
//! own readers, so that a thousand readers elsewhere cost one system call. It must not know what is
//! waited for.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The wakers of one core, and how often the list was emptied.
#[derive(Default)]
struct List {
    round: u64,
    wakers: Vec<Waker>,
}

/// The readers waiting for one fill, core by core.
pub(crate) struct Waiters {
    lists: Box<[Mutex<List>]>,
}

impl Waiters {
    /// No one waits yet on any of the bells' cores.
    pub(crate) fn new(bells: &Bells) -> Arc<Waiters> {
        Arc::new(Waiters { lists: bells.0.iter().map(|_| Mutex::default()).collect() })
    }

    /// Waits on core `core` until `ready` yields something.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing; a waker left behind is woken in vain once.
    pub(crate) async fn until<T>(&self, core: usize, mut ready: impl FnMut() -> Option<T>) -> T {
        let mut registered = None;
        poll_fn(|cx| {
            if let Some(value) = ready() {
                return Poll::Ready(value);
            }
            {
                let mut list = self.lists[core].lock();
                if registered != Some(list.round) {
                    registered = Some(list.round);
                    list.wakers.push(cx.waker().clone());
                }
            }
            // Between the first look and the registration the fill may have moved on.
            ready().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Wakes everyone: this core's readers at once, each other core by one ring.
    pub(crate) fn wake(self: &Arc<Self>, core: usize, bells: &Bells) {
        for (other, list) in self.lists.iter().enumerate() {
            if other == core {
                self.wake_core(core);
            } else if !list.lock().wakers.is_empty() {
                bells.0[other].ring(self.clone());
            }
        }
    }

    fn wake_core(&self, core: usize) {
        let wakers = {
            let mut list = self.lists[core].lock();
            list.round += 1;
            std::mem::take(&mut list.wakers)
        };
        for waker in wakers {
            waker.wake();
        }
    }
}

/// One core's bell: which fills have moved on.
#[derive(Default)]
struct Bell {
    rung: Mutex<Vec<Arc<Waiters>>>,
    notify: Notify,
}

impl Bell {
    fn ring(&self, waiters: Arc<Waiters>) {
        let first = {
            let mut rung = self.rung.lock();
            rung.push(waiters);
            rung.len() == 1
        };
        if first {
            self.notify.notify_one();
        }
    }
}

/// The bells of all cores.
pub(crate) struct Bells(Box<[Bell]>);

impl Bells {
    /// One bell for each of `cores` cores.
    pub(crate) fn new(cores: usize) -> Bells {
        Bells((0..cores).map(|_| Bell::default()).collect())
    }

    /// Answers the bell of one core for as long as it is polled; each worker runs this once.
    pub(crate) async fn answer(&self, core: usize) {
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
