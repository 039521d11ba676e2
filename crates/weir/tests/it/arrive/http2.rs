//! HTTP/2 towards clients: the same walk, streams beside each other, and the ways in which a stream and a
//! connection end.

use std::time::Duration;

use weir_testkit::h2::{code, flag, setting};
use weir_testkit::{End, Frame, H2Client, H2Frames, Origin, Resource, Trouble, Weir, pattern, until};

use crate::server::setup;

pub(crate) const HOST: &str = "www.example.com";
const PATIENCE: Duration = Duration::from_secs(20);
const FRESH: (&str, &str) = ("Cache-Control", "max-age=600");

/// A Weir that speaks both versions without TLS, with more lines of limits.
pub(crate) fn weir(origin: &Origin, limits: &str) -> Weir {
    setup().run_config(&format!(
        "[admin]\nlisten = \"{{admin}}\"\n[limits]\n{limits}\n\
         [[listen]]\naddress = \"{{listen}}\"\nprotocols = [\"h2\", \"http/1.1\"]\n\
         [upstream.main]\norigins = [\"{}\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n",
        origin.url()
    ))
}

pub(crate) fn client(weir: &Weir) -> H2Client {
    H2Client::connect(weir.addr()).patience(PATIENCE)
}

fn put(origin: &Origin, path: &str, bytes: usize) -> Vec<u8> {
    let body = pattern(0, bytes);
    origin.put(path, Resource::new(body.clone()).header(FRESH.0, FRESH.1));
    body
}

#[test]
fn both_versions_are_answered_from_one_cache() {
    let origin = Origin::start();
    let (small, large) = (put(&origin, "/small", 1024), put(&origin, "/large", 1 << 20));
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    for (target, body) in [("/small", &small), ("/large", &large)] {
        let first = client.get(HOST, target, &[]);
        assert_eq!((first.status(), &first.body), (200, body));
        let second = client.get(HOST, target, &[]);
        assert!(second.cache_status().contains("; hit"), "{}", second.cache_status());
        assert_eq!(second.header("content-length").as_deref(), Some(&*body.len().to_string()));
        let mut old = weir.client();
        old.send(format!("GET {target} HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
        let old = old.recv().unwrap();
        assert!(old.cache_status().contains("; hit") && old.body == *body, "{}", old.cache_status());
    }
    assert_eq!(origin.total(), 2);
    let head = client.ask("HEAD", HOST, "/large", &[]);
    let head = client.recv(head).unwrap();
    assert_eq!(
        (head.status(), head.header("content-length").as_deref(), head.body.len()),
        (200, Some("1048576"), 0)
    );
    let tag = client.get(HOST, "/small", &[]).header("etag");
    if let Some(tag) = tag {
        assert_eq!(client.get(HOST, "/small", &[("if-none-match", &tag)]).status(), 304);
    }
    let part = client.get(HOST, "/large", &[("range", "bytes=5-9")]);
    assert_eq!((part.status(), &part.body[..]), (206, &large[5..10]));
    assert!(weir.metric("weir_http2_connections_open") == Some(1.0));
    assert!(weir.metric("weir_http2_streams_total") >= Some(6.0));
}

#[test]
fn a_small_hit_passes_a_stalled_and_a_running_download() {
    let origin = Origin::start();
    put(&origin, "/large", 48 << 20);
    let small = put(&origin, "/small", 1024);
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    client.get(HOST, "/small", &[]);
    client.hold_windows();
    client.open(0, 1 << 26);
    let stalled = client.ask("GET", HOST, "/large", &[]);
    client.recv_head(stalled).unwrap();
    assert_eq!(client.get(HOST, "/small", &[]).body, small);
    let running = client.ask("GET", HOST, "/large", &[]);
    client.open(running, 1 << 26);
    client.recv_head(running).unwrap();
    let before = client.received(running);
    assert_eq!(client.get(HOST, "/small", &[]).body, small);
    // What the kernel's buffers held comes first.
    assert!(client.received(running) - before < 24 << 20, "the hit waited for the download");
    assert!(!client.is_over(running) && client.received(stalled) <= 65_535);
    assert_eq!(client.recv(running).unwrap().body.len(), 48 << 20);
}

#[test]
fn a_cut_body_is_a_reset_and_never_an_end() {
    let origin = Origin::start();
    origin.on("/cut", |exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nCache-Control: no-store\r\n\r\n");
        exchange.send(pattern(0, 5000));
        exchange.close();
    });
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    let stream = client.ask("GET", HOST, "/cut", &[]);
    client.recv_head(stream).unwrap();
    match client.recv(stream) {
        Err(Trouble::Reset(..)) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(client.get(HOST, "/none", &[]).status(), 404);
}

#[test]
fn content_goes_up_as_the_origin_takes_it_beside_a_download() {
    let origin = Origin::start();
    origin.on("/echo", |exchange| {
        let body = exchange.body();
        exchange.reply(200, &[("X-Length", &body.len().to_string())], body);
    });
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    let body = pattern(3, 700_000);
    let stream = client.begin("POST", HOST, "/echo", &[("expect", "100-continue")]);
    until("100 (Continue)", || {
        client.ping().unwrap();
        client.interim(stream).len() == 1
    });
    client.data(stream, &body, End::Stream).unwrap();
    let answer = client.recv(stream).unwrap();
    assert_eq!((answer.status(), answer.header("x-length").as_deref()), (200, Some("700000")));
    assert_eq!(answer.body, body);
}

#[test]
fn a_clients_reset_is_gone_for_that_request_alone() {
    let origin = Origin::start();
    let small = put(&origin, "/small", 1024);
    origin.on("/slow", |exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\nCache-Control: no-store\r\n\r\nx");
        exchange.peer_left_within(PATIENCE);
    });
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    let slow = client.ask("GET", HOST, "/slow", &[]);
    client.recv_head(slow).unwrap();
    client.reset(slow, code::CANCEL);
    assert_eq!(client.get(HOST, "/small", &[]).body, small);
    until("the request has ended", || weir.metric("weir_requests_running") == Some(0.0));
    assert_eq!(weir.metric("weir_http2_streams_open"), Some(0.0));
}

#[test]
fn a_stalled_stream_is_cut_and_others_go_on() {
    let origin = Origin::start();
    put(&origin, "/large", 1 << 20);
    let small = put(&origin, "/small", 1024);
    let weir = weir(&origin, "send_stall = \"1s\"");
    let mut client = client(&weir);
    client.get(HOST, "/large", &[]);
    client.hold_windows();
    client.open(0, 1 << 24);
    let stalled = client.ask("GET", HOST, "/large", &[]);
    match client.recv(stalled) {
        Err(Trouble::Reset(..)) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(client.get(HOST, "/small", &[]).body, small);
    assert!(weir.stdout().contains("send-stall") || weir.metric("weir_requests_running") == Some(0.0));
}

/// An end needs no window.
#[test]
fn a_body_without_length_that_just_fills_the_window_ends() {
    let origin = Origin::start();
    let body = pattern(4, 65_535);
    let chunked = weir_testkit::Shape::Chunked(8192);
    origin.put("/chunked", Resource::new(body.clone()).shape(chunked).header("Cache-Control", "no-store"));
    let weir = weir(&origin, "send_stall = \"2s\"");
    let mut client = client(&weir);
    client.hold_windows();
    client.open(0, 1 << 24);
    let stream = client.ask("GET", HOST, "/chunked", &[]);
    assert_eq!(client.recv(stream).unwrap().body, body);
}

#[test]
fn an_idle_connection_ends_with_goaway() {
    let origin = Origin::start();
    put(&origin, "/small", 1024);
    let weir = weir(&origin, "idle = \"1s\"");
    let mut client = client(&weir);
    client.get(HOST, "/small", &[]);
    assert_eq!(client.await_goaway().unwrap().code, code::NO_ERROR);
    assert!(client.is_closed());
}

#[test]
fn a_drain_says_goaway_and_finishes_what_is_under_way() {
    let origin = Origin::start();
    let large = put(&origin, "/large", 4 << 20);
    let mut weir = weir(&origin, "");
    let mut client = client(&weir);
    client.get(HOST, "/large", &[]);
    client.hold_windows();
    client.open(0, 1 << 24);
    let stream = client.ask("GET", HOST, "/large", &[]);
    client.recv_head(stream).unwrap();
    weir.signal("TERM");
    let goaway = client.await_goaway().unwrap();
    assert_eq!(goaway.code, code::NO_ERROR);
    client.open(stream, 1 << 24);
    assert_eq!(client.recv(stream).unwrap().body, large);
    assert!(client.is_closed());
    assert!(weir.wait(PATIENCE).is_some_and(|status| status.success()));
}

#[test]
fn a_head_that_stays_open_and_a_slow_preface_end_the_connection() {
    let origin = Origin::start();
    let weir = weir(&origin, "head_time = \"1s\"");
    let mut slow = H2Frames::connect(weir.addr()).patience(PATIENCE);
    slow.send(b"PRI * HTTP/2.0\r\n");
    let mut open = H2Frames::connect(weir.addr()).patience(PATIENCE);
    open.begin(&[]);
    open.send_frame(&Frame::new(1, flag::END_STREAM, 1, weir_testkit::h2::hpack::literal(":method", "GET")));
    assert_eq!(open.goaway(), Some(code::ENHANCE_YOUR_CALM));
    while slow.recv().is_ok() {}
    until("both connections are closed", || weir.metric("weir_connections_open") == Some(0.0));
}

#[test]
fn settings_say_what_may_be_sent() {
    let origin = Origin::start();
    put(&origin, "/small", 1024);
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    client.get(HOST, "/small", &[]);
    assert_eq!(client.setting(setting::MAX_CONCURRENT_STREAMS), Some(100));
    assert_eq!(client.setting(setting::INITIAL_WINDOW_SIZE), Some(65_536));
    assert_eq!(client.setting(8), Some(1), "extended CONNECT");
}

#[test]
fn interim_heads_and_trailers_pass_through() {
    let origin = Origin::start();
    origin.on("/page", |exchange| {
        exchange.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n");
        exchange.send(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: no-store\r\n\
             Trailer: x-sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n",
        );
    });
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    let stream = client.ask("GET", HOST, "/page", &[("te", "trailers")]);
    let answer = client.recv(stream).unwrap();
    assert_eq!((answer.status(), &answer.body[..]), (200, &b"abc"[..]));
    assert_eq!(answer.interim.len(), 1);
    assert!(answer.trailers.iter().any(|(name, value)| name == "x-sum" && value == "7"), "{answer:?}");
    let seen = origin.requests("/page");
    assert!(seen[0].header("via").is_some_and(|via| via.starts_with("2 weir")), "{:?}", seen[0]);
}

#[test]
fn a_websocket_passes_over_one_stream() {
    let origin = Origin::start();
    origin.on("/chat", |exchange| {
        assert_eq!(exchange.request.header("upgrade").as_deref(), Some("websocket"));
        assert!(exchange.request.header("sec-websocket-key").is_some_and(|key| key.len() == 24));
        exchange.send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: x\r\n\r\n",
        );
        let came = exchange.read_some();
        exchange.send([b"you said ", &came[..]].concat());
        exchange.peer_left_within(PATIENCE);
    });
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/chat"),
        (":authority", HOST),
        ("sec-websocket-version", "13"),
    ];
    let stream = client.send_fields(&fields, End::Open);
    let head = client.recv_head(stream).unwrap();
    assert_eq!(head.status, 200);
    assert!(head.headers.iter().all(|(name, _)| name != "sec-websocket-accept" && name != "upgrade"));
    client.data(stream, b"hello", End::Open).unwrap();
    let mut said = Vec::new();
    while said.len() < 14 {
        said.extend(client.recv_some(stream).unwrap());
    }
    assert_eq!(said, b"you said hello");
    assert_eq!(weir.metric("weir_tunnels_open"), Some(1.0));
    client.data(stream, b"", End::Stream).unwrap();
    until("the tunnel is closed", || weir.metric("weir_tunnels_open") == Some(0.0));
}
