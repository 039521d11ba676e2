//! What no origin may answer: each is an error with its RFC 9209 word, and its connection is not used again.

use http::{Method, StatusCode};

use super::scripted::{fetch, get, ok, request, serve, upstream};
use crate::{ExchangeError, OriginError};

/// What the origin does after its bytes.
#[derive(Clone, Copy)]
enum Then {
    Close,
    Hold,
}

/// Sends a request that is answered so: the error's word for `Proxy-Status` and its status.
async fn check(method: Method, answer: &'static [u8], then: Then, expect: &str, status: StatusCode) {
    let origin = serve(move |mut peer| async move {
        if peer.index > 0 {
            return peer.answer_all("fine").await;
        }
        peer.request().await;
        peer.send(answer).await;
        if matches!(then, Then::Hold) {
            peer.hold().await;
        }
    })
    .await;
    let upstream = upstream(&origin);
    let shown = String::from_utf8_lossy(answer);
    let mut first = request(method, "/first");
    first.retry = crate::Retry::Never;
    let error = fetch(&upstream, first).await.expect_err(&shown);
    assert_eq!((error.proxy_status(), error.status()), (expect, status), "{shown:?}");
    assert_eq!(upstream.snapshot().origins[0].connections_open, 0, "{shown:?}");
    assert_eq!(fetch(&upstream, get("/second")).await.unwrap(), "fine");
    assert_eq!(origin.accepted(), 2, "{shown:?}");
}

async fn check_get(answer: &'static [u8], then: Then, expect: &str) {
    let status = match expect {
        "http_response_timeout" | "connection_read_timeout" => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    };
    check(Method::GET, answer, then, expect, status).await;
}

#[tokio::test]
async fn heads_that_are_not_http() {
    let malformed: &[&[u8]] = &[
        b"\x16\x03\x01\x00\x00\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/2 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.2 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"http/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 99 Low\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 600 High\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 +20 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1  200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\ncontent-length: 0\n\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: a\rb\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: a\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx : a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx(y): a\r\n\r\n",
    ];
    for answer in malformed {
        check_get(answer, Then::Hold, "http_protocol_error").await;
    }
}

#[tokio::test]
async fn lengths_that_are_not_one() {
    let malformed: &[&[u8]] = &[
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok!",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2, 3\r\n\r\nok!",
        b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0x2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, chunked\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: xchunked\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ];
    for answer in malformed {
        check_get(answer, Then::Hold, "http_protocol_error").await;
    }
}

#[tokio::test]
async fn chunks_that_are_not() {
    let malformed: &[&[u8]] = &[
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\nok\n0\n\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nbad trailer\r\n\r\n",
    ];
    for answer in malformed {
        check_get(answer, Then::Hold, "http_protocol_error").await;
    }
}

#[tokio::test]
async fn responses_that_break_off() {
    let cut: &[&[u8]] = &[
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"H",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfour",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfo",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200",
    ];
    for answer in cut {
        check_get(answer, Then::Close, "http_response_incomplete").await;
    }
    check_get(b"", Then::Close, "connection_terminated").await;
}

#[tokio::test]
async fn responses_that_stall() {
    check_get(b"", Then::Hold, "http_response_timeout").await;
    check_get(b"HTTP/1.1 200 OK\r\ncontent", Then::Hold, "http_response_timeout").await;
    check_get(b"HTTP/1.1 103 Early Hints\r\n\r\n", Then::Hold, "http_response_timeout").await;
    check_get(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", Then::Hold, "connection_read_timeout")
        .await;
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    check_get(chunked, Then::Hold, "connection_read_timeout").await;
    // Delimited by close and never closed.
    check_get(b"HTTP/1.1 200 OK\r\n\r\nhalf", Then::Hold, "connection_read_timeout").await;
}

#[tokio::test]
async fn switching_protocols_unasked() {
    check_get(
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
        Then::Hold,
        "http_upgrade_failed",
    )
    .await;
}

#[tokio::test]
async fn heads_that_are_too_large() {
    let large: &'static str =
        Box::leak(format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(70_000)).into());
    check_get(large.as_bytes(), Then::Hold, "http_response_header_section_size").await;
    let many: &'static str = Box::leak(format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: a\r\n".repeat(201)).into());
    check_get(many.as_bytes(), Then::Hold, "http_response_header_section_size").await;
    let endless: &'static str = Box::leak("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(17).into());
    check_get(endless.as_bytes(), Then::Hold, "http_protocol_error").await;
}

/// A whole response, and bytes that nobody asked for behind it: the response stands, the connection does not.
async fn check_surplus(method: Method, answer: &'static [u8], expect: &str) {
    let origin = serve(move |mut peer| async move {
        if peer.index > 0 {
            return peer.answer_all("fine").await;
        }
        peer.request().await;
        peer.send(answer).await;
        peer.hold().await;
    })
    .await;
    let upstream = upstream(&origin);
    let shown = String::from_utf8_lossy(answer);
    assert_eq!(fetch(&upstream, request(method, "/first")).await.unwrap(), expect, "{shown:?}");
    assert_eq!(fetch(&upstream, get("/second")).await.unwrap(), "fine", "{shown:?}");
    assert_eq!(origin.accepted(), 2, "{shown:?}");
}

#[tokio::test]
async fn surplus_ends_the_connection() {
    let get = Method::GET;
    let smuggled =
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
    check_surplus(get.clone(), smuggled, "ok").await;
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nx";
    check_surplus(get.clone(), chunked, "ok").await;
    check_surplus(get.clone(), b"HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\nok", "").await;
    check_surplus(get.clone(), b"HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok", "").await;
    check_surplus(Method::HEAD, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "").await;
    check_surplus(get.clone(), b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok", "ok")
        .await;
    check_surplus(get, b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", "ok").await;
}

#[tokio::test]
async fn bytes_that_come_while_idle_end_the_connection() {
    let (late, wait) = tokio::sync::oneshot::channel::<()>();
    let wait = std::sync::Arc::new(parking_lot::Mutex::new(Some(wait)));
    let origin = serve(move |mut peer| {
        let wait = wait.clone();
        async move {
            if peer.index > 0 {
                return peer.answer_all("fine").await;
            }
            peer.request().await;
            peer.send(ok("first")).await;
            let wait = wait.lock().take().unwrap();
            let _ = wait.await;
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil").await;
            peer.hold().await;
        }
    })
    .await;
    let upstream = upstream(&origin);
    assert_eq!(fetch(&upstream, get("/first")).await.unwrap(), "first");
    assert_eq!(upstream.snapshot().origins[0].connections_idle, 1);
    late.send(()).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!(fetch(&upstream, get("/second")).await.unwrap(), "fine");
    assert_eq!(origin.accepted(), 2);
}

#[tokio::test]
async fn an_error_of_a_body_comes_again() {
    let origin = serve(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
    })
    .await;
    let mut response = upstream(&origin).send(get("/"), None).await.unwrap();
    assert_eq!(response.body.next().await.unwrap().unwrap(), "half");
    assert!(matches!(response.body.next().await, Err(OriginError::Exchange(ExchangeError::Incomplete))));
    assert!(matches!(response.body.next().await, Err(OriginError::Exchange(ExchangeError::Incomplete))));
    assert!(!response.body.is_ended());
}
