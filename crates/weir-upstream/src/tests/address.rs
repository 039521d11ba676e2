//! Names and addresses: kept while a lookup fails, tried in turn, renewed off the hot path.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use weir_client::Resolver;

use super::scripted::{fetch, get, gone, serve, settings};
use crate::Upstream;
use crate::choice::adjust::Adjustments;
use crate::upstream::Past;

type Answers = Arc<Mutex<io::Result<Vec<SocketAddr>>>>;

/// A resolver that says what the test last told it, and how often it was asked.
fn told(first: io::Result<Vec<SocketAddr>>) -> (Resolver, Answers, Arc<AtomicUsize>) {
    let answers = Arc::new(Mutex::new(first));
    let asked = Arc::new(AtomicUsize::new(0));
    let (said, counter) = (answers.clone(), asked.clone());
    let resolver: Resolver = Arc::new(move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        let answer = match &*said.lock() {
            Ok(list) => Ok(list.clone()),
            Err(error) => Err(io::Error::from(error.kind())),
        };
        Box::pin(async move { answer })
    });
    (resolver, answers, asked)
}

fn named(resolver: &Resolver, every: Duration) -> Arc<Upstream> {
    let mut settings = settings(&["http://origin.example"]);
    settings.resolve_every = every;
    settings.timeouts.pool_idle = Duration::from_millis(1);
    Upstream::made(settings, Past::Adjusted(Adjustments::new()), resolver).unwrap()
}

#[tokio::test]
async fn a_name_is_looked_up_once_for_all_who_wait() {
    let origin = serve(|mut peer| async move { peer.answer_all("fine").await }).await;
    let (resolver, _, asked) = told(Ok(vec![origin.address]));
    let upstream = named(&resolver, Duration::from_secs(60));
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let upstream = upstream.clone();
        all.spawn(async move { fetch(&upstream, get("/")).await.unwrap() });
    }
    all.join_all().await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(upstream.snapshot().origins[0].addresses, 1);
}

#[tokio::test]
async fn a_name_without_answer_is_an_error_and_not_asked_for_each_request() {
    let (resolver, _, asked) = told(Err(io::ErrorKind::Other.into()));
    let upstream = named(&resolver, Duration::from_secs(60));
    for _ in 0..5 {
        let error = fetch(&upstream, get("/")).await.unwrap_err();
        assert_eq!((error.proxy_status(), error.status().as_u16()), ("dns_error", 502));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn old_addresses_stay_while_the_lookup_fails_and_new_ones_are_taken() {
    let a = serve(|mut peer| async move { peer.answer_all("a").await }).await;
    let b = serve(|mut peer| async move { peer.answer_all("b").await }).await;
    let (resolver, answers, asked) = told(Ok(vec![a.address]));
    let upstream = named(&resolver, Duration::from_millis(10));
    assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "a");
    *answers.lock() = Err(io::ErrorKind::Other.into());
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "a");
    }
    assert!(asked.load(Ordering::SeqCst) >= 2);
    *answers.lock() = Ok(vec![b.address]);
    let mut moved = false;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        moved = moved || fetch(&upstream, get("/")).await.unwrap() == "b";
    }
    assert!(moved);
}

#[tokio::test]
async fn tending_renews_without_requests_and_ends_with_the_upstream() {
    let (resolver, _, asked) = told(Ok(vec![([127, 0, 0, 1], 9).into()]));
    let upstream = named(&resolver, Duration::from_secs(1));
    let tending = tokio::spawn(upstream.tend());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    drop(upstream);
    tokio::time::timeout(Duration::from_secs(5), tending).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let origin = serve(|mut peer| async move { peer.answer_all("fine").await }).await;
    let (resolver, _, _) = told(Ok(vec![gone(), origin.address]));
    let upstream = named(&resolver, Duration::from_secs(60));
    for _ in 0..3 {
        assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "fine");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(upstream.snapshot().origins[0].failures, 0);
}

#[tokio::test]
async fn an_address_that_does_not_answer_gets_only_its_lead() {
    // A listener whose queue is full answers no more connections.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let full = socket.listen(1).unwrap();
    let deaf = full.local_addr().unwrap();
    let mut filling = Vec::new();
    for _ in 0..4 {
        let connecting = tokio::net::TcpStream::connect(deaf);
        match tokio::time::timeout(Duration::from_millis(100), connecting).await {
            Ok(Ok(stream)) => filling.push(stream),
            _ => break,
        }
    }
    let origin = serve(|mut peer| async move { peer.answer_all("fine").await }).await;
    let (resolver, _, _) = told(Ok(vec![deaf, origin.address]));
    let upstream = named(&resolver, Duration::from_secs(60));
    assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "fine");
    let (resolver, _, _) = told(Ok(vec![deaf]));
    let error = fetch(&named(&resolver, Duration::from_secs(60)), get("/")).await.unwrap_err();
    assert_eq!((error.proxy_status(), error.status().as_u16()), ("connection_timeout", 504));
}
