//! Hostile HTTP/2 clients: each is told ENHANCE_YOUR_CALM, its connection ends within its bounds of memory,
//! other clients are served, and the origin gets no more requests than an honest client could cause.

use std::time::Duration;

use weir_testkit::h2::{code, flag, hpack, kind, setting};
use weir_testkit::{Frame, H2Frames, Origin, Resource, Weir, pattern, until};

use super::http2::{HOST, client, weir};
use crate::server::setup;

const PATIENCE: Duration = Duration::from_secs(20);
const MIB: u64 = 1 << 20;

fn origin() -> Origin {
    let origin = Origin::start();
    let fresh = ("Cache-Control", "max-age=600");
    origin.put("/small", Resource::new(pattern(0, 1024)).header(fresh.0, fresh.1));
    origin.put("/large", Resource::new(pattern(0, 8 << 20)).header(fresh.0, fresh.1));
    origin.on("/slow", |exchange| {
        exchange.peer_left_within(PATIENCE);
    });
    origin
}

/// A Weir that trusts nobody: each connection is one client's.
fn strangers(origin: &Origin) -> Weir {
    setup().run_config(&format!(
        "trusted_proxies = []\n[admin]\nlisten = \"{{admin}}\"\n\
         [[listen]]\naddress = \"{{listen}}\"\nprotocols = [\"h2\", \"http/1.1\"]\n\
         [upstream.main]\norigins = [\"{}\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n",
        origin.url()
    ))
}

fn block(method: &str, target: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let own = [(":method", method), (":scheme", "http"), (":authority", HOST), (":path", target)];
    hpack::literals(own.iter().chain(more).copied())
}

fn get(stream: u32, target: &str) -> Frame {
    Frame::headers(stream, flag::END_STREAM, block("GET", target, &[]))
}

/// Serves ten honest connections at once, and returns the memory that is then in use.
fn warm(weir: &Weir) -> u64 {
    let mut clients: Vec<_> = (0..10).map(|_| client(weir)).collect();
    for client in &mut clients {
        assert_eq!(client.get(HOST, "/small", &[]).status(), 200);
        assert_eq!(client.get(HOST, "/large", &[]).body.len(), 8 << 20);
    }
    weir.anonymous()
}

fn hostile(weir: &Weir, settings: &[(u16, u32)]) -> H2Frames {
    let mut frames = H2Frames::connect(weir.addr()).patience(PATIENCE);
    frames.begin(settings);
    frames
}

/// Sends what `make` makes of 0, 1, 2 and so on until the server says GOAWAY, and returns its code.
fn overdone(frames: &mut H2Frames, most: u32, make: impl Fn(u32) -> Vec<Frame>) -> Option<u32> {
    for number in 0..most {
        if !frames.send_frames(&make(number)) {
            break;
        }
    }
    frames.goaway()
}

/// The connection was told to be calm and is over, the counter says so, and others are served.
fn check(weir: &Weir, said: Option<u32>, counter: &str) {
    assert_eq!(said, Some(code::ENHANCE_YOUR_CALM), "{counter}");
    let counter = format!("weir_http2_floods_{counter}_total");
    assert_eq!(weir.metric(&counter), Some(1.0), "{counter}");
    assert_eq!(client(weir).get(HOST, "/small", &[]).status(), 200);
    until("nothing is left of it", || {
        weir.metric("weir_http2_streams_open") == Some(0.0)
            && weir.metric("weir_requests_running") == Some(0.0)
    });
}

#[test]
fn rapid_resets_end_the_connection_and_cost_the_origin_little() {
    let origin = origin();
    let weir = strangers(&origin);
    let mut frames = hostile(&weir, &[]);
    let said = overdone(&mut frames, 2000, |number| {
        let stream = 2 * number + 1;
        vec![get(stream, &format!("/slow?{number}")), Frame::reset(stream, code::CANCEL)]
    });
    check(&weir, said, "resets");
    assert!(origin.total() <= 110, "{} requests", origin.total());
}

#[test]
fn resets_of_streams_that_were_answered_cost_nothing() {
    let origin = origin();
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    for _ in 0..400 {
        assert_eq!(client.get(HOST, "/small", &[]).status(), 200);
    }
    for number in 0..90 {
        let stream = client.ask("GET", HOST, &format!("/slow?{number}"), &[]);
        client.reset(stream, code::CANCEL);
    }
    assert_eq!(client.get(HOST, "/small", &[]).status(), 200);
}

#[test]
fn made_resets_end_the_connection() {
    let origin = origin();
    for kind in 0..6 {
        let weir = strangers(&origin);
        let mut frames = hostile(&weir, &[]);
        let said = overdone(&mut frames, 1500, |number| {
            let stream = 2 * number + 1;
            let post = Frame::headers(stream, 0, block("POST", "/slow", &[("content-length", "9")]));
            let broken = match kind {
                0 => Frame::window_update(stream, 0),
                1 => Frame::window_update(stream, (1 << 31) - 1),
                2 => return vec![get(stream, "/slow"), Frame::data(stream, 0, "late")],
                3 => return vec![get(stream, "/slow"), get(stream, "/slow")],
                4 => Frame::priority(stream, stream),
                _ => {
                    return vec![Frame::headers(stream, flag::END_STREAM, block("GET", "/", &[("te", "x")]))];
                }
            };
            vec![post, broken]
        });
        // Some of these ways are faults of the whole connection for the crate, which ends it at once.
        assert!(
            matches!(said, Some(code::ENHANCE_YOUR_CALM | code::PROTOCOL_ERROR | code::STREAM_CLOSED)),
            "{kind}: {said:?}"
        );
        assert_eq!(client(&weir).get(HOST, "/small", &[]).status(), 200);
        assert!(origin.count("/slow") <= 110 * (kind + 1), "{kind}: {}", origin.count("/slow"));
    }
}

#[test]
fn frames_that_carry_nothing_end_the_connection() {
    let origin = origin();
    type Make = fn(u32) -> Frame;
    let floods: [(&str, Make); 6] = [
        ("PING", |_| Frame::ping(0, [7; 8])),
        ("SETTINGS", |_| Frame::settings(&[])),
        ("WINDOW_UPDATE", |_| Frame::window_update(0, 1)),
        ("PRIORITY", |number| Frame::priority(2 * number + 1, 0)),
        ("unknown", |_| Frame::new(0x77, 0, 0, [0; 3])),
        ("answered PING", |_| Frame::ping(flag::ACK, [7; 8])),
    ];
    for (name, frame) in floods {
        let weir = weir(&origin, "");
        let mut frames = hostile(&weir, &[]);
        let before = warm(&weir);
        let said = overdone(&mut frames, 20_000, |number| vec![frame(number)]);
        assert_eq!(said, Some(code::ENHANCE_YOUR_CALM), "{name}");
        check(&weir, said, "frames");
        assert!(weir.anonymous() < before + 4 * MIB, "{name}: {before} then {}", weir.anonymous());
    }
}

#[test]
fn continuation_without_end_and_empty_data_end_the_connection() {
    let origin = origin();
    let weir = weir(&origin, "");
    let mut frames = hostile(&weir, &[]);
    frames.send_frame(&Frame::new(kind::HEADERS, flag::END_STREAM, 1, block("GET", "/small", &[])));
    let said = overdone(&mut frames, 3000, |_| {
        vec![Frame::new(kind::CONTINUATION, 0, 1, hpack::literal("x-more", "y"))]
    });
    check(&weir, said, "heads");
    let mut frames = hostile(&weir, &[]);
    frames.send_frame(&Frame::headers(1, 0, block("POST", "/slow", &[])));
    let said = overdone(&mut frames, 20_000, |_| vec![Frame::data(1, 0, "")]);
    check(&weir, said, "frames");
}

/// One byte of each head names a field of 4,000 bytes: a small head would become a large one.
#[test]
fn a_bomb_of_indexed_fields_is_refused_and_takes_no_memory() {
    let origin = origin();
    let weir = weir(&origin, "");
    let before = warm(&weir);
    let mut all = Vec::new();
    for _ in 0..10 {
        let mut frames = hostile(&weir, &[(setting::INITIAL_WINDOW_SIZE, 0)]);
        let large = hpack::incremental("x-bomb", "b".repeat(3900));
        let first = [block("GET", "/small", &[]), large].concat();
        frames.send_frame(&Frame::headers(1, flag::END_STREAM, first));
        for number in 1..100 {
            let bombs = [block("GET", "/small", &[]), hpack::indexed(62).repeat(16_000)].concat();
            if !frames.send_frame(&Frame::headers(2 * number + 1, flag::END_STREAM, bombs)) {
                break;
            }
        }
        all.push(frames);
    }
    assert_eq!(client(&weir).get(HOST, "/small", &[]).status(), 200);
    let grown = weir.anonymous().saturating_sub(before);
    assert!(grown < 10 * MIB, "ten connections hold {grown} bytes");
    for mut frames in all {
        // 431 for some heads; the client that goes on is told to be calm.
        let said = frames.find(|frame| frame.kind == kind::GOAWAY || frame.kind == kind::HEADERS);
        assert!(said.is_some());
    }
    assert!(origin.total() <= 2);
}

/// What ten connections hold after each has sent these frames for a hundred streams. The field that index 62
/// stands for is one byte on the wire.
fn held_after(make: impl Fn(u32) -> Vec<Frame>) -> u64 {
    let origin = origin();
    let weir = weir(&origin, "send_stall = \"5s\"");
    let before = warm(&weir);
    let mut all = Vec::new();
    for _ in 0..10 {
        let mut frames = hostile(&weir, &[(setting::INITIAL_WINDOW_SIZE, 0)]);
        let first = [block("GET", "/small", &[]), hpack::incremental("x", "")].concat();
        frames.send_frame(&Frame::headers(1, flag::END_STREAM, first));
        for number in 1..100 {
            for frame in make(2 * number + 1) {
                frames.send_frame(&frame);
            }
        }
        all.push(frames);
    }
    // A thousand requests of its address wait for the origin.
    until("another client is served", || client(&weir).get(HOST, "/small", &[]).status() == 200);
    std::thread::sleep(std::time::Duration::from_millis(500));
    weir.anonymous().saturating_sub(before)
}

#[test]
fn heads_that_wait_for_their_end_and_trailers_hold_little() {
    let many = || hpack::indexed(62).repeat(1000);
    let half_open = |stream| vec![Frame::headers(stream, 0, [block("GET", "/small", &[]), many()].concat())];
    let grown = held_after(half_open);
    assert!(grown < 10 * MIB, "ten connections with half-open streams hold {grown} bytes");
    let trailers = |stream| {
        let head = Frame::headers(stream, 0, block("POST", "/small", &[]));
        vec![head, Frame::headers(stream, flag::END_STREAM, many())]
    };
    let grown = held_after(trailers);
    // A request that waits for an origin takes 10 to 20 KiB; with its trailers it took 110.
    assert!(grown < 32 * MIB, "ten connections with trailers hold {grown} bytes");
}

#[test]
fn windows_that_never_open_hold_little() {
    let origin = origin();
    let weir = weir(&origin, "send_stall = \"2s\"");
    let before = warm(&weir);
    let mut all = Vec::new();
    for _ in 0..10 {
        // Windows are wide, and nothing is read: the kernel's buffers and the connection's are full.
        let mut frames = hostile(&weir, &[(setting::INITIAL_WINDOW_SIZE, (1 << 31) - 1)]);
        frames.send_frame(&Frame::window_update(0, (1 << 30) - 1));
        for number in 0..100 {
            frames.send_frame(&get(2 * number + 1, "/large"));
        }
        all.push(frames);
    }
    assert_eq!(client(&weir).get(HOST, "/small", &[]).status(), 200);
    let grown = weir.anonymous().saturating_sub(before);
    assert!(grown < 10 * MIB, "ten connections hold {grown} bytes");
    until("the stalled connections are cut", || weir.metric("weir_http2_connections_open") == Some(0.0));
}

#[test]
fn what_streams_keep_whose_windows_never_open_is_charged() {
    let origin = origin();
    let weir = weir(&origin, "");
    assert_eq!(client(&weir).get(HOST, "/large", &[]).body.len(), 8 << 20);
    let charged = || weir.metric("weir_cache_memory_bytes").unwrap();
    until("nothing is charged for the first one", || weir.metric("weir_http2_connections_open") == Some(0.0));
    let before = charged();
    let mut frames = hostile(&weir, &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    let long = "x".repeat(1000);
    for number in 0..100 {
        let head = block("GET", "/large", &[("x-long", &long)]);
        frames.send_frame(&Frame::headers(2 * number + 1, flag::END_STREAM, head));
    }
    // 8 KiB each, and its heads; 20 KiB are free.
    until("all of them are charged", || charged() >= before + 100.0 * 9_192.0 - 20_480.0);
    drop(frames);
    until("it is given back", || charged() <= before);
}

#[test]
fn crumbs_by_the_thousand_are_refused() {
    let origin = origin();
    let weir = weir(&origin, "");
    let mut client = client(&weir);
    let crumbs = vec![("cookie", "a=1"); 300];
    let stream = client.ask("GET", HOST, "/small", &crumbs);
    assert_eq!(client.recv(stream).unwrap().status(), 431);
    let few = vec![("cookie", "a=1"); 50];
    assert_eq!(client.get(HOST, "/small", &few).status(), 200);
    let seen = origin.requests("/small");
    assert_eq!(seen[0].header("cookie"), Some(vec!["a=1"; 50].join("; ")));
}

#[test]
fn too_many_streams_at_once_are_refused() {
    let origin = origin();
    let weir = weir(&origin, "");
    let mut frames = hostile(&weir, &[]);
    let streams: Vec<Frame> =
        (0..101).map(|number| get(2 * number + 1, &format!("/slow?{number}"))).collect();
    frames.send_frames(&streams);
    assert_eq!(frames.reset_of(201), Some(code::REFUSED_STREAM));
    assert_eq!(client(&weir).get(HOST, "/small", &[]).status(), 200);
}
