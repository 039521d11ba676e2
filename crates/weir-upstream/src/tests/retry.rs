//! The retry table: as values, and on connections that die under a request.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::sync::mpsc;

use weir_client::{Failure, Kind, Stage};

use super::scripted::{Scripted, fetch, get, gone, head, ok, request, serve, settings, text, upstream};
use crate::again::budget::{Budget, FLOOR};
use crate::again::retry::{Next, Tries, after_status, decide};
use crate::{
    Bound, ExchangeError, OriginError, OriginRequest, OutBody, OutPart, Retries, Retry, RetryOn, Upstream,
    clock,
};

fn check(stage: Stage, kind: Kind, error: ExchangeError, allowed: Retry, replayable: bool, expect: Next) {
    let failure = Failure { error, stage, kind };
    assert_eq!(
        decide(&failure, allowed, replayable, Tries::default(), &Retries::default()),
        expect,
        "{failure:?} {allowed:?} {replayable}"
    );
}

#[test]
fn the_table() {
    use Kind::{Fresh, Reused};
    use Retry::{Never, Once};
    use Stage::{Answered, NotConnected, NothingSent, Sent};
    let closed = || ExchangeError::Terminated;
    let refused = || ExchangeError::Refused { source: Arc::new(io::ErrorKind::ConnectionRefused.into()) };
    check(NotConnected, Fresh, refused(), Never, true, Next::Elsewhere);
    check(NotConnected, Fresh, ExchangeError::ConnectTimeout, Never, true, Next::Elsewhere);
    check(
        NotConnected,
        Fresh,
        ExchangeError::Busy { bound: Bound::Connections, retry_after: Default::default() },
        Once,
        true,
        Next::GiveUp,
    );
    check(NothingSent, Reused, closed(), Never, true, Next::Fresh);
    check(NothingSent, Reused, closed(), Never, false, Next::GiveUp);
    check(Sent, Reused, closed(), Once, true, Next::Fresh);
    check(Sent, Reused, closed(), Never, true, Next::GiveUp);
    check(Sent, Reused, closed(), Once, false, Next::GiveUp);
    check(Sent, Fresh, closed(), Once, true, Next::ElsewhereOrFresh);
    check(Sent, Fresh, closed(), Never, true, Next::GiveUp);
    for error in [ExchangeError::FirstByteTimeout, ExchangeError::WriteTimeout, ExchangeError::BodyAborted] {
        check(Sent, Reused, error, Once, true, Next::GiveUp);
    }
    check(Answered, Reused, ExchangeError::Incomplete, Once, true, Next::GiveUp);
    check(Answered, Fresh, ExchangeError::Malformed { reason: "nul" }, Once, true, Next::GiveUp);
    let failure = Failure { error: closed(), stage: Sent, kind: Reused };
    let second = Tries { resent: 1, ..Tries::default() };
    assert_eq!(decide(&failure, Once, true, second, &times(1)), Next::GiveUp);
    assert_eq!(decide(&failure, Once, true, second, &times(2)), Next::Fresh);
    assert_eq!(decide(&failure, Once, true, Tries::default(), &times(0)), Next::GiveUp);
    let failure = Failure { error: refused(), stage: NotConnected, kind: Fresh };
    let third = Tries { unconnected: 2, ..Tries::default() };
    assert_eq!(decide(&failure, Once, true, third, &times(1)), Next::GiveUp);
    assert_eq!(Retry::of(&Method::GET), Once);
    assert_eq!(Retry::of(&Method::PUT), Once);
    assert_eq!(Retry::of(&Method::POST), Never);
    assert_eq!(Retry::of(&Method::PATCH), Never);
}

fn times(times: u32) -> Retries {
    Retries { times, ..Retries::default() }
}

/// What is named is retried, and nothing else.
#[test]
fn the_table_by_what_is_named() {
    let late = Failure { error: ExchangeError::FirstByteTimeout, stage: Stage::Sent, kind: Kind::Fresh };
    let on = |on: &[RetryOn]| Retries { on: on.to_vec(), ..Retries::default() };
    let next = |failure, allowed, rules: &Retries| decide(failure, allowed, true, Tries::default(), rules);
    assert_eq!(next(&late, Retry::Once, &on(&[RetryOn::Timeout])), Next::ElsewhereOrFresh);
    assert_eq!(next(&late, Retry::Never, &on(&[RetryOn::Timeout])), Next::GiveUp);
    let refused = ExchangeError::Refused { source: Arc::new(io::ErrorKind::ConnectionRefused.into()) };
    let refused = Failure { error: refused, stage: Stage::NotConnected, kind: Kind::Fresh };
    assert_eq!(next(&refused, Retry::Once, &on(&[RetryOn::Closed])), Next::GiveUp);
    let after = |status: u16, allowed, rules: &Retries| {
        after_status(http::StatusCode::from_u16(status).unwrap(), allowed, Tries::default(), rules)
    };
    let all = on(&RetryOn::ALL);
    assert_eq!(after(503, Retry::Once, &all), Some(RetryOn::Unavailable));
    assert_eq!(after(503, Retry::Never, &all), None);
    assert_eq!(after(500, Retry::Once, &all), None);
    assert_eq!(after(503, Retry::Once, &Retries::default()), None);
}

fn on_503(urls: &[String], budget_percent: u8) -> Arc<Upstream> {
    let mut settings = settings(urls);
    settings.retries =
        Retries { on: vec![RetryOn::Unavailable], times: 1, budget_percent, ..Retries::default() };
    Upstream::new(settings).unwrap()
}

async fn answers(head: &'static str) -> Scripted {
    serve(move |mut peer| async move {
        while peer.request().await.is_some() {
            peer.send(head).await;
        }
    })
    .await
}

const UNAVAILABLE: &str = "HTTP/1.1 503 No\r\nx-mark: it\r\ncontent-length: 4\r\n\r\nwait";

#[tokio::test]
async fn a_503_is_asked_for_elsewhere_and_posts_are_not() {
    let (bad, good) =
        (answers(UNAVAILABLE).await, serve(|mut peer| async move { peer.answer_all("good").await }).await);
    let upstream = on_503(&[bad.url(), good.url()], 20);
    for _ in 0..20 {
        assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "good");
    }
    let asked = bad.seen().len();
    assert_eq!(asked, 10, "a retry takes no turn: first tries alternate");
    assert_eq!((good.seen().len(), bad.accepted()), (20, 1), "its connection is kept");
    assert_eq!(upstream.snapshot().retries[RetryOn::Unavailable as usize], ("503", asked as u64));
    let mut found = Vec::new();
    for _ in 0..2 {
        found.push(fetch(&upstream, request(Method::POST, "/")).await.unwrap());
    }
    found.sort();
    assert_eq!(found, ["good", "wait"]);
}

#[tokio::test]
async fn the_last_response_is_passed_on_as_it_is() {
    let alone = answers(UNAVAILABLE).await;
    let upstream = on_503(&[alone.url()], 20);
    let mut response = head(&upstream, get("/")).await;
    assert_eq!((response.status.as_u16(), response.times.retries), (503, 1));
    assert_eq!(response.headers["x-mark"], "it");
    assert_eq!(text(&mut response.body).await.unwrap(), "wait");
    let dies = serve(|mut peer| async move {
        peer.request().await;
        if peer.index == 0 {
            peer.send(UNAVAILABLE).await;
            peer.request().await;
        }
    })
    .await;
    let upstream = on_503(&[dies.url()], 20);
    let mut response = head(&upstream, get("/")).await;
    assert_eq!(response.status.as_u16(), 503, "the other try has no response");
    assert_eq!(response.body.left(), Some(4));
    assert_eq!(text(&mut response.body).await.unwrap(), "wait");
    assert!(response.body.is_ended());
}

#[tokio::test]
async fn retries_amplify_by_the_budget_and_no_more() {
    let (a, b) = (answers(UNAVAILABLE).await, answers(UNAVAILABLE).await);
    let upstream = on_503(&[a.url(), b.url()], 20);
    for _ in 0..400 {
        assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "wait");
    }
    let sent = a.seen().len() + b.seen().len();
    assert!(sent > 400 && sent <= 480 + FLOOR as usize, "{sent}");
    let snapshot = upstream.snapshot();
    assert_eq!(snapshot.retries[RetryOn::Unavailable as usize].1 + snapshot.retries_refused, 400);
}

#[test]
fn a_budget_is_of_the_last_ten_seconds() {
    let start = clock::now();
    let at = |ms| start + std::time::Duration::from_millis(ms);
    let budget = Budget::new(start);
    let taken = |now| (0..1000).take_while(|_| budget.take(20, None, now)).count() as u64;
    (0..1000).for_each(|_| budget.asked(at(0)));
    assert_eq!((taken(at(0)), taken(at(9_999))), (100, 0), "one client has half");
    assert_eq!(
        (taken(at(10_000)), taken(at(19_999))),
        (FLOOR / 2, 0),
        "the requests are forgotten, and the retries"
    );
    (0..500).for_each(|_| budget.asked(at(20_000)));
    assert_eq!((taken(at(21_000)), taken(at(500_000_000_000))), (50, FLOOR / 2));
}

#[test]
fn one_client_leaves_half_of_the_budget_to_the_others() {
    let now = clock::now();
    // Two clients may share a place, so that they are one; hardly ever in all of these.
    let leaves = |_| {
        let budget = Budget::new(now);
        (0..1000).for_each(|_| budget.asked(now));
        let taken = |client| (0..1000).take_while(|_| budget.take(20, Some(client), now)).count();
        [taken(1), taken(2), taken(3), taken(1)] == [100, 50, 25, 0]
    };
    assert!((0..8).any(leaves));
    let budget = Budget::new(now);
    let taken = (0..1000).filter(|client| budget.take(20, Some(*client), now)).count() as u64;
    assert!((FLOOR - 3..=FLOOR).contains(&taken), "many clients have all of it: {taken}");
}

#[tokio::test]
async fn one_client_whose_requests_always_fail_takes_no_retries_from_others() {
    let known = Arc::<Mutex<HashSet<String>>>::default();
    let ill = serve(move |mut peer| {
        let known = known.clone();
        async move {
            while let Some(head) = peer.request().await {
                let is_first = known.lock().insert(head.clone()) || head.contains("/hostile");
                peer.send(if is_first { UNAVAILABLE.into() } else { ok("good") }).await;
            }
        }
    })
    .await;
    let upstream = on_503(&[ill.url()], 20);
    for _ in 0..100 {
        let hostile = OriginRequest { witness: Some(1), ..get("/hostile") };
        assert_eq!(fetch(&upstream, hostile).await.unwrap(), "wait");
    }
    let mut helped = 0;
    for client in 2..6 {
        let other = OriginRequest { witness: Some(client), ..get(&format!("/of/{client}")) };
        helped += usize::from(fetch(&upstream, other).await.unwrap() == "good");
    }
    assert!(helped >= 2, "some may share the hostile client's place: {helped}");
}

proptest! {
    #[test]
    fn no_history_takes_more_than_its_share(
        history in prop::collection::vec((0u64..1500, 0u32..50, 0u32..50, 0u64..4), 0..100),
        percent in 1u8..=100,
    ) {
        let (start, mut now_ms) = (clock::now(), 0);
        let budget = Budget::new(start);
        let mut asked = Vec::new();
        let mut taken = Vec::new();
        for (wait, requests, wanted, client) in history {
            now_ms += wait;
            let now = start + std::time::Duration::from_millis(now_ms);
            (0..requests).for_each(|_| budget.asked(now));
            let got = (0..wanted).filter(|_| budget.take(percent, Some(client), now)).count() as u64;
            let second = now_ms / 1000;
            asked.push((second, u64::from(requests)));
            taken.push((second, got));
            let sum = |all: &[(u64, u64)]| -> u64 {
                all.iter().filter(|(of, _)| of + 10 > second).map(|(_, count)| count).sum()
            };
            let share = (sum(&asked) * u64::from(percent) / 100).max(FLOOR);
            prop_assert!(got == 0 || sum(&taken) <= share);
            let (used, newcomer) = (sum(&taken), 77);
            let is_withheld = (0..64).all(|other| !budget.take(percent, Some(newcomer + other), now));
            prop_assert!(used >= share || !is_withheld, "a client that had none gets one");
            taken.push((second, u64::from(!is_withheld)));
        }
    }
}

/// The first connection answers once, takes the second request and closes without a word; later ones answer.
async fn closes_on_the_second() -> Scripted {
    serve(|mut peer| async move {
        peer.request().await;
        peer.send(ok(&format!("{}", peer.index))).await;
        if peer.index == 0 {
            peer.request().await;
            return;
        }
        peer.answer_all("later").await;
    })
    .await
}

#[tokio::test]
async fn a_reused_connection_that_dies_is_replaced_once() {
    let origin = closes_on_the_second().await;
    let upstream = upstream(&origin);
    assert_eq!(fetch(&upstream, get("/1")).await.unwrap(), "0");
    let mut response = head(&upstream, get("/2")).await;
    assert_eq!(response.times.retries, 1);
    assert_eq!(text(&mut response.body).await.unwrap(), "1");
    assert_eq!(origin.seen().iter().filter(|head| head.starts_with("GET /2")).count(), 2);
    let counts = &upstream.snapshot().origins[0];
    assert_eq!((counts.failures, counts.retries), (0, 1), "a closed idle connection is no failure");
}

#[tokio::test]
async fn what_is_not_idempotent_is_not_sent_twice() {
    let origin = closes_on_the_second().await;
    let upstream = upstream(&origin);
    assert_eq!(fetch(&upstream, get("/1")).await.unwrap(), "0");
    let mut post = request(Method::POST, "/2");
    post.body = OutBody::Whole(Bytes::from_static(b"order"));
    assert!(matches!(fetch(&upstream, post).await, Err(OriginError::Exchange(ExchangeError::Terminated))));
    assert_eq!(origin.seen().iter().filter(|head| head.starts_with("POST /2")).count(), 1);
    assert_eq!(origin.accepted(), 1);
}

#[tokio::test]
async fn a_body_that_was_taken_is_not_sent_twice_but_a_whole_one_is() {
    let origin = closes_on_the_second().await;
    let first = upstream(&origin);
    assert_eq!(fetch(&first, get("/1")).await.unwrap(), "0");
    let (parts, receiver) = mpsc::channel(4);
    parts.send(OutPart::Data(Bytes::from_static(b"abc"))).await.unwrap();
    parts.send(OutPart::End(None)).await.unwrap();
    let mut put = request(Method::PUT, "/2");
    put.body = OutBody::Stream { parts: receiver, length: Some(3) };
    assert!(fetch(&first, put).await.is_err());

    let origin = closes_on_the_second().await;
    let second = upstream(&origin);
    assert_eq!(fetch(&second, get("/1")).await.unwrap(), "0");
    let mut put = request(Method::PUT, "/2");
    put.body = OutBody::Whole(Bytes::from_static(b"abc"));
    assert_eq!(fetch(&second, put).await.unwrap(), "1");
}

#[tokio::test]
async fn an_origin_that_always_hangs_up_is_asked_twice() {
    let origin = serve(|mut peer| async move {
        peer.request().await;
    })
    .await;
    let upstream = upstream(&origin);
    assert!(matches!(
        fetch(&upstream, get("/")).await,
        Err(OriginError::Exchange(ExchangeError::Terminated))
    ));
    assert_eq!(origin.seen().len(), 2);
    assert_eq!(upstream.snapshot().origins[0].failures, 2);
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_noticed_before_sending() {
    let origin = serve(|mut peer| async move {
        peer.request().await;
        peer.send(ok("once")).await;
    })
    .await;
    let upstream = upstream(&origin);
    for count in 1..=3 {
        let mut post = request(Method::POST, "/");
        post.body = OutBody::Whole(Bytes::from_static(b""));
        assert_eq!(fetch(&upstream, post).await.unwrap(), "once");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        assert_eq!(origin.accepted(), count);
    }
}

#[tokio::test]
async fn a_refused_connection_is_tried_elsewhere_whatever_the_method() {
    let gone = format!("http://{}", gone());
    let origin = serve(|mut peer| async move { peer.answer_all("here").await }).await;
    let upstream = Upstream::new(settings(&[gone, origin.url()])).unwrap();
    for _ in 0..4 {
        let mut post = request(Method::POST, "/");
        post.body = OutBody::Whole(Bytes::from_static(b"order"));
        assert_eq!(fetch(&upstream, post).await.unwrap(), "here");
    }
    assert!(upstream.snapshot().origins[0].failures >= 1);
}

#[tokio::test]
async fn nobody_there() {
    let gone = format!("http://{}", gone());
    let upstream = Upstream::new(settings(&[gone])).unwrap();
    let error = fetch(&upstream, get("/")).await.unwrap_err();
    assert_eq!((error.proxy_status(), error.word()), ("connection_refused", "connection-refused"));
    assert_eq!(upstream.probe(None).await, 1);
    assert_eq!(upstream.snapshot().origins[0].connections_open, 0);
}
