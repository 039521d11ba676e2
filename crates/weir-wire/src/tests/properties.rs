//! Properties: printing and parsing are inverse; the way in which bytes arrive does not matter; nothing
//! panics; `httparse` accepts every accepted message and reads it alike.

use super::{describe_request, describe_response, read_body, request_line_of};
use crate::{Framing, Limits, RequestReader, ResponseReader, print};
use bytes::BytesMut;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use proptest::prelude::*;

/// Cuts `bytes` at these places.
fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// All heads of a connection, until one is refused or the bytes end, and what is left then.
fn read_requests(pieces: &[&[u8]], limits: Limits) -> (Vec<String>, Vec<u8>) {
    let mut reader = RequestReader::new(limits);
    let mut buf = BytesMut::new();
    let mut seen = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            match reader.read(&mut buf) {
                Ok(None) => break,
                Ok(Some(head)) => {
                    seen.push(format!("{} {:?}", describe_request(&head), head.headers));
                    reader.recycle(head.headers);
                }
                Err(refusal) => {
                    seen.push(refusal.to_string());
                    return (seen, Vec::new());
                }
            }
        }
    }
    (seen, buf.to_vec())
}

fn read_response(pieces: &[&[u8]]) -> String {
    let mut reader = ResponseReader::new(Limits::origin());
    let mut buf = BytesMut::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        match reader.read(&mut buf, &Method::GET) {
            Ok(None) => {}
            Ok(Some(head)) => {
                return format!("{} {:?} {}", describe_response(&head), head.headers, head.head_bytes);
            }
            Err(malformed) => return malformed.to_string(),
        }
    }
    "more".into()
}

prop_compose! {
    fn names()(name in "[!#$%&'*+.^_`|~0-9a-zA-Z-]{1,20}") -> HeaderName {
        // This prefix, which no name of the grammar has, keeps the names from having a meaning.
        HeaderName::from_bytes(format!("q{name}").as_bytes()).unwrap()
    }
}

prop_compose! {
    fn values()(value in prop::collection::vec(
        prop_oneof![0x20_u8..0x7f, 0x80_u8..=0xff, Just(b'\t')], 0..40,
    ))
        -> HeaderValue {
        HeaderValue::from_bytes(crate::syntax::trim(&value)).unwrap()
    }
}

prop_compose! {
    fn fields()(fields in prop::collection::vec((names(), values()), 0..12)) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value);
        }
        headers
    }
}

/// Bytes that are likely to mean something: pieces of messages in any order, with noise between.
fn near_messages() -> impl Strategy<Value = Vec<u8>> {
    let words: &[&[u8]] = &[
        b"GET ",
        b"POST ",
        b"/",
        b"/a?b ",
        b" HTTP/1.1",
        b" HTTP/1.0",
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\r",
        b"Host: a",
        b"Host: b\r\n",
        b"Content-Length: ",
        b"Transfer-Encoding: chunked\r\n",
        b"5",
        b"0",
        b"chunked",
        b":",
        b" ",
        b"\t",
        b"\0",
        b"Connection: close\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 204 x\r\n",
        b"X: y\r\n",
        b"http://a",
        b";a=b",
        b"hello",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\n",
        b"\xff",
        b"0\r\n\r\n",
    ];
    let word = prop::sample::select(words).prop_map(<[u8]>::to_vec);
    let noise = prop::collection::vec(any::<u8>(), 0..4);
    prop::collection::vec(prop_oneof![9 => word, 1 => noise], 0..24).prop_map(|parts| parts.concat())
}

fn small_limits() -> impl Strategy<Value = Limits> {
    (8_usize..60, 20_usize..160, 0_usize..6).prop_map(|(line_bytes_max, head_bytes_max, fields_max)| Limits {
        line_bytes_max,
        head_bytes_max,
        fields_max,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_printed_request_reads_the_same(
        method in "[A-Z]{1,10}", target in "/[!-\"$-~]{0,40}", host in "[a-z][a-z0-9-]{0,20}",
        headers in fields(),
    ) {
        prop_assume!(!matches!(method.as_str(), "CONNECT" | "TRACE"));
        let mut headers = headers;
        headers.insert("host", HeaderValue::from_str(&host).unwrap());
        let mut out = Vec::new();
        print::request_line(&mut out, &Method::from_bytes(method.as_bytes()).unwrap(), &target);
        print::fields(&mut out, &headers);
        print::end(&mut out);
        let mut buf = BytesMut::from(&out[..]);
        let head = RequestReader::new(Limits::default()).read(&mut buf).unwrap().unwrap();
        prop_assert_eq!(head.method.as_str(), method);
        prop_assert_eq!(head.target.as_str(), target);
        prop_assert_eq!(head.host.as_str(), host);
        prop_assert_eq!(head.headers, headers);
        prop_assert_eq!(head.head_bytes, out.len());
        prop_assert!(buf.is_empty());
    }

    #[test]
    fn a_printed_response_reads_the_same(code in 200_u16..600, headers in fields()) {
        let status = StatusCode::from_u16(code).unwrap();
        let mut out = Vec::new();
        print::status_line(&mut out, status);
        print::fields(&mut out, &headers);
        print::end(&mut out);
        let mut buf = BytesMut::from(&out[..]);
        let head = ResponseReader::new(Limits::origin()).read(&mut buf, &Method::GET).unwrap().unwrap();
        prop_assert_eq!(head.status, status);
        prop_assert_eq!(head.headers, headers);
    }

    #[test]
    fn a_printed_chunked_body_reads_the_same(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..6),
        trailers in fields(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut out = Vec::new();
        for chunk in &chunks {
            print::chunk_head(&mut out, chunk.len());
            out.extend_from_slice(chunk);
            out.extend_from_slice(print::CHUNK_END);
        }
        print::last_chunk(&mut out, Some(&trailers));
        out.extend_from_slice(b"next");
        let whole = read_body(Framing::Chunked, &Limits::default(), pieces(&out, &cuts));
        prop_assert_eq!(whole.data, chunks.concat());
        prop_assert_eq!(whole.end.unwrap().unwrap().unwrap_or_default(), trailers);
        prop_assert_eq!(whole.rest, b"next");
    }

    #[test]
    fn how_requests_arrive_does_not_matter(
        bytes in near_messages(), limits in small_limits(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        for limits in [limits, Limits::default()] {
            let at_once = read_requests(&[&bytes], limits);
            let split = read_requests(&pieces(&bytes, &cuts), limits);
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(&at_once.0, &split.0);
            prop_assert_eq!(&at_once.1, &split.1);
            prop_assert_eq!(at_once, read_requests(&single, limits));
        }
    }

    #[test]
    fn how_responses_arrive_does_not_matter(
        bytes in near_messages(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let bytes = [b"HTTP/1.1 200 OK\r\n", &bytes[..]].concat();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let at_once = read_response(&[&bytes]);
        prop_assert_eq!(&at_once, &read_response(&pieces(&bytes, &cuts)));
        prop_assert_eq!(&at_once, &read_response(&single));
    }

    #[test]
    fn how_a_body_arrives_does_not_matter(
        bytes in near_messages(), limits in small_limits(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        for framing in [Framing::Chunked, Framing::Length(9), Framing::Close, Framing::None] {
            let mut at_once = read_body(framing, &limits, [&bytes[..]]);
            let mut split = read_body(framing, &limits, pieces(&bytes, &cuts));
            let mut single = read_body(framing, &limits, bytes.chunks(1));
            if at_once.end.is_err() {
                // Bytes behind the fault are not read and may not have arrived.
                for whole in [&mut at_once, &mut split, &mut single] {
                    whole.rest.clear();
                }
            }
            prop_assert_eq!(&at_once, &split);
            prop_assert_eq!(at_once, single);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        request_line_of(&bytes);
        read_response(&[&bytes]);
        read_body(Framing::Chunked, &Limits::default(), [&bytes[..]]);
    }

    #[test]
    fn httparse_reads_accepted_messages_alike(bytes in near_messages()) {
        let mut buf = BytesMut::from(&bytes[..]);
        let Ok(Some(head)) = RequestReader::new(Limits::default()).read(&mut buf) else { return Ok(()) };
        let mut headers = [httparse::EMPTY_HEADER; 100];
        let mut oracle = httparse::Request::new(&mut headers);
        let skipped = bytes.len() - buf.len() - head.head_bytes;
        let parsed = oracle.parse(&bytes[skipped..]);
        prop_assert_eq!(parsed, Ok(httparse::Status::Complete(head.head_bytes)));
        prop_assert_eq!(oracle.method, Some(head.method.as_str()));
        let is_end = |path: &str| path.ends_with(head.target.as_str()) || head.scheme.is_some();
                prop_assert!(oracle.path.is_some_and(is_end));
        let mut theirs = HeaderMap::new();
        for header in oracle.headers.iter() {
            let name = HeaderName::from_bytes(header.name.as_bytes()).unwrap();
            theirs.append(name, HeaderValue::from_bytes(header.value).unwrap());
        }
        prop_assert_eq!(theirs, head.headers);
    }
}

/// Bytes that arrive one at a time must not be read again and again. A head at the limit is read in time
/// proportional to its bytes; a rescan would take some ten thousand times longer than a test may.
#[test]
fn work_is_linear_in_the_bytes() {
    let limits = Limits { line_bytes_max: 8192, head_bytes_max: 4 << 20, fields_max: 100 };
    let mut reader = RequestReader::new(limits);
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(2 << 20));
    let mut buf = BytesMut::with_capacity(head.len());
    for byte in head.as_bytes().chunks(1) {
        buf.extend_from_slice(byte);
        if reader.read(&mut buf).unwrap().is_some() {
            return;
        }
    }
    panic!("the head is whole");
}
