//! The client against a server on the crate `h2`, and the reader of field blocks against the RFC's examples.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::server::SendResponse;

use super::hpack::{Decoder, incremental, indexed, literal, table_size};
use super::{End, Frame, H2Client, H2Frames, Translator, code, flag, kind, setting, translated};
use crate::{Client, Trouble, pattern};

/// A server of the crate on a port of its own, until the test's process ends. What it answers is in the
/// request's path.
fn server() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream));
            }
        });
    });
    addr
}

async fn converse(stream: tokio::net::TcpStream) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        if request.uri().path() == "/goodbye" {
            connection.graceful_shutdown();
        }
        tokio::spawn(answer(request, respond));
    }
}

async fn answer(request: http::Request<h2::RecvStream>, mut respond: SendResponse<Bytes>) {
    let (head, mut body) = request.into_parts();
    let mut content = Vec::new();
    while let Some(Ok(piece)) = body.data().await {
        let _ = body.flow_control().release_capacity(piece.len());
        content.extend_from_slice(&piece);
    }
    let asked = body.trailers().await.ok().flatten();
    if head.uri.path() == "/reset" {
        return respond.send_reset(h2::Reason::REFUSED_STREAM);
    }
    if head.method == "GET" {
        content = pattern(1, 300_000);
    }
    let response = http::Response::builder().header("x-path", head.uri.path());
    let mut send = respond.send_response(response.body(()).unwrap(), false).unwrap();
    send.send_data(content.into(), false).unwrap();
    let mut trailers = http::HeaderMap::new();
    let from = asked.and_then(|asked| asked.get("x-sum").cloned());
    trailers.insert("x-sum", from.unwrap_or(http::HeaderValue::from_static("none")));
    let _ = send.send_trailers(trailers);
}

#[test]
fn requests_content_and_trailers_go_both_ways() {
    let mut client = H2Client::connect(server());
    let got = client.get("localhost", "/one", &[("accept", "*/*")]);
    assert_eq!((got.status(), got.header("x-path").as_deref()), (200, Some("/one")));
    assert!(got.body == pattern(1, 300_000));
    assert_eq!(got.trailers, [("x-sum".to_owned(), "none".to_owned())]);

    let content = pattern(2, 200_000);
    let post = client.begin("POST", "localhost", "/two", &[]);
    let beside = client.ask("GET", "localhost", "/beside", &[]);
    client.data(post, &content, End::Open).unwrap();
    client.trailers(post, &[("x-sum", "7")]);
    assert!(client.recv(beside).unwrap().body == pattern(1, 300_000));
    let got = client.recv(post).unwrap();
    assert!(got.body == content);
    assert_eq!(got.trailers, [("x-sum".to_owned(), "7".to_owned())]);
}

#[test]
fn resets_and_goodbyes_are_told_apart() {
    let mut client = H2Client::connect(server());
    let id = client.ask("GET", "localhost", "/reset", &[]);
    let refused = client.recv(id);
    assert!(matches!(refused, Err(Trouble::Reset(code::REFUSED_STREAM, _))), "{refused:?}");
    client.get("localhost", "/goodbye", &[]);
    assert_eq!(client.await_goaway().unwrap().code, code::NO_ERROR);
    assert!(client.is_closed());
}

#[test]
fn held_windows_hold_the_server_until_they_are_opened() {
    let stream = crate::socket::Address::from(server()).connect().unwrap();
    let mut client = H2Client::with(stream, &[(setting::INITIAL_WINDOW_SIZE, 10)]);
    client.hold_windows();
    let id = client.ask("GET", "localhost", "/x", &[]);
    assert_eq!(client.recv_head(id).unwrap().status, 200);
    assert_eq!(client.recv_some(id).unwrap(), pattern(1, 10));
    client.ping().unwrap();
    assert_eq!(client.received(id), 10);
    client.open(id, 5);
    assert_eq!(client.recv_some(id).unwrap(), &pattern(1, 15)[10..]);
    client.reset(id, code::CANCEL);
    client.ping().unwrap();
}

#[test]
fn frames_go_out_as_they_are_told() {
    let mut raw = H2Frames::connect(server());
    assert!(raw.begin(&[]));
    assert!(raw.send_frame(&Frame::window_update(0, 0)));
    assert_eq!(raw.goaway(), Some(code::PROTOCOL_ERROR));
    let mut raw = H2Frames::connect(server());
    raw.begin(&[]);
    let block = [indexed(6), literal(":path", "/y"), literal("of-no", "method")].concat();
    raw.send_frame(&Frame::headers(1, flag::END_STREAM, block));
    assert_eq!(raw.reset_of(1), Some(code::PROTOCOL_ERROR));
}

#[test]
fn a_frame_has_the_bytes_of_the_rfc() {
    let frame = Frame::new(kind::PING, flag::ACK, 0x8000_0001, [1, 2]);
    assert_eq!(frame.bytes(), [0, 0, 2, 6, 1, 0x80, 0, 0, 1, 1, 2]);
    assert_eq!(frame.bytes_saying(70_000)[..3], [1, 0x11, 0x70]);
}

fn check(decoder: &mut Decoder, block: &str, expected: &[(&str, &str)]) {
    let bytes: Vec<u8> = block
        .split_whitespace()
        .flat_map(|word| (0..word.len()).step_by(2).map(|at| u8::from_str_radix(&word[at..at + 2], 16)))
        .map(Result::unwrap)
        .collect();
    let expected: Vec<_> =
        expected.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
    assert_eq!(decoder.read(&bytes), Ok(expected));
}

/// RFC 7541, Appendix C.6: with Huffman's code, and a table of 256 bytes that must lose fields.
#[test]
fn the_rfcs_examples_of_field_blocks_are_read() {
    let mut decoder = Decoder::new(256);
    let (date, location) = ("Mon, 21 Oct 2013 20:13:21 GMT", "https://www.example.com");
    check(
        &mut decoder,
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 \
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        &[(":status", "302"), ("cache-control", "private"), ("date", date), ("location", location)],
    );
    check(
        &mut decoder,
        "4883 640e ffc1 c0bf",
        &[(":status", "307"), ("cache-control", "private"), ("date", date), ("location", location)],
    );
    let cookie = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    check(
        &mut decoder,
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab \
         77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f \
         9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        &[
            (":status", "200"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
            ("location", location),
            ("content-encoding", "gzip"),
            ("set-cookie", cookie),
        ],
    );
}

#[test]
fn what_the_writer_writes_the_reader_reads() {
    let mut decoder = Decoder::new(4096);
    let block = [table_size(100), incremental("a", "x".repeat(300)), literal("b", ""), indexed(8)].concat();
    let fields = decoder.read(&block).unwrap();
    assert_eq!(fields[0].1.len(), 300);
    assert_eq!(fields[2], (b":status".to_vec(), b"200".to_vec()));
    // The long field was too long for the table.
    assert!(decoder.read(&indexed(62)).is_err());
    assert!(decoder.read(&table_size(5000)).is_err());
}

#[test]
fn a_client_of_http_1_gets_its_answers_over_http_2() {
    let translator = Translator::before(server());
    let mut client = Client::connect(translator.addr());
    for _ in 0..2 {
        let got = client.get("localhost", "/one", &[("Connection", "keep-alive"), ("X-Odd", "\u{fc}")]);
        assert_eq!((got.status(), got.header("x-path").as_deref()), (200, Some("/one")));
        assert!(got.body == pattern(1, 300_000));
        assert_eq!(got.trailers, [("x-sum".to_owned(), "none".to_owned())]);
    }
    let posted = "POST /two HTTP/1.1\r\nHost: localhost\r\n";
    client.send(format!(
        "{posted}Transfer-Encoding: chunked\r\n\r\n5;a\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n"
    ));
    assert_eq!(client.recv().unwrap().text(), "hello!");
    client.send(format!("{posted}Content-Length: 2\r\nConnection: close\r\n\r\nhi"));
    assert_eq!(client.recv().unwrap().text(), "hi");
    assert_eq!(client.recv(), Err(Trouble::Closed));

    let mut client = Client::connect(translator.addr());
    client.send("GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1 \t1\r\n\r\n");
    assert_eq!(client.recv().unwrap().status(), 400);
    assert_eq!(client.recv(), Err(Trouble::Closed));
    let mut client = Client::connect(translator.addr());
    client.send_get("localhost", "/reset", &[]);
    assert_eq!(client.recv(), Err(Trouble::Closed));
}

#[test]
fn only_the_form_of_a_request_is_translated() {
    let head = b"GET /a%20\xff HTTP/1.1\r\nHOST: a.test\r\nX-Ba d: \t v\0 \r\n\
                 Connection: close, x-own\r\nX-Own: 1\r\nHost: b";
    let got = translated(head, "http").unwrap();
    let expected: [(&[u8], &[u8]); 6] = [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":authority", b"a.test"),
        (b":path", b"/a%20\xff"),
        (b"x-ba d", b"v\0"),
        (b"host", b"b"),
    ];
    let got_fields: Vec<(&[u8], &[u8])> = got.fields.iter().map(|(n, v)| (&n[..], &v[..])).collect();
    assert_eq!(got_fields, expected);
    assert!(got.closes);
    let got = translated(b"GET HTTPS://c:1?d HTTP/1.1\r\nHost: e", "http").unwrap().fields;
    assert_eq!(got[1..4].iter().map(|(_, v)| &v[..]).collect::<Vec<_>>(), [&b"https"[..], b"c:1", b"?d"]);
    assert_eq!(got[4], (b"host".to_vec(), b"e".to_vec()));
    assert_eq!(translated(b"GET /", "http"), None);
    assert_eq!(translated(b"GET / HTTP/1.1\r\nX", "http"), None);
}
