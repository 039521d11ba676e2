//! Responses in tiny chunks: what has arrived of a body leaves in one piece, however its origin has cut it.

use weir_testkit::h2::{flag, hpack, kind, setting};
use weir_testkit::{Client, Frame, H2Frames, Origin, Weir, pattern};

use crate::arrive::http2;

const BYTES: usize = 100_000;
/// So many pieces at most: a hundredth of those that the origin made. An arrival has a piece of its own.
const PIECES_MAX: usize = BYTES / 100;

/// A Weir before an origin that answers in chunks of one byte, which it sends at once. `/stored` may be
/// stored, `/passed` not.
fn before_tiny_chunks() -> (Origin, Weir, Vec<u8>) {
    let origin = Origin::start();
    let body = pattern(0, BYTES);
    for (path, may_be) in [("/stored", "max-age=600"), ("/passed", "no-store")] {
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: {may_be}\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut response = head.into_bytes();
        for byte in &body {
            response.extend_from_slice(b"1\r\n");
            response.extend_from_slice(&[*byte, b'\r', b'\n']);
        }
        response.extend_from_slice(b"0\r\n\r\n");
        origin.raw_kept(path, response);
    }
    let weir = http2::weir(&origin, "");
    (origin, weir, body)
}

/// The lengths of the chunks behind a head, and what they have together.
fn chunks(mut text: &[u8]) -> (Vec<usize>, Vec<u8>) {
    let line_end = |text: &[u8]| text.windows(2).position(|two| two == b"\r\n").expect("a line");
    text = &text[text.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4..];
    let (mut lengths, mut content) = (Vec::new(), Vec::new());
    loop {
        let end = line_end(text);
        let length = usize::from_str_radix(std::str::from_utf8(&text[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return (lengths, content);
        }
        lengths.push(length);
        content.extend_from_slice(&text[end + 2..end + 2 + length]);
        text = &text[end + 2 + length + 2..];
    }
}

#[test]
fn what_came_in_tiny_chunks_leaves_in_few() {
    let (_origin, weir, body) = before_tiny_chunks();
    for path in ["/passed", "/stored"] {
        let mut client = Client::connect(weir.addr());
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", http2::HOST));
        let (lengths, content) = chunks(&client.read_to_end());
        assert!(content == body, "{path}: {} bytes", content.len());
        assert!(lengths.len() <= PIECES_MAX, "{path}: {} chunks", lengths.len());
    }
}

#[test]
fn what_came_in_tiny_chunks_leaves_in_few_frames() {
    let (_origin, weir, body) = before_tiny_chunks();
    for path in ["/passed", "/stored"] {
        let mut client = H2Frames::connect(weir.addr());
        client.begin(&[(setting::INITIAL_WINDOW_SIZE, 1 << 20)]);
        client.send_frame(&Frame::window_update(0, 1 << 20));
        let fields = [(":method", "GET"), (":scheme", "http"), (":authority", http2::HOST), (":path", path)];
        client.send_frame(&Frame::headers(1, flag::END_HEADERS | flag::END_STREAM, hpack::literals(fields)));
        let (mut content, mut frames) = (Vec::new(), 0);
        loop {
            let frame = client.recv().unwrap();
            if frame.kind == kind::DATA {
                content.extend_from_slice(&frame.payload);
                frames += 1;
                if frame.has(flag::END_STREAM) {
                    break;
                }
            }
        }
        assert!(content == body, "{path}: {} bytes", content.len());
        assert!(frames <= PIECES_MAX, "{path}: {frames} frames");
    }
}
