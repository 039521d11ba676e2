//! Many readers of the log at once, of which one never reads: what it loses is counted, and no request waits.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;
use weir_testkit::{Origin, Resource, Weir};

use super::going::Log;
use crate::server::server;

/// More than a reader has room for, in the queue of its stream and in the buffers of its socket.
const REQUESTS: u64 = 6000;
const LONGEST: Duration = Duration::from_secs(30);

/// A stream of the log that is not read.
fn unread(weir: &Weir) -> UnixStream {
    let mut socket = UnixStream::connect(weir.state().join("control.sock")).unwrap();
    socket.set_read_timeout(Some(LONGEST)).unwrap();
    socket.write_all(b"GET /v1/log?full=1&q=status%20%3D%3D%20200 HTTP/1.1\r\nHost: weir\r\n\r\n").unwrap();
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
    socket
}

/// Reads until the lines, and those that are told to be lost, are so many.
fn read_all(socket: &mut UnixStream, all: u64) -> (u64, u64) {
    let (mut text, mut buffer) = (Vec::new(), [0; 65_536]);
    let (mut lines, mut lost) = (0, 0);
    while lines + lost < all {
        let length = socket.read(&mut buffer).unwrap();
        assert!(length > 0, "the stream has ended after {lines} lines and {lost} lost");
        text.extend_from_slice(&buffer[..length]);
        // Sizes of chunks stand between the lines.
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(&line) else { continue };
            match object.get("event").and_then(Value::as_str) {
                Some("dropped") => lost += object["count"].as_u64().unwrap(),
                _ => lines += 1,
            }
        }
    }
    (lines, lost)
}

#[test]
fn one_that_never_reads_loses_lines_and_delays_nobody() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("x"));
    let weir = server(&[&origin]).start();
    let mut socket = unread(&weir);
    // By numbers alone, so that what does not fit takes nothing of their room.
    let condition = ["-q", "status == 404"];
    let mut readers: Vec<Log> = (0..9)
        .map(|number| {
            let more: &[&str] = match number % 3 {
                0 => &[],
                1 => &["--full"],
                _ => &["--json"],
            };
            Log::start(&weir, "a.test", &[&condition[..], more].concat())
        })
        .collect();
    // The others hear what they want, although this one is full: of it as well are numbers alone asked.
    let mut client = weir.client();
    let request = "GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n";
    for _ in 0..REQUESTS / 100 {
        client.send(request.repeat(100));
        for _ in 0..100 {
            assert_eq!(client.recv().unwrap().status(), 200);
        }
    }
    client.get("a.test", "/last", &[]);
    for reader in &mut readers {
        reader.line("/last");
    }
    // Whatever was lost on its way to the one that did not read, it is told of.
    let (lines, lost) = read_all(&mut socket, REQUESTS);
    assert_eq!(lines + lost, REQUESTS);
    assert!(lines > 0 && lost > 0, "{lines} lines, {lost} lost");
}
