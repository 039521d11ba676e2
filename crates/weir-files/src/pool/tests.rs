//! Devices that hang, jobs that panic, and clients that leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use weir_share::Client;

use super::{LANE_THREADS_MAX, On, Pool, QUEUE_MAX, Times, Unanswered, WORKING_MAX};

const A: On = On::Device(1);
const B: On = On::Device(2);

/// A pool that takes a device for hung soon.
fn pool() -> Pool {
    Pool::new(Times { hang: Duration::from_secs(3), probe: Duration::from_millis(200) })
}

/// A device that does not answer until this is dropped.
struct Hung(Sender<()>, Arc<Mutex<Receiver<()>>>);

impl Hung {
    fn new() -> Hung {
        let (thaw, frozen) = channel();
        Hung(thaw, Arc::new(Mutex::new(frozen)))
    }

    /// A job that waits for it.
    fn job(&self) -> impl FnOnce(&super::Pulse) + Send + 'static + use<> {
        let frozen = Arc::clone(&self.1);
        move |_| {
            let _ = frozen.lock().recv();
        }
    }
}

/// Runs so many jobs at a time, and counts what came of them.
async fn run_all(pool: &Pool, hung: &Hung, count: usize) -> Vec<Result<(), Unanswered>> {
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let (pool, job) = (pool.clone(), hung.job());
            tokio::spawn(async move { pool.run(A, job).await })
        })
        .collect();
    let mut ended = Vec::new();
    for task in tasks {
        ended.push(task.await.unwrap());
    }
    ended
}

#[tokio::test(flavor = "current_thread")]
async fn jobs_run_elsewhere_and_more_of_them_than_threads() {
    let pool = Pool::default();
    let here = std::thread::current().id();
    let jobs = (0..4 * WORKING_MAX).map(|number| {
        let pool = pool.clone();
        async move { pool.run(On::Nothing, move |_| (number, std::thread::current().id())).await }
    });
    for (number, job) in jobs.enumerate() {
        let (said, thread) = job.await.unwrap();
        assert_eq!(said, number);
        assert_ne!(thread, here);
    }
}

#[tokio::test]
async fn a_device_that_hangs_keeps_only_its_own_waiting_and_that_for_a_while() {
    let (pool, hung) = (pool(), Hung::new());
    let waiting = {
        let (pool, hung) = (pool.clone(), Hung(hung.0.clone(), Arc::clone(&hung.1)));
        tokio::spawn(async move { run_all(&pool, &hung, 3 * WORKING_MAX).await })
    };
    // What needs another device goes on meanwhile, however much it is.
    for number in 0..10 * WORKING_MAX {
        assert_eq!(pool.run(B, move |_| number).await, Ok(number));
    }
    assert_eq!(waiting.await.unwrap(), vec![Err(Unanswered::Hangs); 3 * WORKING_MAX]);
    // Now it is refused at once, but for probes, whose threads are bounded.
    let refused = (0..1000).map(|_| pool.run(A, hung.job()));
    for refused in refused {
        assert_eq!(refused.await, Err(Unanswered::Hangs));
    }
    let threads = pool.0.lanes.lock()[&A].state.lock().threads;
    assert!((WORKING_MAX..=LANE_THREADS_MAX).contains(&threads), "{threads}");
    // It answers again: all come back, and so do its requests.
    drop(hung);
    while pool.run(A, |_| ()).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(pool.run(A, |_| 7).await, Ok(7));
}

#[tokio::test]
async fn another_device_at_the_same_place_is_found_by_a_probe() {
    let (pool, hung) = (pool(), Hung::new());
    assert_eq!(run_all(&pool, &hung, WORKING_MAX).await, vec![Err(Unanswered::Hangs); WORKING_MAX]);
    // The threads that wait never come back, and the next job would be answered.
    while pool.run(A, |_| ()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // From then on it is as any other, also after a while without a request.
    tokio::time::sleep(Duration::from_millis(3200)).await;
    let jobs: Vec<_> = (0..100)
        .map(|number| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.run(A, move |_| number).await })
        })
        .collect();
    for (number, job) in jobs.into_iter().enumerate() {
        assert_eq!(job.await.unwrap(), Ok(number));
    }
    drop(hung);
}

#[tokio::test]
async fn who_has_left_is_not_worked_for_and_the_queue_is_bounded() {
    let (pool, hung) = (Pool::new(Times { hang: Duration::from_secs(60), ..Times::default() }), Hung::new());
    let mut begun = Vec::new();
    for _ in 0..WORKING_MAX {
        let (pool, job) = (pool.clone(), hung.job());
        begun.push(tokio::spawn(async move { pool.run(A, job).await }));
    }
    let lane = || Arc::clone(&pool.0.lanes.lock()[&A]);
    while pool.0.lanes.lock().get(&A).is_none_or(|lane| lane.state.lock().running.len() < WORKING_MAX) {
        tokio::task::yield_now().await;
    }
    let done = Arc::new(AtomicUsize::new(0));
    let queue = |count: usize| {
        let jobs = (0..count).map(|_| {
            let (pool, done) = (pool.clone(), Arc::clone(&done));
            tokio::spawn(async move { pool.run(A, move |_| done.fetch_add(1, Ordering::SeqCst)).await })
        });
        jobs.collect::<Vec<_>>()
    };
    let waiting = queue(QUEUE_MAX);
    while lane().state.lock().queue.len() < QUEUE_MAX {
        tokio::task::yield_now().await;
    }
    assert_eq!(pool.run(A, |_| ()).await, Err(Unanswered::Crowded));
    // They leave, and make room.
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    for left in waiting {
        assert!(left.await.unwrap_err().is_cancelled());
    }
    let last = queue(1);
    while lane().state.lock().queue.len() != 1 {
        tokio::task::yield_now().await;
    }
    drop(hung);
    for ended in begun.into_iter().map(async |task| task.await.unwrap().is_ok()) {
        assert!(ended.await);
    }
    for ended in last {
        ended.await.unwrap().unwrap();
    }
    assert_eq!(done.load(Ordering::SeqCst), 1, "nobody is worked for who has left");
}

#[tokio::test]
async fn a_job_that_panics_is_told_and_its_thread_lives() {
    let pool = Pool::default();
    for _ in 0..4 * LANE_THREADS_MAX {
        let panicked = pool.run(A, |_| panic!("a job")).await;
        assert_eq!(panicked, Err::<(), _>(Unanswered::Panicked));
    }
    assert_eq!(pool.run(A, |_| 7).await, Ok(7));
    let lane = Arc::clone(&pool.0.lanes.lock()[&A]);
    // The caller hears of it before the thread is at its next job.
    while !lane.state.lock().running.is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(lane.state.lock().threads <= WORKING_MAX);
}

#[tokio::test]
async fn a_long_job_that_gets_on_is_waited_for() {
    let pool = pool();
    let long = |pulse: &super::Pulse| {
        for _ in 0..40 {
            std::thread::sleep(Duration::from_millis(100));
            pulse.beat();
        }
        7
    };
    assert_eq!(pool.run(A, long).await, Ok(7));
}

/// The jobs of two clients that wait for a device that hangs leave places to others.
#[tokio::test(flavor = "current_thread")]
async fn in_a_full_lane_the_latest_job_of_the_client_with_most_gives_way() {
    let (pool, hung) = (Pool::default(), Hung::new());
    let spawn = |client: Option<u32>, job: Box<dyn FnOnce() + Send>| {
        let pool = pool.clone();
        tokio::spawn(async move { pool.run_for((A, client.map(Client::V4)), move |_| job()).await })
    };
    let hangs = || {
        let job = hung.job();
        let pulse = super::Pulse::new(weir_clock::mono());
        Box::new(move || job(&pulse)) as Box<dyn FnOnce() + Send>
    };
    let mut all: Vec<_> = (0..WORKING_MAX).map(|_| spawn(None, hangs())).collect();
    let state =
        |of: fn(&super::State) -> usize| pool.0.lanes.lock().get(&A).map_or(0, |lane| of(&lane.state.lock()));
    while state(|state| state.running.len()) < WORKING_MAX {
        tokio::task::yield_now().await;
    }
    all.extend((0..QUEUE_MAX).map(|at| spawn(Some(at as u32 % 2), Box::new(|| ()))));
    while state(|state| state.queue.len()) < QUEUE_MAX {
        tokio::task::yield_now().await;
    }
    let others: Vec<_> = (10..35).map(|other| spawn(Some(other), Box::new(|| ()))).collect();
    for gone in all.drain(all.len() - 25..) {
        assert_eq!(gone.await.unwrap(), Err(Unanswered::Crowded));
    }
    assert_eq!(state(|state| state.queue.len()), QUEUE_MAX);
    drop(hung);
    for ended in others.into_iter().chain(all) {
        assert_eq!(ended.await.unwrap(), Ok(()));
    }
}
