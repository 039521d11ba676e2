//! Lists of fields are held to the grammar of HTTP/1.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::prelude::*;

use super::*;
use crate::{RequestReader, print};

const HOST_FIELD: &str = "www.example.com";

fn pseudo(method: &str, path: &str) -> Pseudo {
    Pseudo {
        method: Method::from_bytes(method.as_bytes()).unwrap(),
        scheme: Some(Bytes::from_static(b"https")),
        authority: Some(Bytes::from_static(HOST_FIELD.as_bytes())),
        path: Bytes::copy_from_slice(path.as_bytes()),
        protocol: None,
    }
}

fn fields(list: &[(&str, &str)]) -> HeaderMap {
    let field = |(name, value): &(&str, &str)| {
        (name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    list.iter().map(field).collect()
}

/// The word for what is refused, or `ok`.
fn word(list: Pseudo, headers: &[(&str, &str)], content: ListedContent) -> &'static str {
    match of_list(list, fields(headers), content, &Limits::default()) {
        Ok(_) => "ok",
        Err(refusal) => refusal.reason(),
    }
}

#[test]
fn what_http_1_refuses_is_refused() {
    let check = |headers: &[(&str, &str)], expect: &str| {
        assert_eq!(word(pseudo("GET", "/"), headers, ListedContent::None), expect, "{headers:?}");
    };
    check(&[], "ok");
    check(&[("te", "trailers"), ("cookie", "a=1"), ("cookie", "b=2")], "ok");
    check(&[("host", "WWW.example.com:443")], "ok");
    check(&[("host", "other.example.com")], "host-not-authority");
    check(&[("host", HOST_FIELD), ("host", HOST_FIELD)], "host-twice");
    check(&[("host", "a b")], "host");
    check(&[("te", "gzip")], "connection-field");
    check(&[("connection", "close")], "connection-field");
    check(&[("keep-alive", "timeout=5")], "connection-field");
    check(&[("proxy-connection", "keep-alive")], "connection-field");
    check(&[("transfer-encoding", "chunked")], "connection-field");
    check(&[("upgrade", "h2c")], "connection-field");
    check(&[("x", " a")], "space-around-value");
    check(&[("x", "a\t")], "space-around-value");
    check(&[("content_length", "5")], "lookalike-name");
    check(&[("content-length", "5")], "truncated");
    check(&[("content-length", "0")], "ok");
    check(&[("content-length", "+0")], "content-length");
    check(&[("content-length", "0"), ("content-length", "0")], "content-length-twice");
    check(&[("authorization", "a"), ("authorization", "b")], "field-twice:authorization");
    check(&[("expect", "100-continue")], "ok");
    check(&[("expect", "a-miracle")], "expect");
}

/// The crate that reads field blocks makes names by this function, which allows a quote.
#[test]
fn a_name_is_a_token() {
    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_lowercase(b"\"x\"").unwrap(), HeaderValue::from_static("a"));
    let refused = of_list(pseudo("GET", "/"), headers, ListedContent::None, &Limits::default());
    assert_eq!(refused.unwrap_err().reason(), "field-name");
}

#[test]
fn a_name_is_a_token_though_its_type_takes_a_quote() {
    let name = HeaderName::from_lowercase(b"\"x\"").expect("the type takes it");
    let headers = HeaderMap::from_iter([(name, HeaderValue::from_static("a"))]);
    let refused = of_list(pseudo("GET", "/"), headers, ListedContent::None, &Limits::default());
    assert_eq!(refused.unwrap_err().reason(), "field-name");
}

#[test]
fn pseudo_fields_are_held_to_the_grammar() {
    let check = |list: Pseudo, expect: &str| {
        assert_eq!(word(list.clone(), &[], ListedContent::None), expect, "{list:?}");
    };
    check(pseudo("OPTIONS", "*"), "ok");
    check(pseudo("GET", "*"), "target");
    check(pseudo("GET", ""), "start-line");
    check(pseudo("GET", "/a#b"), "target-fragment");
    check(pseudo("GET", "/a b"), "target-bytes");
    check(pseudo("GET", "/ä"), "target-bytes");
    check(pseudo("GET", "http://www.example.com/"), "target");
    check(pseudo("GET", &format!("/{}", "a".repeat(8200))), "line-too-long");
    check(pseudo("TRACE", "/"), "method-refused");
    check(pseudo("CONNECT", "/"), "method-refused");
    let authority = |text: &str| Pseudo {
        authority: Some(Bytes::copy_from_slice(text.as_bytes())),
        ..pseudo("GET", "/")
    };
    check(authority("user@www.example.com"), "host-userinfo");
    check(authority("www..example.com"), "host");
    check(authority("www.example.com:0443"), "host-port");
    check(Pseudo { authority: None, ..pseudo("GET", "/") }, "host-missing");
    check(Pseudo { scheme: Some(Bytes::from_static(b"ftp")), ..pseudo("GET", "/") }, "target-scheme");
    let protocol = |method: &str, protocol: &'static str| Pseudo {
        protocol: Some(Bytes::from_static(protocol.as_bytes())),
        ..pseudo(method, "/")
    };
    check(protocol("GET", "websocket"), "pseudo-field");
    check(protocol("CONNECT", "connect-udp"), "protocol-unknown");
    check(protocol("CONNECT", "websocket"), "ok");
}

#[test]
fn the_length_of_content_is_known_or_open() {
    let framing = |method: &str, headers: &[(&str, &str)], content| {
        of_list(pseudo(method, "/"), fields(headers), content, &Limits::default())
            .map(|head| head.framing)
            .map_err(|refusal| refusal.reason())
    };
    assert_eq!(framing("POST", &[], ListedContent::None), Ok(Framing::None));
    assert_eq!(framing("POST", &[], ListedContent::Some), Ok(Framing::Chunked));
    assert_eq!(framing("POST", &[("content-length", "7")], ListedContent::Some), Ok(Framing::Length(7)));
    assert_eq!(framing("GET", &[], ListedContent::Some), Err("content-on-get"));
    assert_eq!(framing("HEAD", &[("content-length", "7")], ListedContent::Some), Err("content-on-get"));
}

#[test]
fn fields_are_counted_before_crumbs_are_joined() {
    let crumbs = |number: usize| {
        let crumb = |at| (COOKIE, HeaderValue::try_from(format!("c{at}=1")).unwrap());
        let headers: HeaderMap = (0..number).map(crumb).collect();
        of_list(pseudo("GET", "/"), headers, ListedContent::None, &Limits::default())
    };
    let head = crumbs(99).unwrap();
    assert_eq!(head.headers.get_all(COOKIE).iter().count(), 1);
    assert!(head.headers[COOKIE].to_str().unwrap().starts_with("c0=1; c1=1; c2=1"));
    assert_eq!(crumbs(100).unwrap_err().reason(), "too-many-fields");
    let large = HeaderValue::try_from("x".repeat(32_768)).unwrap();
    let headers = HeaderMap::from_iter([(HeaderName::from_static("x"), large)]);
    let refused = of_list(pseudo("GET", "/"), headers, ListedContent::None, &Limits::default());
    assert_eq!(refused.unwrap_err().reason(), "head-too-large");
}

#[test]
fn an_extended_connect_is_a_get_that_asks_for_a_protocol() {
    let list = Pseudo { protocol: Some(Bytes::from_static(b"WebSocket")), ..pseudo("CONNECT", "/chat") };
    let head = of_list(list, HeaderMap::new(), ListedContent::Some, &Limits::default()).unwrap();
    assert_eq!((head.method, head.framing), (Method::GET, Framing::None));
    assert_eq!(head.upgrade, Some(HeaderValue::from_static("websocket")));
    assert_eq!((head.host.as_str(), head.headers[HOST].as_bytes()), (HOST_FIELD, HOST_FIELD.as_bytes()));
}

proptest! {
    /// What is accepted, printed as HTTP/1, is a request that HTTP/1 accepts and understands alike.
    #[test]
    fn an_accepted_list_can_be_said_in_http_1(
        method in "[A-Za-z!]{1,8}",
        path in "[ -~]{0,30}",
        authority in prop::option::of("[a-zA-Z0-9.:@\\[\\]-]{0,20}"),
        headers in prop::collection::vec(
            ("(host|cookie|te|content-length|expect|x-[a-z]{1,5}|content_length|range)", "[ -~\\t]{0,12}"),
            0..8,
        ),
        follows in any::<bool>(),
    ) {
        let content = if follows { ListedContent::Some } else { ListedContent::None };
        let list: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let list_of = Pseudo {
            method: Method::from_bytes(method.as_bytes()).unwrap(),
            scheme: Some(Bytes::from_static(b"http")),
            authority: authority.map(Bytes::from),
            path: Bytes::from(path),
            protocol: None,
        };
        if let Ok(head) = of_list(list_of, fields(&list), content, &Limits::default()) {
            let mut text = Vec::new();
            print::request_line(&mut text, &head.method, head.target.as_str());
            print::fields(&mut text, &head.headers);
            if head.framing == Framing::Chunked {
                text.extend(b"transfer-encoding: chunked\r\n");
            }
            print::end(&mut text);
            let read = RequestReader::new(Limits::default()).read(&mut BytesMut::from(&text[..]));
            let read = read.map_err(|refusal| refusal.reason());
            let read = read.unwrap().expect("a whole head");
            prop_assert_eq!((&read.method, &read.target), (&head.method, &head.target));
            prop_assert_eq!(&read.host, &head.host);
            prop_assert_eq!((read.framing, read.expect), (head.framing, head.expect));
        }
    }
}
