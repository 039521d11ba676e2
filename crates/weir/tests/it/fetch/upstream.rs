//! Several origins, and how each is spoken to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weir_testkit::{Authority, Client, Gate, Origin, Resource, Weir, until};

use crate::server::{before, server, setup};

/// An origin that answers its own name, which is not stored.
fn named(name: &'static str) -> Origin {
    let origin = Origin::start();
    origin.otherwise(move |exchange| {
        exchange.body();
        exchange.reply(200, &[("Cache-Control", "no-store")], name);
    });
    origin
}

/// The names that answer `n` requests in a row, as a sorted text.
fn answers(weir: &Weir, n: usize) -> String {
    let mut client = weir.client();
    let mut texts: Vec<String> = (0..n).map(|_| client.get("x", "/", &[]).text()).collect();
    texts.sort();
    texts.concat()
}

#[test]
fn requests_go_round_robin_by_weight() {
    let (a, b) = (named("a"), named("b"));
    let weir = server(&[&a, &b]).start();
    assert_eq!(answers(&weir, 8), "aaaabbbb");
    let list = format!("{{ url = \"{}\", weight = 3 }}, \"{}\"", a.url(), b.url());
    let weir = server(&[]).origins(&list).start();
    assert_eq!(answers(&weir, 8), "aaaaaabb");
}

#[test]
fn a_backup_serves_when_all_others_are_out() {
    let (a, b) = (named("a"), named("b"));
    let list = format!("\"{}\", {{ url = \"{}\", backup = true }}", a.url(), b.url());
    let weir = server(&[]).origins(&list).upstream("eject = { failures = 1 }").start();
    assert_eq!(answers(&weir, 4), "aaaa");
    drop(a);
    // The failing origin may come first.
    weir.get("/");
    assert_eq!(answers(&weir, 4), "bbbb");
}

#[test]
fn an_origin_that_fails_is_left_out_and_taken_back() {
    let (good, bad) = (named("g"), Origin::start());
    bad.raw("/", "");
    let eject = "eject = { failures = 2, time = \"1s\", time_max = \"1s\" }";
    let weir = server(&[&good, &bad]).upstream(eject).start();
    for _ in 0..6 {
        assert_eq!(weir.get("/").text(), "g", "an idempotent request is tried again elsewhere");
    }
    let asked = bad.count("/");
    assert!((1..=3).contains(&asked), "{asked}");
    bad.put("/", Resource::new("b").header("Cache-Control", "no-store"));
    until("the mended origin is asked again", || weir.get("/").text() == "b");
}

#[test]
fn an_origin_that_dies_and_comes_back_is_spoken_of_once_each() {
    let origin = named("a");
    let address = origin.addr();
    let weir = server(&[&origin]).start();
    assert_eq!(answers(&weir, 1), "a");
    drop(origin);
    (0..3).for_each(|_| assert_eq!(weir.get("/").status(), 502));
    weir.await_stderr("origin is gone");
    assert!(weir.stderr().contains("connection refused"), "{}", weir.stderr());
    let again = Origin::listen(&address.to_string());
    again.put("/", Resource::new("a").header("Cache-Control", "no-store"));
    until("it is asked again", || weir.get("/").status() == 200);
    weir.await_stderr("origin is back");
    assert_eq!(answers(&weir, 3), "aaa");
    let said = |text: &str| weir.stderr().matches(text).count();
    assert_eq!((said("origin is gone"), said("origin is back")), (1, 1), "{}", weir.stderr());
}

#[test]
fn an_idempotent_request_is_tried_again_and_another_is_not() {
    let origin = Origin::start();
    let fails = Arc::new(AtomicUsize::new(0));
    let count = fails.clone();
    origin.otherwise(move |exchange| {
        exchange.body();
        if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            return exchange.close();
        }
        exchange.reply(200, &[("Cache-Control", "no-store")], "x");
    });
    let weir = before(&origin);
    assert_eq!(weir.get("/").text(), "x");
    assert_eq!(origin.count("/"), 2);
    let mut client = weir.client();
    client.send("POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(client.recv().unwrap().status(), 502);
    assert_eq!(origin.count("/post"), 1);
}

#[test]
fn connections_are_pooled_and_a_stale_one_does_no_harm() {
    let origin = named("a");
    let weir = before(&origin);
    assert_eq!(answers(&weir, 10), "aaaaaaaaaa");
    assert!(origin.connections() <= 2, "{}", origin.connections());
    origin.drop_connections();
    assert_eq!(answers(&weir, 5), "aaaaa");
}

#[test]
fn a_unix_origin_is_reached() {
    let setup = setup();
    let origin = Origin::unix(&setup.folder().join("origin.sock"));
    origin.put("/x", Resource::fresh("by unix"));
    let weir = setup.run(&origin.url());
    assert_eq!(weir.get("/x").text(), "by unix");
    assert!(weir.get("/x").is_hit());
}

#[test]
fn an_https_origin_is_verified() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let origin = Origin::https(&authority, &["localhost"]);
    origin.put("/x", Resource::fresh("by tls"));
    let start = |pem: &str, name: &str, more: &str| {
        let setup = setup();
        let ca = setup.file("ca.pem", pem);
        let trust = if pem.is_empty() {
            "verify = false".to_owned()
        } else {
            format!("ca_file = \"{}\"", ca.display())
        };
        let tls = format!("tls = {{ {trust}{more} }}");
        server(&[]).origins(&format!("\"{}\"", origin.url_by_name(name))).upstream(&tls).start_in(setup)
    };
    assert_eq!(start(authority.pem(), "localhost", "").get("/x").text(), "by tls");
    assert_eq!(start(stranger.pem(), "localhost", "").get("/x").status(), 502);
    assert_eq!(start(authority.pem(), "127.0.0.1", "").get("/x").status(), 502);
    assert_eq!(start(authority.pem(), "127.0.0.1", ", sni = \"localhost\"").get("/x").text(), "by tls");
    assert_eq!(start("", "localhost", "").get("/x").text(), "by tls");
    assert_eq!(start(authority.pem(), "localhost", "").get("/x").header("proxy-status"), None);
}

#[test]
fn a_client_certificate_is_shown_where_there_is_one() {
    let authority = Authority::new();
    let origin = Origin::https_for_clients_of(&authority, &["localhost"]);
    origin.put("/x", Resource::fresh("by tls"));
    let start = |certified: bool| {
        let setup = setup();
        let (certificate, key) = authority.issue(&["weir"]);
        let ca = setup.file("ca.pem", authority.pem());
        let (certificate, key) = (setup.file("cert.pem", certificate), setup.file("key.pem", key));
        let mut tls = format!("ca_file = \"{}\"", ca.display());
        if certified {
            tls +=
                &format!(", client_cert = \"{}\", client_key = \"{}\"", certificate.display(), key.display());
        }
        let origins = format!("\"{}\"", origin.url_by_name("localhost"));
        server(&[]).origins(&origins).upstream(&format!("tls = {{ {tls} }}")).start_in(setup)
    };
    assert_eq!(start(true).get("/x").text(), "by tls");
    assert_eq!(start(false).get("/x").status(), 502);
}

#[test]
fn the_flags_send_the_origins_own_name() {
    let origin = Origin::start();
    origin.echo("/x", &[("Cache-Control", "no-store")]);
    origin.on("/moved", |exchange| {
        let host = exchange.request.header("host").unwrap_or_default();
        exchange.reply(302, &[("Location", &format!("http://{host}/there"))], "");
    });
    let weir = setup().run(&origin.url_by_name("localhost"));
    let mut client = weir.client();
    let text = client.get("client.example", "/x", &[]).text().to_lowercase();
    assert!(text.contains(&format!("host: localhost:{}\r\n", origin.addr().port())), "{text}");
    let moved = client.get("client.example", "/moved", &[]);
    assert_eq!(moved.header("location").as_deref(), Some("http://client.example/there"), "{:?}", moved.head);
}

#[test]
fn connections_to_an_origin_are_capped() {
    let (origin, gate) = (Origin::start(), Gate::new());
    for number in 0..6 {
        origin.put(&format!("/{number}"), Resource::new("x").head_gate(&gate));
    }
    let weir = server(&[&origin]).upstream("connections = 2").start();
    let mut clients: Vec<Client> = (0..6).map(|_| weir.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send_get("x", &format!("/{number}"), &[]);
    }
    until("both connections are in use", || origin.running_peak() == 2);
    std::thread::sleep(Duration::from_millis(200));
    gate.open();
    for client in &mut clients {
        assert_eq!(client.recv().unwrap().status(), 200);
    }
    assert_eq!(origin.running_peak(), 2);
}

#[test]
fn beyond_the_queue_is_a_503_with_retry_after() {
    let (origin, gate) = (Origin::start(), Gate::new());
    for number in 0..3 {
        origin.put(&format!("/{number}"), Resource::new("x").head_gate(&gate));
    }
    let weir = server(&[&origin]).upstream("connections = 1\nqueue = 1\nqueue_wait = \"600ms\"").start();
    let (mut first, mut second, mut third) = (weir.client(), weir.client(), weir.client());
    first.send_get("x", "/0", &[]);
    until("the only connection is in use", || origin.total() == 1);
    second.send_get("x", "/1", &[]);
    std::thread::sleep(Duration::from_millis(150));
    third.send_get("x", "/2", &[]);
    for client in [&mut third, &mut second] {
        let answer = client.recv().unwrap();
        assert_eq!(answer.status(), 503, "{:?}", answer.head);
        assert!(answer.header("retry-after").is_some(), "{:?}", answer.head);
    }
    gate.open();
    assert_eq!(first.recv().unwrap().status(), 200);
    assert_eq!(origin.total(), 1);
}

#[test]
fn a_full_queue_answers_stale_where_it_may() {
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.put("/x", Resource::new("old").header("Cache-Control", "max-age=1, stale-if-error=60"));
    origin.put("/busy", Resource::new("x").head_gate(&gate));
    let weir = server(&[&origin]).upstream("connections = 1\nqueue = 0").start();
    weir.get("/x");
    std::thread::sleep(Duration::from_millis(2100));
    let mut busy = weir.client();
    busy.send_get("x", "/busy", &[]);
    origin.await_count("/busy", 1);
    assert_eq!(weir.get("/x").text(), "old");
    gate.open();
}

#[test]
fn an_answer_with_a_large_head_is_a_502() {
    let origin = Origin::start();
    origin.put("/large", Resource::new("x").header("X-A", &"a".repeat(66_000)));
    origin.on("/many", |exchange| {
        let fields = "X-A: a\r\n".repeat(201);
        exchange.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 1\r\n\r\nx"));
    });
    origin.put("/fine", Resource::new("x").header("X-A", &"a".repeat(50_000)));
    let weir = before(&origin);
    assert_eq!(
        [weir.get("/large").status(), weir.get("/many").status(), weir.get("/fine").status()],
        [502, 502, 200]
    );
}
