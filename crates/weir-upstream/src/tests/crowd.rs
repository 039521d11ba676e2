//! Clients whose streams give way to those of others.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_share::Client;

use super::scripted::{Scripted, get, head, serve, settings};
use crate::{Bound, ExchangeError, OriginError, OriginRequest, OriginResponse, Upstream};

fn v4(last: u32) -> Option<Client> {
    Some(Client::V4(0xc000_0200 + last))
}

fn of(client: u32, path: &str) -> OriginRequest {
    OriginRequest { client: v4(client), ..get(path) }
}

/// An origin with two streams, which one client has, and how many of its connections have ended.
async fn of_one(
    request: impl Fn(u32) -> OriginRequest,
    script: &'static str,
) -> (Scripted, Arc<Upstream>, [Box<OriginResponse>; 2], Arc<AtomicUsize>) {
    let ended = Arc::new(AtomicUsize::new(0));
    let count = ended.clone();
    let origin = serve(move |mut peer| {
        let count = count.clone();
        async move {
            peer.request().await;
            peer.send(script).await;
            peer.hold().await;
            count.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    let mut settings = settings(&[origin.url()]);
    settings.bounds.streams_max = 2;
    settings.bounds.client_share_percent = 100;
    let upstream = Upstream::new(settings).unwrap();
    let both = [head(&upstream, request(1)).await, head(&upstream, request(1)).await];
    (origin, upstream, both, ended)
}

async fn until_ended(ended: &AtomicUsize, count: usize) {
    while ended.load(Ordering::SeqCst) < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn is_share(error: &OriginError) -> bool {
    matches!(error, OriginError::Exchange(ExchangeError::Busy { bound: Bound::ClientShare, .. }))
}

const EVENTS: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n";

#[tokio::test]
async fn a_stream_of_events_gives_way_whether_it_is_read_or_not() {
    let (_origin, upstream, [mut first, mut second], ended) = of_one(|client| of(client, "/"), EVENTS).await;
    for response in [&mut first, &mut second] {
        response.body.outlast().unwrap();
        assert_eq!(response.body.next().await.unwrap().as_deref(), Some(&b"first"[..]));
    }
    let mut third = head(&upstream, of(2, "/")).await;
    third.body.outlast().unwrap();
    assert!(is_share(&second.body.next().await.unwrap_err()));
    until_ended(&ended, 1).await;
    assert!(first.body.may_give_way());
    // The first one's client takes nothing for now.
    let mut fourth = head(&upstream, of(3, "/")).await;
    let refused = fourth.body.outlast();
    assert_eq!(refused, Err(Bound::Streams), "nobody has more than one");
    drop((third, fourth));
    let mut again = head(&upstream, of(1, "/")).await;
    again.body.outlast().unwrap();
    let mut other = head(&upstream, of(2, "/")).await;
    other.body.outlast().unwrap();
    until_ended(&ended, 3).await;
    let _ = again.body.let_go(Bytes::new());
    until_ended(&ended, 4).await;
    assert!(is_share(&again.body.next().await.unwrap_err()));
    assert_eq!(upstream.snapshot().origins[0].streams, 2);
}

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";

#[tokio::test]
async fn a_tunnel_gives_way_and_ends_on_both_sides() {
    let upgrade =
        |client| OriginRequest { upgrade: Some(HeaderValue::from_static("websocket")), ..of(client, "/") };
    let (_origin, upstream, [first, second], ended) = of_one(upgrade, SWITCH).await;
    let [mut first, mut second] = [first, second].map(|response| response.upgraded.unwrap());
    let waiting = tokio::spawn(async move {
        let read = second.read(&mut [0; 8]).await.unwrap();
        (read, second)
    });
    tokio::task::yield_now().await;
    let third = head(&upstream, upgrade(2)).await;
    let (read, mut second) = waiting.await.unwrap();
    assert_eq!(read, 0, "as if the origin had left");
    until_ended(&ended, 1).await;
    assert_eq!(second.write(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(second.flush().await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    assert!(second.shutdown().await.is_ok());
    first.write_all(b"x").await.unwrap();
    assert_eq!(upstream.snapshot().origins[0].streams, 2);
    drop((first, second, third));
    assert_eq!(upstream.snapshot().origins[0].streams, 0);
}
