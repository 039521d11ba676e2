//! Promises of the codec that hold for any bytes: no panic; limits are kept; nothing is taken beyond the
//! message; the result does not depend on how the bytes arrive; an accepted message reads the same after it
//! is printed again.

use bytes::BytesMut;
use http::Method;
use http::header::HeaderMap;
use weir_wire::{
    BodyPart, BodyReader, DATA_BYTES_MAX, Framing, Limits, RequestHead, RequestReader, ResponseHead,
    ResponseReader, Version, print,
};

/// Small limits, so that short inputs reach them.
const LIMITS: Limits = Limits { line_bytes_max: 200, head_bytes_max: 600, fields_max: 20 };

/// Reads any bytes as the requests of a connection.
pub fn request_head(data: &[u8]) {
    let at_once = requests([data]);
    assert_eq!(at_once, requests(data.chunks(1)), "bytes one by one");
    let (left, right) = data.split_at(data.len() / 2);
    assert_eq!(at_once, requests([left, right]), "bytes in two halves");
}

/// Reads any bytes as the responses of a connection.
pub fn response_head(data: &[u8]) {
    for method in [Method::GET, Method::HEAD] {
        let at_once = responses([data], &method);
        assert_eq!(at_once, responses(data.chunks(1), &method), "bytes one by one");
        let (left, right) = data.split_at(data.len() / 2);
        assert_eq!(at_once, responses([left, right], &method), "bytes in two halves");
    }
}

/// Reads any bytes as chunked content.
pub fn chunked_body(data: &[u8]) {
    let at_once = content([data], data.len());
    assert_eq!(at_once, content(data.chunks(1), data.len()), "bytes one by one");
    assert_eq!(at_once, content(data.chunks(7), data.len()), "bytes by seven");
    let (bytes, Some(Ok(trailers))) = at_once else { return };
    let mut printed = Vec::new();
    for chunk in bytes.chunks(5) {
        print::chunk_head(&mut printed, chunk.len());
        printed.extend_from_slice(chunk);
        printed.extend_from_slice(print::CHUNK_END);
    }
    print::last_chunk(&mut printed, trailers.as_ref());
    let again = content([&printed[..]], printed.len());
    if printed.len() < LIMITS.head_bytes_max {
        assert_eq!(again, (bytes, Some(Ok(trailers))), "printed again");
    }
}

/// Reads any bytes as what follows the last chunk.
pub fn trailers(data: &[u8]) {
    let body = [b"0\r\n", data].concat();
    chunked_body(&body);
    if let (_, Some(Ok(Some(trailers)))) = content([&body[..]], body.len()) {
        assert!(!trailers.is_empty() && trailers.len() <= LIMITS.fields_max);
        for name in ["content-length", "transfer-encoding", "host", "set-cookie", "authorization"] {
            assert!(!trailers.contains_key(name), "{name} in trailers");
        }
    }
}

/// All heads up to the first refused one, each as text, then the word of the refusal or the rest of the
/// bytes.
fn requests<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut reader = RequestReader::new(LIMITS);
    let mut buf = BytesMut::new();
    let mut seen = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            match reader.read(&mut buf) {
                Ok(None) => break,
                Ok(Some(head)) => {
                    check_request(&head);
                    seen.push(format!("{head:?}"));
                    reader.recycle(head.headers);
                }
                Err(refusal) => {
                    assert!(refusal.status().is_client_error() || refusal.status().is_server_error());
                    seen.push(refusal.reason().to_owned());
                    return seen;
                }
            }
        }
    }
    seen.push(format!("{buf:?}"));
    seen
}

fn check_request(head: &RequestHead) {
    assert!(head.head_bytes <= LIMITS.head_bytes_max);
    assert!(head.headers.len() <= LIMITS.fields_max);
    assert!(head.framing != Framing::Close);
    assert!(!head.host.is_empty() || head.version == Version::Http10);
    assert!(head.host.as_str().bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase()));
    if head.version == Version::Http10 || head.scheme.is_some() {
        return;
    }
    let mut printed = Vec::new();
    print::request_line(&mut printed, &head.method, head.target.as_str());
    print::fields(&mut printed, &head.headers);
    print::end(&mut printed);
    let mut buf = BytesMut::from(&printed[..]);
    let roomy = Limits { line_bytes_max: 1000, head_bytes_max: 4000, fields_max: 20 };
    let again = RequestReader::new(roomy).read(&mut buf);
    let Ok(Some(again)) = again else { panic!("printed again it is {again:?}: {}", printed.escape_ascii()) };
    let again = RequestHead { head_bytes: head.head_bytes, ..again };
    assert_eq!(format!("{again:?}"), format!("{head:?}"), "printed again");
}

/// All heads up to the first malformed one, each as text.
fn responses<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, to: &Method) -> Vec<String> {
    let mut reader = ResponseReader::new(LIMITS);
    let mut buf = BytesMut::new();
    let mut seen = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            match reader.read(&mut buf, to) {
                Ok(None) => break,
                Ok(Some(head)) => {
                    check_response(&head, to);
                    seen.push(format!("{head:?}"));
                }
                Err(malformed) => {
                    seen.push(malformed.reason().to_owned());
                    return seen;
                }
            }
        }
    }
    seen.push(format!("{buf:?}"));
    seen
}

fn check_response(head: &ResponseHead, to: &Method) {
    assert!(head.head_bytes <= LIMITS.head_bytes_max);
    assert!(head.headers.len() <= LIMITS.fields_max);
    if *to == Method::HEAD || head.status.is_informational() || matches!(head.status.as_u16(), 204 | 304) {
        assert_eq!(head.framing, Framing::None);
    }
    if head.version == Version::Http10 {
        return;
    }
    let mut printed = Vec::new();
    print::status_line(&mut printed, head.status);
    print::fields(&mut printed, &head.headers);
    print::end(&mut printed);
    let mut buf = BytesMut::from(&printed[..]);
    let again = ResponseReader::new(Limits::origin()).read(&mut buf, to);
    let Ok(Some(again)) = again else { panic!("printed again it is {again:?}: {}", printed.escape_ascii()) };
    let again = ResponseHead { head_bytes: head.head_bytes, ..again };
    assert_eq!(format!("{again:?}"), format!("{head:?}"), "printed again");
}

/// Chunked content: its bytes, and its end if it came to one.
type Content = (Vec<u8>, Option<Result<Option<HeaderMap>, String>>);

fn content<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, input_bytes: usize) -> Content {
    let mut reader = BodyReader::new(Framing::Chunked, &LIMITS);
    let mut buf = BytesMut::new();
    let mut bytes = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            match reader.read(&mut buf) {
                Ok(BodyPart::More) => break,
                Ok(BodyPart::Data(data)) => {
                    assert!(!data.is_empty() && data.len() <= DATA_BYTES_MAX);
                    bytes.extend_from_slice(&data);
                    assert!(bytes.len() <= input_bytes);
                }
                Ok(BodyPart::End(trailers)) => {
                    assert!(reader.is_done() && reader.end_of_input().is_ok());
                    return (bytes, Some(Ok(trailers)));
                }
                Err(malformed) => return (bytes, Some(Err(malformed.reason().to_owned()))),
            }
        }
    }
    assert!(!reader.is_done() && reader.end_of_input().is_err());
    (bytes, None)
}
