//! HEAD that fills the cache: what happens to the body that nobody reads.

use weir_testkit::{Gate, Origin, Resource, pattern, until};

use crate::server::server;

#[test]
fn the_body_goes_on_into_the_cache_after_the_head_has_gone_out() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let body = pattern(1, 24 << 20);
    origin.put("/x", Resource::fresh(&body).body_gate(1 << 20, &gate));
    let weir = server(&[&origin]).site("head = \"fill\"").start();
    let mut client = weir.client();
    client.send("HEAD /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = client.recv_head().unwrap();
    assert_eq!((head.status(), head.header("content-length")), (200, Some(body.len().to_string())));
    drop(client);
    // Most of it has not come yet. A GET reads the fill that the HEAD led.
    let mut reader = weir.client();
    reader.send_get("localhost", "/x", &[]);
    until("the GET waits", || weir.metric("weir_requests_running") == Some(1.0));
    gate.open();
    assert!(reader.recv().unwrap().body == body);
    until("the body is stored", || weir.get("/x").is_hit());
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn without_any_reader_it_is_stored_as_well() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let body = pattern(2, 24 << 20);
    origin.put("/x", Resource::fresh(&body).body_gate(1 << 20, &gate));
    let weir = server(&[&origin]).site("head = \"fill\"").start();
    let mut client = weir.client();
    client.send("HEAD /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.recv_head().unwrap().status(), 200);
    drop(client);
    gate.open();
    let stored = format!("{}", body.len());
    until("the fill ends", || weir.metric("weir_fills_running").is_none_or(|running| running == 0.0));
    let whole = weir.get("/x");
    assert_eq!(whole.header("content-length"), Some(stored));
    assert!(whole.is_hit() && whole.body == body, "{:?}", whole.head);
    assert_eq!(origin.count("/x"), 1);
}
