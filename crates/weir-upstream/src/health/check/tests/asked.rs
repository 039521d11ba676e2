//! Checks of scripted origins: what is sent, what passes, and what is a failure with bounded memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};

use crate::health::check::CheckLog;
use crate::health::check::ask::{BODY_BYTES_MAX, ask};
use crate::health::standing::Standing;
use crate::settings::{Bounds, CheckAsk, CheckRequest, CheckSettings};
use crate::tests::scripted::{Peer, Scripted, fetch, get, ok, serve, settings, short};
use crate::{OriginSettings, Upstream, UpstreamSettings};

fn request() -> CheckRequest {
    CheckRequest {
        method: Method::GET,
        target: Bytes::from_static(b"/up?deep=1"),
        host: None,
        headers: HeaderMap::new(),
        statuses: vec![200..=399],
        body: Bytes::new(),
    }
}

fn no_log() -> CheckLog {
    Arc::new(|_| None)
}

/// What a check of this origin ends with: nothing, or why it failed.
async fn result(origin: &Scripted, asked: CheckRequest) -> Option<String> {
    result_within(Duration::from_secs(30), origin, asked).await
}

async fn result_within(limit: Duration, origin: &Scripted, asked: CheckRequest) -> Option<String> {
    let upstream = Upstream::new(settings(&[origin.url()])).unwrap();
    let origin = upstream.roster().members[0].origin.clone();
    let asked = CheckAsk::Request(Box::new(asked));
    ask(&origin, (&asked, limit), &Bounds::default(), &no_log()).await.err().map(|fault| fault.to_string())
}

/// The same where the origin answers so.
async fn answered(bytes: &'static [u8], asked: CheckRequest) -> Option<String> {
    let origin = serve(move |mut peer: Peer| async move {
        peer.request().await;
        peer.send(bytes).await;
    });
    result(&origin.await, asked).await
}

#[tokio::test]
async fn what_is_sent() {
    let origin = serve(|mut peer| async move { peer.answer_all("fine").await }).await;
    let mut asked = request();
    asked.headers.insert("x-from", HeaderValue::from_static("weir"));
    assert_eq!(result(&origin, asked.clone()).await, None);
    asked.host = Some("site.example".to_owned());
    assert_eq!(result(&origin, asked).await, None);
    let seen = origin.seen();
    let address = origin.address;
    let rest = "user-agent: Weir-Check\r\nx-from: weir\r\nconnection: close\r\n\r\n";
    assert_eq!(seen[0], format!("GET /up?deep=1 HTTP/1.1\r\nhost: {address}\r\n{rest}"));
    assert_eq!(seen[1], format!("GET /up?deep=1 HTTP/1.1\r\nhost: site.example\r\n{rest}"));
    assert_eq!(origin.accepted(), 2, "each has a connection of its own");
}

#[tokio::test]
async fn statuses_and_bodies() {
    let with = |body: &'static str| CheckRequest { body: Bytes::from_static(body.as_bytes()), ..request() };
    let yes = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nall ok!\n";
    assert_eq!(answered(yes, with("ok!")).await, None);
    let lacks = "the body lacks the expected text";
    assert_eq!(answered(yes, with("OK!")).await.as_deref(), Some(lacks));
    let chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nall\r\n5\r\n ok!\n\r\n0\r\n\r\n";
    assert_eq!(answered(chunks, with("all ok")).await, None);
    assert_eq!(answered(b"HTTP/1.0 200 OK\r\n\r\nall ok", with("all ok")).await, None);
    assert_eq!(answered(b"HTTP/1.1 204 No Content\r\n\r\n", request()).await, None);
    let gone = b"HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(answered(gone, request()).await.as_deref(), Some("status 503"));
    let statuses = vec![200..=200, 500..=503];
    assert_eq!(answered(gone, CheckRequest { statuses, ..request() }).await, None);
    let head = CheckRequest { method: Method::HEAD, ..request() };
    assert_eq!(answered(b"HTTP/1.1 200 OK\r\ncontent-length: 999999\r\n\r\n", head).await, None);
}

#[tokio::test]
async fn malformed_and_broken_responses() {
    for (bytes, why) in [
        (&b""[..], "closed-early"),
        (b"HTTP/1.1 200 OK\r\ncont", "incomplete"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfour", "incomplete"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n", "incomplete"),
    ] {
        assert_eq!(answered(bytes, request()).await.as_deref(), Some(why), "{}", bytes.escape_ascii());
    }
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.9\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ] {
        assert!(answered(bytes, request()).await.is_some(), "{}", bytes.escape_ascii());
    }
}

#[tokio::test]
async fn endless_and_huge_responses() {
    let origin = |head: &'static [u8], piece: &'static [u8], pause: Duration| {
        serve(move |mut peer: Peer| async move {
            peer.request().await;
            peer.send(head).await;
            let pieces = if pause.is_zero() { piece.repeat(4096) } else { piece.to_vec() };
            while tokio::io::AsyncWriteExt::write_all(&mut peer.stream, &pieces).await.is_ok() {
                tokio::time::sleep(pause).await;
            }
        })
    };
    let none = Duration::ZERO;
    let huge = format!("a body of more than {} KiB", BODY_BYTES_MAX / 1024);
    let close = origin(b"HTTP/1.0 200 OK\r\n\r\n", b"a", none).await;
    assert_eq!(result(&close, request()).await.as_deref(), Some(&*huge));
    let declared = b"HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n";
    assert_eq!(result(&origin(declared, b"", none).await, request()).await.as_deref(), Some(&*huge));
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(result(&origin(chunked, b"1\r\na\r\n", none).await, request()).await.as_deref(), Some(&*huge));
    assert_eq!(
        result(&origin(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n", none).await, request()).await.as_deref(),
        Some("too-many-fields")
    );
    assert_eq!(
        result(&origin(b"HTTP/1.1 200 OK\r\na: ", b"bbbbbbbbbbbbbbbb", none).await, request())
            .await
            .as_deref(),
        Some("head-too-large")
    );
    let late = "no whole response within 600 ms";
    let slow = origin(b"HTTP/1.0 200 OK\r\n\r\n", b"a", Duration::from_millis(50)).await;
    let short = Duration::from_millis(600);
    assert_eq!(result_within(short, &slow, request()).await.as_deref(), Some(late));
    let silent = origin(b"", b"", Duration::from_secs(60)).await;
    assert!(matches!(
        result_within(short, &silent, request()).await.as_deref(),
        Some("first-byte-timeout" | "no whole response within 600 ms")
    ));
}

fn checked(origin: &Scripted) -> UpstreamSettings {
    let every = Duration::from_millis(40);
    let (ask, timeout) = (CheckAsk::Request(Box::new(request())), every);
    let check = CheckSettings { ask, every, timeout, rise: 2, fall: 2 };
    UpstreamSettings { check: Some(check), timeouts: short(), ..settings(&[origin.url()]) }
}

async fn wait(mut is: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came about");
}

#[tokio::test]
async fn one_that_is_added_gets_nothing_before_its_first_success() {
    let first = serve(|mut peer| async move { peer.answer_all("first").await }).await;
    let is_well = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let well = is_well.clone();
    let second = serve(move |mut peer| {
        let well = well.clone();
        async move {
            while let Some(head) = peer.request().await {
                let passes = !head.contains("/up") || well.load(std::sync::atomic::Ordering::SeqCst);
                peer.send(if passes {
                    ok("second")
                } else {
                    "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".into()
                })
                .await;
            }
        }
    })
    .await;
    let mut wanted = checked(&first);
    let old = Upstream::new(wanted.clone()).unwrap();
    let tending = tokio::spawn(old.watch(no_log()));
    wait(|| old.snapshot().origins[0].check.as_ref().unwrap().passed > 1).await;
    wanted.origins.push(OriginSettings::new(second.url().parse().unwrap()));
    let upstream = Upstream::succeed(&old, wanted).unwrap();
    assert_eq!(upstream.snapshot().origins[1].standing, Standing::Down);
    assert_eq!(upstream.snapshot().origins[1].why, "not checked yet");
    assert!(upstream.snapshot().origins[0].check.as_ref().unwrap().passed > 1, "what was known stays");
    tokio::spawn(upstream.watch(no_log()));
    drop(old);
    tending.await.unwrap();
    wait(|| upstream.snapshot().origins[1].check.as_ref().unwrap().failed > 1).await;
    for _ in 0..4 {
        assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "first");
    }
    assert_eq!(upstream.snapshot().origins[1].why, "status 500");
    is_well.store(true, std::sync::atomic::Ordering::SeqCst);
    wait(|| upstream.snapshot().origins[1].standing == Standing::Ready).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(fetch(&upstream, get("/")).await.unwrap());
    }
    assert!(seen.contains(&"second".to_owned()));
    assert_eq!(upstream.snapshot().origins[1].connections_open, 1, "checks use no connection of the pool");
}

/// An origin that passes its checks, or does not, and answers its name.
async fn judged(name: &'static str, passes: bool) -> Scripted {
    serve(move |mut peer| async move {
        while let Some(head) = peer.request().await {
            let is_failed = head.contains("/up") && !passes;
            let failed = || "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_owned();
            peer.send(if is_failed { failed() } else { ok(name) }).await;
        }
    })
    .await
}

/// An upstream of these that is added while Weir runs. Its requests wait long.
fn added(origins: &[&Scripted]) -> Arc<Upstream> {
    let mut wanted = checked(origins[0]);
    wanted.origins =
        origins.iter().map(|origin| OriginSettings::new(origin.url().parse().unwrap())).collect();
    wanted.timeouts.queue = Duration::from_secs(3600);
    let long = Duration::from_secs(60);
    wanted.check = wanted.check.map(|check| CheckSettings { every: long, timeout: long, ..check });
    Upstream::added(wanted, crate::Adjustments::new()).unwrap()
}

#[tokio::test]
async fn requests_of_an_added_upstream_wait_for_the_first_check_that_passes() {
    let (sick, well) = (judged("sick", false).await, judged("well", true).await);
    let upstream = added(&[&sick, &well]);
    let mut asked = Box::pin(fetch(&upstream, get("/")));
    tokio::select! {
        biased;
        text = &mut asked => panic!("it did not wait: {text:?}"),
        () = std::future::ready(()) => {}
    }
    tokio::spawn(upstream.watch(no_log()));
    assert_eq!(asked.await.unwrap(), "well");
}

#[tokio::test]
async fn where_all_first_checks_fail_requests_spread_over_all() {
    let (one, other) = (judged("one", false).await, judged("other", false).await);
    let upstream = added(&[&one, &other]);
    tokio::spawn(upstream.watch(no_log()));
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(fetch(&upstream, get("/")).await.unwrap());
    }
    seen.sort();
    assert_eq!(seen, ["one", "one", "other", "other"]);
}

#[tokio::test]
async fn the_only_one_is_still_asked_while_it_is_down() {
    let origin = serve(|mut peer| async move {
        while let Some(head) = peer.request().await {
            let check = head.contains("/up");
            peer.send(if check {
                "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_owned()
            } else {
                ok("still")
            })
            .await;
        }
    })
    .await;
    let upstream = Upstream::new(checked(&origin)).unwrap();
    assert_eq!(upstream.snapshot().origins[0].standing, Standing::Ready, "up until its first check");
    let tending = tokio::spawn(upstream.watch(no_log()));
    wait(|| upstream.snapshot().origins[0].standing == Standing::Down).await;
    assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "still");
    drop(upstream);
    tending.await.unwrap();
}
