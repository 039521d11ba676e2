//! The form of a multipart body, byte for byte.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use weir_policy::{Answer, CacheRules, Consult, RequestView, ResponseView, answer, consult, storable};

use super::{Form, Multipart};
use crate::deliver::source::Source;
use crate::deliver::{Body, Cut};
use weir_clock as clock;

/// The form of these ranges of 1000 bytes.
fn form(range: &'static str, content_type: Option<&'static str>) -> Form {
    let headers = HeaderMap::from_iter([(http::header::RANGE, HeaderValue::from_static(range))]);
    let view = RequestView {
        method: &Method::GET,
        scheme: "http",
        host: "example.test",
        path_and_query: "/",
        headers: &headers,
        has_body: false,
        is_trusted: false,
    };
    let (now, rules) = (clock::now(), CacheRules::default());
    let fresh = HeaderMap::from_iter([(http::header::CACHE_CONTROL, HeaderValue::from_static("max-age=60"))]);
    let stored =
        storable(&view, &ResponseView::new(StatusCode::OK, &fresh, now, now), &rules).unwrap().into_stored();
    let Consult::Use(ask) = consult(&view, &rules) else { panic!("passed") };
    match answer(&view, &ask, &stored, Some(1000)) {
        Answer::Parts(parts) => Form::new(parts, content_type.map(HeaderValue::from_static)),
        answer => panic!("{answer:?}"),
    }
}

/// The body of these parts, read in pieces of this size, and how it ends.
fn sent(form: Form, bytes: &'static [u8], bytes_max: usize) -> (Vec<u8>, Result<(), Cut>) {
    let mut body = Multipart::new(form, Source::Bytes(Bytes::from_static(bytes)));
    let mut sent = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let end = runtime.block_on(async {
        while let Some(piece) = body.next(bytes_max).await? {
            assert!((1..=bytes_max).contains(&piece.len()));
            sent.extend_from_slice(&piece);
        }
        Ok(())
    });
    (sent, end)
}

#[test]
fn parts_are_set_apart() {
    for bytes_max in [1, 7, 1000] {
        let form = form("bytes=990-993,0-0,-1", Some("text/plain"));
        let (length, boundary) = (form.length(), form.boundary.clone());
        assert_eq!(form.content_type(), format!("multipart/byteranges; boundary={boundary}"));
        assert_eq!((form.first().start, form.first().end), (990, 1000));
        let (sent, end) = sent(form, b"0123456789a", bytes_max);
        let expect = format!(
            "--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 990-999/1000\r\n\r\n\
             0123456789\r\n\
             --{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-0/1000\r\n\r\n\
             a\r\n--{boundary}--\r\n"
        );
        assert_eq!((String::from_utf8(sent).unwrap(), end), (expect.clone(), Ok(())));
        assert_eq!(length, expect.len() as u64);
    }
}

#[test]
fn without_a_type_the_parts_have_none() {
    let form = form("bytes=0-0,-1", None);
    let (length, boundary) = (form.length(), form.boundary.clone());
    let (sent, _) = sent(form, b"ab", 1000);
    let expect = format!(
        "--{boundary}\r\nContent-Range: bytes 0-0/1000\r\n\r\na\r\n\
         --{boundary}\r\nContent-Range: bytes 999-999/1000\r\n\r\nb\r\n--{boundary}--\r\n"
    );
    assert_eq!((String::from_utf8(sent).unwrap(), length), (expect.clone(), expect.len() as u64));
}

#[test]
fn what_ends_early_is_cut_and_not_gone_on_with() {
    let form = form("bytes=0-9,500-509", None);
    let boundary = form.boundary.clone();
    let (sent, end) = sent(form, b"01234", 1000);
    assert_eq!(end, Err(Cut { word: "body-too-short" }));
    assert_eq!(sent, format!("--{boundary}\r\nContent-Range: bytes 0-9/1000\r\n\r\n01234").into_bytes());
}

#[test]
fn no_two_boundaries_are_alike() {
    let boundary = || form("bytes=0-0,-1", None).boundary;
    let all: std::collections::HashSet<String> = (0..1000).map(|_| boundary()).collect();
    assert_eq!(all.len(), 1000);
    assert!(
        all.iter()
            .all(|boundary| boundary.len() == 32 && boundary.bytes().all(|byte| byte.is_ascii_hexdigit()))
    );
}
