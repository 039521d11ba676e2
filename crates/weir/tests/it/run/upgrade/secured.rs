//! Connections over TLS through upgrades: their keys cannot move, so the old process relays what still comes.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use weir_testkit::h2::code;
use weir_testkit::{Authority, Client, H2Client, Resource, TlsClient, Trouble, Weir, pattern, until};

use super::{origin, upgraded};
use crate::server::setup;

const CONFIG: &str = r#"
[[listen]]
address = "{listen}"
[[listen]]
address = "{tls}"
tls = true
[admin]
listen = "{admin}"
[limits]
drain = "20s"
[[certificate]]
chain = "{folder}/live.pem"
key = "{folder}/live.key"
[upstream.main]
origins = ["{origin}"]
[[site]]
hosts = ["x"]
upstream = "main"
https = "redirect"
"#;

/// Sends requests one after another; a connection is given up only where Weir has said so. Returns how often.
fn visit(client: &TlsClient, weir: std::net::SocketAddr, stop: &AtomicBool, done: &AtomicUsize) -> usize {
    let connect = || Client::over(client.connect(weir, "x").unwrap());
    let (mut connection, mut closed) = (connect(), 0);
    for round in 0.. {
        if stop.load(Ordering::SeqCst) {
            return closed;
        }
        let answer = connection.get("x", &format!("/a?{}", round % 7), &[]);
        assert_eq!((answer.status(), &answer.body), (200, &pattern(1, 3000)), "{:?}", answer.head);
        done.fetch_add(1, Ordering::SeqCst);
        if answer.header("connection").is_some_and(|said| said == "close") {
            (connection, closed) = (connect(), closed + 1);
        }
    }
    closed
}

fn start(origin: &weir_testkit::Origin, authority: &Authority) -> Weir {
    let setup = setup().arg("--workers").arg("2");
    setup.certificate("live", authority, &["x"]);
    setup.run_config(&CONFIG.replace("{origin}", &origin.url()))
}

#[test]
fn no_request_over_tls_fails_in_three_upgrades() {
    let (authority, origin) = (Authority::new(), origin());
    let mut weir = start(&origin, &authority);
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let client = TlsClient::trusting(&authority);
    let clients: Vec<_> = (0..6)
        .map(|_| {
            let (client, to, stop, done) = (client.clone(), weir.tls(), stop.clone(), done.clone());
            std::thread::spawn(move || visit(&client, to, &stop, &done))
        })
        .collect();
    for _ in 0..3 {
        let goal = done.load(Ordering::SeqCst) + 60;
        until("requests are answered", || done.load(Ordering::SeqCst) >= goal);
        upgraded(&mut weir, &[]);
    }
    let goal = done.load(Ordering::SeqCst) + 60;
    until("requests are answered", || done.load(Ordering::SeqCst) >= goal);
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        assert!(client.join().unwrap() >= 3, "a connection of the old process lives for one request more");
    }
}

#[test]
fn a_request_on_an_old_connection_hears_of_purges_and_a_download_ends_whole() {
    let (authority, origin) = (Authority::new(), origin());
    let large = pattern(7, 24 << 20);
    origin.put("/large", Resource::fresh(large.clone()));
    let mut weir = start(&origin, &authority);
    let client = TlsClient::trusting(&authority);
    let mut idle = Client::over(client.connect(weir.tls(), "x").unwrap());
    assert_eq!(idle.get("x", "/a", &[]).status(), 200);
    let mut slow = client.connect(weir.tls(), "x").unwrap();
    std::io::Write::write_all(&mut slow, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut began = vec![0; 100_000];
    slow.read_exact(&mut began).unwrap();
    let asked = origin.count("/a");
    upgraded(&mut weir, &[]);
    let purged = weir.command(&["purge", "https://x/a"]);
    assert_eq!(purged.code, Some(0), "{purged:?}");
    let answered = idle.get("x", "/a", &[]);
    assert_eq!((answered.status(), answered.header("connection").as_deref()), (200, Some("close")));
    assert_eq!(origin.count("/a"), asked + 1, "{:?}", answered.head);
    let mut rest = vec![0; large.len() + 64 - began.len()];
    slow.read_exact(&mut rest).unwrap();
    began.append(&mut rest);
    let body = began.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let missing = body + large.len() - began.len();
    let mut end = vec![0; missing];
    slow.read_exact(&mut end).unwrap();
    began.append(&mut end);
    assert!(began[body..] == large[..]);
}

/// As [`visit`], over HTTP/2: what is refused as unprocessed is sent again over another connection.
fn visit_by_streams(
    client: &TlsClient,
    weir: std::net::SocketAddr,
    stop: &AtomicBool,
    done: &AtomicUsize,
) -> usize {
    let connect = || H2Client::over(client.connect(weir, "x").unwrap());
    let (mut connection, mut closed) = (connect(), 0);
    for round in 0.. {
        if stop.load(Ordering::SeqCst) {
            return closed;
        }
        let stream = connection.ask("GET", "x", &format!("/a?{}", round % 7), &[]);
        match connection.recv(stream) {
            Ok(answer) => {
                assert_eq!((answer.status(), &answer.body), (200, &pattern(1, 3000)), "{:?}", answer.head);
                done.fetch_add(1, Ordering::SeqCst);
            }
            Err(Trouble::Reset(code::REFUSED_STREAM, _)) => {}
            Err(why) => {
                let said = connection.goaway();
                assert!(said.is_some_and(|said| said.last < stream), "{why}, after {said:?}");
            }
        }
        if connection.goaway().is_some() {
            (connection, closed) = (connect(), closed + 1);
        }
    }
    closed
}

#[test]
fn no_stream_fails_in_three_upgrades_and_what_is_under_way_ends_whole() {
    let (authority, origin) = (Authority::new(), origin());
    let large = pattern(7, 8 << 20);
    origin.put("/large", Resource::fresh(large.clone()));
    let mut weir = start(&origin, &authority);
    let client = TlsClient::trusting(&authority).protocols(&["h2"]);
    let mut slow = H2Client::over(client.connect(weir.tls(), "x").unwrap());
    slow.get("x", "/large", &[]);
    slow.hold_windows();
    slow.open(0, 1 << 26);
    let download = slow.ask("GET", "x", "/large", &[]);
    slow.recv_head(download).unwrap();
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..6)
        .map(|_| {
            let (client, to, stop, done) = (client.clone(), weir.tls(), stop.clone(), done.clone());
            std::thread::spawn(move || visit_by_streams(&client, to, &stop, &done))
        })
        .collect();
    for round in 0..3 {
        let goal = done.load(Ordering::SeqCst) + 60;
        until("requests are answered", || done.load(Ordering::SeqCst) >= goal);
        upgraded(&mut weir, &[]);
        if round == 0 {
            assert_eq!(slow.await_goaway().unwrap().code, code::NO_ERROR);
            slow.open(download, 1 << 26);
            assert!(slow.recv(download).unwrap().body == large);
        }
    }
    let goal = done.load(Ordering::SeqCst) + 60;
    until("requests are answered", || done.load(Ordering::SeqCst) >= goal);
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        assert!(client.join().unwrap() >= 3, "each upgrade ends a connection");
    }
}
