//! Everything at once: origins that close, stall, break off and lie, clients that leave, three runtimes, a
//! small cap. Afterwards nothing is left: no waiter, no connection that is counted and not there, no permit
//! that is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::scripted::{Peer, Scripted, fetch, get, ok, serve, settings};
use crate::{Ejection, Upstream};

const CAP: usize = 4;

async fn moody(mut peer: Peer, mut random: fastrand::Rng) {
    while peer.request().await.is_some() {
        match random.u8(0..20) {
            0 => return,
            1 => peer.send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfi").await,
            2 => peer.send("HTTP/1.1 200 OK\r\nbad head\r\n\r\n").await,
            3 => {
                peer.send(ok("fine")).await;
                return;
            }
            4 => peer.send(ok("fine") + "surplus").await,
            5 => tokio::time::sleep(Duration::from_millis(random.u64(1..60))).await,
            6 => {
                peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfi").await;
                tokio::time::sleep(Duration::from_millis(random.u64(1..20))).await;
                peer.send("ne\r\n0\r\n\r\n").await;
            }
            7 => peer.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nfine").await,
            _ => peer.send(ok("fine")).await,
        }
    }
}

async fn origin(seed: u64) -> Scripted {
    serve(move |peer| {
        let random = fastrand::Rng::with_seed(seed + peer.index as u64);
        moody(peer, random)
    })
    .await
}

/// Requests one after another, some of them left before their answer.
async fn client(upstream: Arc<Upstream>, seed: u64, served: Arc<AtomicUsize>) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..40 {
        let patience = Duration::from_millis(if random.u8(0..4) == 0 { random.u64(0..10) } else { 2000 });
        if let Ok(Ok(text)) = tokio::time::timeout(patience, fetch(&upstream, get("/"))).await {
            assert_eq!(text, "fine");
            served.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn nothing_is_lost_in_a_storm() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seed = fastrand::u64(..1 << 40);
    println!("seed {seed}");
    let home = runtime();
    let (a, b) = home.block_on(async { (origin(seed).await, origin(seed + 1_000_000).await) });
    let mut settings = settings(&[a.url(), b.url()]);
    settings.bounds.connections_max = CAP;
    settings.timeouts.first_byte = Duration::from_millis(40);
    settings.timeouts.between_bytes = Duration::from_millis(40);
    settings.timeouts.pool_idle = Duration::from_millis(30);
    settings.ejection = Ejection { backoff: Duration::from_millis(5), ..Ejection::default() };
    let upstream = Upstream::new(settings).unwrap();
    let stop = tokio::sync::oneshot::channel::<()>();
    let running = std::thread::spawn(move || home.block_on(async { stop.1.await.ok() }));
    let served = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..3)
        .map(|worker| {
            let (upstream, served) = (upstream.clone(), served.clone());
            std::thread::spawn(move || {
                runtime().block_on(async {
                    let mut all = tokio::task::JoinSet::new();
                    for task in 0..12 {
                        all.spawn(client(upstream.clone(), seed + worker * 100 + task, served.clone()));
                    }
                    while let Some(done) = all.join_next().await {
                        done.unwrap();
                        for origin in upstream.snapshot().origins {
                            assert!(origin.connections_open <= CAP, "{origin:?}");
                        }
                    }
                });
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    assert!(served.load(Ordering::SeqCst) > 100, "{}", served.load(Ordering::SeqCst));
    // The runtimes are gone; what lies idle is moved or closed by the next request.
    for _ in 0..2 * CAP {
        let _ = runtime().block_on(fetch(&upstream, get("/")));
    }
    for origin in upstream.snapshot().origins {
        assert_eq!(origin.waiting, 0, "{origin:?}");
        assert_eq!(origin.connections_open, origin.connections_idle, "{origin:?}");
    }
    stop.0.send(()).unwrap();
    running.join().unwrap();
}
