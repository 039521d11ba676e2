//! The thread that looks at the file of tokens. The file system of the state folder may hang, and a request
//! waits for it a bounded time only: then what was read last counts.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::jobs;

/// So long a request waits for a look at the file.
pub(super) const LOOK_TIME_MAX: Duration = Duration::from_millis(500);

/// The requests that wait for a look.
#[derive(Debug, Default)]
pub(super) struct Looker(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    /// They are told once a look is over that began after they came.
    waiting: Vec<oneshot::Sender<()>>,
    has_thread: bool,
    /// A look has begun and is taking longer than anybody waits.
    is_late: bool,
}

impl Looker {
    /// Has `look` done on a thread, and waits for that for a bounded time; not at all while an earlier one
    /// hangs.
    ///
    /// # Cancel safety
    /// Safe: the look is done.
    pub(super) async fn look(this: &Arc<Looker>, look: impl Fn() + Send + 'static) {
        let Some(done) = Looker::begin(this, look) else { return };
        if tokio::time::timeout(LOOK_TIME_MAX, done).await.is_err() {
            let mut queue = this.0.lock();
            // One that is under way says so when it is over.
            queue.is_late = queue.has_thread;
        }
    }

    /// Begins a look, unless an earlier one hangs. Never waits.
    pub(super) fn begin(
        this: &Arc<Looker>,
        look: impl Fn() + Send + 'static,
    ) -> Option<oneshot::Receiver<()>> {
        let (tell, told) = oneshot::channel();
        let mut queue = this.0.lock();
        if queue.is_late {
            return None;
        }
        queue.waiting.push(tell);
        if !std::mem::replace(&mut queue.has_thread, true) {
            let own = Arc::clone(this);
            if jobs::on_thread("weir-tokens", move || own.work(&look)).is_err() {
                (queue.has_thread, queue.waiting) = (false, Vec::new());
            }
        }
        Some(told)
    }

    #[cfg(test)]
    pub(super) fn is_late(&self) -> bool {
        self.0.lock().is_late
    }

    fn work(&self, look: &dyn Fn()) {
        let mut queue = self.0.lock();
        while !queue.waiting.is_empty() {
            let waiting = std::mem::take(&mut queue.waiting);
            drop(queue);
            look();
            for tell in waiting {
                // Who has left need not be told.
                let _ = tell.send(());
            }
            queue = self.0.lock();
            queue.is_late = false;
        }
        queue.has_thread = false;
    }
}
