//! Answers that come before the request was sent whole (RFC 9112 §9.5).

use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::sync::mpsc;

use super::scripted::{head, request, serve, text, upstream};
use crate::{OutBody, OutPart};

#[tokio::test]
async fn an_early_refusal_ends_the_sending() {
    let origin = serve(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig").await;
        peer.hold().await;
    })
    .await;
    let upstream = upstream(&origin);
    let (parts, receiver) = mpsc::channel(1);
    let mut post = request(Method::POST, "/");
    post.body = OutBody::Stream { parts: receiver, length: Some(1 << 30) };
    let mut response = head(&upstream, post).await;
    assert_eq!(response.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(parts.is_closed() || parts.send(OutPart::Data(Bytes::from_static(b"x"))).await.is_err());
    assert_eq!(text(&mut response.body).await.unwrap(), "big");
    let after = upstream.snapshot();
    assert_eq!((after.origins[0].connections_open, after.origins[0].failures), (0, 0));
}

#[tokio::test]
async fn a_refusal_is_read_although_the_origin_has_closed() {
    let origin = serve(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno").await;
        // Reads what it can and goes away with the rest unread or not.
        peer.body(64 * 1024).await;
    })
    .await;
    let upstream = upstream(&origin);
    let mut post = request(Method::POST, "/");
    post.body = OutBody::Whole(Bytes::from(vec![b'x'; 64 * 1024]));
    let mut response = head(&upstream, post).await;
    assert_eq!(response.status, StatusCode::FORBIDDEN);
    assert_eq!(text(&mut response.body).await.unwrap(), "no");
}

#[tokio::test]
async fn an_early_answer_does_not_end_the_sending() {
    let origin = serve(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        for _ in 0..3 {
            let part = peer.body(5).await;
            peer.send(format!("5\r\n{}\r\n", String::from_utf8(part).unwrap())).await;
        }
        peer.send("0\r\n\r\n").await;
        peer.hold().await;
    })
    .await;
    let upstream = upstream(&origin);
    let (parts, receiver) = mpsc::channel(1);
    let mut post = request(Method::POST, "/echo");
    post.body = OutBody::Stream { parts: receiver, length: Some(15) };
    let mut response = head(&upstream, post).await;
    for part in ["alpha", "betas", "gamma"] {
        parts.send(OutPart::Data(Bytes::from_static(part.as_bytes()))).await.unwrap();
        assert_eq!(response.body.next().await.unwrap().unwrap(), part);
    }
    parts.send(OutPart::End(None)).await.unwrap();
    assert!(response.body.next().await.unwrap().is_none());
    assert_eq!(upstream.snapshot().origins[0].connections_idle, 1);
}

#[tokio::test]
async fn an_answer_that_ends_before_the_request_closes_the_connection() {
    let origin = serve(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        peer.hold().await;
    })
    .await;
    let upstream = upstream(&origin);
    let (_parts, receiver) = mpsc::channel(1);
    let mut post = request(Method::POST, "/");
    post.body = OutBody::Stream { parts: receiver, length: Some(15) };
    let mut response = head(&upstream, post).await;
    assert_eq!(text(&mut response.body).await.unwrap(), "ok");
    assert_eq!(upstream.snapshot().origins[0].connections_open, 0);
}
