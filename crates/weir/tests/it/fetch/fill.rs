//! One transfer for many readers, and what happens to it when the origin or a reader fails.

use std::time::{Duration, Instant};

use weir_testkit::{Client, Fault, Gate, Origin, Resource, Response, Shape, Trouble, Weir, pattern, until};

use crate::server::{before, server};

fn ask(weir: &Weir, target: &str) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", target, &[]);
    client
}

/// Sends a request as another client: the kit's own address may name clients.
fn ask_as(weir: &Weir, target: &str, number: usize) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", target, &[("X-Forwarded-For", &format!("192.0.2.{number}"))]);
    client
}

/// Waits until this many requests are under way.
fn await_running(weir: &Weir, n: f64) {
    until(&format!("{n} requests under way"), || {
        weir.metric("weir_requests_running").is_some_and(|now| now >= n)
    });
}

#[test]
fn clients_of_one_cold_object_share_one_request() {
    let body = pattern(1, 300_000);
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.put("/x", Resource::fresh(&body).head_gate(&gate));
    let weir = before(&origin);
    let mut clients: Vec<Client> = (0..50).map(|_| ask(&weir, "/x")).collect();
    await_running(&weir, 50.0);
    gate.open();
    let answers: Vec<Response> = clients.iter_mut().map(|client| client.recv().unwrap()).collect();
    assert!(answers.iter().all(|answer| answer.body == body));
    let collapsed = answers.iter().filter(|answer| answer.cache_status().contains("collapsed")).count();
    assert_eq!((origin.count("/x"), collapsed), (1, 49));
}

#[test]
fn bytes_are_passed_on_as_they_arrive() {
    for shape in [Shape::Length, Shape::Chunked(1000), Shape::Close] {
        let (origin, gate) = (Origin::start(), Gate::new());
        origin.put("/x", Resource::fresh(pattern(1, 50_000)).shape(shape).body_gate(10_000, &gate));
        let weir = before(&origin);
        let mut first = ask(&weir, "/x");
        first.recv_head_only().unwrap();
        let mut got = 0;
        while got < 10_000 {
            let piece = first.read_some();
            assert!(!piece.is_empty(), "{shape:?}: {got} bytes came while the origin holds the rest");
            got += piece.len();
        }
        gate.open();
    }
}

#[test]
fn a_late_reader_gets_the_whole_body() {
    let body = pattern(1, 200_000);
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.put("/x", Resource::fresh(&body).body_gate(150_000, &gate));
    let weir = before(&origin);
    let mut leader = ask(&weir, "/x");
    leader.recv_head_only().unwrap();
    let mut late = ask(&weir, "/x");
    late.recv_head_only().unwrap();
    gate.open();
    let mut got = Vec::new();
    while got.len() < body.len() {
        let piece = late.read_some();
        assert!(!piece.is_empty(), "cut after {}", got.len());
        got.extend(piece);
    }
    assert!(got == body);
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn a_leaving_leader_leaves_the_others_whole() {
    let body = pattern(1, 400_000);
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.put("/x", Resource::fresh(&body).body_gate(100_000, &gate));
    let weir = before(&origin);
    let mut leader = ask(&weir, "/x");
    leader.recv_head_only().unwrap();
    let mut others: Vec<Client> = (0..5).map(|_| ask(&weir, "/x")).collect();
    await_running(&weir, 6.0);
    leader.reset();
    std::thread::sleep(Duration::from_millis(100));
    gate.open();
    for other in &mut others {
        assert!(other.recv().unwrap().body == body);
    }
    assert_eq!(origin.count("/x"), 1);
    assert!(weir.get("/x").is_hit());
}

#[test]
fn a_slow_reader_does_not_slow_others() {
    let body = pattern(1, 24 << 20);
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(&body));
    let weir = before(&origin);
    let mut slow = ask(&weir, "/x");
    slow.recv_head_only().unwrap();
    let fast = weir.get("/x");
    assert!(fast.body == body);
    let mut got = Vec::new();
    while got.len() < body.len() {
        let piece = slow.read_some();
        assert!(!piece.is_empty(), "the slow reader was cut after {}", got.len());
        got.extend(piece);
    }
    assert!(got == body);
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn a_truncated_body_never_ends_cleanly_and_is_not_stored() {
    for shape in [Shape::Length, Shape::Chunked(1000)] {
        for fault in [Fault::Truncate(20_000), Fault::Reset(20_000), Fault::Truncate(0)] {
            let origin = Origin::start();
            origin.put("/x", Resource::fresh(pattern(1, 50_000)).shape(shape).fault(fault));
            let weir = before(&origin);
            for version in ["1.1", "1.0"] {
                let mut client = weir.client();
                client.send(format!("GET /x HTTP/{version}\r\nHost: localhost\r\n\r\n"));
                match client.recv() {
                    Err(Trouble::Cut(_)) => {}
                    // A response that ends with its connection is cut by a reset, which this client also
                    // reads as an error.
                    Ok(answer) if answer.status() == 502 => {}
                    other => panic!("{shape:?} {fault:?} HTTP/{version}: {other:?}"),
                }
            }
            origin.put("/x", Resource::fresh("whole"));
            let next = weir.get("/x");
            assert!(next.text() == "whole" && !next.is_hit(), "{shape:?} {fault:?}: {:?}", next.head);
        }
    }
}

#[test]
fn a_stalled_body_is_cut_for_all_and_not_stored() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(pattern(1, 50_000)).fault(Fault::Stall(20_000)));
    let weir = server(&[&origin]).upstream("between_bytes = \"400ms\"").start();
    let begun = Instant::now();
    let mut clients = [ask(&weir, "/x"), ask(&weir, "/x")];
    for client in &mut clients {
        assert!(matches!(client.recv(), Err(Trouble::Cut(answer)) if answer.body.len() <= 20_000));
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
    origin.put("/x", Resource::fresh("whole"));
    assert_eq!(weir.get("/x").text(), "whole");
}

#[test]
fn no_answer_is_a_502_and_a_late_one_a_504() {
    let origin = Origin::start();
    origin.raw("/closed", "");
    origin.put("/late", Resource::fresh("x").head_delay(Duration::from_secs(3)));
    let weir = server(&[&origin]).upstream("first_byte = \"1s\"").start();
    for (path, status) in [("/closed", 502), ("/late", 504)] {
        let answer = weir.get(path);
        assert_eq!(answer.status(), status, "{:?}", answer.head);
        let proxy_status = answer.header("proxy-status").unwrap_or_default();
        assert!(proxy_status.contains("error="), "{path}: {proxy_status}");
    }
}

#[test]
fn an_unreachable_origin_is_a_502_with_its_reason() {
    let origin = Origin::start();
    let (weir, address) = (before(&origin), origin.addr());
    drop(origin);
    until("nobody listens there any more", || std::net::TcpStream::connect(address).is_err());
    let answer = weir.get("/x");
    assert_eq!(answer.status(), 502, "{:?}", answer.head);
    assert!(
        answer.header("proxy-status").unwrap_or_default().contains("connection_refused"),
        "{:?}",
        answer.head
    );
}

#[test]
fn malformed_responses_are_a_502_and_their_connections_not_used_again() {
    let bad = [
        "HTTP/1.1 200 OK\nContent-Length: 1\n\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy",
        "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
        "HTTP/1.1 2x0 OK\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nBad Name: 1\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nX-Fold: 1\r\n 2\r\nContent-Length: 1\r\n\r\nx",
        "SSH-2.0-x\r\n\r\n",
    ];
    let origin = Origin::start();
    let weir = before(&origin);
    for (number, bytes) in bad.iter().enumerate() {
        let path = format!("/{number}");
        origin.raw_kept(&path, bytes);
        let answer = weir.get(&path);
        assert_eq!(answer.status(), 502, "{bytes:?}: {:?}", answer.head);
        assert!(answer.header("proxy-status").is_some(), "{bytes:?}: {:?}", answer.head);
    }
    let asked = origin.seen();
    let mut connections: Vec<usize> = asked.iter().map(|seen| seen.request.connection).collect();
    connections.dedup();
    assert_eq!(connections.len(), asked.len(), "{connections:?}");
}

#[test]
fn bytes_after_a_response_are_never_another_response() {
    let origin = Origin::start();
    let smuggled = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    origin.raw_kept("/a", format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx{smuggled}"));
    origin.put("/b", Resource::new("good"));
    let weir = before(&origin);
    for _ in 0..5 {
        assert_eq!(weir.get("/a").text(), "x");
        assert_eq!(weir.get("/b").text(), "good");
    }
}

#[test]
fn a_chunked_body_is_stored_and_gets_a_length() {
    let body = pattern(1, 70_001);
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(&body).shape(Shape::Chunked(999)));
    let weir = before(&origin);
    assert!(weir.get("/x").body == body);
    let second = weir.get("/x");
    assert!(second.is_hit() && second.body == body, "{:?}", second.head);
    assert_eq!(second.header("content-length").as_deref(), Some("70001"));
}

#[test]
fn a_close_delimited_body_is_stored_only_if_the_route_allows_it() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello").shape(Shape::Close));
    origin.put("/y", Resource::fresh("hello").shape(Shape::Close));
    let weir = server(&[&origin]).site("[[site.route]]\npath = \"/y\"\nclose_delimited = \"store\"").start();
    for path in ["/x", "/y"] {
        assert_eq!(weir.get(path).text(), "hello");
        assert_eq!(weir.get(path).text(), "hello");
    }
    assert_eq!((origin.count("/x"), origin.count("/y")), (2, 1));
}

#[test]
fn waiting_requests_for_a_private_response_each_get_their_own() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let inner = gate.clone();
    origin.on("/x", move |exchange| {
        inner.pass();
        let own = exchange.request.header("x-own").unwrap_or_default();
        exchange.reply(200, &[("Cache-Control", "private")], own);
    });
    let weir = before(&origin);
    let mut clients: Vec<Client> = (0..8).map(|_| weir.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send_get("localhost", "/x", &[("X-Own", &number.to_string())]);
    }
    await_running(&weir, 8.0);
    gate.open();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.recv().unwrap().text(), number.to_string());
    }
    assert_eq!(origin.count("/x"), 8);
}

#[test]
fn an_error_is_shared_by_waiting_requests_and_not_stored() {
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.put("/x", Resource::new("no").status(503).head_gate(&gate));
    let weir = before(&origin);
    let mut clients: Vec<Client> = (0..8).map(|number| ask_as(&weir, "/x", number)).collect();
    await_running(&weir, 8.0);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.recv().unwrap().status(), 503);
    }
    let asked = origin.count("/x");
    assert!((3..8).contains(&asked), "once three clients have met it, it is everybody's; {asked} asked");
    origin.put("/x", Resource::fresh("yes"));
    assert_eq!(weir.get("/x").text(), "yes");
}

#[test]
fn an_object_beyond_half_of_memory_streams_within_the_ceiling() {
    let body = pattern(1, 40 << 20);
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(&body));
    origin.put("/chunked", Resource::fresh(&body).shape(Shape::Chunked(60_000)));
    let weir = server(&[&origin]).top("[cache]\nmemory = \"16MiB\"").start();
    let before = weir.rss();
    for path in ["/x", "/chunked"] {
        let mut slow = ask(&weir, path);
        slow.recv_head_only().unwrap();
        assert!(weir.get(path).body == body, "{path}");
        assert!(weir.get(path).body == body, "{path}");
        slow.reset();
    }
    let grown = weir.rss_peak().saturating_sub(before);
    assert!(grown < 64 << 20, "grew by {grown} bytes");
}

#[test]
fn an_origin_is_read_no_faster_than_the_client_reads() {
    let origin = Origin::start();
    let (size, sent) = (200usize << 20, std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    let count = sent.clone();
    origin.on("/x", move |exchange| {
        exchange
            .send(format!("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: {size}\r\n\r\n"));
        let piece = vec![b'x'; 1 << 20];
        while exchange.send(&piece) {
            if count.fetch_add(piece.len(), std::sync::atomic::Ordering::SeqCst) + piece.len() >= size {
                return;
            }
        }
        exchange.close();
    });
    let weir = before(&origin);
    let mut client = ask(&weir, "/x");
    client.recv_head_only().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let ahead = sent.load(std::sync::atomic::Ordering::SeqCst);
    assert!(ahead < 64 << 20, "{ahead} bytes were taken for a client that reads none");
}

#[test]
fn a_trailer_reaches_the_client_of_a_chunked_response() {
    let origin = Origin::start();
    origin.put("/x", Resource::new("hello").trailer("X-Sum", "1"));
    let weir = before(&origin);
    let answer = weir.get_with("/x", &[("TE", "trailers"), ("Connection", "TE")]);
    assert_eq!(answer.text(), "hello");
    assert_eq!(answer.trailers, [("X-Sum".to_owned(), "1".to_owned())].map(|(n, v)| (n.to_lowercase(), v)));
}

/// A removed or replaced field does not come before or behind the response either.
#[test]
fn removed_fields_are_in_no_interim_response_and_no_trailer() {
    let origin = Origin::start();
    let fields = [("Link", "</a>"), ("X-Secret", "1"), ("x_secret", "2"), ("X-Mine", "3")];
    for (path, control) in [("/pass", "no-store"), ("/fill", "max-age=60")] {
        let mut resource = Resource::new("hello").header("Cache-Control", control).interim(103, &fields);
        for (name, value) in fields {
            resource = resource.header(name, value).trailer(name, value);
        }
        origin.put(path, resource);
    }
    let edits = "response_headers = { remove = [\"X-Secret\"], set = { X-Mine = \"mine\" } }";
    let weir = server(&[&origin]).site(edits).start();
    let left = |fields: &[(String, String)]| {
        let mut left: Vec<String> = fields
            .iter()
            .filter(|(name, _)| {
                ["link", "x-secret", "x_secret", "x-mine"].contains(&name.to_lowercase().as_str())
            })
            .map(|(name, value)| format!("{}: {value}", name.to_lowercase()))
            .collect();
        left.sort();
        left.join(", ")
    };
    for path in ["/pass", "/fill", "/fill"] {
        let answer = weir.get_with(path, &[("TE", "trailers"), ("Connection", "TE")]);
        assert_eq!(left(&answer.head.headers), "link: </a>, x-mine: mine", "{path}");
        for interim in &answer.interim {
            assert_eq!(left(&interim.headers), "link: </a>", "{path}");
        }
        let trailers = left(&answer.trailers);
        assert!(trailers == "link: </a>" || (trailers.is_empty() && path == "/fill"), "{path}: {trailers}");
        assert_eq!(answer.interim.len(), usize::from(!answer.is_hit()), "{path}");
    }
}

#[test]
fn interim_responses_are_passed_through() {
    let origin = Origin::start();
    origin.put("/x", Resource::new("x").interim(103, &[("Link", "</a.css>; rel=preload")]));
    let weir = before(&origin);
    let answer = weir.get("/x");
    assert_eq!(answer.interim.len(), 1, "{answer:?}");
    assert_eq!(answer.interim[0].status, 103);
    assert!(answer.interim[0].header("link").is_some());
}

#[test]
fn an_event_stream_is_passed_on_at_once() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let inner = gate.clone();
    origin.on("/events", move |exchange| {
        exchange
            .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        exchange.send("9\r\ndata: 1\n\n\r\n");
        inner.pass();
        exchange.send("9\r\ndata: 2\n\n\r\n0\r\n\r\n");
    });
    let weir = before(&origin);
    let mut clients = [ask(&weir, "/events"), ask(&weir, "/events")];
    for client in &mut clients {
        client.recv_head_only().unwrap();
        let mut first = String::new();
        while !first.contains("data: 1") {
            let piece = client.read_some();
            assert!(!piece.is_empty(), "the first event did not come");
            first.push_str(&String::from_utf8_lossy(&piece));
        }
    }
    gate.open();
}

#[test]
fn an_event_stream_may_be_silent_for_longer_than_other_bodies() {
    let origin = Origin::start();
    origin.on("/events", |exchange| {
        exchange
            .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        for _ in 0..2 {
            exchange.send("9\r\ndata: 1\n\n\r\n");
            std::thread::sleep(Duration::from_millis(900));
        }
        exchange.send("0\r\n\r\n");
    });
    let weir = server(&[&origin]).upstream("between_bytes = \"300ms\"").start();
    assert_eq!(weir.get("/events").text(), "data: 1\n\ndata: 1\n\n");
}

#[test]
fn weirs_own_failure_is_remembered_for_a_second() {
    let origin = Origin::start();
    origin.raw("/x", "");
    let weir = server(&[&origin]).upstream("eject = { failures = 0 }").start();
    let status = |number| ask_as(&weir, "/x", number).recv().unwrap().status();
    assert_eq!(status(0), 502);
    let asked = origin.count("/x");
    for number in 1..40 {
        assert_eq!(status(number), 502);
    }
    assert!(origin.count("/x") <= 9 * asked, "{asked} then {}", origin.count("/x"));
    origin.put("/x", Resource::fresh("back"));
    until("the failure is forgotten", || weir.get("/x").status() == 200);
}

#[test]
fn an_origin_of_http_1_0_is_understood() {
    let origin = Origin::start();
    origin.raw("/x", "HTTP/1.0 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\nhello");
    let weir = before(&origin);
    assert_eq!(weir.get("/x").text(), "hello");
    assert!(weir.get("/x").is_hit());
}

#[test]
fn a_range_of_a_cold_object_is_right_and_costs_one_request() {
    let body = pattern(1, 100_000);
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(&body).etag("\"1\"").ranges());
    let weir = before(&origin);
    let part = weir.get_with("/x", &[("Range", "bytes=70000-70009")]);
    match part.status() {
        206 => assert_eq!(part.body, body[70_000..70_010]),
        200 => assert!(part.body == body),
        other => panic!("{other}: {:?}", part.head),
    }
    assert_eq!(origin.count("/x"), 1);
    assert!(weir.get("/x").body == body);
}
