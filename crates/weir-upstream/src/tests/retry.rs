//! The retry table: as values, and on connections that die under a request.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use tokio::sync::mpsc;

use super::scripted::{Scripted, fetch, get, gone, head, ok, request, serve, settings, text, upstream};
use crate::retry::{Failure, Kind, Next, Stage, Tries, decide};
use crate::{Bound, OriginError, OutBody, OutPart, Retry, Upstream};

fn check(stage: Stage, kind: Kind, error: OriginError, allowed: Retry, replayable: bool, expect: Next) {
    let failure = Failure { error, stage, kind };
    assert_eq!(
        decide(&failure, allowed, replayable, Tries::default(), 1),
        expect,
        "{failure:?} {allowed:?} {replayable}"
    );
}

#[test]
fn the_table() {
    use Kind::{Fresh, Reused};
    use Retry::{Never, Once};
    use Stage::{Answered, NotConnected, NothingSent, Sent};
    let closed = || OriginError::Terminated;
    let refused = || OriginError::Refused { source: Arc::new(io::ErrorKind::ConnectionRefused.into()) };
    check(NotConnected, Fresh, refused(), Never, true, Next::Elsewhere);
    check(NotConnected, Fresh, OriginError::ConnectTimeout, Never, true, Next::Elsewhere);
    check(
        NotConnected,
        Fresh,
        OriginError::Busy { bound: Bound::Connections, retry_after: Default::default() },
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
    for error in [OriginError::FirstByteTimeout, OriginError::WriteTimeout, OriginError::BodyAborted] {
        check(Sent, Reused, error, Once, true, Next::GiveUp);
    }
    check(Answered, Reused, OriginError::Incomplete, Once, true, Next::GiveUp);
    check(Answered, Fresh, OriginError::Malformed { reason: "nul" }, Once, true, Next::GiveUp);
    let failure = Failure { error: closed(), stage: Sent, kind: Reused };
    let second = Tries { resent: 1, ..Tries::default() };
    assert_eq!(decide(&failure, Once, true, second, 1), Next::GiveUp);
    assert_eq!(decide(&failure, Once, true, second, 2), Next::Fresh);
    assert_eq!(decide(&failure, Once, true, Tries::default(), 0), Next::GiveUp);
    let failure = Failure { error: refused(), stage: NotConnected, kind: Fresh };
    let third = Tries { unconnected: 2, ..Tries::default() };
    assert_eq!(decide(&failure, Once, true, third, 1), Next::GiveUp);
    assert_eq!(Retry::of(&Method::GET), Once);
    assert_eq!(Retry::of(&Method::PUT), Once);
    assert_eq!(Retry::of(&Method::POST), Never);
    assert_eq!(Retry::of(&Method::PATCH), Never);
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
    assert!(matches!(fetch(&upstream, post).await, Err(OriginError::Terminated)));
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
    assert!(matches!(fetch(&upstream, get("/")).await, Err(OriginError::Terminated)));
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
