//! Threads for what may wait for a device: opening and reading. They are started when they are needed, and a
//! device that hangs keeps no request waiting whose file is in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

/// The most threads.
const THREADS_MAX: usize = 8;

type Job = Box<dyn FnOnce() + Send>;

/// The threads and what waits for them.
#[derive(Clone, Default)]
pub(crate) struct Pool(Arc<Inner>);

#[derive(Default)]
struct Inner {
    jobs: Mutex<std::collections::VecDeque<Job>>,
    news: Condvar,
    threads: AtomicUsize,
    idle: AtomicUsize,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Pool").field("threads", &self.0.threads).finish_non_exhaustive()
    }
}

impl Pool {
    /// Does `job` on another thread. None where there is no thread and none can be started.
    ///
    /// # Cancel safety
    /// Safe: a job that was begun is done, and its result dropped.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (say, said) = oneshot::channel();
        let job: Job = Box::new(move || {
            // Nobody waits for what is not wanted any more.
            if !say.is_closed() {
                let _ = say.send(job());
            }
        });
        self.0.jobs.lock().push_back(job);
        if self.0.idle.load(Ordering::Acquire) == 0 {
            self.grow();
        }
        self.0.news.notify_one();
        if self.0.threads.load(Ordering::Acquire) == 0 {
            return None;
        }
        said.await.ok()
    }

    /// Starts one more thread, where there may be one more.
    fn grow(&self) {
        let number = self.0.threads.fetch_add(1, Ordering::AcqRel);
        if number >= THREADS_MAX {
            self.0.threads.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let inner = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name(format!("weir-file-{number}"));
        if thread.spawn(move || work(&inner)).is_err() {
            self.0.threads.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn work(inner: &Inner) {
    let mut jobs = inner.jobs.lock();
    loop {
        if let Some(job) = jobs.pop_front() {
            drop(jobs);
            job();
            jobs = inner.jobs.lock();
            continue;
        }
        inner.idle.fetch_add(1, Ordering::AcqRel);
        inner.news.wait(&mut jobs);
        inner.idle.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::{Pool, THREADS_MAX};

    #[tokio::test(flavor = "current_thread")]
    async fn jobs_run_elsewhere_and_more_of_them_than_threads() {
        let pool = Pool::default();
        let here = std::thread::current().id();
        let jobs = (0..4 * THREADS_MAX).map(|number| {
            let pool = pool.clone();
            async move { pool.run(move || (number, std::thread::current().id())).await }
        });
        for (number, job) in jobs.enumerate() {
            let (said, thread) = job.await.unwrap();
            assert_eq!(said, number);
            assert_ne!(thread, here);
        }
    }
}
