//! Response heads: which are accepted, and which are malformed.

use super::{describe_response, read_body, response_line_of};
use crate::{Framing, Limits, RequestReader, ResponseReader};
use bytes::BytesMut;
use http::Method;

fn check(given: &str, expect: &str) {
    check_to(Method::GET, given, expect);
}

fn check_to(to: Method, given: &str, expect: &str) {
    assert_eq!(response_line_of(&to, given.as_bytes()), expect, "given {given:?}");
}

fn check_fields(fields: &str, expect: &str) {
    check(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"), expect);
}

#[test]
fn plain_responses_are_taken() {
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "200 1.1 length=5 keep");
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", "200 1.1 chunked keep");
    check("HTTP/1.1 200 OK\r\n\r\n", "200 1.1 close end");
    check("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "200 1.1 length=0 keep");
    check("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "200 1.1 length=0 keep");
    check("HTTP/1.1 599 caf\u{e9} \u{9}ok\r\nContent-Length: 0\r\n\r\n", "599 1.1 length=0 keep");
    check("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", "200 1.0 length=5 end");
    check("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n", "200 1.0 length=5 keep");
    check_fields("Connection: close\r\nContent-Length: 5", "200 1.1 length=5 end");
    check_fields("Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked", "200 1.1 chunked keep");
    check("HTTP/1.1 200 O", "more");
    check("HTTP/1.1 200 OK\r\n\r", "more");
}

#[test]
fn some_statuses_have_no_content() {
    check("HTTP/1.1 100 Continue\r\n\r\n", "100 1.1 none keep");
    check("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", "103 1.1 none keep");
    check("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\r\n", "101 1.1 none keep");
    check("HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n", "malformed interim-with-content");
    check("HTTP/1.1 103 x\r\nTransfer-Encoding: chunked\r\n\r\n", "malformed interim-with-content");
    check("HTTP/1.1 204 No Content\r\n\r\n", "204 1.1 none keep");
    check("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "204 1.1 none keep");
    check("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "204 1.1 none end");
    check("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", "204 1.1 none end");
    check("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "304 1.1 none keep");
    check_to(Method::HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "200 1.1 none keep");
    check_to(Method::HEAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 1.1 none keep");
    check_to(Method::HEAD, "HTTP/1.1 200 OK\r\n\r\n", "200 1.1 none keep");
}

#[test]
fn status_lines_are_strict() {
    check("\r\nHTTP/1.1 200 OK\r\n\r\n", "malformed empty-lines");
    check("HTTP/1.1 200 OK\n\r\n", "malformed bare-lf");
    check("HTTP/1.1\r\n\r\n", "malformed start-line");
    check("HTTP/1.1  200 OK\r\n\r\n", "malformed start-line");
    check("HTTP/1.1 20 OK\r\n\r\n", "malformed start-line");
    check("HTTP/1.1 2000 OK\r\n\r\n", "malformed start-line");
    check("HTTP/1.1 2x0 OK\r\n\r\n", "malformed status-code");
    check("HTTP/1.1 099 OK\r\n\r\n", "malformed status-code");
    check("HTTP/1.1 600 OK\r\n\r\n", "malformed status-code");
    check("HTTP/1.1 +20 OK\r\n\r\n", "malformed status-code");
    check("HTTP/1.1\t200\tOK\r\n\r\n", "malformed start-line");
    check("HTTP/2.0 200 OK\r\n\r\n", "malformed version-unsupported");
    check("http/1.1 200 OK\r\n\r\n", "malformed version");
    check("ICY 200 OK\r\n\r\n", "malformed version");
    check("<html>\r\n\r\n", "malformed start-line");
    check("HTTP/1.1 200 O\0K\r\n\r\n", "malformed nul");
    check("HTTP/1.1 200 O\rK\r\n\r\n", "malformed bare-cr");
    check("HTTP/1.1 200 O\u{1}K\r\n\r\n", "malformed control-byte");
}

#[test]
fn fields_are_as_strict_as_those_of_requests() {
    check_fields("X: a\n", "malformed bare-lf");
    check_fields("X: a\r\n b", "malformed obs-fold");
    check_fields("X : a", "malformed space-before-colon");
    check_fields("X", "malformed no-colon");
    check_fields("X: \0", "malformed nul");
    check_fields("Content_Length: 5", "malformed lookalike-name");
    check_fields("Content-Length: 5\r\nContent-Length: 5", "malformed content-length-twice");
    check_fields("Content-Length: 5, 5", "malformed content-length");
    check_fields("Content-Length: +5", "malformed content-length");
    check_fields("Content-Length: 5\r\nTransfer-Encoding: chunked", "malformed length-and-coding");
    check_fields("Transfer-Encoding: gzip", "malformed not-ending-in-chunked");
    check_fields("Transfer-Encoding: gzip, chunked", "malformed transfer-coding-unknown");
    check_fields("Transfer-Encoding: chunked, chunked", "malformed chunked-twice");
    check_fields("Connection: Content-Length", "malformed connection-names-needed-field");
    check_fields("Connection: Set-Cookie", "malformed connection-names-needed-field");
    check("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "malformed transfer-encoding-on-1.0");
}

#[test]
fn limits_are_those_of_origins() {
    let fields = |count: usize| "X: y\r\n".repeat(count);
    check(&format!("HTTP/1.1 200 OK\r\n{}\r\n", fields(200)), "200 1.1 close end");
    check(&format!("HTTP/1.1 200 OK\r\n{}\r\n", fields(201)), "malformed too-many-fields");
    check(&format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(65_536)), "malformed head-too-large");
    check(&format!("HTTP/1.1 200 {}\r\n\r\n", "y".repeat(9000)), "malformed line-too-long");
}

#[test]
fn interim_heads_come_before_the_final_one() {
    let mut buf =
        BytesMut::from("HTTP/1.1 103 x\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let mut reader = ResponseReader::new(Limits::origin());
    let first = reader.read(&mut buf, &Method::GET).unwrap().unwrap();
    assert_eq!(describe_response(&first), "103 1.1 none keep");
    let last = reader.read(&mut buf, &Method::GET).unwrap().unwrap();
    assert_eq!(describe_response(&last), "200 1.1 length=2 keep");
    assert_eq!(buf, "ok");
}

#[test]
fn a_malformed_connection_stays_malformed() {
    let mut buf = BytesMut::from("HTTP/1.1 200 OK\r\nX\r\n\r\n");
    let mut reader = ResponseReader::new(Limits::origin());
    let malformed = reader.read(&mut buf, &Method::GET).unwrap_err();
    let mut next = BytesMut::from("HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(reader.read(&mut next, &Method::GET).unwrap_err(), malformed);
}

#[test]
fn no_limit_is_wide_enough_to_break_the_map() {
    let limits = Limits { line_bytes_max: 8192, head_bytes_max: 8 << 20, fields_max: 1_000_000 };
    let fields: String = (0..40_000).map(|number| format!("X-{number}: a\r\n")).collect();
    let mut buf = BytesMut::from(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes());
    let malformed = ResponseReader::new(limits).read(&mut buf, &Method::GET).unwrap_err();
    assert_eq!(malformed.reason(), "too-many-fields");
    let whole = read_body(Framing::Chunked, &limits, [format!("0\r\n{fields}\r\n").as_bytes()]);
    assert_eq!(whole.end.unwrap_err().reason(), "too-many-fields");
    let mut buf = BytesMut::from(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    assert_eq!(RequestReader::new(limits).read(&mut buf).unwrap_err().reason(), "too-many-fields");
}
