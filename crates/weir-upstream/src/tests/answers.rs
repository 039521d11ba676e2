//! What a good origin answers, and what of it arrives.

use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderValue, Method, StatusCode};

use crate::Length;

use super::scripted::{Scripted, fetch, get, head, ok, request, serve, text, upstream};

/// An origin that answers with so many bytes.
async fn serve_large(bytes: usize) -> Scripted {
    let large = "x".repeat(bytes);
    serve(move |mut peer| {
        let large = large.clone();
        async move { peer.answer_all(&large).await }
    })
    .await
}

#[tokio::test]
async fn a_response_arrives_and_its_connection_serves_again() {
    let origin = serve(|mut peer| async move { peer.answer_all("hello").await }).await;
    let upstream = upstream(&origin);
    for _ in 0..10 {
        let mut response = head(&upstream, get("/a?b=c")).await;
        assert_eq!(response.status, StatusCode::OK);
        assert_eq!(response.length, Length::Known(5));
        assert_eq!(response.body.left(), Some(5));
        assert_eq!(text(&mut response.body).await.unwrap(), "hello");
    }
    assert_eq!(origin.accepted(), 1);
    let seen = origin.seen();
    assert_eq!(seen[0], "GET /a?b=c HTTP/1.1\r\nhost: site.example\r\n\r\n");
    let snapshot = upstream.snapshot();
    let counts = &snapshot.origins[0];
    assert_eq!((counts.requests, counts.connects, counts.reuses, counts.failures), (10, 1, 9, 0));
    assert_eq!((counts.connections_open, counts.connections_idle), (1, 1));
}

#[tokio::test]
async fn bodies_of_every_framing() {
    let origin = serve(|mut peer| async move {
        while let Some(head) = peer.request().await {
            if head.starts_with("GET /chunked") {
                peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n").await;
                peer.send("3\r\nabc\r\n").await;
                peer.send("2;ext=1\r\nde\r\n0\r\nx-sum: 5\r\n\r\n").await;
            } else if head.starts_with("HEAD") {
                peer.send("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
            } else if head.starts_with("GET /304") {
                peer.send("HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\ncontent-length: 1000\r\n\r\n").await;
            } else if head.starts_with("GET /204") {
                peer.send("HTTP/1.1 204 No Content\r\n\r\n").await;
            } else if head.starts_with("GET /empty") {
                peer.send(ok("")).await;
            } else {
                peer.send("HTTP/1.1 200 OK\r\n\r\nuntil the end").await;
                return;
            }
        }
    })
    .await;
    let upstream = upstream(&origin);
    let mut response = head(&upstream, get("/chunked")).await;
    assert_eq!(response.length, Length::Unknown);
    assert_eq!(text(&mut response.body).await.unwrap(), "abcde");
    assert_eq!(response.body.trailers().unwrap().get("x-sum").unwrap(), "5");
    assert_eq!(fetch(&upstream, request(Method::HEAD, "/")).await.unwrap(), "");
    for path in ["/304", "/204", "/empty"] {
        let mut response = head(&upstream, get(path)).await;
        assert!(response.body.is_ended(), "{path}");
        assert_eq!(text(&mut response.body).await.unwrap(), "");
    }
    assert_eq!(origin.accepted(), 1);
    let mut response = head(&upstream, get("/close")).await;
    assert_eq!(response.length, Length::UntilClose);
    assert_eq!(text(&mut response.body).await.unwrap(), "until the end");
    assert_eq!(upstream.snapshot().origins[0].connections_open, 0);
}

#[tokio::test]
async fn large_bodies_come_in_large_pieces_and_whole() {
    let large: String = (0..4_000_000u32).map(|index| char::from(b'a' + (index % 23) as u8)).collect();
    let sent = large.clone();
    let origin = serve(move |mut peer| {
        let sent = sent.clone();
        async move { peer.answer_all(&sent).await }
    })
    .await;
    let upstream = upstream(&origin);
    let mut response = head(&upstream, get("/large")).await;
    let mut all = Vec::new();
    while let Some(data) = response.body.next().await.unwrap() {
        assert!(data.len() <= 256 * 1024);
        all.extend_from_slice(&data);
    }
    assert!(all == large.as_bytes());
    assert_eq!(upstream.snapshot().origins[0].connections_idle, 1);
}

#[tokio::test]
async fn bytes_arrive_as_they_are_sent() {
    let origin = serve(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            .await;
        peer.send("6\r\ndata:1\r\n").await;
        peer.hold().await;
    })
    .await;
    let upstream = upstream(&origin);
    let mut response = head(&upstream, get("/events")).await;
    assert_eq!(response.body.next().await.unwrap().unwrap(), "data:1");
}

#[tokio::test]
async fn a_slow_reader_is_not_the_origins_stall() {
    let origin = serve_large(3_000_000).await;
    let upstream = upstream(&origin);
    let mut response = head(&upstream, get("/")).await;
    let first = response.body.next().await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    let rest = text(&mut response.body).await.unwrap();
    assert_eq!(first.len() + rest.len(), 3_000_000);
}

/// A reader that takes little holds little.
#[tokio::test]
async fn pieces_are_small_for_a_slow_reader_and_large_again_for_a_quick_one() {
    let origin = serve_large(9_000_000).await;
    let upstream = upstream(&origin);
    let mut response = head(&upstream, get("/")).await;
    let mut got = response.body.next().await.unwrap().unwrap().len();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(120)).await;
        let piece = response.body.next().await.unwrap().unwrap();
        assert!(piece.len() <= 16 << 10, "{}", piece.len());
        got += piece.len();
    }
    let mut largest = 0;
    while let Some(piece) = response.body.next().await.unwrap() {
        (got, largest) = (got + piece.len(), largest.max(piece.len()));
    }
    assert_eq!(got, 9_000_000);
    assert!(largest > 16 << 10, "{largest}");
}

/// Pieces end where the blocks of the body end, and one that is a block lies in the room that it was given.
#[tokio::test]
async fn a_body_comes_in_the_blocks_that_have_a_place() {
    const BLOCK: usize = 64 << 10;
    let mut whole = 0;
    // How much one read brings is the kernel's choice.
    for _ in 0..20 {
        let origin = serve_large(3_000_000).await;
        let upstream = upstream(&origin);
        let mut response = head(&upstream, get("/")).await;
        let mut got = 0;
        loop {
            let left = BLOCK - got % BLOCK;
            let mut room = None;
            // A fill that is woken for something else asks again before the bytes have come.
            for _ in 0..2 {
                response.body.place(left, || {
                    let new = BytesMut::with_capacity(left);
                    room = Some(new.as_ptr());
                    new
                });
            }
            let Some(piece) = response.body.next().await.unwrap() else { break };
            if room.is_some() {
                assert!(piece.len() <= left, "{} of {left}", piece.len());
            }
            got += piece.len();
            if room == Some(piece.as_ptr()) && piece.len() == BLOCK {
                assert!(piece.is_unique());
                assert_eq!(Vec::from(piece).capacity(), BLOCK);
                whole += 1;
            }
        }
        assert_eq!(got, 3_000_000);
        if whole > 0 {
            return;
        }
    }
    panic!("no block came by itself");
}

/// What a paused reader has left is copied once, however often it pauses.
#[tokio::test]
async fn what_a_paused_reader_has_left_is_in_memory_of_its_own() {
    let origin = serve_large(3_000_000).await;
    let upstream = upstream(&origin);
    let mut response = head(&upstream, get("/")).await;
    let piece = response.body.next().await.unwrap().unwrap();
    let left = response.body.let_go(piece.slice(1..));
    assert_eq!(left, piece[1..]);
    assert_ne!(left.as_ptr(), piece[1..].as_ptr());
    let still_left = response.body.let_go(left.slice(1..));
    assert_eq!(still_left.as_ptr(), left[1..].as_ptr());
    let rest = text(&mut response.body).await.unwrap();
    assert_eq!(piece.len() + rest.len(), 3_000_000);
}

#[tokio::test]
async fn interim_responses_are_passed_on() {
    let origin = serve(|mut peer| async move {
        while peer.request().await.is_some() {
            peer.send("HTTP/1.1 100 Continue\r\n\r\n").await;
            peer.send("HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n").await;
            peer.send(ok("done")).await;
        }
    })
    .await;
    let upstream = upstream(&origin);
    let (to, mut interim) = tokio::sync::mpsc::unbounded_channel();
    let mut response = upstream.send(get("/"), Some(to.clone())).await.unwrap();
    assert_eq!(text(&mut response.body).await.unwrap(), "done");
    let hints = interim.try_recv().unwrap();
    assert_eq!(hints.status, StatusCode::EARLY_HINTS);
    assert_eq!(hints.headers.get("link").unwrap(), "</a.css>");
    assert!(interim.try_recv().is_err(), "a 100 that nobody asked for goes no further");
    let mut expecting = request(Method::POST, "/");
    std::sync::Arc::make_mut(&mut expecting.headers)
        .insert("expect", HeaderValue::from_static("100-continue"));
    expecting.body = crate::OutBody::Whole("body".into());
    let mut response = upstream.send(expecting, Some(to)).await.unwrap();
    assert_eq!(text(&mut response.body).await.unwrap(), "done");
    assert_eq!(interim.try_recv().unwrap().status, StatusCode::CONTINUE);
}

#[tokio::test]
async fn a_dropped_body_closes_its_connection() {
    let origin = serve(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nfirst").await;
        peer.hold().await;
    })
    .await;
    let upstream = upstream(&origin);
    let mut response = head(&upstream, get("/")).await;
    assert_eq!(response.body.next().await.unwrap().unwrap(), "first");
    assert_eq!(upstream.snapshot().origins[0].connections_open, 1);
    drop(response);
    assert_eq!(upstream.snapshot().origins[0].connections_open, 0);
}

#[tokio::test]
async fn keep_alive_says_how_long() {
    let origin = serve(|mut peer| async move {
        while let Some(head) = peer.request().await {
            let seconds = if head.contains("/never") { 0 } else { 30 };
            let keep = format!(
                "HTTP/1.1 200 OK\r\nkeep-alive: timeout={seconds}, max=5\r\ncontent-length: 0\r\n\r\n"
            );
            peer.send(keep).await;
        }
    })
    .await;
    let upstream = upstream(&origin);
    fetch(&upstream, get("/long")).await.unwrap();
    assert_eq!(upstream.snapshot().origins[0].connections_idle, 1);
    fetch(&upstream, get("/never")).await.unwrap();
    assert_eq!(upstream.snapshot().origins[0].connections_open, 0);
}
