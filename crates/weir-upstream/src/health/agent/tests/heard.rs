//! Agents on real sockets: what is sent to them, what they change, and those that do not speak.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::tests::scripted::{Scripted, fetch, get, gone, serve, settings};
use crate::{AgentSettings, AgentSnapshot, Standing, Upstream, UpstreamSettings};

/// An agent that says what it is told to say, and remembers what it was sent.
struct Agent {
    address: SocketAddr,
    line: Arc<Mutex<Vec<u8>>>,
    seen: Arc<Mutex<Vec<u8>>>,
}

async fn agent(line: &str) -> Agent {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let line = Arc::new(Mutex::new(line.as_bytes().to_vec()));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (says, sees) = (line.clone(), seen.clone());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 5];
            stream.read_exact(&mut buffer).await.unwrap();
            *sees.lock() = buffer.to_vec();
            let line = says.lock().clone();
            // The other side may not want all of it.
            let _ = stream.write_all(&line).await;
        }
    });
    Agent { address, line, seen }
}

fn with_agent(origins: &[&Scripted], port: u16) -> UpstreamSettings {
    let urls: Vec<String> = origins.iter().map(|origin| origin.url()).collect();
    let send = Bytes::from_static(b"app1\n");
    let agent = AgentSettings { port, send, every: Duration::from_millis(40) };
    UpstreamSettings { agent: Some(agent), ..settings(&urls) }
}

fn heard(upstream: &Upstream) -> AgentSnapshot {
    upstream.snapshot().origins[0].agent.clone().unwrap()
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
async fn what_an_agent_changes() {
    let origin = serve(|mut peer| async move { peer.answer_all("here").await }).await;
    let agent = agent("drain 50% maxconn:3 # a new release\n").await;
    let upstream = Upstream::new(with_agent(&[&origin], agent.address.port())).unwrap();
    tokio::spawn(upstream.watch(Arc::new(|_| None)));
    let standing = || upstream.snapshot().origins[0].standing;
    wait(|| standing() == Standing::Draining).await;
    assert_eq!(*agent.seen.lock(), b"app1\n");
    assert_eq!((heard(&upstream).percent, heard(&upstream).connections), (50, Some(3)));
    assert_eq!(upstream.snapshot().origins[0].why, "its agent says: a new release");
    assert_eq!(upstream.roster().members[0].origin.pool().open_max(), 3);
    let say = |line: &str| *agent.line.lock() = line.as_bytes().to_vec();
    say("ready maxconn:0\n");
    wait(|| standing() == Standing::Ready).await;
    assert_eq!(heard(&upstream).percent, 50, "what is not said stays");
    assert_eq!(upstream.roster().members[0].origin.pool().open_max(), 256);
    say("down\n");
    wait(|| standing() == Standing::Down).await;
    assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "here", "it is the last resort");
    say("junk -5%\n");
    wait(|| heard(&upstream).partly > 1).await;
    assert_eq!(standing(), Standing::Down);
    let endless = "a".repeat(100_000);
    say(&endless);
    wait(|| heard(&upstream).broken > 1).await;
    assert_eq!((standing(), heard(&upstream).is_gone), (Standing::Down, true));
    assert_eq!(heard(&upstream).line, "junk -5%");
    say("up\n");
    wait(|| standing() == Standing::Ready).await;
    let without = UpstreamSettings { agent: None, ..with_agent(&[&origin], 1) };
    say("maint 20%\n");
    wait(|| standing() == Standing::Maintenance).await;
    let next = Upstream::succeed(&upstream, without).unwrap();
    tokio::spawn(next.watch(Arc::new(|_| None)));
    assert_eq!(next.snapshot().origins[0].standing, Standing::Ready, "a reload without an agent forgets it");
    assert!(next.snapshot().origins[0].agent.is_none());
}

#[tokio::test]
async fn one_that_cannot_be_reached_changes_nothing() {
    let origin = serve(|mut peer| async move { peer.answer_all("here").await }).await;
    let upstream = Upstream::new(with_agent(&[&origin], gone().port())).unwrap();
    tokio::spawn(upstream.watch(Arc::new(|_| None)));
    wait(|| heard(&upstream).unreachable > 2).await;
    assert_eq!(upstream.snapshot().origins[0].standing, Standing::Ready);
    assert_eq!(heard(&upstream).broken, 0);
}

#[tokio::test]
async fn the_factor_scales_the_share() {
    let first = serve(|mut peer| async move { peer.answer_all("first").await }).await;
    let second = serve(|mut peer| async move { peer.answer_all("second").await }).await;
    let upstream = Upstream::new(settings(&[first.url(), second.url()])).unwrap();
    let said = crate::health::agent::said::Said { percent: 50, ..Default::default() };
    upstream.roster().members[1].origin.heed(said);
    let mut seconds = 0;
    for _ in 0..30 {
        seconds += usize::from(fetch(&upstream, get("/")).await.unwrap() == "second");
    }
    assert_eq!(seconds, 10);
}
