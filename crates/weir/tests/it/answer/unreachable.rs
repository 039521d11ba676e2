//! An origin that gives no answer at all: stored responses are sent stale for the time that the route names,
//! unless a directive forbids it (RFC 9111 §4.2.4).

use std::time::Duration;

use weir_testkit::{Client, Gate, Origin, Resource, Weir, until};

use crate::server::{Server, server};

/// What is stored, and with which fields. The first may be sent stale.
const HELD: [(&str, &str); 5] = [
    ("/plain", "max-age=1"),
    ("/must-revalidate", "max-age=1, must-revalidate"),
    ("/proxy-revalidate", "max-age=1, proxy-revalidate"),
    ("/s-maxage", "s-maxage=1"),
    ("/no-cache", "max-age=1, no-cache"),
];

fn held(control: &str) -> Resource {
    Resource::new("old").header("Cache-Control", control).etag("\"1\"")
}

/// A Weir that has stored [`HELD`], stale by now.
fn holding(origin: &Origin, server: &Server) -> Weir {
    let weir = server.start();
    for (path, control) in HELD {
        origin.put(path, held(control));
        assert_eq!(weir.get(path).text(), "old");
    }
    std::thread::sleep(Duration::from_millis(2100));
    weir
}

fn send(weir: &Weir, method: &str, path: &str, fields: &str) -> Client {
    let mut client = weir.client();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
    client
}

/// Checks what is sent while the origin gives no answer.
fn check(weir: &Weir) {
    // All at once: some ways to give no answer take their time.
    let mut plain = send(weir, "GET", "/plain", "");
    let mut another = send(weir, "GET", "/plain", "");
    let mut reloaded = send(weir, "GET", "/plain", "Cache-Control: max-age=0\r\n");
    let mut part = send(weir, "GET", "/plain", "Range: bytes=0-0\r\n");
    let mut current = send(weir, "GET", "/plain", "If-None-Match: \"1\"\r\n");
    let mut head = send(weir, "HEAD", "/plain", "");
    let mut insisting = send(weir, "GET", "/plain", "Cache-Control: no-cache\r\n");
    let mut unheld = send(weir, "GET", "/unheld", "");
    let bound: Vec<_> = HELD[1..].iter().map(|(path, _)| (path, send(weir, "GET", path, ""))).collect();
    for client in [&mut plain, &mut another, &mut reloaded] {
        let answer = client.recv().unwrap();
        assert_eq!((answer.status(), answer.text().as_str()), (200, "old"), "{:?}", answer.head);
        let said = answer.cache_status();
        assert!(answer.is_hit() && said.contains("detail=stale-if-unreachable"), "{said}");
        assert!(said.contains("ttl=-"), "{said}");
        assert!(answer.age().is_some_and(|age| age >= 2), "{:?}", answer.head);
    }
    let part = part.recv().unwrap();
    assert_eq!((part.status(), part.text().as_str()), (206, "o"), "{:?}", part.head);
    assert_eq!(current.recv().unwrap().status(), 304);
    let head = head.recv_head().unwrap();
    assert_eq!((head.status(), head.is_hit()), (200, true), "{:?}", head.head);
    for client in [&mut insisting, &mut unheld] {
        let answer = client.recv().unwrap();
        assert!(matches!(answer.status(), 502 | 504), "{:?}", answer.head);
    }
    for (path, mut client) in bound {
        let answer = client.recv().unwrap();
        assert!(matches!(answer.status(), 502 | 504), "{path} {:?}", answer.head);
        assert!(answer.text() != "old", "{path}");
    }
}

#[test]
fn an_origin_that_refuses_connections() {
    let origin = Origin::start();
    let weir = holding(&origin, &server(&[&origin]));
    drop(origin);
    check(&weir);
    check(&weir);
}

#[test]
fn an_origin_that_closes_after_the_request() {
    let origin = Origin::start();
    let weir = holding(&origin, &server(&[&origin]));
    for path in HELD.map(|(path, _)| path).iter().chain(&["/unheld"]) {
        origin.on(path, |exchange| exchange.close());
    }
    check(&weir);
}

#[test]
fn an_origin_that_resets_the_connection() {
    let origin = Origin::start();
    let weir = holding(&origin, &server(&[&origin]));
    for path in HELD.map(|(path, _)| path).iter().chain(&["/unheld"]) {
        origin.on(path, |exchange| exchange.reset());
    }
    check(&weir);
}

#[test]
fn an_origin_that_closes_inside_its_head() {
    let origin = Origin::start();
    let weir = holding(&origin, &server(&[&origin]));
    for path in HELD.map(|(path, _)| path).iter().chain(&["/unheld"]) {
        origin.raw(path, "HTTP/1.1 200 OK\r\nCache-Con");
    }
    check(&weir);
}

#[test]
fn an_origin_that_is_silent_until_its_time_is_over() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let weir = holding(
        &origin,
        &server(&[&origin]).upstream("first_byte = \"1s\"").site("revalidation_wait = \"100ms\""),
    );
    for path in HELD.map(|(path, _)| path).iter().chain(&["/unheld"]) {
        origin.put(path, Resource::fresh("new").head_gate(&gate));
    }
    check(&weir);
    gate.open();
}

#[test]
fn an_origin_that_is_silent_in_the_handshake() {
    let (origin, silent) = (Origin::start(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let server = server(&[&origin]);
    let weir = holding(&origin, &server);
    let list = format!("\"https://{}\"", silent.local_addr().unwrap());
    weir.rewrite_config(&server.origins(&list).upstream("connect = \"1s\"").text());
    assert_eq!(weir.reload().code, Some(0));
    check(&weir);
}

#[test]
fn an_origin_that_speaks_no_tls() {
    let origin = Origin::start();
    let server = server(&[&origin]);
    let weir = holding(&origin, &server);
    weir.rewrite_config(&server.origins(&format!("\"https://{}\"", origin.addr())).text());
    assert_eq!(weir.reload().code, Some(0));
    check(&weir);
}

#[test]
fn an_origin_whose_name_is_unknown() {
    let origin = Origin::start();
    let server = server(&[&origin]);
    let weir = holding(&origin, &server);
    weir.rewrite_config(&server.origins("\"http://no-such-host.invalid:8080\"").text());
    assert_eq!(weir.reload().code, Some(0));
    check(&weir);
}

#[test]
fn origins_that_are_all_left_out() {
    let origins = [Origin::start(), Origin::start()];
    let both = server(&[&origins[0], &origins[1]]).upstream("eject = { failures = 1, time = \"1m\" }");
    for (path, control) in HELD {
        origins[1].put(path, held(control));
    }
    let weir = holding(&origins[0], &both);
    drop(origins);
    for _ in 0..4 {
        weir.get("/unheld");
    }
    check(&weir);
    let status = weir.command(&["status"]).stdout;
    assert_eq!(status.matches("ejected for").count(), 2, "{status}");
    check(&weir);
}

#[test]
fn a_slow_origin_is_waited_for() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let weir = holding(&origin, &server(&[&origin]).site("revalidation_wait = \"100ms\""));
    origin.put("/plain", Resource::fresh("new").head_gate(&gate));
    let mut client = send(&weir, "GET", "/plain", "");
    origin.await_count("/plain", 2);
    std::thread::sleep(Duration::from_millis(500));
    gate.open();
    assert_eq!(client.recv().unwrap().text(), "new");
}

#[test]
fn an_outage_costs_readers_nothing_and_ends_with_the_first_answer() {
    let origin = Origin::start();
    let weir = holding(&origin, &server(&[&origin]));
    let address = origin.addr().to_string();
    drop(origin);
    for _ in 0..20 {
        assert_eq!(weir.get("/plain").text(), "old");
    }
    let host = weir.addr().to_string();
    let explained = weir.command(&["explain", &format!("http://{host}/plain")]).stdout;
    // Another host is another key, and nothing is stored for it.
    assert!(explained.contains("miss"), "{explained}");
    let explained = weir.command(&["explain", "http://localhost/plain"]).stdout;
    assert!(explained.contains("stale-if-unreachable 3600 s"), "{explained}");
    assert!(explained.contains("verdict      stale: stale-if-unreachable"), "{explained}");
    assert!(explained.contains("detail=stale-if-unreachable"), "{explained}");
    let explained = weir.command(&["explain", "http://localhost/must-revalidate"]).stdout;
    assert!(!explained.contains("stale-if-unreachable"), "{explained}");
    let origin = Origin::listen(&address);
    origin.put("/plain", Resource::fresh("new").etag("\"2\""));
    until("a try in the background finds the origin up again", || weir.get("/plain").text() == "new");
}

#[test]
fn a_stale_response_on_a_volume_is_sent_after_a_restart() {
    let origin = Origin::start();
    let volume = "[cache]\nmemory = \"64MiB\"\nadmission = \"always\"\n\
        [[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"256MiB\"";
    let mut weir = holding(&origin, &server(&[&origin]).more(volume));
    origin.put("/told", held("max-age=1, stale-if-error=0"));
    assert_eq!(weir.get("/told").text(), "old");
    std::thread::sleep(Duration::from_millis(1500));
    weir.restart();
    drop(origin);
    check(&weir);
    assert_eq!(weir.get("/told").status(), 502);
}
