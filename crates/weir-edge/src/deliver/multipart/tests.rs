//! The form of a multipart body, byte for byte.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use weir_body::{Body, Cut};
use weir_policy::{
    Answer, CacheRules, Consult, Interval, RequestView, ResponseView, answer, consult, storable,
};

use super::{Form, Multipart, Turn};
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

/// A body whose bytes are known by their place. It may end early.
struct Digits {
    rest: Interval,
    ends_at: u64,
}

impl Turn for Digits {
    fn turn_to(&mut self, of: Interval) {
        self.rest = of;
    }
}

impl Body for Digits {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        let start = self.rest.start;
        let end = self.rest.end.min(self.ends_at).min(start.saturating_add(bytes_max as u64));
        self.rest.start = end.max(start);
        Ok((start < end).then(|| (start..end).map(|at| b'0' + (at % 10) as u8).collect()))
    }

    fn holds_origin(&self) -> bool {
        self.rest.start < 995
    }
}

/// The body of these parts, read in pieces of this size, and how it ends.
fn sent(form: Form, ends_at: u64, bytes_max: usize) -> (Vec<u8>, Result<(), Cut>) {
    let rest = form.first();
    let mut body = Multipart::new(form, Digits { rest, ends_at });
    let mut sent = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let end = runtime.block_on(async {
        while let Some(piece) = body.next(bytes_max).await? {
            assert!((1..=bytes_max).contains(&piece.len()));
            sent.extend_from_slice(&piece);
            // A client that is slow holds back the origin of the part that it reads.
            assert_eq!(body.holds_origin(), body.source.holds_origin());
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
        let (sent, end) = sent(form, 1000, bytes_max);
        let expect = format!(
            "--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 990-999/1000\r\n\r\n\
             0123456789\r\n\
             --{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-0/1000\r\n\r\n\
             0\r\n--{boundary}--\r\n"
        );
        assert_eq!((String::from_utf8(sent).unwrap(), end), (expect.clone(), Ok(())));
        assert_eq!(length, expect.len() as u64);
    }
}

#[test]
fn without_a_type_the_parts_have_none() {
    let form = form("bytes=0-0,-1", None);
    let (length, boundary) = (form.length(), form.boundary.clone());
    let (sent, _) = sent(form, 1000, 1000);
    let expect = format!(
        "--{boundary}\r\nContent-Range: bytes 0-0/1000\r\n\r\n0\r\n\
         --{boundary}\r\nContent-Range: bytes 999-999/1000\r\n\r\n9\r\n--{boundary}--\r\n"
    );
    assert_eq!((String::from_utf8(sent).unwrap(), length), (expect.clone(), expect.len() as u64));
}

#[test]
fn what_ends_early_is_cut_and_not_gone_on_with() {
    let form = form("bytes=0-9,500-509", None);
    let boundary = form.boundary.clone();
    let (sent, end) = sent(form, 5, 1000);
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
