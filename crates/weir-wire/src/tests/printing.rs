//! What is written, byte for byte.

use crate::print;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

fn check(write: impl FnOnce(&mut Vec<u8>), expect: &str) {
    let mut out = Vec::new();
    write(&mut out);
    assert_eq!(String::from_utf8_lossy(&out), expect);
}

fn two_fields() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.append("link", HeaderValue::from_static("a"));
    headers.append("link", HeaderValue::from_static("b"));
    headers
}

#[test]
fn heads_are_printed() {
    check(|out| print::status_line(out, StatusCode::OK), "HTTP/1.1 200 OK\r\n");
    check(|out| print::status_line(out, StatusCode::from_u16(299).unwrap()), "HTTP/1.1 299 \r\n");
    check(|out| print::request_line(out, &Method::GET, "/a?b"), "GET /a?b HTTP/1.1\r\n");
    check(|out| print::field(out, "Age", b"5"), "Age: 5\r\n");
    check(|out| print::fields(out, &two_fields()), "link: a\r\nlink: b\r\n");
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: a\r\nlink: b\r\n\r\n";
    check(|out| print::interim(out, StatusCode::EARLY_HINTS, &two_fields()), hints);
}

#[test]
fn chunks_are_printed() {
    check(|out| print::chunk_head(out, 1), "1\r\n");
    check(|out| print::chunk_head(out, 0x10), "10\r\n");
    check(|out| print::chunk_head(out, 0xfe_dcba), "fedcba\r\n");
    check(|out| print::chunk_head(out, usize::MAX), "ffffffffffffffff\r\n");
    check(|out| print::last_chunk(out, None), "0\r\n\r\n");
    check(|out| print::last_chunk(out, Some(&two_fields())), "0\r\nlink: a\r\nlink: b\r\n\r\n");
    check(|out| print::number(out, u64::MAX), "18446744073709551615");
}

#[test]
#[should_panic(expected = "a target that was not checked")]
fn an_unchecked_target_is_not_printed() {
    print::request_line(&mut Vec::new(), &Method::GET, "/ HTTP/1.1\r\nX: y");
}

#[test]
#[should_panic(expected = "a field value that was not checked")]
fn an_unchecked_value_is_not_printed() {
    print::field(&mut Vec::new(), "x", b"a\r\nb: c");
}

#[test]
#[should_panic(expected = "an empty chunk would end the body")]
fn an_empty_chunk_is_not_printed() {
    print::chunk_head(&mut Vec::new(), 0);
}
