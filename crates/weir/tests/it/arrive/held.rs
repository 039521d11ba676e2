//! What connections may hold in memory, whatever they wait for: some clients with all the connections and
//! streams that they may have neither end the process nor keep others from being served.

use std::io::Write;
use std::time::Duration;

use weir_testkit::h2::{code, flag, hpack, kind, setting};
use weir_testkit::{
    Address, Client, Frame, Gate, H2Client, H2Frames, MemoryGroup, Origin, Resource, Trouble, Weir, until,
};

use super::http2::HOST;
use crate::server::setup;

const PATIENCE: Duration = Duration::from_secs(20);
const FRESH: (&str, &str) = ("Cache-Control", "max-age=600");
const MIB: u64 = 1 << 20;
/// What the process needs beside what is stored and what connections hold.
const PROCESS_BYTES: u64 = 32 * MIB;
/// What a connection may hold by default without a charge to the ceiling.
const CONNECTION_BYTES: u64 = 96 << 10;
const STREAMS: u32 = 100;

/// An origin with `/small` and `/large`, which holds back all else until the gate opens.
fn origin(gate: &Gate) -> Origin {
    let origin = Origin::start();
    origin.put("/small", Resource::new("small").header(FRESH.0, FRESH.1));
    origin.put("/large", Resource::new(vec![b'x'; 100_000]).header(FRESH.0, FRESH.1));
    let gate = gate.clone();
    origin.otherwise(move |exchange| {
        gate.pass();
        exchange.reply(200, &[FRESH], "late");
    });
    origin
}

/// A Weir that a proxy tells its clients' addresses, with both versions of HTTP and more lines.
fn weir(setup: weir_testkit::Setup, origin: &Origin, more: &str) -> Weir {
    setup.run_config(&format!(
        "{more}\n[admin]\nlisten = \"{{admin}}\"\n\
         [[listen]]\naddress = \"{{listen}}\"\nprotocols = [\"h2\", \"http/1.1\"]\nproxy_protocol = \"v1\"\n\
         [upstream.main]\norigins = [\"{}\"]\nfirst_byte = \"5m\"\n\
         [[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n",
        origin.url()
    ))
}

/// A connection from 192.0.2.`last`.
fn connect(weir: &Weir, last: usize) -> weir_testkit::Socket {
    let mut socket = Address::from(weir.addr()).connect().unwrap();
    socket.write_all(format!("PROXY TCP4 192.0.2.{last} 127.0.0.1 5000 80\r\n").as_bytes()).unwrap();
    socket.patience(PATIENCE).unwrap();
    socket
}

fn http1(weir: &Weir, last: usize) -> Client {
    Client::over(connect(weir, last))
}

fn http2(weir: &Weir, last: usize) -> H2Client {
    H2Client::over(connect(weir, last)).patience(PATIENCE)
}

fn ask(stream: u32, target: &str) -> Frame {
    let fields =
        [(":method", "GET"), (":scheme", "http"), (":authority", HOST), (":path", target), ("accept", "*/*")];
    Frame::headers(stream, flag::END_STREAM, hpack::literals(fields))
}

/// A connection with all the streams that it may have, of whose responses it takes nothing but what leaves at
/// once. It may be turned away.
fn crowd(weir: &Weir, last: usize, window: u32, target: &str) -> H2Frames {
    let mut frames = H2Frames::over(connect(weir, last));
    frames.begin(&[(setting::INITIAL_WINDOW_SIZE, window)]);
    let asked: Vec<Frame> = (0..STREAMS).map(|number| ask(2 * number + 1, target)).collect();
    frames.send_frames(&asked);
    frames
}

fn refused(weir: &Weir) -> f64 {
    weir.metric("weir_http2_streams_refused_total").unwrap_or_default()
}

/// Another client is served in both versions, also with several requests at a time.
fn others_are_served(weir: &Weir, last: usize) {
    let mut client = http1(weir, last);
    assert_eq!(client.get(HOST, "/small", &[]).status(), 200);
    let mut client = http2(weir, last);
    let streams: Vec<u32> = (0..20).map(|_| client.ask("GET", HOST, "/large", &[])).collect();
    for stream in streams {
        assert_eq!(client.recv(stream).unwrap().body.len(), 100_000);
    }
}

/// Four clients with what fits of 480 connections with a hundred streams each, in a container.
fn check_container(window: u32, target: &str) {
    let Some(group) = MemoryGroup::make(256 * MIB) else { return };
    let (gate, mut hogs) = (Gate::new(), Vec::new());
    let origin = origin(&gate);
    let mut weir = weir(setup().within(&group).arg("--workers").arg("2"), &origin, "");
    for path in ["/small", "/large"] {
        assert_eq!(http1(&weir, 100).get(HOST, path, &[]).status(), 200);
    }
    for number in 0..480 {
        hogs.push(crowd(&weir, 1 + number % 4, window, target));
    }
    until("streams are refused", || refused(&weir) > 10_000.0);
    for last in 101..110 {
        others_are_served(&weir, last);
    }
    let ceiling = weir.metric("weir_cache_memory_limit_bytes").unwrap() as u64;
    let connections = weir.metric("weir_connections_open").unwrap() as u64;
    let (peak, most) = (weir.rss_peak(), ceiling + PROCESS_BYTES + connections * CONNECTION_BYTES);
    println!("{} of {} MiB with {connections} connections", peak / MIB, most / MIB);
    assert!(peak <= most, "{} of {} MiB", peak / MIB, most / MIB);
    assert!(weir.runs() && group.kills() == 0);
    let refusal = hogs[400].find(|frame| frame.kind == kind::RST_STREAM).map(|frame| frame.number(0));
    assert!(refusal.is_none_or(|code| code == code::REFUSED_STREAM), "{refusal:?}");
    gate.open();
}

#[test]
fn streams_that_wait_for_an_origin_fit_into_a_container() {
    check_container(65_535, "/slow");
}

#[test]
fn streams_that_take_nothing_fit_into_a_container() {
    check_container(0, "/large");
}

/// One client with streams that take nothing has its share of the memory; further ones are refused, and those
/// of another client are not.
#[test]
fn one_client_that_takes_nothing_of_many_streams_leaves_the_memory_to_others() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = weir(setup(), &origin, "[cache]\nmemory = \"64MiB\"");
    assert_eq!(http1(&weir, 3).get(HOST, "/large", &[]).status(), 200);
    let open = || weir.metric("weir_http2_streams_open").unwrap_or_default();
    let _hog: Vec<H2Frames> = (0..8).map(|_| crowd(&weir, 1, 0, "/large")).collect();
    // A stream takes 8 KiB and its heads, and a client alone has a thirteenth.
    until("those beyond its share are refused", || {
        refused(&weir) >= 100.0 && refused(&weir) + open() == 800.0
    });
    assert!(open() > 300.0, "{} are left", open());
    let before = (open(), refused(&weir));
    let _other = crowd(&weir, 2, 0, "/large");
    until("another client's stay", || open() == before.0 + 100.0);
    assert_eq!(refused(&weir), before.1);
}

/// A client may ask again for what was refused, and what it held is given back.
#[test]
fn what_is_refused_was_not_begun_and_is_answered_later() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = weir(setup(), &origin, "[cache]\nmemory = \"8MiB\"");
    assert_eq!(http1(&weir, 1).get(HOST, "/small", &[]).status(), 200);
    let used = || weir.metric("weir_cache_memory_bytes").unwrap();
    let before = used();
    let first = crowd(&weir, 1, 65_535, "/slow");
    let mut second = crowd(&weir, 1, 65_535, "/slow");
    until("some are refused", || refused(&weir) > 50.0);
    assert!(used() - before > 600_000.0, "{before}, {}", used());
    assert_eq!(second.reset_of(2 * STREAMS - 1), Some(code::REFUSED_STREAM));
    // The first stream of a connection never is, and those of others find room.
    others_are_served(&weir, 2);
    let mut third = http2(&weir, 1);
    assert_eq!(third.get(HOST, "/small", &[]).status(), 200);
    gate.open();
    let begun = origin.count("/slow");
    assert!(second.find(|frame| frame.kind == kind::DATA && frame.stream == 1).is_some());
    assert_eq!(begun, 1);
    until("its memory is given back", || used() - before < 200_000.0);
    let stream = 2 * STREAMS + 1;
    assert!(second.send_frame(&ask(stream, "/slow")));
    assert!(second.find(|frame| frame.kind == kind::DATA && frame.stream == stream).is_some());
    drop(first);
}

/// Content that an origin does not read waits with the client, beyond a window that is charged.
#[test]
fn content_is_charged_and_arrives_whole() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let length = exchange.body().len().to_string();
        exchange.reply(200, &[("Cache-Control", "no-store")], length);
    });
    let weir = weir(setup(), &origin, "[cache]\nmemory = \"8MiB\"");
    for _ in 0..3 {
        let mut client = http2(&weir, 1);
        let streams: Vec<u32> = (0..4).map(|_| client.begin("POST", HOST, "/up", &[])).collect();
        for stream in &streams {
            client.data(*stream, &vec![b'u'; 300_000], weir_testkit::End::Stream).unwrap();
        }
        for stream in streams {
            assert_eq!(client.recv(stream).unwrap().text(), "300000");
        }
    }
}

/// Content of one stream at a time needs no room; beyond it a stream without room for its window is refused.
#[test]
fn content_that_has_no_room_is_refused_before_it_is_sent() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = weir(setup(), &origin, "[cache]\nmemory = \"8MiB\"");
    let _hogs = [crowd(&weir, 1, 65_535, "/slow"), crowd(&weir, 1, 65_535, "/slow")];
    until("there is no room for the client", || refused(&weir) > 50.0);
    let before = refused(&weir);
    let mut client = http2(&weir, 1);
    let [first, second] = ["/slow?1", "/slow?2"].map(|target| client.begin("POST", HOST, target, &[]));
    assert!(matches!(client.recv_head(second), Err(Trouble::Reset(code::REFUSED_STREAM, _))));
    client.data(first, b"content", weir_testkit::End::Stream).unwrap();
    assert_eq!(refused(&weir), before + 1.0);
    gate.open();
    assert_eq!(client.recv(first).unwrap().text(), "late");
    let again = client.begin("POST", HOST, "/slow?2", &[]);
    client.data(again, b"content", weir_testkit::End::Stream).unwrap();
    assert_eq!(client.recv(again).unwrap().text(), "late");
}

/// Of what a client sends ahead of a response, little is read.
#[test]
fn what_is_sent_ahead_waits_with_the_client() {
    const CLIENTS: usize = 200;
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = weir(setup(), &origin, "[limits]\nconnections_per_client = 1000");
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| http1(&weir, 1)).collect();
    let pad = "p".repeat(4000);
    let padding: String = (0..7).map(|number| format!("X-{number}: {pad}\r\n")).collect();
    for client in &mut clients {
        client.send(format!("GET /slow HTTP/1.1\r\nHost: {HOST}\r\n{padding}\r\n"));
    }
    until("all wait", || weir.metric("weir_requests_running") == Some(CLIENTS as f64));
    let before = weir.rss();
    let more = format!("GET /small HTTP/1.1\r\nHost: {HOST}\r\n\r\n").repeat(1500);
    clients.iter_mut().for_each(|client| assert!(client.send(&more[..60_000])));
    std::thread::sleep(Duration::from_millis(500));
    let each = weir.rss().saturating_sub(before) / CLIENTS as u64;
    assert!(each < 32 << 10, "{each} bytes of each are read ahead");
    gate.open();
    for client in &mut clients {
        assert_eq!(client.recv().unwrap().text(), "late");
        assert_eq!(client.recv().unwrap().text(), "small");
    }
}
