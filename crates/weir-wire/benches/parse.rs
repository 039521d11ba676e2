//! Nanoseconds a head costs to read. Run with `cargo bench -p weir-wire`; prints, asserts nothing.
//!
//! Each round is timed by itself and the smallest mean of several is shown, which other load disturbs least.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a measurement reads the clock")]

use bytes::BytesMut;
use http::Method;
use std::hint::black_box;
use std::time::Instant;
use weir_wire::{BodyPart, BodyReader, Framing, Limits, RequestReader, ResponseReader, print};

const ROUNDS: u32 = 20;
const PER_ROUND: u32 = 20_000;

fn measure(name: &str, mut act: impl FnMut()) {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..PER_ROUND {
            act();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(PER_ROUND));
    }
    println!("{name:<32} {best:>8.0} ns");
}

fn requests(name: &str, fields: &str) {
    let head = format!("GET /path/to/some/file.css?v=12 HTTP/1.1\r\nHost: www.example.com\r\n{fields}\r\n");
    let mut reader = RequestReader::new(Limits::default());
    let mut buf = BytesMut::with_capacity(16 * 1024);
    measure(name, || {
        buf.reserve(4096);
        buf.extend_from_slice(head.as_bytes());
        let head = reader.read(&mut buf).unwrap().unwrap();
        reader.recycle(black_box(head).headers);
    });
}

fn main() {
    requests("request, 1 field", "");
    requests(
        "request, 10 fields",
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
         Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
         Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
         Connection: keep-alive\r\nReferer: https://www.example.com/\r\nCookie: a=b; c=d\r\n\
         Cache-Control: max-age=0\r\nIf-None-Match: \"abcdef\"\r\n",
    );
    requests(
        "request, 10 fields, 5 unknown",
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
         Accept: */*\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nReferer: https://www.example.com/\r\n\
         Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\nSec-GPC: 1\r\n\
         Priority: u=0, i\r\n",
    );
    let response = "HTTP/1.1 200 OK\r\nDate: Mon, 27 Jul 2009 12:28:53 GMT\r\nServer: x\r\n\
    Content-Type: text/css\r\n\
        Content-Length: 1024\r\nETag: \"abc\"\r\nCache-Control: max-age=60\r\n\r\n";
    let mut reader = ResponseReader::new(Limits::origin());
    let mut buf = BytesMut::with_capacity(16 * 1024);
    measure("response, 6 fields", || {
        buf.reserve(4096);
        buf.extend_from_slice(response.as_bytes());
        black_box(reader.read(&mut buf, &Method::GET).unwrap().unwrap());
    });
    let mut out = Vec::with_capacity(4096);
    let mut buf = BytesMut::from(response);
    let head = reader.read(&mut buf, &Method::GET).unwrap().unwrap();
    measure("print a head of 6 fields", || {
        out.clear();
        print::status_line(&mut out, head.status);
        print::fields(&mut out, &head.headers);
        print::end(&mut out);
        black_box(&out);
    });
    let mut chunk = Vec::new();
    print::chunk_head(&mut chunk, 4096);
    chunk.resize(chunk.len() + 4096, b'x');
    chunk.extend_from_slice(print::CHUNK_END);
    let mut buf = BytesMut::with_capacity(64 * 1024);
    let mut body = BodyReader::new(Framing::Chunked, &Limits::origin());
    measure("a chunk of 4 KiB", || {
        buf.reserve(8192);
        buf.extend_from_slice(&chunk);
        while !matches!(black_box(body.read(&mut buf).unwrap()), BodyPart::More) {}
    });
}
