//! Several origins: shares, backups, ejection and the way back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::scripted::{Scripted, fetch, get, serve, settings};
use crate::{Ejection, Role, Upstream};

/// An origin that answers its name, or resets when it is told to be ill.
async fn named(name: &'static str, ill: Arc<AtomicBool>) -> Scripted {
    serve(move |mut peer| {
        let ill = ill.clone();
        async move {
            while peer.request().await.is_some() {
                if ill.load(Ordering::SeqCst) {
                    return;
                }
                peer.send(super::scripted::ok(name)).await;
            }
        }
    })
    .await
}

fn well() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

fn quick() -> Ejection {
    Ejection {
        failures: 2,
        window: Duration::from_secs(10),
        backoff: Duration::from_millis(100),
        backoff_max: Duration::from_millis(400),
    }
}

async fn count(upstream: &Arc<Upstream>, requests: usize, name: &str) -> usize {
    let mut found = 0;
    for _ in 0..requests {
        if fetch(upstream, get("/")).await.is_ok_and(|text| text == name) {
            found += 1;
        }
    }
    found
}

#[tokio::test]
async fn shares_follow_the_weights() {
    let (a, b) = (named("a", well()).await, named("b", well()).await);
    let mut settings = settings(&[a.url(), b.url()]);
    settings.origins[0].weight = 3;
    let upstream = Upstream::new(settings).unwrap();
    assert_eq!(count(&upstream, 40, "a").await, 30);
}

#[tokio::test]
async fn backups_serve_only_while_no_primary_is_up() {
    let ill = well();
    let (a, b) = (named("a", ill.clone()).await, named("b", well()).await);
    let mut settings = settings(&[a.url(), b.url()]);
    settings.origins[1].role = Role::Backup;
    settings.ejection = quick();
    let upstream = Upstream::new(settings).unwrap();
    assert_eq!(count(&upstream, 10, "a").await, 10);
    ill.store(true, Ordering::SeqCst);
    // The first meets a dead idle connection and then a dead fresh one, which were its two tries.
    assert_eq!(count(&upstream, 6, "b").await, 5);
    assert!(upstream.snapshot().origins[0].ejected_for.is_some());
    assert!(upstream.snapshot().origins[0].ejections >= 1);
    ill.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(450)).await;
    assert_eq!(count(&upstream, 10, "a").await, 10, "the first request is the trial");
    assert!(upstream.snapshot().origins[0].ejected_for.is_none());
}

#[tokio::test]
async fn an_ejected_origin_gets_one_request_a_backoff() {
    let ill = Arc::new(AtomicBool::new(true));
    let (a, b) = (named("a", ill).await, named("b", well()).await);
    let mut settings = settings(&[a.url(), b.url()]);
    settings.ejection = Ejection { backoff: Duration::from_secs(5), ..quick() };
    let upstream = Upstream::new(settings).unwrap();
    assert_eq!(count(&upstream, 20, "b").await, 20);
    assert_eq!(a.seen().len(), 2, "two failures eject it");
}

#[tokio::test]
async fn when_all_are_ejected_the_least_bad_is_tried() {
    let ill = Arc::new(AtomicBool::new(true));
    let (a, b) = (named("a", ill.clone()).await, named("b", ill.clone()).await);
    let mut settings = settings(&[a.url(), b.url()]);
    settings.ejection = Ejection { backoff: Duration::from_secs(60), ..quick() };
    let upstream = Upstream::new(settings).unwrap();
    assert_eq!(count(&upstream, 4, "a").await, 0);
    assert!(upstream.snapshot().origins.iter().all(|origin| origin.ejected_for.is_some()));
    let before = a.seen().len() + b.seen().len();
    assert!(fetch(&upstream, get("/")).await.is_err());
    assert!(a.seen().len() + b.seen().len() > before, "it is tried all the same");
    ill.store(false, Ordering::SeqCst);
    assert!(fetch(&upstream, get("/")).await.is_ok());
    assert!(upstream.snapshot().origins.iter().any(|origin| origin.ejected_for.is_none()));
}

#[tokio::test]
async fn a_full_origin_is_passed_over() {
    let busy = serve(|mut peer| async move {
        peer.request().await;
        peer.hold().await;
    })
    .await;
    let free = named("free", well()).await;
    let mut settings = settings(&[busy.url(), free.url()]);
    settings.bounds.connections_max = 1;
    settings.timeouts.first_byte = Duration::from_secs(20);
    let upstream = Upstream::new(settings).unwrap();
    let stuck = tokio::spawn({
        let upstream = upstream.clone();
        async move { fetch(&upstream, get("/")).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(count(&upstream, 10, "free").await, 10);
    stuck.abort();
}
