//! Tunnels over both versions: two sides that send at once, and clients that leave one whose origin reads
//! nothing. The order in which sides send, stop, reset and leave is asked of the loop itself, in
//! `weir-front`.

use std::time::Duration;

use weir_testkit::h2::code;
use weir_testkit::{Address, Client, End, Exchange, Gate, H2Client, Origin, Weir, pattern, until};

use crate::arrive::http2;

/// More than all buffers on the way hold.
const BYTES: usize = 24 << 20;
const SWITCHED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

fn http1(to: impl Into<Address>) -> Client {
    let mut client = Client::connect(to);
    client.send(
        "GET /tunnel HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: k\r\n\r\n",
    );
    assert_eq!(client.recv_head_only().unwrap().status, 101);
    client
}

fn http2(weir: &Weir) -> (H2Client, u32) {
    let mut client = http2::client(weir);
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/tunnel"),
        (":authority", http2::HOST),
        ("sec-websocket-version", "13"),
    ];
    let stream = client.send_fields(&fields, End::Open);
    assert_eq!(client.recv_head(stream).unwrap().status, 200);
    (client, stream)
}

/// An origin that says all that it has to say before it reads.
fn talkative() -> Origin {
    let origin = Origin::start();
    origin.on("/tunnel", |exchange| {
        exchange.send(SWITCHED);
        exchange.send(pattern(1, BYTES));
        let mut got = Vec::new();
        while got.len() < BYTES {
            let piece = exchange.read_some();
            if piece.is_empty() {
                break;
            }
            got.extend(piece);
        }
        exchange.send(if got == pattern(2, BYTES) { "all" } else { "not" });
        exchange.close();
    });
    origin
}

#[test]
fn both_sides_send_at_once() {
    let origin = talkative();
    let weir = http2::weir(&origin, "");
    let mut client = http1(weir.addr());
    let mut sends = client.socket().tcp().unwrap().try_clone().unwrap();
    let sending = std::thread::spawn(move || std::io::Write::write_all(&mut sends, &pattern(2, BYTES)));
    let got = client.read_at_least(BYTES + 3);
    assert!(got[..BYTES.min(got.len())] == pattern(1, BYTES), "{} bytes", got.len());
    assert_eq!(&got[BYTES..], b"all");
    sending.join().unwrap().unwrap();
}

#[test]
fn both_sides_send_at_once_over_http2() {
    let origin = talkative();
    let weir = http2::weir(&origin, "");
    let (mut client, stream) = http2(&weir);
    // It takes what comes while it waits for room.
    client.data(stream, &pattern(2, BYTES), End::Open).unwrap();
    let mut got = Vec::new();
    while got.len() < BYTES + 3 {
        got.extend(client.recv_some(stream).unwrap());
    }
    assert!(got[..BYTES] == pattern(1, BYTES));
    assert_eq!(&got[BYTES..], b"all");
}

/// An origin that reads nothing and says nothing until the gate is open.
fn deaf(gate: &Gate) -> Origin {
    let origin = Origin::start();
    let gate = gate.clone();
    origin.on("/tunnel", move |exchange: &mut Exchange<'_>| {
        exchange.send(SWITCHED);
        gate.pass();
    });
    origin
}

/// Sends what is taken.
fn fill(client: &mut Client) {
    client.socket().patience(Duration::from_millis(500)).unwrap();
    while client.send(vec![0; 1 << 20]) {}
}

#[test]
fn a_client_that_has_gone_ends_its_tunnel_though_the_origin_reads_nothing() {
    let gate = Gate::new();
    let origin = deaf(&gate);
    let weir = http2::weir(&origin, "[[listen]]\naddress = \"unix:{folder}/weir.sock\"\n");
    // Over TCP the end of a client stands behind what it has sent.
    let local = Address::Unix(weir.folder().join("weir.sock"));
    let mut leaves = http1(local.clone());
    fill(&mut leaves);
    drop(leaves);
    let mut ends = http1(local);
    fill(&mut ends);
    ends.finish();
    let mut resets = http1(weir.addr());
    fill(&mut resets);
    resets.reset();
    let (mut cancels, stream) = http2(&weir);
    fill_window(&mut cancels, stream);
    cancels.reset(stream, code::CANCEL);
    let (mut cut, stream) = http2(&weir);
    fill_window(&mut cut, stream);
    drop(cut);
    until("the tunnels are over", || weir.metric("weir_tunnels_open") == Some(0.0));
    assert_eq!(weir.metric("weir_tunnels_opened_total"), Some(5.0));
    until("the origin has its places again", || weir.metric("weir_origin_streams") == Some(0.0));
    gate.open();
}

/// Sends as much as Weir takes while the origin takes nothing.
fn fill_window(client: &mut H2Client, stream: u32) {
    loop {
        match client.room(stream) {
            0 => match client.ping() {
                Ok(()) if client.room(stream) > 0 => {}
                // Nothing was opened within a round trip, nor a while later.
                Ok(()) => {
                    std::thread::sleep(Duration::from_millis(200));
                    client.ping().unwrap();
                    if client.room(stream) == 0 {
                        return;
                    }
                }
                Err(why) => panic!("{why}"),
            },
            room => client.data(stream, &vec![0; room], End::Open).unwrap(),
        }
    }
}
