//! HTTP/1 as clients speak it: connections, pipelines, old versions, expectations, upgrades, request bodies.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weir_testkit::{Client, Origin, Resource, Trouble, Weir, pattern};

use crate::server::{before, server, setup};

fn echoing() -> (Origin, Weir) {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let method = exchange.request.method.clone();
        let mut body = exchange.body();
        body.splice(0..0, format!("{method} {} ", exchange.request.target).into_bytes());
        exchange.reply(200, &[("Cache-Control", "no-store")], body);
    });
    let weir = before(&origin);
    (origin, weir)
}

#[test]
fn a_connection_is_kept_and_closed_where_that_is_asked() {
    let (_origin, weir) = echoing();
    let mut client = weir.client();
    for number in 0..3 {
        assert_eq!(client.get("localhost", &format!("/{number}"), &[]).text(), format!("GET /{number} "));
    }
    let last = client.get("localhost", "/last", &[("Connection", "close")]);
    assert_eq!(last.header("connection").as_deref(), Some("close"), "{:?}", last.head);
    assert!(client.is_closed_within(Duration::from_secs(5)));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::start();
    origin.put("/slow", Resource::new("slow").head_delay(Duration::from_millis(200)));
    origin.put("/fast", Resource::fresh("fast"));
    let weir = before(&origin);
    weir.get("/fast");
    let mut client = weir.client();
    let one = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.send([one("/slow"), one("/fast"), one("/slow"), one("/fast"), one("/missing")].concat());
    let texts: Vec<String> = (0..5).map(|_| client.recv().unwrap().text()).collect();
    assert_eq!(texts[..4], ["slow", "fast", "slow", "fast"]);
}

#[test]
fn a_pipeline_of_many_hits_is_served() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(pattern(1, 1000)));
    let weir = before(&origin);
    weir.get("/x");
    let mut client = weir.client();
    client.send("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(500));
    for _ in 0..500 {
        assert!(client.recv().unwrap().body == pattern(1, 1000));
    }
}

#[test]
fn a_request_may_come_in_any_pieces() {
    let (_origin, weir) = echoing();
    let whole = "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello";
    for size in [1, 2, 3, 7, 20] {
        let mut client = weir.client();
        client.send_split(whole, size);
        assert_eq!(client.recv().unwrap().text(), "POST /x hello");
    }
}

#[test]
fn clients_of_http_1_0_are_served() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello").shape(weir_testkit::Shape::Chunked(2)));
    origin.put("/y", Resource::new("hello").shape(weir_testkit::Shape::Chunked(2)));
    let weir = before(&origin);
    for path in ["/x", "/x", "/y"] {
        let mut client = weir.client();
        client.send(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"));
        let answer = client.recv().unwrap();
        assert_eq!((answer.text().as_str(), answer.header("transfer-encoding")), ("hello", None));
        assert!(client.is_closed_within(Duration::from_secs(5)));
    }
    let mut client = weir.client();
    for _ in 0..2 {
        client.send("GET /x HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
        let answer = client.recv().unwrap();
        assert_eq!(answer.header("connection").map(|v| v.to_lowercase()).as_deref(), Some("keep-alive"));
    }
}

#[test]
fn head_has_the_fields_and_no_body() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    origin.put("/pass", Resource::new("hello!").header("Cache-Control", "no-store"));
    let weir = before(&origin);
    let mut client = weir.client();
    for (path, length) in [("/x", "5"), ("/pass", "6"), ("/x", "5")] {
        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let answer = client.recv_head().unwrap();
        assert_eq!((answer.status(), answer.header("content-length").as_deref()), (200, Some(length)));
    }
    assert_eq!(client.get("localhost", "/x", &[]).text(), "hello");
}

#[test]
fn options_goes_to_the_origin_with_its_target() {
    let (_origin, weir) = echoing();
    let mut client = weir.client();
    client.send("OPTIONS /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.recv().unwrap().text(), "OPTIONS /x ");
    client.send("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.recv().unwrap().text(), "OPTIONS * ");
}

#[test]
fn an_absolute_target_is_as_good_as_a_path() {
    let (origin, weir) = echoing();
    let mut client = weir.client();
    client.send("GET http://localhost/x?a=b HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.recv().unwrap().text(), "GET /x?a=b ");
    assert_eq!(origin.seen()[0].request.header("host").as_deref(), Some("localhost"));
}

#[test]
fn unknown_methods_are_forwarded() {
    let (_origin, weir) = echoing();
    let mut client = weir.client();
    client.send("PROPFIND /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(client.recv().unwrap().text(), "PROPFIND /x x");
}

#[test]
fn a_client_that_expects_100_gets_it() {
    let (_origin, weir) = echoing();
    let mut client = weir.client();
    client.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.recv_head_only().unwrap().status, 100);
    client.send("hello");
    assert_eq!(client.recv().unwrap().text(), "POST /x hello");
    assert_eq!(client.get("localhost", "/y", &[]).text(), "GET /y ");
}

#[test]
fn request_bodies_are_forwarded_in_both_shapes() {
    let (origin, weir) = echoing();
    let mut client = weir.client();
    client.send("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.recv().unwrap().text(), "POST /a hello");
    client.send("POST /b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send_split("2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", 3);
    assert_eq!(client.recv().unwrap().text(), "POST /b hello");
    client.send("POST /c HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.recv().unwrap().text(), "POST /c ");
    assert_eq!(origin.requests("/c")[0].header("content-length").as_deref(), Some("0"));
}

#[test]
fn a_large_request_body_is_streamed() {
    let body = pattern(3, 20 << 20);
    let (_origin, weir) = echoing();
    let resting = weir.rss();
    let mut client = weir.client();
    client.send(format!("PUT /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len()));
    assert!(client.send(&body));
    let answer = client.recv().unwrap();
    assert!(answer.body[b"PUT /x ".len()..] == body);
    let grown = weir.rss_peak().saturating_sub(resting);
    assert!(grown < 16 << 20, "grew by {grown} bytes");
}

#[test]
fn a_request_body_is_taken_no_faster_than_the_origin_takes_it() {
    let origin = Origin::start();
    let gate = weir_testkit::Gate::new();
    let inner = gate.clone();
    origin.on("/x", move |exchange| {
        inner.pass();
        let length = exchange.body().len();
        exchange.reply(200, &[], length.to_string());
    });
    let weir = before(&origin);
    let total = 200usize << 20;
    let mut client = weir.client();
    client.send(format!("PUT /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: {total}\r\n\r\n"));
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let writer = std::thread::spawn(move || {
        let piece = vec![b'x'; 1 << 20];
        while count.load(Ordering::SeqCst) < total && client.send(&piece) {
            count.fetch_add(piece.len(), Ordering::SeqCst);
        }
        client.recv()
    });
    std::thread::sleep(Duration::from_millis(700));
    let ahead = sent.load(Ordering::SeqCst);
    assert!(ahead < 64 << 20, "{ahead} bytes were taken for an origin that reads none");
    gate.open();
    assert_eq!(writer.join().unwrap().unwrap().text(), total.to_string());
}

#[test]
fn a_request_whose_body_is_cut_does_not_reach_the_origin_whole() {
    let origin = Origin::start();
    let (whole, inner) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (whole_in, bodies) = (whole.clone(), inner.clone());
    origin.on("/x", move |exchange| {
        let body = exchange.body();
        bodies.fetch_add(1, Ordering::SeqCst);
        if body.len() == 100 {
            whole_in.fetch_add(1, Ordering::SeqCst);
        }
        exchange.reply(200, &[], "x");
    });
    let weir = before(&origin);
    let mut client = weir.client();
    client.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf");
    std::thread::sleep(Duration::from_millis(200));
    client.reset();
    let mut client = weir.client();
    client.send("POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
    std::thread::sleep(Duration::from_millis(200));
    client.finish();
    client.read_to_end();
    assert_eq!(whole.load(Ordering::SeqCst), 0);
}

#[test]
fn an_early_answer_to_a_request_with_a_body_arrives() {
    let origin = Origin::start();
    origin.on("/x", |exchange| {
        exchange.reply(403, &[("Connection", "close")], "no");
        exchange.close();
    });
    let weir = before(&origin);
    let mut client = weir.client();
    client.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n");
    client.send(vec![b'x'; 100_000]);
    let answer = client.recv().unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (403, "no"));
    // The rest is read and the connection kept, or the connection is closed. What follows is never read as a
    // request.
    client.send(vec![b'x'; 4_900_000]);
    client.send("GET /y HTTP/1.1\r\nHost: localhost\r\n\r\n");
    if let Ok(next) = client.recv() {
        assert_eq!(next.status(), 404, "{:?}", next.head);
    }
}

#[test]
fn a_refusal_survives_the_bytes_that_follow_it() {
    let origin = Origin::start();
    let weir = server(&[&origin]).more("[limits]\nbody = \"1KiB\"").start();
    for _ in 0..10 {
        let mut client = weir.client();
        client.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500000\r\n\r\n");
        client.send(vec![b'x'; 500_000]);
        assert_eq!(client.recv().map(|answer| answer.status()), Ok(413));
    }
}

/// Sends a last request and more behind it, and reads slowly: what came, and how the connection ended.
fn last_words(weir: &Weir, target: &str, rubbish: usize) -> (Vec<u8>, std::io::Result<usize>) {
    let mut socket = TcpStream::connect(weir.addr()).unwrap();
    let mut sent =
        format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").into_bytes();
    sent.resize(sent.len() + rubbish, b'x');
    socket.write_all(&sent).unwrap();
    // The whole response is sent, and the connection closed, before a byte is read.
    std::thread::sleep(Duration::from_millis(100));
    let (mut all, mut some) = (Vec::new(), [0; 4096]);
    loop {
        match socket.read(&mut some) {
            Ok(bytes @ 1..) => all.extend_from_slice(&some[..bytes]),
            end => return (all, end),
        }
    }
}

#[test]
fn what_a_client_sends_behind_its_last_request_destroys_no_response() {
    let origin = Origin::start();
    origin.put("/short", Resource::fresh(vec![b's'; 1000]));
    origin.put("/long", Resource::fresh(vec![b'l'; 6_000_000]));
    let weir = before(&origin);
    for (target, bytes) in [("/short", 1000), ("/long", 6_000_000)] {
        for rubbish in [0, 1, 20_000, 100_000] {
            for _ in 0..3 {
                let (all, end) = last_words(&weir, target, rubbish);
                let head = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
                assert_eq!(all.len() - head, bytes, "{target} before {rubbish} bytes");
                assert_eq!(end.expect("no reset"), 0, "{target} before {rubbish} bytes");
            }
        }
    }
}

/// The response before the last may still be on its way when the last is written.
#[test]
fn a_late_line_behind_pipelined_requests_destroys_no_response() {
    const REQUESTS: usize = 12;
    const BYTES: usize = 12 << 10;
    let origin = Origin::start();
    origin.put("/x", Resource::fresh(vec![b'x'; BYTES]));
    let weir = before(&origin);
    assert_eq!(weir.get("/x").status(), 200);
    for _ in 0..3 {
        let mut client = Client::connect_narrow(weir.addr(), 8 << 10);
        let kept = "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(REQUESTS - 1);
        client.send(kept + "GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        std::thread::sleep(Duration::from_millis(100));
        client.send("\r\n");
        std::thread::sleep(Duration::from_millis(100));
        for number in 0..REQUESTS {
            let got = client.recv().map(|got| got.body.len());
            assert_eq!(got, Ok(BYTES), "response {number}");
        }
    }
}

#[test]
fn a_web_socket_is_tunnelled_both_ways() {
    let origin = Origin::start();
    origin.on("/ws", |exchange| {
        let upgrade = exchange.request.header("upgrade").unwrap_or_default();
        let key = exchange.request.header("sec-websocket-key").unwrap_or_default();
        exchange.send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: {upgrade}\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Accept: {key}\r\n\r\nwelcome"
        ));
        loop {
            let piece = exchange.read_some();
            if piece.is_empty() || !exchange.send(&piece) {
                return exchange.close();
            }
        }
    });
    let weir = before(&origin);
    let mut client = weir.client();
    client.send_get(
        "localhost",
        "/ws",
        &[("Connection", "keep-alive, Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", "k")],
    );
    let head = client.recv_head_only().unwrap();
    assert_eq!(head.status, 101);
    assert_eq!(head.header("sec-websocket-accept").as_deref(), Some("k"));
    assert_eq!(head.header("upgrade").as_deref(), Some("websocket"));
    let expect = |client: &mut Client, text: &str| {
        let mut got = Vec::new();
        while got.len() < text.len() {
            let piece = client.read_some();
            assert!(!piece.is_empty(), "{text:?} did not come");
            got.extend(piece);
        }
        assert_eq!(String::from_utf8_lossy(&got), text);
    };
    expect(&mut client, "welcome");
    for text in ["one", "two", "GET /x HTTP/1.1\r\n\r\n"] {
        client.send(text);
        expect(&mut client, text);
    }
    client.finish();
    assert!(client.is_closed_within(Duration::from_secs(5)));
}

#[test]
fn bytes_after_an_upgrade_wait_until_the_origin_agrees() {
    let origin = Origin::start();
    origin.put("/no", Resource::new("no").status(426));
    origin.put("/secret", Resource::new("secret"));
    let weir = before(&origin);
    let mut client = weir.client();
    client.send(
        "GET /no HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\
         GET /secret HTTP/1.1\r\nHost: localhost\r\nX-Smuggled: 1\r\n\r\n",
    );
    assert_eq!(client.recv().unwrap().status(), 426);
    // What follows is read by Weir as another request, or not at all.
    match client.recv() {
        Ok(answer) => assert_eq!(answer.text(), "secret"),
        Err(why) => assert!(matches!(why, Trouble::Closed), "{why}"),
    }
    for asked in origin.requests("/secret") {
        assert!(asked.header("via").is_some(), "{asked:?}");
    }
}

#[test]
fn a_client_that_half_closes_gets_its_answers() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello").head_delay(Duration::from_millis(200)));
    let weir = before(&origin);
    for hit in [false, true] {
        let mut client = weir.client();
        client.send_get("localhost", "/x", &[]);
        client.finish();
        let answer = client.recv().unwrap();
        assert_eq!((answer.text().as_str(), answer.is_hit()), ("hello", hit));
    }
}

/// It has `send_stall` for each pause, as one that sends no content; `half_close` is for a response to come.
#[test]
fn a_client_that_half_closes_may_pause_while_it_reads() {
    const LENGTH: usize = 12_000_000;
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.reply(200, &[("Cache-Control", "no-store")], vec![b'x'; LENGTH]);
        assert_eq!(exchange.body().len(), 100_000);
    });
    let weir = server(&[&origin]).more("[limits]\nhalf_close = \"1s\"").start();
    let mut client = Client::connect_narrow(weir.addr(), 8 << 10);
    let head = "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n";
    client.send([head.as_bytes(), &[b'y'; 80_000]].concat());
    // The response has begun when the last of the content goes up.
    assert_eq!(client.recv_head_only().unwrap().status, 200);
    client.send([b'y'; 20_000]);
    client.finish();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(client.read_at_least(LENGTH).len(), LENGTH);
}

#[test]
fn conditional_and_ranged_passes_reach_the_origin_as_they_are() {
    let origin = Origin::start();
    origin.echo("/x", &[("Cache-Control", "no-store")]);
    let weir = server(&[&origin]).site("[site.bypass]\npaths = [\"/x\"]").start();
    let headers =
        [("Range", "bytes=0-1"), ("If-None-Match", "\"1\""), ("Accept", "text/html"), ("Cookie", "a=b")];
    let text = weir.get_with("/x", &headers).text().to_lowercase();
    for line in ["range: bytes=0-1", "if-none-match: \"1\"", "accept: text/html", "cookie: a=b"] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

/// RFC 9112 §3.2.2: route, key, Vary and the origin's request use the target's authority.
#[test]
fn host_is_ignored_beside_the_absolute_form() {
    let origins = [Origin::start(), Origin::start()];
    for (name, origin) in ["a", "b"].iter().zip(&origins) {
        origin.otherwise(move |exchange| {
            let host = exchange.request.header("host").unwrap_or_default();
            let fields = [("Cache-Control", "max-age=600"), ("Vary", "Host, X-Forwarded-Host")];
            exchange.reply(200, &fields, format!("{name}: {host}"));
        });
    }
    let text = format!(
        "[admin]\nlisten = \"{{admin}}\"\n[[listen]]\naddress = \"{{listen}}\"\n\
         [upstream.a]\norigins = [\"{}\"]\n[upstream.b]\norigins = [\"{}\"]\n\
         [[site]]\nhosts = [\"a.example\"]\nupstream = \"a\"\n\
         [[site]]\nhosts = [\"b.example\"]\nupstream = \"b\"\n[site.key]\nheaders = [\"Host\"]\n",
        origins[0].url(),
        origins[1].url()
    );
    let weir = setup().run_config(&text);
    let mut client = weir.client();
    for (line, host, expect) in [
        ("http://a.example/x", "b.example", "a: a.example"),
        ("http://b.example/x", "a.example", "b: b.example"),
        ("http://b.example/x", "evil.example", "b: b.example"),
        ("/x", "b.example", "b: b.example"),
        ("/x", "a.example", "a: a.example"),
    ] {
        client.send(format!("GET {line} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.recv().unwrap().text(), expect, "{line} {host}");
    }
    assert_eq!(origins.map(|origin| origin.total()), [1, 1]);
}

#[test]
fn request_trailers_do_not_reach_the_origin() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.body();
        let trailers = exchange.trailers.join(", ");
        exchange.reply(200, &[("Cache-Control", "no-store")], format!("[{trailers}]"));
    });
    let edits = "request_headers = { remove = [\"X-Country\"], set = { X-Mine = \"1\" } }";
    let weir = server(&[&origin]).site(edits).start();
    let mut client = weir.client();
    for trailers in
        ["X-Real-IP: evil\r\n", "X-Country: evil\r\nX-Mine: evil\r\n", "Proxy: evil\r\nX-Sum: 1\r\n", ""]
    {
        let head = "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.send(format!("{head}5\r\nhello\r\n0\r\n{trailers}\r\n"));
        assert_eq!(client.recv().unwrap().text(), "[]", "{trailers}");
    }
}

#[test]
fn a_request_trailer_is_not_taken_for_a_field() {
    let (origin, weir) = echoing();
    let mut client = weir.client();
    client.send(
        "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\
        Trailer: X-Sum, X-Forwarded-For\r\n\r\n\
         5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n",
    );
    assert_eq!(client.recv().unwrap().text(), "POST /x hello");
    let asked = &origin.requests("/x")[0];
    assert_eq!(asked.header("x-forwarded-for").as_deref(), Some("127.0.0.1"));
    assert_eq!(client.get("localhost", "/y", &[]).text(), "GET /y ");
}

/// RFC 9110 §8.6: a length that nobody has named is not invented.
#[test]
fn a_head_has_the_length_that_the_origin_names_and_no_other() {
    let origin = Origin::start();
    for (path, fields) in [
        ("/coded", "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"),
        ("/silent", ""),
        ("/five", "Content-Length: 5\r\n"),
        ("/none", "Content-Length: 0\r\n"),
    ] {
        origin.on(path, move |exchange| {
            exchange.send(format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{fields}\r\n"));
        });
    }
    let weir = before(&origin);
    let mut client = weir.client();
    for (path, expect) in [("/coded", None), ("/silent", None), ("/five", Some("5")), ("/none", Some("0"))] {
        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let answer = client.recv_head().unwrap();
        assert_eq!((answer.status(), answer.header("content-length").as_deref()), (200, expect), "{path}");
        assert_eq!(answer.header("transfer-encoding"), None, "{path}");
    }
}
