//! Ejection by what origins answer: bad statuses, and how many may be left out at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::scripted::{Scripted, fetch, get, ok, serve, settings};
use crate::health::ejection::Cause;
use crate::{Ejection, OriginRequest, Role, Upstream};

/// An origin that answers its name, or 500 when it is told to be ill, and to `/broken` always.
async fn named(name: &'static str, ill: &Arc<AtomicBool>) -> Scripted {
    let ill = ill.clone();
    serve(move |mut peer| {
        let ill = ill.clone();
        async move {
            while let Some(head) = peer.request().await {
                if ill.load(Ordering::SeqCst) || head.starts_with("GET /broken ") {
                    peer.send("HTTP/1.1 500 Ill\r\ncontent-length: 3\r\n\r\nill").await;
                } else {
                    peer.send(ok(name)).await;
                }
            }
        }
    })
    .await
}

fn flag(is_ill: bool) -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(is_ill))
}

fn strict() -> Ejection {
    Ejection {
        failures: 3,
        backoff: Duration::from_secs(60),
        backoff_max: Duration::from_secs(60),
        statuses: std::iter::once(500..=599).collect(),
        ..Ejection::default()
    }
}

/// A request of a client.
fn of(client: u64, path: &str) -> OriginRequest {
    OriginRequest { witness: Some(client), ..get(path) }
}

/// How many of so many requests, each of its own client for its own URL, `name` answers.
async fn count(upstream: &Arc<Upstream>, requests: u64, name: &str) -> usize {
    let mut found = 0;
    for number in 0..requests {
        if fetch(upstream, of(number, &format!("/{number}"))).await.is_ok_and(|text| text == name) {
            found += 1;
        }
    }
    found
}

fn ejections(upstream: &Upstream, cause: Cause) -> u64 {
    upstream.snapshot().origins.iter().map(|origin| origin.ejections[cause as usize].1).sum()
}

#[tokio::test]
async fn bad_statuses_eject() {
    let (a, b) = (named("a", &flag(true)).await, named("b", &flag(false)).await);
    let mut settings = settings(&[a.url(), b.url()]);
    settings.ejection = strict();
    let upstream = Upstream::new(settings.clone()).unwrap();
    assert_eq!(count(&upstream, 20, "ill").await, 3);
    assert_eq!(ejections(&upstream, Cause::Status), 1);
    assert_eq!(upstream.snapshot().origins[0].failures, 3);
    settings.ejection.statuses.clear();
    let upstream = Upstream::new(settings).unwrap();
    assert_eq!(count(&upstream, 20, "ill").await, 10, "statuses do not count unless they are named");
}

#[tokio::test]
async fn one_broken_url_asked_by_all_ejects_nobody() {
    let (a, b) = (named("a", &flag(false)).await, named("b", &flag(false)).await);
    let mut settings = settings(&[a.url(), b.url()]);
    settings.ejection = strict();
    let upstream = Upstream::new(settings).unwrap();
    for client in 0..100 {
        assert_eq!(fetch(&upstream, of(client, "/broken")).await.unwrap(), "ill");
    }
    assert_eq!(ejections(&upstream, Cause::Status), 0);
    assert_eq!(count(&upstream, 10, "a").await, 5);
}

#[tokio::test]
async fn one_client_of_many_broken_urls_ejects_nobody() {
    let a = named("a", &flag(true)).await;
    let mut settings = settings(&[a.url()]);
    settings.ejection = strict();
    let upstream = Upstream::new(settings).unwrap();
    for number in 0..100 {
        assert_eq!(fetch(&upstream, of(number % 2, &format!("/{number}"))).await.unwrap(), "ill");
    }
    assert_eq!(ejections(&upstream, Cause::Status), 0);
}

#[tokio::test]
async fn a_trial_that_is_answered_badly_fails() {
    let ill = flag(true);
    let (a, b) = (named("a", &ill).await, named("b", &flag(false)).await);
    let mut settings = settings(&[a.url(), b.url()]);
    let (backoff, backoff_max) = (Duration::from_millis(100), Duration::from_millis(200));
    settings.ejection = Ejection { backoff, backoff_max, ..strict() };
    let upstream = Upstream::new(settings).unwrap();
    assert_eq!(count(&upstream, 20, "ill").await, 3);
    tokio::time::sleep(Duration::from_millis(120)).await;
    assert_eq!(count(&upstream, 1, "ill").await, 1, "the trial");
    assert!(upstream.snapshot().origins[0].ejected_for.is_some());
    let said = upstream.listed().origins[0].reason.clone();
    assert!(said.starts_with("bad statuses; tried again in"), "{said}");
    ill.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert!(count(&upstream, 10, "a").await >= 5, "the trial brings it back");
    assert!(upstream.snapshot().origins[0].ejected_for.is_none());
}

#[tokio::test]
async fn where_too_many_would_be_left_out_all_are_used() {
    let ills: Vec<_> = (0..4).map(|_| flag(false)).collect();
    let mut origins = Vec::new();
    for ill in &ills {
        origins.push(named("well", ill).await);
    }
    let urls: Vec<_> = origins.iter().map(Scripted::url).collect();
    let mut settings = settings(&urls);
    settings.ejection = strict();
    let upstream = Upstream::new(settings).unwrap();
    for (at, ill) in ills.iter().enumerate().take(2) {
        ill.store(true, Ordering::SeqCst);
        count(&upstream, 20, "well").await;
        assert_eq!(ejections(&upstream, Cause::Status), at as u64 + 1);
    }
    assert_eq!(count(&upstream, 20, "well").await, 20, "two of four are left out");
    assert!(!upstream.snapshot().is_panicking);
    ills[2].store(true, Ordering::SeqCst);
    count(&upstream, 20, "well").await;
    assert!(upstream.snapshot().is_panicking);
    let before: Vec<_> = origins.iter().map(|origin| origin.seen().len()).collect();
    assert_eq!(count(&upstream, 40, "well").await, 10);
    for (origin, before) in origins.iter().zip(before) {
        assert_eq!(origin.seen().len() - before, 10, "all take their share");
    }
    ills[0].store(false, Ordering::SeqCst);
    count(&upstream, 20, "well").await;
    assert!(!upstream.snapshot().is_panicking, "an answer brings it back");
    assert_eq!(count(&upstream, 20, "well").await, 20);
    assert_eq!(upstream.snapshot().panics, 1);
}

#[tokio::test]
async fn primaries_whose_backups_are_up_may_all_be_left_out() {
    let (well, ill) = (flag(false), flag(true));
    let (a, b, c) = (named("a", &ill).await, named("b", &ill).await, named("c", &well).await);
    let mut settings = settings(&[a.url(), b.url(), c.url()]);
    settings.origins[2].role = Role::Backup;
    settings.ejection = strict();
    let upstream = Upstream::new(settings).unwrap();
    assert_eq!(count(&upstream, 20, "c").await, 14);
    assert!(!upstream.snapshot().is_panicking);
}

#[test]
fn at_least_one_may_be_left_out() {
    let max =
        |at_most_percent, origins| Ejection { at_most_percent, ..Ejection::default() }.left_out_max(origins);
    assert_eq!([1, 2, 3, 4, 5, 1000].map(|origins| max(50, origins)), [1, 1, 1, 2, 2, 500]);
    assert_eq!([max(1, 2), max(100, 2), max(10, 100)], [1, 2, 10]);
}
