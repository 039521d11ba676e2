//! Reloading and ending under load: no request fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_testkit::{Address, Client, Gate, Origin, Random, Resource, Weir, pattern};

use crate::server::{Server, server};

/// Clients that request hits and misses on kept connections until they are stopped.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    workers: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    fn start(weir: &Weir, clients: usize) -> Load {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let addr = weir.addr();
        let work = |client: usize| {
            let (stop, done) = (stop.clone(), done.clone());
            std::thread::spawn(move || {
                let mut failures = Vec::new();
                let mut connection = Client::connect(addr);
                for number in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let target =
                        if number % 4 == 0 { format!("/miss?{client}-{number}") } else { "/hit".to_owned() };
                    connection.send_get("x", &target, &[]);
                    match connection.recv() {
                        Ok(answer) if answer.status() == 200 && answer.body == pattern(1, 3000) => {
                            done.fetch_add(1, Ordering::SeqCst);
                            if answer.header("connection").as_deref() == Some("close") {
                                let Ok(socket) = Address::from(addr).connect() else { break };
                                connection = Client::over(socket);
                            }
                        }
                        Ok(answer) => failures.push(format!("{target}: {:?}", answer.head)),
                        Err(why) => {
                            failures.push(format!("{target}: {why}"));
                            break;
                        }
                    }
                }
                failures
            })
        };
        let workers = (0..clients).map(work).collect();
        Load { stop, done, workers }
    }

    /// Waits until `n` more requests are answered.
    fn go_on(&self, n: usize) {
        let goal = self.done.load(Ordering::SeqCst) + n;
        weir_testkit::until("requests are answered", || {
            self.done.load(Ordering::SeqCst) >= goal || self.workers.iter().all(JoinHandle::is_finished)
        });
    }

    fn end(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::SeqCst);
        let failures = self.workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        (self.done.load(Ordering::SeqCst), failures)
    }
}

fn served(lines: &str) -> (Origin, Server) {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.reply(200, &[("Cache-Control", "max-age=600")], pattern(1, 3000));
    });
    let server = server(&[&origin]).site(lines);
    (origin, server)
}

#[test]
fn no_request_fails_while_configs_are_swapped() {
    let (_origin, server) = served("ttl = \"1s\"");
    let weir = server.start();
    let load = Load::start(&weir, 8);
    load.go_on(50);
    for round in 0..5 {
        weir.rewrite_config(&server.text().replace("ttl = \"1s\"", &format!("ttl = \"{}s\"", round + 2)));
        let output = weir.reload();
        assert_eq!(output.code, Some(0), "{output:?}");
        load.go_on(50);
        weir.rewrite_config("[limits]\nlien = 1\n");
        assert_ne!(weir.reload().code, Some(0));
        load.go_on(20);
    }
    let (done, failures) = load.end();
    assert!(failures.is_empty(), "{} of {done} failed: {:?}", failures.len(), failures.first());
}

#[test]
fn a_term_signal_finishes_what_is_under_way() {
    let (origin, server) = served("");
    let gate = Gate::new();
    origin.put("/slow", Resource::new(pattern(2, 100_000)).body_gate(50_000, &gate));
    let mut weir = server.more("[health]\npath = \"/up\"").start();
    let mut slow = weir.client();
    slow.send_get("x", "/slow", &[]);
    slow.recv_head_only().unwrap();
    let mut waiting = weir.client();
    waiting.get("x", "/hit", &[]);
    weir.signal("TERM");
    weir_testkit::until("it is no longer ready", || {
        let ready = Address::Tcp(weir.admin()).connect().is_ok();
        !ready || weir.admin_get("/health/ready").status() == 503
    });
    std::thread::sleep(Duration::from_millis(100));
    assert!(weir.runs(), "it ended with a request under way");
    gate.open();
    let mut got = 0;
    while got < 100_000 {
        let piece = slow.read_some();
        assert!(!piece.is_empty(), "cut after {got} bytes");
        got += piece.len();
    }
    let status = weir.wait(Duration::from_secs(20));
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

#[test]
fn no_request_under_load_is_cut_by_a_term_signal() {
    let (_origin, server) = served("");
    let mut weir = server.start();
    let load = Load::start(&weir, 8);
    load.go_on(100);
    weir.signal("TERM");
    let status = weir.wait(Duration::from_secs(20));
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    let (done, failures) = load.end();
    // A request on a kept connection may meet its end before it is read (RFC 9112 §9.6), and a new connection
    // may meet no listener. But no answer that was begun is cut, and none is an error.
    let cut: Vec<&String> = failures.iter().filter(|why| !why.contains("closed before a response")).collect();
    assert!(cut.is_empty(), "{} of {done} failed: {cut:?}", cut.len());
}

#[test]
fn a_client_that_connected_before_a_term_signal_is_answered() {
    let (_origin, server) = served("");
    let mut weir = server.start();
    let mut used: Vec<Client> = (0..4).map(|_| weir.client()).collect();
    for client in &mut used {
        assert_eq!(client.get("x", "/hit", &[]).status(), 200);
    }
    let mut fresh: Vec<Client> = (0..4).map(|_| weir.client()).collect();
    weir_testkit::until("all are accepted", || weir.metric("weir_connections_open") == Some(8.0));
    weir.signal("TERM");
    for client in &mut used {
        assert!(client.is_closed_within(Duration::from_secs(20)), "an idle connection is closed");
    }
    for client in &mut fresh {
        let answer = client.get("x", "/hit", &[]);
        assert_eq!((answer.status(), answer.header("connection").as_deref()), (200, Some("close")));
    }
    let status = weir.wait(Duration::from_secs(20));
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

#[test]
fn a_second_term_signal_ends_at_once() {
    let (origin, server) = served("");
    let gate = Gate::new();
    origin.put("/slow", Resource::new("x").head_gate(&gate));
    let mut weir = server.start();
    let mut slow = weir.client();
    slow.send_get("x", "/slow", &[]);
    origin.await_count("/slow", 1);
    weir.signal("TERM");
    std::thread::sleep(Duration::from_millis(300));
    assert!(weir.runs());
    weir.signal("TERM");
    assert!(weir.wait(Duration::from_secs(5)).is_some());
    gate.open();
}

#[test]
fn a_drain_has_an_end() {
    let (origin, server) = served("");
    let gate = Gate::new();
    origin.put("/slow", Resource::new("x").head_gate(&gate));
    let mut weir = server.more("[limits]\ndrain = \"700ms\"").start();
    let mut slow = weir.client();
    slow.send_get("x", "/slow", &[]);
    origin.await_count("/slow", 1);
    weir.signal("TERM");
    assert!(weir.wait(Duration::from_secs(10)).is_some());
    gate.open();
}

#[test]
fn connections_and_memory_come_back_to_rest() {
    let (_origin, server) = served("");
    let weir = server.start();
    let load = Load::start(&weir, 4);
    load.go_on(200);
    let (_, failures) = load.end();
    assert!(failures.is_empty(), "{:?}", failures.first());
    weir_testkit::until("all clients' connections are closed", || {
        weir.metric("weir_connections_open") == Some(0.0)
    });
    assert_eq!(weir.metric("weir_requests_running"), Some(0.0));
    assert_eq!(weir.metric("weir_panics_total"), Some(0.0));
}

/// Every answer has the version that its entity tag names, whole or in the requested part.
#[test]
fn no_answer_mixes_two_versions() {
    let origin = Origin::start();
    let version = Arc::new(AtomicUsize::new(0));
    let current = version.clone();
    let length = |version: u64| 150_000 + 777 * (version as usize % 50);
    origin.on("/x", move |exchange| {
        let version = current.fetch_add(1, Ordering::SeqCst) as u64 / 3;
        let tag = format!("\"{version}\"");
        if exchange.request.header("if-none-match").is_some_and(|tags| tags.contains(&tag)) {
            exchange
                .send(format!("HTTP/1.1 304 Not Modified\r\nETag: {tag}\r\nCache-Control: no-cache\r\n\r\n"));
            return;
        }
        let control =
            if version.is_multiple_of(2) { "no-cache" } else { "max-age=1, stale-while-revalidate=1" };
        exchange.reply(200, &[("ETag", &tag), ("Cache-Control", control)], pattern(version, length(version)));
    });
    let weir = server(&[&origin]).start();
    let addr = weir.addr();
    let read = move |reader: u64| {
        let mut random = Random::new(reader);
        for _ in 0..60 {
            let mut client = Client::connect(addr);
            let start = random.below(120_000) as usize;
            let range = format!("bytes={start}-{}", start + 20_000);
            let headers: &[(&str, &str)] = if random.below(4) == 0 { &[("Range", &range)] } else { &[] };
            client.send_get("x", "/x", headers);
            if random.below(7) == 0 {
                client.reset();
                continue;
            }
            let answer = client.recv().unwrap_or_else(|why| panic!("reader {reader}: {why}"));
            let version: u64 = answer.header("etag").unwrap().trim_matches('"').parse().unwrap();
            let whole = pattern(version, length(version));
            let expected = if answer.status() == 206 { &whole[start..=start + 20_000] } else { &whole[..] };
            assert!(answer.body == expected, "reader {reader}: {:?}", answer.head);
        }
    };
    let readers: Vec<_> = (1..=8).map(|reader| std::thread::spawn(move || read(reader))).collect();
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
fn idle_connections_are_cheap() {
    const CONNECTIONS: usize = 1000;
    let (_origin, server) = served("");
    let weir = server.start();
    weir.get("/hit");
    let resting = weir.rss();
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| weir.client()).collect();
    for client in &mut clients {
        assert_eq!(client.get("x", "/hit", &[]).status(), 200);
    }
    let each = weir.rss().saturating_sub(resting) / CONNECTIONS as u64;
    println!("{each} bytes an idle connection");
    assert!(each < 64 << 10, "{each} bytes an idle connection");
    assert!(clients.iter_mut().all(|client| client.get("x", "/hit", &[]).status() == 200));
}

#[test]
fn slow_readers_of_unstored_bodies_are_cheap() {
    const READERS: usize = 40;
    let (origin, server) = served("");
    origin.put("/pass", Resource::new(pattern(3, 20 << 20)).header("Cache-Control", "no-store"));
    let weir = server.start();
    weir.get("/hit");
    let resting = weir.rss();
    let mut readers: Vec<Client> = (0..READERS).map(|_| weir.client()).collect();
    for reader in &mut readers {
        reader.send_get("x", "/pass", &[]);
        reader.recv_head_only().unwrap();
    }
    std::thread::sleep(Duration::from_millis(500));
    let each = weir.rss_peak().saturating_sub(resting) / READERS as u64;
    println!("{each} bytes a slow reader");
    assert!(each < 2 << 20, "{each} bytes a slow reader");
}
