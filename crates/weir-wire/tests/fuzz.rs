//! Runs the fuzz bodies of this crate over their seeds and over a bounded number of mutations, on any
//! toolchain.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../../fuzz/src/wire.rs"]
mod wire;

use weir_testkit::fuzz;

/// Words that mutations insert, beside bytes of other seeds.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"\0",
    b"0",
    b"5",
    b"f",
    b"-",
    b"+",
    b"\"",
    b"#",
    b"@",
    b"\x7f",
    b"\xff",
    b"Host: a\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"chunked",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"http://a",
    b"GET ",
    b"0\r\n\r\n",
];

#[test]
fn request_heads_keep_their_promises() {
    fuzz("request_head", WORDS, wire::request_head);
}

#[test]
fn response_heads_keep_their_promises() {
    fuzz("response_head", WORDS, wire::response_head);
}

#[test]
fn chunked_bodies_keep_their_promises() {
    fuzz("chunked_body", WORDS, wire::chunked_body);
}

#[test]
fn trailers_keep_their_promises() {
    fuzz("trailers", WORDS, wire::trailers);
}
