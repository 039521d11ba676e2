//! The cap, the queue, idle times, and two runtimes that share one origin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weir_share::Client;

use super::scripted::{fetch, get, head, ok, serve, settings, text, upstream};
use crate::{Bound, ExchangeError, Hurry, OriginError, OriginRequest, Share, Upstream};

fn capped(url: String, connections: usize, queue: usize) -> Arc<Upstream> {
    let mut settings = settings(&[url]);
    settings.bounds.connections_max = connections;
    settings.bounds.queue_max = queue;
    Upstream::new(settings).unwrap()
}

#[tokio::test]
async fn never_more_than_the_cap_and_all_are_served() {
    let open = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (now, peak) = (open.clone(), most.clone());
    let origin = serve(move |mut peer| {
        let (now, peak) = (now.clone(), peak.clone());
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            while let Some(request) = peer.request().await {
                tokio::time::sleep(Duration::from_millis(1)).await;
                peer.send(ok("fine")).await;
                if request.contains("/close") {
                    break;
                }
            }
            now.fetch_sub(1, Ordering::SeqCst);
        }
    })
    .await;
    let upstream = capped(origin.url(), 3, 1000);
    let mut all = tokio::task::JoinSet::new();
    for index in 0..60 {
        let upstream = upstream.clone();
        let path = if index % 3 == 0 { "/close" } else { "/keep" };
        all.spawn(async move { fetch(&upstream, get(path)).await });
    }
    while let Some(result) = all.join_next().await {
        assert_eq!(result.unwrap().unwrap(), "fine");
    }
    // A connection that the origin closes may linger there for a moment after its permit went on.
    assert!(most.load(Ordering::SeqCst) <= 3 + 1, "{}", most.load(Ordering::SeqCst));
    let after = upstream.snapshot();
    assert!(after.origins[0].connections_open <= 3);
    assert_eq!(after.origins[0].waiting, 0);
}

#[tokio::test]
async fn a_full_queue_and_a_long_wait_are_busy() {
    let origin = serve(|mut peer| async move {
        peer.request().await;
        peer.hold().await;
    })
    .await;
    let mut settings = settings(&[origin.url()]);
    settings.bounds.connections_max = 1;
    settings.bounds.queue_max = 1;
    settings.timeouts.first_byte = Duration::from_secs(20);
    let upstream = Upstream::new(settings).unwrap();
    let holder = tokio::spawn({
        let upstream = upstream.clone();
        async move { fetch(&upstream, get("/")).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let waiter = tokio::spawn({
        let upstream = upstream.clone();
        async move { fetch(&upstream, get("/")).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(upstream.snapshot().origins[0].waiting, 1);
    let error = fetch(&upstream, get("/")).await.unwrap_err();
    assert_eq!((error.status().as_u16(), error.retry_after_s()), (503, Some(1)));
    assert_eq!(error.proxy_status(), "connection_limit_reached");
    assert!(matches!(
        waiter.await.unwrap(),
        Err(OriginError::Exchange(ExchangeError::Busy { bound: Bound::Connections, .. }))
    ));
    let counts = &upstream.snapshot().origins[0];
    assert_eq!((counts.waiting, counts.busy, counts.failures), (0, 2, 0));
    holder.abort();
    let _ = holder.await;
    assert_eq!(upstream.snapshot().origins[0].connections_open, 0);
}

#[tokio::test]
async fn a_waiter_that_leaves_passes_on_what_it_was_given() {
    let origin = serve(|mut peer| async move { peer.answer_all("fine").await }).await;
    let upstream = capped(origin.url(), 1, 10);
    let mut first = head(&upstream, get("/")).await;
    let leaving = tokio::spawn({
        let upstream = upstream.clone();
        async move { fetch(&upstream, get("/")).await }
    });
    let staying = tokio::spawn({
        let upstream = upstream.clone();
        async move { fetch(&upstream, get("/")).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(upstream.snapshot().origins[0].waiting, 2);
    // The connection falls idle and is handed to the first, which is cancelled before it can take it.
    assert_eq!(text(&mut first.body).await.unwrap(), "fine");
    leaving.abort();
    assert_eq!(staying.await.unwrap().unwrap(), "fine");
    assert_eq!(upstream.snapshot().origins[0].connections_open, 1);
}

#[tokio::test]
async fn idle_connections_are_closed_in_time() {
    let origin = serve(|mut peer| async move { peer.answer_all("fine").await }).await;
    let mut settings = settings(&[origin.url()]);
    settings.timeouts.pool_idle = Duration::from_millis(50);
    let upstream = Upstream::new(settings).unwrap();
    fetch(&upstream, get("/")).await.unwrap();
    assert_eq!(upstream.snapshot().origins[0].connections_idle, 1);
    for _ in 0..100 {
        if upstream.snapshot().origins[0].connections_open == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let counts = &upstream.snapshot().origins[0];
    assert_eq!((counts.connections_open, counts.connections_idle), (0, 0));
    fetch(&upstream, get("/")).await.unwrap();
    assert_eq!(origin.accepted(), 2);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs in a runtime of its own on a thread of its own, and ends both.
fn elsewhere<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    std::thread::spawn(move || runtime().block_on(work)).join().unwrap()
}

#[test]
fn idle_connections_move_between_runtimes() {
    let home = runtime();
    let origin = home.block_on(serve(|mut peer| async move { peer.answer_all("fine").await }));
    let upstream = upstream(&origin);
    // The origin runs on as long as this runtime does; the others come and go.
    let stop = tokio::sync::oneshot::channel::<()>();
    let running = std::thread::spawn(move || home.block_on(async { stop.1.await.ok() }));
    for _ in 0..3 {
        let upstream = upstream.clone();
        elsewhere(async move {
            for _ in 0..3 {
                assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "fine");
            }
        });
    }
    let counts = &upstream.snapshot().origins[0];
    assert_eq!((counts.requests, counts.connects, counts.connections_open), (9, 1, 1));
    stop.0.send(()).unwrap();
    running.join().unwrap();
}

#[test]
fn two_runtimes_at_once_within_one_cap() {
    let home = runtime();
    let origin = home.block_on(serve(|mut peer| async move { peer.answer_all("fine").await }));
    let upstream = capped(origin.url(), 2, 1000);
    let stop = tokio::sync::oneshot::channel::<()>();
    let running = std::thread::spawn(move || home.block_on(async { stop.1.await.ok() }));
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let upstream = upstream.clone();
            std::thread::spawn(move || {
                runtime().block_on(async {
                    let mut all = tokio::task::JoinSet::new();
                    for _ in 0..8 {
                        let upstream = upstream.clone();
                        all.spawn(async move {
                            for _ in 0..25 {
                                // Moved, replaced and awaited connections: never an error, never stuck.
                                assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "fine");
                            }
                        });
                    }
                    while let Some(done) = all.join_next().await {
                        done.unwrap();
                    }
                });
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    let counts = &upstream.snapshot().origins[0];
    assert!(counts.connections_open <= 2);
    assert_eq!((counts.requests, counts.waiting), (600 + counts.retries, 0));
    stop.0.send(()).unwrap();
    running.join().unwrap();
}

fn of(client: u8, path: &str) -> OriginRequest {
    OriginRequest { client: Some(Client::of([192, 0, 2, client].into())), ..get(path) }
}

#[tokio::test]
async fn one_client_has_its_share_and_others_find_a_connection() {
    let origin = serve(|mut peer| async move {
        while let Some(request) = peer.request().await {
            if request.contains("/hang") {
                return peer.hold().await;
            }
            peer.send(ok("fine")).await;
        }
    })
    .await;
    let mut settings = settings(&[origin.url()]);
    settings.bounds.connections_max = 4;
    settings.bounds.queue_max = 4;
    settings.timeouts.queue = Duration::from_millis(100);
    settings.timeouts.first_byte = Duration::from_secs(20);
    let upstream = Upstream::new(settings).unwrap();
    let hang = |path: &'static str| {
        let upstream = upstream.clone();
        tokio::spawn(async move { fetch(&upstream, of(1, path)).await })
    };
    let held = [hang("/hang/1"), hang("/hang/2")];
    while upstream.snapshot().origins[0].requests < 2 {
        tokio::task::yield_now().await;
    }
    assert!(upstream.is_spent(Some(Client::of([192, 0, 2, 1].into()))) && !upstream.is_spent(None));
    let more = fetch(&upstream, of(1, "/more")).await;
    assert!(
        matches!(more, Err(OriginError::Exchange(ExchangeError::Busy { bound: Bound::ClientShare, .. }))),
        "{more:?}"
    );
    assert_eq!(fetch(&upstream, of(2, "/x")).await.unwrap(), "fine");
    assert_eq!(fetch(&upstream, get("/x")).await.unwrap(), "fine");
    // What others may have joined is counted, and does not wait.
    let shared = OriginRequest { share: Share::Counted, ..of(1, "/x") };
    assert_eq!(fetch(&upstream, shared).await.unwrap(), "fine");
    // In the queue it has its share as well.
    let waiting = [hang("/hang/3"), hang("/hang/4")];
    while upstream.snapshot().origins[0].waiting < 2 {
        tokio::task::yield_now().await;
    }
    let begun = tokio::time::Instant::now();
    let more = fetch(&upstream, of(1, "/more")).await;
    assert!(
        matches!(more, Err(OriginError::Exchange(ExchangeError::Busy { bound: Bound::ClientShare, .. }))),
        "{more:?}"
    );
    assert!(begun.elapsed() < Duration::from_millis(90), "the queue has room for others alone");
    held.iter().chain(&waiting).for_each(tokio::task::JoinHandle::abort);
    while upstream.is_spent(Some(Client::of([192, 0, 2, 1].into()))) {
        tokio::task::yield_now().await;
    }
    assert_eq!(fetch(&upstream, of(1, "/x")).await.unwrap(), "fine");
}

#[tokio::test]
async fn who_has_fewest_connections_comes_first() {
    let origin = serve(|mut peer| async move {
        while let Some(request) = peer.request().await {
            if request.contains("/hang") {
                return peer.hold().await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            peer.send(ok("fine")).await;
        }
    })
    .await;
    let mut settings = settings(&[origin.url()]);
    settings.bounds.connections_max = 2;
    settings.bounds.client_share_percent = 100;
    settings.timeouts.first_byte = Duration::from_secs(20);
    let upstream = Upstream::new(settings).unwrap();
    let ask = |client: u8, path: &'static str| {
        let upstream = upstream.clone();
        tokio::spawn(async move { fetch(&upstream, of(client, path)).await.map(|_| client) })
    };
    let held = [ask(1, "/hang"), ask(1, "/x")];
    while upstream.snapshot().origins[0].requests < 2 {
        tokio::task::yield_now().await;
    }
    let first = ask(1, "/x");
    while upstream.snapshot().origins[0].waiting < 1 {
        tokio::task::yield_now().await;
    }
    let second = ask(2, "/x");
    assert_eq!(second.await.unwrap().unwrap(), 2);
    assert!(!first.is_finished());
    held[0].abort();
    assert_eq!(first.await.unwrap().unwrap(), 1);
}

fn spare(hurry: &Arc<Hurry>, path: &str) -> OriginRequest {
    OriginRequest { share: Share::Spare, hurry: Some(hurry.clone()), ..get(path) }
}

/// What no client waits for leaves a connection, and stands behind all others.
#[tokio::test]
async fn what_no_client_waits_for_comes_last_and_leaves_some() {
    let asked: Arc<parking_lot::Mutex<Vec<String>>> = Arc::default();
    let (seen, gate) = (asked.clone(), Arc::new(tokio::sync::Semaphore::new(0)));
    let opens = gate.clone();
    let origin = serve(move |mut peer| {
        let (seen, opens) = (seen.clone(), opens.clone());
        async move {
            while let Some(request) = peer.request().await {
                let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
                let is_held = path.starts_with("/w");
                seen.lock().push(path);
                if is_held {
                    opens.acquire().await.unwrap().forget();
                }
                peer.send(ok("fine")).await;
            }
        }
    })
    .await;
    let mut settings = settings(&[origin.url()]);
    settings.bounds.connections_max = 4;
    settings.bounds.queue_max = 1;
    settings.timeouts.queue = Duration::from_secs(20);
    let upstream = Upstream::new(settings).unwrap();
    let hurries: Vec<Arc<Hurry>> = (0..8).map(|_| Arc::default()).collect();
    let warm = |number: usize| {
        let (upstream, request) = (upstream.clone(), spare(&hurries[number], &format!("/w{number}")));
        tokio::spawn(async move { fetch(&upstream, request).await })
    };
    assert!(upstream.has_spare());
    let all: Vec<_> = (0..8).map(warm).collect();
    while asked.lock().len() < 3 || upstream.snapshot().origins[0].waiting < 5 {
        tokio::task::yield_now().await;
    }
    assert!(!upstream.has_spare());
    // The last connection is for clients, again and again, and so is the queue.
    for _ in 0..10 {
        assert_eq!(fetch(&upstream, get("/c")).await.unwrap(), "fine");
    }
    assert_eq!(asked.lock().iter().filter(|path| path.starts_with("/w")).count(), 3);
    // One that a client waits for by now takes what was left for clients.
    hurries[7].tell();
    while !asked.lock().contains(&"/w7".to_owned()) {
        tokio::task::yield_now().await;
    }
    gate.add_permits(8);
    for one in all {
        assert_eq!(one.await.unwrap().unwrap(), "fine");
    }
    assert!(upstream.has_spare());
    assert!(upstream.snapshot().origins[0].connections_open <= 4);
}
