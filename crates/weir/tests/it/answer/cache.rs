//! The store behind the real binary's connections. What is answered from it, and what is not, is asked of the
//! walk alone: `crates/weir-edge/tests/walk/cache.rs`.

use weir_testkit::{Client, Origin, Resource};

use crate::server::{before, server};

#[test]
fn a_miss_is_stored_and_then_hit() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    let weir = before(&origin);
    let (first, second) = (weir.get("/x"), weir.get("/x"));
    assert_eq!((first.text(), second.text()), ("hello".to_owned(), "hello".to_owned()));
    assert_eq!(first.fwd().as_deref(), Some("uri-miss"), "{:?}", first.head);
    assert!(first.cache_status().contains("stored"), "{:?}", first.head);
    assert!(second.is_hit(), "{:?}", second.head);
    assert!(second.age().is_some_and(|age| age <= 5), "{:?}", second.head);
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn hop_by_hop_fields_are_neither_stored_nor_forwarded() {
    let origin = Origin::start();
    origin.raw_kept(
        "/x",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\
        Keep-Alive: timeout=9\r\n\
         Proxy-Authenticate: Basic\r\nX-End: 2\r\nContent-Length: 1\r\n\r\nx",
    );
    let weir = before(&origin);
    let headers = [
        ("Connection", "X-Mine"),
        ("X-Mine", "1"),
        ("TE", "trailers"),
        ("Keep-Alive", "300"),
        ("X-Yours", "2"),
    ];
    for _ in 0..2 {
        let response = weir.get_with("/x", &headers);
        assert_eq!(response.header("x-end").as_deref(), Some("2"));
        for gone in ["x-hop", "proxy-authenticate"] {
            assert_eq!(response.header(gone), None, "{:?}", response.head);
        }
    }
    let asked = &origin.requests("/x")[0];
    assert_eq!(asked.header("x-yours").as_deref(), Some("2"));
    assert!(asked.header("x-mine").is_none() && asked.header("te").is_none(), "{asked:?}");
}

#[test]
fn one_connection_serves_hits_and_misses_in_turn() {
    let origin = Origin::start();
    origin.put("/fresh", Resource::fresh("a"));
    origin.put("/pass", Resource::new("b").header("Cache-Control", "no-store"));
    let weir = before(&origin);
    let mut client = Client::connect(weir.addr());
    for round in 0..20 {
        assert_eq!(client.get("localhost", "/fresh", &[]).is_hit(), round > 0);
        assert_eq!(client.get("localhost", "/pass", &[]).text(), "b");
    }
    assert_eq!((origin.count("/fresh"), origin.count("/pass")), (1, 20));
}

#[test]
fn the_ceiling_of_memory_holds() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let body = vec![b'x'; 1 << 20];
        exchange.reply(200, &[("Cache-Control", "max-age=600")], body);
    });
    let weir = server(&[&origin]).top("[cache]\nmemory = \"16MiB\"").start();
    let mut client = weir.client();
    for number in 0..100 {
        assert_eq!(client.get("localhost", &format!("/{number}"), &[]).body.len(), 1 << 20);
    }
    let used = weir.metric("weir_cache_memory_bytes").unwrap_or(f64::MAX);
    assert!(used <= f64::from(16 << 20), "{used} bytes of 16 MiB");
    assert!(client.get("localhost", "/99", &[]).is_hit());
    assert!(!client.get("localhost", "/0", &[]).is_hit());
}
