//! What Weir writes to the wire: always from typed values, never a copy of what it read.
//!
//! The asserts match the checks of the readers. What they refuse can only come from a mistake in Weir.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};

/// The end of a chunk's data.
pub const CHUNK_END: &[u8] = b"\r\n";

/// `HTTP/1.1 200 OK` and its CRLF.
pub fn status_line(out: &mut Vec<u8>, status: StatusCode) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// `GET /path?query HTTP/1.1` and its CRLF.
///
/// # Panics
/// If `target` is not visible ASCII.
pub fn request_line(out: &mut Vec<u8>, method: &Method, target: &str) {
    assert!(
        !target.is_empty() && crate::syntax::is_visible(target.as_bytes()),
        "a target that was not checked"
    );
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// All fields of `headers`, those with the same name together.
pub fn fields(out: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        checked(out, name, value);
    }
}

/// One field whose types say that it was checked: a name is a token, and a value has no CR, LF or NUL.
pub fn checked(out: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
    out.reserve(name.len() + value.len() + b": \r\n".len());
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// One field.
///
/// # Panics
/// If `name` is not a token, or `value` holds CR, LF or NUL.
pub fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    assert!(crate::syntax::is_token(name.as_bytes()), "a field name that was not checked");
    assert!(memchr::memchr3(b'\r', b'\n', b'\0', value).is_none(), "a field value that was not checked");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The empty line that ends a head.
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// An interim response (1xx), whole.
pub fn interim(out: &mut Vec<u8>, status: StatusCode, headers: &HeaderMap) {
    status_line(out, status);
    fields(out, headers);
    end(out);
}

/// The line that opens a chunk of `bytes`; the data and [`CHUNK_END`] follow.
///
/// # Panics
/// If `bytes` is zero: that is [`last_chunk`].
pub fn chunk_head(out: &mut Vec<u8>, bytes: usize) {
    assert!(bytes > 0, "an empty chunk would end the body");
    let digits = (usize::BITS - bytes.leading_zeros()).div_ceil(4);
    for place in (0..digits).rev() {
        let digit = (bytes >> (4 * place)) & 0xf;
        out.push(b"0123456789abcdef"[digit]);
    }
    out.extend_from_slice(b"\r\n");
}

/// The chunk of size zero, trailers and the empty line: the end of a chunked body.
pub fn last_chunk(out: &mut Vec<u8>, trailers: Option<&HeaderMap>) {
    out.extend_from_slice(b"0\r\n");
    if let Some(trailers) = trailers {
        fields(out, trailers);
    }
    end(out);
}

/// A number in decimal.
pub fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
