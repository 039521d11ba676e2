//! Interim responses on connections (RFC 9110 §15.2). How they stand around the store is asked of the walk
//! alone: `crates/weir-edge/tests/walk/targeted.rs`.

use std::time::Duration;

use weir_testkit::{Origin, Resource, until};

use crate::server::{before, server};

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
