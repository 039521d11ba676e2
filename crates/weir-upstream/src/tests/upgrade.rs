//! 101 and the tunnel behind it (RFC 9110 §7.8).

use http::{HeaderValue, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::scripted::{get, head, serve, text, upstream};
use crate::{ExchangeError, OriginError, OriginRequest};

fn upgrade() -> OriginRequest {
    let mut request = get("/socket");
    request.upgrade = Some(HeaderValue::from_static("websocket"));
    request
}

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways() {
    let origin = serve(|mut peer| async move {
        let head = peer.request().await.unwrap();
        assert!(head.contains("\r\nconnection: upgrade\r\nupgrade: websocket\r\n"), "{head}");
        let switch =
            "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: WebSocket\r\n\r\nearly";
        peer.send(switch).await;
        let said = peer.body(5).await;
        peer.send(said).await;
        peer.hold().await;
    })
    .await;
    let upstream = upstream(&origin);
    let response = head(&upstream, upgrade()).await;
    assert_eq!(response.status, StatusCode::SWITCHING_PROTOCOLS);
    let mut tunnel = response.upgraded.unwrap();
    let mut read = [0; 5];
    tunnel.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"early");
    tunnel.write_all(b"hello").await.unwrap();
    tunnel.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"hello");
    let counts = || (upstream.snapshot().origins[0].streams, upstream.snapshot().origins[0].connections_open);
    assert_eq!(counts(), (1, 0), "it is not among the connections any more");
    drop(tunnel);
    assert_eq!(counts(), (0, 0));
}

#[tokio::test]
async fn a_refused_upgrade_is_a_plain_response() {
    let origin = serve(|mut peer| async move { peer.answer_all("plain").await }).await;
    let upstream = upstream(&origin);
    let mut response = head(&upstream, upgrade()).await;
    assert!(response.upgraded.is_none());
    assert_eq!(text(&mut response.body).await.unwrap(), "plain");
    assert_eq!(upstream.snapshot().origins[0].connections_idle, 1);
}

#[tokio::test]
async fn a_switch_to_something_else_is_refused() {
    for switched in ["connection: upgrade\r\nupgrade: h2c", "upgrade: websocket", "connection: upgrade"] {
        let origin = serve(move |mut peer| async move {
            peer.request().await;
            peer.send(format!("HTTP/1.1 101 Switching Protocols\r\n{switched}\r\n\r\n")).await;
            peer.hold().await;
        })
        .await;
        let error = upstream(&origin).send(upgrade(), None).await.unwrap_err();
        assert!(matches!(error, OriginError::Exchange(ExchangeError::Upgrade)), "{switched}: {error}");
    }
}
