//! The bounds of fills, and what happens to one whose origin breaks off in the middle.

use std::time::Duration;

use weir_testkit::{Client, Exchange, Gate, Origin, Resource, Shape, Trouble, Weir, pattern, until};

use crate::server::{before, server};

/// The most fills at one origin at a time.
const FILLS_MAX: usize = 128;

fn ask(weir: &Weir, target: &str) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", target, &[]);
    client
}

#[test]
fn a_request_that_joined_a_headless_fill_fetches_by_itself_in_the_end() {
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.put("/x", Resource::fresh("hello").head_gate(&gate));
    let weir = before(&origin);
    let mut clients = [ask(&weir, "/x"), ask(&weir, "/x")];
    origin.await_count("/x", 2);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.recv().unwrap().text(), "hello");
    }
}

#[test]
fn more_fills_than_an_origin_may_have_pass() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let paths: Vec<String> = (0..FILLS_MAX + 3).map(|number| format!("/{number}")).collect();
    for path in &paths {
        origin.put(path, Resource::fresh("hello").head_gate(&gate));
    }
    let weir = before(&origin);
    let mut clients: Vec<Client> = paths.iter().map(|path| ask(&weir, path)).collect();
    // Some have a fill, and some have none and fetch all the same.
    until("all are under way", || origin.total() == paths.len());
    gate.open();
    for client in &mut clients {
        assert_eq!(client.recv().unwrap().text(), "hello");
    }
    let hits = paths.iter().filter(|path| weir.get(path).is_hit()).count();
    assert_eq!(hits, FILLS_MAX);
    assert!(weir.get("/0").is_hit(), "there is room again");
}

const BODY_BYTES: usize = 50_000;
const FIRST_BYTES: usize = 20_000;

/// How the first transfer ends.
#[derive(Clone, Copy, Debug)]
enum Break {
    Close,
    Reset,
    Stall,
}

/// Sends the first bytes under the tag `"1"` and breaks off. `rest` answers a Range, with its start.
fn breaking(
    origin: &Origin,
    (shape, how): (Shape, Break),
    tag: &'static str,
    rest: impl Fn(&mut Exchange<'_>, usize, &[u8]) + Send + Sync + 'static,
) {
    let body = pattern(1, BODY_BYTES);
    origin.on("/x", move |exchange| {
        if let Some(range) = exchange.request.header("range") {
            let start: usize = range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap();
            return rest(exchange, start, &body[start..]);
        }
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nETag: {tag}\r\n");
        let first = &body[..FIRST_BYTES];
        match shape {
            Shape::Chunked(_) => {
                exchange.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", FIRST_BYTES));
                exchange.send(first);
                exchange.send("\r\n");
            }
            _ => {
                exchange.send(format!("{head}Content-Length: {BODY_BYTES}\r\n\r\n"));
                exchange.send(first);
            }
        }
        match how {
            Break::Close => exchange.close(),
            Break::Reset => exchange.reset(),
            Break::Stall => {
                exchange.peer_left_within(Duration::from_secs(20));
                exchange.close();
            }
        }
    });
}

fn part(exchange: &mut Exchange<'_>, tag: &str, start: usize, body: &[u8]) {
    let range = format!("bytes {start}-{}/{BODY_BYTES}", BODY_BYTES - 1);
    exchange.reply(206, &[("ETag", tag), ("Content-Range", &range)], body);
}

#[test]
fn a_broken_transfer_goes_on_for_all_readers() {
    let body = pattern(1, BODY_BYTES);
    for shape in [Shape::Length, Shape::Chunked(0)] {
        for how in [Break::Close, Break::Reset, Break::Stall] {
            let origin = Origin::start();
            breaking(&origin, (shape, how), "\"1\"", |exchange, start, body| {
                part(exchange, "\"1\"", start, body)
            });
            let weir = server(&[&origin]).upstream("between_bytes = \"500ms\"").start();
            let mut clients = [ask(&weir, "/x"), ask(&weir, "/x"), ask(&weir, "/x")];
            for client in &mut clients {
                let answer = client.recv().unwrap_or_else(|trouble| panic!("{shape:?} {how:?}: {trouble:?}"));
                assert!(answer.body == body, "{shape:?} {how:?}");
            }
            let asked = origin.requests("/x");
            assert_eq!(asked.len(), 2, "{shape:?} {how:?}");
            assert_eq!(asked[1].header("if-range").as_deref(), Some("\"1\""));
            let held = weir.get("/x");
            assert!(held.is_hit() && held.body == body, "{shape:?} {how:?}: {:?}", held.head);
        }
    }
}

/// Answers with the whole in place of the part that was asked for.
fn whole(exchange: &mut Exchange<'_>, shape: Shape, body: &[u8]) {
    let head = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\n";
    match shape {
        Shape::Chunked(_) => {
            exchange.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len()));
            exchange.send(body);
            exchange.send("\r\n0\r\n\r\n");
        }
        Shape::Close => {
            exchange.send(format!("{head}Connection: close\r\n\r\n"));
            exchange.send(body);
            exchange.close();
        }
        Shape::Length => drop(exchange.reply(200, &[("ETag", "\"1\"")], body)),
    }
}

#[test]
fn a_broken_transfer_of_an_origin_without_parts_skips_what_has_come() {
    let body = pattern(1, BODY_BYTES);
    for shape in [Shape::Length, Shape::Chunked(0)] {
        for again in [Shape::Length, Shape::Chunked(0), Shape::Close] {
            // A whole of unknown length that breaks off as well would look like one that ends.
            let is_taken = again != Shape::Close || shape == Shape::Length;
            let origin = Origin::start();
            breaking(&origin, (shape, Break::Close), "\"1\"", move |exchange, _, _| {
                whole(exchange, again, &pattern(1, BODY_BYTES));
            });
            let weir = before(&origin);
            let mut clients = [ask(&weir, "/x"), ask(&weir, "/x"), ask(&weir, "/x")];
            for client in &mut clients {
                match client.recv() {
                    Ok(answer) => assert!(is_taken && answer.body == body, "{shape:?} {again:?}"),
                    Err(trouble) => assert!(!is_taken, "{shape:?} {again:?}: {trouble:?}"),
                }
            }
            if is_taken {
                assert_eq!(origin.count("/x"), 2, "{shape:?} {again:?}");
                // Readers have the last byte before the fill has seen the end.
                until("it is held", || {
                    let held = weir.get("/x");
                    assert!(held.body == body, "{shape:?} {again:?}: {:?}", held.head);
                    held.is_hit()
                });
            }
        }
    }
}

#[test]
fn what_an_origin_without_parts_sends_again_is_skipped_once() {
    let origin = Origin::start();
    breaking(&origin, (Shape::Length, Break::Close), "\"1\"", |exchange, _, _| {
        exchange.send(format!("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: {BODY_BYTES}\r\n\r\n"));
        exchange.send(&pattern(1, BODY_BYTES)[..FIRST_BYTES]);
        exchange.close();
    });
    let weir = before(&origin);
    let cut = ask(&weir, "/x").recv();
    assert!(matches!(cut, Err(Trouble::Cut(answer)) if answer.body.len() == FIRST_BYTES));
    assert_eq!(origin.count("/x"), 3);
    until("bytes are counted", || {
        weir.metric("weir_origin_body_bytes_total") == Some(2.0 * FIRST_BYTES as f64)
    });
}

#[test]
fn a_broken_transfer_goes_on_without_its_leader() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let inner = gate.clone();
    breaking(&origin, (Shape::Length, Break::Close), "\"1\"", move |exchange, start, body| {
        inner.pass();
        part(exchange, "\"1\"", start, body);
    });
    let weir = before(&origin);
    let mut leader = ask(&weir, "/x");
    leader.recv_head_only().unwrap();
    let mut other = ask(&weir, "/x");
    until("both read", || weir.metric("weir_requests_running").is_some_and(|now| now >= 2.0));
    leader.reset();
    gate.open();
    assert!(other.recv().unwrap().body == pattern(1, BODY_BYTES));
    assert!(weir.get("/x").is_hit());
}

#[test]
fn two_versions_of_a_body_are_never_put_together() {
    type Rest = fn(&mut Exchange<'_>, usize, &[u8]);
    let cases: [(&str, &'static str, Rest); 9] = [
        ("another tag", "\"1\"", |exchange, start, body| part(exchange, "\"2\"", start, body)),
        ("a weak tag", "W/\"1\"", |exchange, start, body| part(exchange, "W/\"1\"", start, body)),
        ("the whole of another", "\"1\"", |exchange, _, _| {
            exchange.reply(200, &[("ETag", "\"2\"")], "another");
        }),
        ("another length", "\"1\"", |exchange, start, body| {
            let range = format!("bytes {start}-{BODY_BYTES}/{}", BODY_BYTES + 1);
            exchange.reply(206, &[("ETag", "\"1\""), ("Content-Range", &range)], [body, b"x"].concat());
        }),
        ("another part", "\"1\"", |exchange, start, body| {
            let range = format!("bytes {}-{}/{BODY_BYTES}", start + 1, BODY_BYTES - 1);
            exchange.reply(206, &[("ETag", "\"1\""), ("Content-Range", &range)], &body[1..]);
        }),
        ("too little", "\"1\"", |exchange, start, body| {
            let range = format!("bytes {start}-{}/{BODY_BYTES}", BODY_BYTES - 1);
            exchange.reply(206, &[("ETag", "\"1\""), ("Content-Range", &range)], &body[..100]);
        }),
        ("an error", "\"1\"", |exchange, _, _| {
            exchange.reply(503, &[], "no");
        }),
        // Its end would be taken for that of the body.
        ("a shorter whole", "\"1\"", |exchange, _, body| whole(exchange, Shape::Chunked(0), &body[..100])),
        ("the whole in another coding", "\"1\"", |exchange, _, _| {
            exchange.reply(200, &[("ETag", "\"1\""), ("Content-Encoding", "gzip")], pattern(1, BODY_BYTES));
        }),
    ];
    for shape in [Shape::Length, Shape::Chunked(0)] {
        for (name, tag, rest) in cases {
            // If the length was not known before, any other will do.
            if name == "another length" && shape != Shape::Length {
                continue;
            }
            let origin = Origin::start();
            breaking(&origin, (shape, Break::Close), tag, rest);
            let weir = before(&origin);
            let mut client = ask(&weir, "/x");
            let trouble = client.recv().map(|answer| answer.body.len());
            assert!(matches!(trouble, Err(Trouble::Cut(_))), "{name} {shape:?}: {trouble:?}");
            origin.put("/x", Resource::fresh("whole"));
            let next = weir.get("/x");
            assert!(next.text() == "whole" && !next.is_hit(), "{name} {shape:?}: {:?}", next.head);
        }
    }
}

#[test]
fn a_body_that_breaks_off_again_and_again_is_given_up() {
    let origin = Origin::start();
    breaking(&origin, (Shape::Length, Break::Close), "\"1\"", |exchange, start, body| {
        let left = BODY_BYTES - start;
        exchange.send(format!(
            "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Length: {left}\r\n\
             Content-Range: bytes {start}-{}/{BODY_BYTES}\r\n\r\n",
            BODY_BYTES - 1
        ));
        exchange.send(&body[..1000]);
        exchange.close();
    });
    let weir = before(&origin);
    let mut client = ask(&weir, "/x");
    assert!(matches!(client.recv(), Err(Trouble::Cut(answer)) if answer.body.len() == FIRST_BYTES + 2000));
    assert_eq!(origin.count("/x"), 3);
}
