//! Interim responses on connections (RFC 9110 §15.2). How they stand around the store is asked of the walk
//! alone: `crates/weir-edge/tests/walk/targeted.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weir_testkit::h2::{flag, hpack};
use weir_testkit::{Frame, Gate, H2Frames, Origin, Resource, until};

use crate::arrive::http2;
use crate::server::{before, server, setup};

#[test]
fn clients_of_http_1_0_get_no_interim_response() {
    let origin = Origin::start();
    let link = ("Link", "</a.css>; rel=preload");
    origin.put("/x", Resource::fresh("hello").interim(103, &[link]).interim(102, &[]));
    origin.put(
        "/pass",
        Resource::new("hello").header("Cache-Control", "no-store").interim(103, &[("X-A", "1")]),
    );
    let weir = before(&origin);
    for path in ["/x", "/pass", "/x"] {
        let mut client = weir.client();
        client.send(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"));
        let answer = client.recv().unwrap();
        assert_eq!((answer.text().as_str(), answer.interim.len()), ("hello", 0), "{path}");
    }
}

#[test]
fn interim_responses_without_end_are_not_waited_for() {
    let origin = Origin::start();
    origin.on("/x", |exchange| {
        while exchange.send("HTTP/1.1 103 Early Hints\r\nX-A: 1\r\n\r\n") {
            std::thread::sleep(Duration::from_millis(1));
        }
        exchange.close();
    });
    let weir = server(&[&origin]).upstream("first_byte = \"2s\"").start();
    let resting = weir.rss();
    let answer = weir.get("/x");
    assert!(matches!(answer.status(), 502 | 504), "{:?}", answer.head);
    assert!(weir.rss().saturating_sub(resting) < 16 << 20);
}

/// The lead drives its fill itself. Others would wait for as long as it does not take an interim response.
#[test]
fn a_client_that_takes_no_interim_response_holds_up_no_other() {
    let (origin, large) = (Origin::start(), "x".repeat(12 << 10));
    let resource =
        (0..15).fold(Resource::fresh("hello"), |resource, _| resource.interim(103, &[("X-A", &large)]));
    origin.put("/x", resource);
    origin.put("/large", Resource::fresh(vec![7; 8 << 20]));
    let weir = before(&origin);
    assert_eq!(weir.get("/large").body.len(), 8 << 20);
    let mut lead = weir.client();
    let socket = lead.socket().tcp().unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(socket, 4 << 10).unwrap();
    // What it is sent before fills its socket.
    lead.send("GET /large HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-65535\r\n\r\n");
    lead.send("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    until("the lead has asked", || origin.count("/x") == 1);
    assert_eq!(weir.get("/x").text(), "hello");
    // Nobody has led another fill instead.
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn a_request_gets_4_kib_of_interim_responses() {
    let (origin, hint) = (Origin::start(), "x".repeat(1000));
    for (path, resource) in [
        ("/stored", Resource::fresh("hello")),
        ("/passed", Resource::new("hello").header("Cache-Control", "no-store")),
    ] {
        origin.put(path, (0..15).fold(resource, |resource, _| resource.interim(103, &[("X-A", &hint)])));
    }
    let weir = http2::weir(&origin, "");
    for path in ["/stored", "/passed"] {
        let mut client = weir.client();
        // The second request of a connection has as much as the first.
        for path in [path, "/passed"] {
            let answer = client.get("localhost", path, &[]);
            let interims = answer.interim.len();
            assert!(answer.text() == "hello" && (1..=4).contains(&interims), "{path}: {interims}");
        }
    }
    let mut client = http2::client(&weir);
    for path in ["/passed", "/passed"] {
        let answer = client.get(http2::HOST, path, &[]);
        let interims = answer.interim.len();
        assert!(answer.text() == "hello" && (1..=4).contains(&interims), "{path} over HTTP/2: {interims}");
    }
}

/// What they are sent waits in the process: heads are beyond the windows of HTTP/2.
#[test]
fn interim_responses_do_not_pile_up_for_clients_that_read_nothing() {
    const STREAMS: u32 = 34;
    let (origin, gate, sent) = (Origin::start(), Gate::new(), Arc::<AtomicUsize>::default());
    let (hint, passed, counted) = ("x".repeat(50_000), gate.clone(), sent.clone());
    origin.on("/x", move |exchange| {
        for _ in 0..15 {
            exchange.send(format!("HTTP/1.1 103 Early Hints\r\nX-A: {hint}\r\n\r\n"));
        }
        counted.fetch_add(1, Ordering::SeqCst);
        passed.pass();
        exchange.reply(200, &[("Cache-Control", "no-store")], "hello");
    });
    let weir = setup().run_config(&format!(
        "[admin]\nlisten = \"{{admin}}\"\n[limits]\nsend_stall = \"10m\"\n[cache]\nmemory = \"32MiB\"\n\
         [[listen]]\naddress = \"{{listen}}\"\nprotocols = [\"h2\", \"http/1.1\"]\n\
         [upstream.main]\norigins = [\"{}\"]\nconnections = 1000\n\
         [[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n",
        origin.url()
    ));
    let resting = weir.anonymous();
    let clients: Vec<H2Frames> = (0..3)
        .map(|_| {
            let mut client = H2Frames::connect(weir.addr());
            client.begin(&[]);
            for number in 0..STREAMS {
                let fields =
                    [(":method", "POST"), (":scheme", "http"), (":authority", http2::HOST), (":path", "/x")];
                let block = hpack::literals(fields);
                client.send_frame(&Frame::headers(2 * number + 1, flag::END_STREAM, block));
            }
            client
        })
        .collect();
    until("all have been sent their hints", || sent.load(Ordering::SeqCst) == 3 * STREAMS as usize);
    assert_eq!(weir.get("/nothing").status(), 404);
    // 76 MB were sent. What is being read of them is in memory for a while.
    until("little of them is held", || weir.anonymous().saturating_sub(resting) < 32 << 20);
    gate.open();
    drop(clients);
}
