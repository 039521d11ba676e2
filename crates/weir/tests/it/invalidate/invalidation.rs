//! What unsafe requests invalidate (RFC 9111 §4.4), and that no client can harm others with them.

use weir_testkit::{Client, Gate, Origin, Resource, Weir, pattern};

use crate::server::before;

/// More marks than this once made the ledger drop them all, and with them all that was in flight.
const POSTS: usize = 8400;
const LANES: usize = 4;

fn post(weir: &Weir, client: &mut Client, target: &str) {
    client.send(format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"));
    let answer = client.recv().unwrap();
    assert_eq!(answer.status(), 204, "{target} of {}", weir.addr());
}

/// Sends unsafe requests to as many URLs.
fn flood(weir: &Weir) {
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            scope.spawn(move || {
                let mut client = weir.client();
                for number in 0..POSTS / LANES {
                    post(weir, &mut client, &format!("/post/{lane}/{number}"));
                }
            });
        }
    });
}

fn origin() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.reply(204, &[], "");
    });
    origin
}

#[test]
fn unsafe_requests_to_unknown_urls_keep_no_download_out_of_the_cache() {
    let (origin, gate, body) = (origin(), Gate::new(), pattern(1, 200_000));
    origin.put("/film", Resource::fresh(&body).body_gate(100_000, &gate));
    let weir = before(&origin);
    let mut reader = weir.client();
    reader.send_get("localhost", "/film", &[]);
    origin.await_count("/film", 1);
    flood(&weir);
    gate.open();
    assert!(reader.recv().unwrap().body == body);
    assert!(weir.get("/film").is_hit());
    assert_eq!((origin.count("/film"), weir.metric("weir_ledger_marks")), (1, Some(0.0)));
}

#[test]
fn an_unsafe_request_invalidates_a_fill_under_way() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let inner = gate.clone();
    origin.on("/x", move |exchange| {
        if exchange.request.method == "POST" {
            exchange.reply(204, &[], "");
            return;
        }
        inner.pass();
        exchange.reply(200, &[("Cache-Control", "max-age=60")], "page");
    });
    let weir = before(&origin);
    let mut reader = weir.client();
    reader.send_get("localhost", "/x", &[]);
    origin.await_count("/x", 1);
    post(&weir, &mut weir.client(), "/x");
    gate.open();
    assert_eq!(reader.recv().unwrap().text(), "page");
    assert!(!weir.get("/x").is_hit(), "it was asked for before");
    assert!(weir.get("/x").is_hit());
}
