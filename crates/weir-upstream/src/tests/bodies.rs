//! Request bodies: framed again, streamed with back-pressure, never ended cleanly when they were broken off.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use tokio::sync::mpsc;

use super::scripted::{fetch, ok, request, serve, upstream};
use crate::{ExchangeError, OriginError, OutBody, OutPart};

#[tokio::test]
async fn whole_bodies_are_sent_with_their_length() {
    let origin = serve(|mut peer| async move {
        while let Some(head) = peer.request().await {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let body = peer.body(length.parse().unwrap()).await;
            peer.send(ok(&format!("{}", body.len()))).await;
        }
    })
    .await;
    let upstream = upstream(&origin);
    for length in [0, 1, 4096, 4097, 3_000_000] {
        let mut post = request(Method::POST, "/");
        // What the client declared is not believed: the body at hand is.
        std::sync::Arc::make_mut(&mut post.headers).insert("content-length", HeaderValue::from_static("7"));
        std::sync::Arc::make_mut(&mut post.headers)
            .insert("transfer-encoding", HeaderValue::from_static("chunked"));
        std::sync::Arc::make_mut(&mut post.headers).insert("connection", HeaderValue::from_static("close"));
        post.body = OutBody::Whole(Bytes::from(vec![b'x'; length]));
        assert_eq!(fetch(&upstream, post).await.unwrap(), length.to_string());
    }
    assert_eq!(fetch(&upstream, request(Method::POST, "/")).await.unwrap(), "0");
    assert_eq!(origin.accepted(), 1);
    assert!(origin.seen().iter().all(|head| !head.contains("chunked") && !head.contains("connection")));
}

#[tokio::test]
async fn streams_are_sent_as_they_come() {
    let origin = serve(|mut peer| async move {
        peer.request().await;
        let body = peer.until(b"\r\n0\r\nx-sum: 9\r\n\r\n").await;
        peer.send(ok(&format!("{:?}", String::from_utf8(body).unwrap()))).await;
        let head = peer.request().await.unwrap();
        assert!(head.contains("content-length: 6\r\n"));
        let body = peer.body(6).await;
        peer.send(ok(&String::from_utf8(body).unwrap())).await;
        peer.hold().await;
    })
    .await;
    let upstream = upstream(&origin);
    let (parts, receiver) = mpsc::channel(1);
    let mut post = request(Method::POST, "/chunked");
    post.body = OutBody::Stream { parts: receiver, length: None };
    let pump = async {
        for part in ["ab", "", "cde"] {
            parts.send(OutPart::Data(Bytes::from_static(part.as_bytes()))).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("9"));
        parts.send(OutPart::End(Some(trailers))).await.unwrap();
    };
    let (answer, ()) = tokio::join!(fetch(&upstream, post), pump);
    assert_eq!(answer.unwrap(), r#""2\r\nab\r\n3\r\ncde\r\n0\r\nx-sum: 9\r\n\r\n""#);
    let (parts, receiver) = mpsc::channel(4);
    let mut put = request(Method::PUT, "/length");
    put.body = OutBody::Stream { parts: receiver, length: Some(6) };
    let pump = async {
        parts.send(OutPart::Data(Bytes::from_static(b"abc"))).await.unwrap();
        parts.send(OutPart::Data(Bytes::from_static(b"def"))).await.unwrap();
        parts.send(OutPart::End(None)).await.unwrap();
    };
    let (answer, ()) = tokio::join!(fetch(&upstream, put), pump);
    assert_eq!(answer.unwrap(), "abcdef");
    assert_eq!(origin.accepted(), 1);
}

/// Sends parts and drops the sender: what the origin saw behind the head.
async fn broken_off(length: Option<u64>, sent: Vec<OutPart>) -> (OriginError, Vec<u8>) {
    let (seen, mut rest) = mpsc::unbounded_channel();
    let origin = serve(move |mut peer| {
        let seen = seen.clone();
        async move {
            peer.request().await;
            let _ = seen.send(peer.until(b"never").await);
        }
    })
    .await;
    let upstream = upstream(&origin);
    let (parts, receiver) = mpsc::channel(4);
    for part in sent {
        parts.send(part).await.unwrap();
    }
    drop(parts);
    let mut put = request(Method::PUT, "/");
    put.body = OutBody::Stream { parts: receiver, length };
    let error = fetch(&upstream, put).await.unwrap_err();
    assert_eq!(upstream.snapshot().origins[0].connections_open, 0);
    assert_eq!(upstream.snapshot().origins[0].failures, 0, "not the origin's fault");
    (error, rest.recv().await.unwrap())
}

#[tokio::test]
async fn a_body_that_is_broken_off_never_ends_cleanly() {
    let data = |text: &'static str| OutPart::Data(Bytes::from_static(text.as_bytes()));
    let (error, seen) = broken_off(None, vec![data("abc")]).await;
    assert!(matches!(error, OriginError::Exchange(ExchangeError::BodyAborted)));
    assert!(!seen.ends_with(b"0\r\n\r\n"), "{seen:?}");
    let (error, seen) = broken_off(Some(5), vec![data("abc")]).await;
    assert!(matches!(error, OriginError::Exchange(ExchangeError::BodyAborted)));
    assert!(seen.len() <= 3);
    let (error, _) = broken_off(Some(5), vec![data("abc"), OutPart::End(None)]).await;
    assert!(matches!(error, OriginError::Exchange(ExchangeError::BodyAborted)));
    let (error, seen) = broken_off(Some(5), vec![data("abc"), data("def"), OutPart::End(None)]).await;
    assert!(matches!(error, OriginError::Exchange(ExchangeError::BodyAborted)));
    assert!(seen.len() <= 5, "nothing beyond the declared length is sent");
}

#[tokio::test]
async fn an_origin_that_does_not_read_holds_the_sender_back() {
    let origin = serve(|mut peer| async move {
        peer.request().await;
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        drop(peer);
    })
    .await;
    let upstream = upstream(&origin);
    let (parts, receiver) = mpsc::channel(1);
    let mut post = request(Method::POST, "/");
    post.body = OutBody::Stream { parts: receiver, length: None };
    let pump = async {
        let mut sent = 0_u64;
        let part = Bytes::from(vec![b'x'; 256 * 1024]);
        while parts.send(OutPart::Data(part.clone())).await.is_ok() {
            sent += part.len() as u64;
            assert!(sent < 512 << 20, "no back-pressure");
        }
    };
    let (answer, ()) = tokio::join!(fetch(&upstream, post), pump);
    assert!(matches!(answer, Err(OriginError::Exchange(ExchangeError::WriteTimeout))));
}
