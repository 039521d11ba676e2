//! Several origins: shares, backups, ejection and the way back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::scripted::{Scripted, fetch, get, serve, settings};
use crate::{Change, Ejection, Order, OriginError, Role, Standing, Upstream};

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
        ..Ejection::default()
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
    assert!(upstream.snapshot().origins[0].ejections[0].1 >= 1);
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

#[tokio::test]
async fn a_drained_origin_gets_nothing_until_it_is_ready_again() {
    let (a, b) = (named("a", well()).await, named("b", well()).await);
    let upstream = Upstream::new(settings(&[a.url(), b.url()])).unwrap();
    assert!(upstream.changed("http://nobody.example:80", Change::Order(Order::Drain)).is_err());
    order(&upstream, &a.url(), Order::Drain);
    assert_eq!(count(&upstream, 10, "b").await, 10);
    order(&upstream, &b.url(), Order::Maintenance);
    assert!(matches!(fetch(&upstream, get("/")).await, Err(OriginError::NoOrigin)));
    let standings: Vec<_> = upstream.snapshot().origins.iter().map(|origin| origin.standing).collect();
    assert_eq!(standings, [Standing::Draining, Standing::Maintenance]);
    order(&upstream, &a.url(), Order::Ready);
    order(&upstream, &b.url(), Order::Ready);
    assert_eq!(count(&upstream, 10, "a").await, 5);
}

#[tokio::test]
async fn a_successor_keeps_the_origins_that_both_have() {
    let (a, b) = (named("a", well()).await, named("b", well()).await);
    let before = settings(&[a.url(), b.url()]);
    let upstream = Upstream::new(before.clone()).unwrap();
    assert_eq!(count(&upstream, 10, "a").await, 5);
    let mut after = before.clone();
    after.origins[1].weight = 4;
    let next = Upstream::succeed(&upstream, after).unwrap();
    assert_eq!(count(&next, 10, "a").await, 2);
    let seen = &next.snapshot().origins[0];
    assert_eq!((seen.requests, seen.connects), (7, 1), "its connection and counts are kept");
    // What concerns no connection may change as well.
    let mut other = before.clone();
    other.timeouts.first_byte = Duration::from_secs(7);
    other.bounds.connections_max = 3;
    other.ejection.failures = 1;
    other.resolve_every = Duration::from_secs(3);
    let other = Upstream::succeed(&next, other).unwrap();
    assert_eq!(other.snapshot().origins[0].requests, 7);
    assert_eq!(other.roster().origin(0).pool().open_max(), 3);
    // TLS does, and only where there is any.
    let mut secure = before;
    secure.tls.server_name = Some("other.example".to_owned());
    let secure = Upstream::succeed(&other, secure).unwrap();
    assert_eq!(secure.snapshot().origins[0].requests, 7);
}

pub(super) fn order(upstream: &Upstream, origin: &str, order: Order) {
    change(upstream, origin, Change::Order(order));
}

fn change(upstream: &Upstream, origin: &str, change: Change) {
    let (_, adjustments) = upstream.changed(origin, change).unwrap();
    upstream.adjust(adjustments).unwrap();
}

#[tokio::test]
async fn origins_come_and_go_while_others_keep_their_connections() {
    let (a, b) = (named("a", well()).await, named("b", well()).await);
    let upstream = Upstream::new(settings(&[a.url()])).unwrap();
    assert_eq!(count(&upstream, 4, "a").await, 4);
    change(&upstream, &b.url(), Change::Add { weight: Some(3), role: None, id: None });
    assert_eq!(count(&upstream, 8, "b").await, 6);
    change(&upstream, &b.url(), Change::Weight(1));
    assert_eq!(count(&upstream, 8, "b").await, 4);
    let listed = upstream.listed();
    assert_eq!(listed.origins[1].differences, ["added"]);
    assert!((listed.origins[1].share - 0.5).abs() < 1e-9);
    // It stays over a reload.
    let next = Upstream::succeed(&upstream, settings(&[a.url()])).unwrap();
    assert_eq!(count(&next, 8, "b").await, 4);
    change(&next, &a.url(), Change::Remove);
    assert_eq!(count(&next, 8, "b").await, 8);
    assert_eq!(next.listed().origins[1].differences, ["removed"]);
    change(&next, &a.url(), Change::Add { weight: None, role: None, id: None });
    assert_eq!(count(&next, 8, "b").await, 4);
    let seen = &next.snapshot().origins[1];
    assert_eq!(seen.connects, 1);
}
