//! Request heads: which are accepted, and which are refused with which status and word.

use super::{describe_request, request_line_of};
use crate::{Limits, RequestReader, Target};
use bytes::BytesMut;

fn check(given: &str, expect: &str) {
    assert_eq!(request_line_of(given.as_bytes()), expect, "given {given:?}");
}

fn check_bytes(given: &[u8], expect: &str) {
    assert_eq!(request_line_of(given), expect, "given {:?}", String::from_utf8_lossy(given));
}

/// Checks `fields` behind a correct request line and host.
fn check_fields(method: &str, fields: &str, expect: &str) {
    check(&format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n"), expect);
}

#[test]
fn plain_requests_are_taken() {
    check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / @a 1.1 none keep");
    check("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / @a 1.1 none keep");
    check("GET /a?b=c&d HTTP/1.1\r\nHOST:\t A.Example.:80 \r\n\r\n", "GET /a?b=c&d @a.example 1.1 none keep");
    check("BREW /pot HTTP/1.1\r\nHost: a:8080\r\n\r\n", "BREW /pot @a:8080 1.1 none keep");
    check("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * @a 1.1 none keep");
    check(
        "GET //x//..%2f|\"{}[]\\^` HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET //x//..%2f|\"{}[]\\^` @a 1.1 none keep",
    );
    check("GET / HTTP/1.1\r\nHost: a\r\nX_Y: 1\r\nEmpty:\r\n\r\n", "GET / @a 1.1 none keep");
    check_bytes(b"GET / HTTP/1.1\r\nHost: a\r\nX: caf\xe9 \xff\r\n\r\n", "GET / @a 1.1 none keep");
}

#[test]
fn unfinished_heads_wait() {
    check("", "more");
    check("\r", "more");
    check("\r\n\r\n", "more");
    check("G", "more");
    check("GET / HTTP/1.1\r", "more");
    check("GET / HTTP/1.1\r\nHost: a\r\n\r", "more");
}

#[test]
fn absolute_form_names_scheme_and_host() {
    check("GET http://a/x HTTP/1.1\r\nHost: a\r\n\r\n", "GET /x @a 1.1 none keep scheme=http");
    check("GET HTTP://A:80 HTTP/1.1\r\nHost: a\r\n\r\n", "GET / @a 1.1 none keep scheme=http");
    check("GET https://a:443/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET / @a 1.1 none keep scheme=https");
    check("GET https://a:80/ HTTP/1.1\r\nHost: a:80\r\n\r\n", "GET / @a:80 1.1 none keep scheme=https");
    check("GET http://a?q=/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET /?q=/ @a 1.1 none keep scheme=http");
    check("OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * @a 1.1 none keep scheme=http");
    check("GET http://a/ HTTP/1.0\r\n\r\n", "GET / @a 1.0 none end scheme=http");
    check("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET / @b 1.1 none keep scheme=http");
    check("GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET / @a:81 1.1 none keep scheme=http");
    check("GET http://b/ HTTP/1.1\r\nHost: a/\r\n\r\n", "400 host");
    check("GET http://b/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 host-twice");
    check("GET http://a/ HTTP/1.1\r\n\r\n", "400 host-missing");
    check("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", "400 host-userinfo");
    check("GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n", "400 host-userinfo");
    check("GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n", "400 host");
    check("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "400 target-scheme");
    check("GET http:a HTTP/1.1\r\nHost: a\r\n\r\n", "400 target");
    check("GET a HTTP/1.1\r\nHost: a\r\n\r\n", "400 target");
    check("GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", "400 target");
    check("GET * HTTP/1.1\r\nHost: a\r\n\r\n", "400 target");
}

/// RFC 9112 section 3.2.2: nothing behind the parser can still read the other host.
#[test]
fn host_is_ignored_beside_the_absolute_form() {
    for (request, expect) in [
        ("GET http://B.example/ HTTP/1.1\r\nhost: a\r\n\r\n", "b.example"),
        ("GET https://a:80/ HTTP/1.0\r\nHost: a\r\n\r\n", "a:80"),
        ("GET http://a/ HTTP/1.1\r\nHost: A:80\r\n\r\n", "a"),
        ("GET http://[::1]:81/ HTTP/1.1\r\nX: y\r\nHost: a:\r\n\r\n", "[::1]:81"),
    ] {
        let mut buf = BytesMut::from(request);
        let head = RequestReader::new(Limits::default()).read(&mut buf).unwrap().unwrap();
        assert_eq!(
            (head.host.as_str(), head.headers.get_all("host").iter().count()),
            (expect, 1),
            "{request}"
        );
        let field = head.headers["host"].to_str().unwrap().to_lowercase();
        assert_eq!(field.trim_end_matches(":80"), expect.trim_end_matches(":80"), "{request}");
    }
}

#[test]
fn start_lines_are_strict() {
    check("GET /\r\n", "400 start-line");
    check("GET\r\n", "400 start-line");
    check("GET  HTTP/1.1\r\n", "400 start-line");
    check("GET  / HTTP/1.1\r\n", "400 target-bytes");
    check("GET /  HTTP/1.1\r\n", "400 target-bytes");
    check("GET / HTTP/1.1 \r\n", "400 version");
    check("GET\t/\tHTTP/1.1\r\n", "400 start-line");
    check("GET /a b HTTP/1.1\r\n", "400 target-bytes");
    check("GET /a\tb HTTP/1.1\r\n", "400 target-bytes");
    check("GET /\0 HTTP/1.1\r\n", "400 target-bytes");
    check("GET /\r/ HTTP/1.1\r\n", "400 target-bytes");
    check("GET /é HTTP/1.1\r\n", "400 target-bytes");
    check("GET /a#b HTTP/1.1\r\n", "400 target-fragment");
    check("GET / http/1.1\r\n", "400 version");
    check("GET / HTTP/1.10\r\n", "400 version");
    check("GET / HTTP/11\r\n", "400 version");
    check("GET / HTTP/2\r\n", "400 version");
    check("GET / HTTPS/1.1\r\n", "400 version");
    check("GET / HTTP/0.9\r\n", "505 version-unsupported");
    check("GET / HTTP/1.2\r\n", "505 version-unsupported");
    check("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505 version-unsupported");
    check("G(T / HTTP/1.1\r\n", "400 method");
    check("G\u{e9}T / HTTP/1.1\r\n", "400 method");
    check("CONNECT a:443 HTTP/1.1\r\n", "405 method-refused");
    check("TRACE / HTTP/1.1\r\n", "405 method-refused");
    check(" GET / HTTP/1.1\r\n", "400 leading-whitespace");
    check("\r\n GET / HTTP/1.1\r\n", "400 leading-whitespace");
    check("\r\n\r\n\r\n", "400 empty-lines");
    check("\n", "400 bare-lf");
    check("\rG", "400 bare-cr");
    check("\u{16}\u{3}\u{1}", "400 method");
    check("{\"a\":1}", "400 method");
}

#[test]
fn lines_end_in_crlf_alone() {
    check("GET / HTTP/1.1\n", "400 bare-lf");
    check("GET / HTTP/1.1\r\nHost: a\n\r\n", "400 bare-lf");
    check("GET / HTTP/1.1\r\nHost: a\r\n\n", "400 bare-lf");
    check("GET / HTTP/1.1\r\nHost: a\r\nX: a\nY: b\r\n\r\n", "400 bare-lf");
    check_fields("GET", "X: a\rY: b", "400 bare-cr");
    check_fields("GET", "X: a\r\r", "400 bare-cr");
    check_fields("GET", "X\r: a", "400 bare-cr");
    check("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", "400 version");
}

#[test]
fn field_lines_are_strict() {
    check_fields("GET", "X : a", "400 space-before-colon");
    check_fields("GET", "X\t: a", "400 space-before-colon");
    check_fields("GET", "X", "400 no-colon");
    check_fields("GET", ": a", "400 field-name");
    check_fields("GET", "X Y: a", "400 field-name");
    check_fields("GET", "X(Y): a", "400 field-name");
    check_fields("GET", "é: a", "400 field-name");
    check_fields("GET", "X\u{1}: a", "400 control-byte");
    check_fields("GET", "X: a\0", "400 nul");
    check_fields("GET", "X\0: a", "400 nul");
    check_fields("GET", "X: a\u{8}b", "400 control-byte");
    check_fields("GET", "X: \u{7f}", "400 control-byte");
    check_fields("GET", "X: \u{b}chunked", "400 control-byte");
    check_fields("GET", "X: a\r\n b", "400 obs-fold");
    check_fields("GET", "X: a\r\n\tb: c", "400 obs-fold");
    check("GET / HTTP/1.1\r\n Host: a\r\n\r\n", "400 obs-fold");
    check_fields("GET", "X: a\r\n ", "400 obs-fold");
    for name in [
        "Content_Length",
        "Transfer_Encoding",
        "content-length-",
        "Content--Length",
        "Contentxlength",
        "transfer5-encoding",
        "t-------------------",
        "+Transfer-Encoding",
    ] {
        check_fields("POST", &format!("{name}: 1"), "400 lookalike-name");
    }
    check_fields("GET", "Content-Lengthy: 1", "GET / @a 1.1 none keep");
    check_fields("GET", "X-Content-Length: 1", "GET / @a 1.1 none keep");
    check_fields("GET", "Content-Type-Options: 1", "GET / @a 1.1 none keep");
}

#[test]
fn there_is_one_host() {
    check("GET / HTTP/1.1\r\n\r\n", "400 host-missing");
    check("GET / HTTP/1.0\r\n\r\n", "GET / @ 1.0 none end");
    check_fields("GET", "Host: a", "400 host-twice");
    check_fields("GET", "host: b", "400 host-twice");
    check("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", "400 host-twice");
}

#[test]
fn fields_of_one_value_have_one() {
    for name in [
        "Authorization",
        "Content-Location",
        "Content-Range",
        "Content-Type",
        "Date",
        "Destination",
        "If-Modified-Since",
        "If-Range",
        "If-Unmodified-Since",
        "Origin",
        "Range",
        "Referer",
        "User-Agent",
    ] {
        let lower = name.to_lowercase();
        let expect = format!("400 field-twice:{lower}");
        check_fields("PUT", &format!("{name}: a\r\nX: y\r\n{lower}: b"), &expect);
        check_fields("PUT", &format!("{name}: a\r\n{name}: a\r\n{name}:"), &expect);
        check_fields("PUT", &format!("{name}: a\r\n{name}: \ta"), "PUT / @a 1.1 none keep");
    }
    for list in
        ["Accept", "Cookie", "If-None-Match", "If-Match", "Cache-Control", "Via", "X-Forwarded-For", "X-Own"]
    {
        check_fields("PUT", &format!("{list}: a\r\n{list}: b"), "PUT / @a 1.1 none keep");
    }
}

#[test]
fn content_length_is_one_plain_number() {
    check_fields("POST", "Content-Length: 5", "POST / @a 1.1 length=5 keep");
    check_fields("POST", "Content-Length:\t 5\t ", "POST / @a 1.1 length=5 keep");
    check_fields("POST", "Content-Length: 0", "POST / @a 1.1 none keep");
    check_fields("GET", "Content-Length: 0", "GET / @a 1.1 none keep");
    check_fields("POST", "Content-Length: 007", "POST / @a 1.1 length=7 keep");
    check_fields(
        "POST",
        "Content-Length: 9223372036854775807",
        "POST / @a 1.1 length=9223372036854775807 keep",
    );
    let bad = [
        "",
        "+5",
        "-5",
        "0x5",
        "5.0",
        "5e1",
        "5, 6",
        "5, 5",
        "5,",
        "5 5",
        "five",
        "\"5\"",
        "5;",
        "9223372036854775808",
        "18446744073709551616",
        "00000000000000000005",
        "1_000",
        "\u{661}",
    ];
    for value in bad {
        check_fields("POST", &format!("Content-Length: {value}"), "400 content-length");
    }
    check_fields("POST", "Content-Length: 5\r\nContent-Length: 5", "400 content-length-twice");
    check_fields("POST", "Content-Length: 5\r\ncontent-length: 6", "400 content-length-twice");
    check_fields("POST", "Content-Length: 5\r\nTransfer-Encoding: chunked", "400 length-and-coding");
    check_fields("POST", "Transfer-Encoding: chunked\r\nContent-Length: 0", "400 length-and-coding");
    check_fields("GET", "Content-Length: 5", "400 content-on-get");
    check_fields("HEAD", "Transfer-Encoding: chunked", "400 content-on-get");
}

#[test]
fn transfer_encoding_is_chunked_alone() {
    check_fields("POST", "Transfer-Encoding: chunked", "POST / @a 1.1 chunked keep");
    check_fields("POST", "transfer-encoding: CHUNKED ", "POST / @a 1.1 chunked keep");
    for value in ["gzip, chunked", "gzip;q=1, chunked", "identity, chunked", "x, chunked"] {
        check_fields("POST", &format!("Transfer-Encoding: {value}"), "501 transfer-coding-unknown");
    }
    for value in ["gzip", "identity", "xchunked", "chunked, gzip", "chunkedx", "chunked, identity"] {
        check_fields("POST", &format!("Transfer-Encoding: {value}"), "400 not-ending-in-chunked");
    }
    let malformed = [
        "",
        "chunked,",
        ",chunked",
        "\"chunked\"",
        "chunked;a=b",
        "chunked; q=1",
        "ch unked",
        "chunked gzip",
        "[]",
    ];
    for value in malformed {
        check_fields("POST", &format!("Transfer-Encoding: {value}"), "400 transfer-encoding");
    }
    check_fields("POST", "Transfer-Encoding: chunked, chunked", "400 chunked-twice");
    check_fields("POST", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "400 chunked-twice");
    check_fields(
        "POST",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "501 transfer-coding-unknown",
    );
    check_fields(
        "POST",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "400 not-ending-in-chunked",
    );
    check_fields("POST", "Transfer-Encoding: \u{b}chunked", "400 control-byte");
    let old = "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(old, "400 transfer-encoding-on-1.0");
}

#[test]
fn connection_says_whether_it_lives_on() {
    check_fields("GET", "Connection: close", "GET / @a 1.1 none end");
    check_fields("GET", "Connection: keep-alive, CLOSE", "GET / @a 1.1 none end");
    check_fields("GET", "Connection: keep-alive\r\nConnection: close", "GET / @a 1.1 none end");
    check_fields("GET", "Connection: , x-mine ,TE", "GET / @a 1.1 none keep");
    check("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET / @ 1.0 none keep");
    for name in
        ["Host", "content-length", "Transfer-Encoding", "Cookie", "Authorization", "Cache-Control", "Via"]
    {
        check_fields("GET", &format!("Connection: close, {name}"), "400 connection-names-needed-field");
    }
    check_fields("GET", "Connection: clo se", "400 connection");
    check_fields("GET", "Connection: \"close\"", "400 connection");
}

#[test]
fn upgrades_need_both_fields_and_1_1() {
    let fields = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket";
    check_fields("GET", fields, "GET / @a 1.1 none keep upgrade=websocket");
    check_fields(
        "GET",
        &format!("{fields}\r\nUpgrade: x/2"),
        "GET / @a 1.1 none keep upgrade=websocket, x/2",
    );
    check_fields("GET", "Upgrade: websocket", "GET / @a 1.1 none keep");
    check_fields("GET", "Connection: upgrade", "GET / @a 1.1 none keep");
    let old = "GET / HTTP/1.0\r\nConnection: upgrade, keep-alive\r\nUpgrade: websocket\r\n\r\n";
    check(old, "GET / @ 1.0 none keep");
}

#[test]
fn expectations_other_than_continue_fail() {
    let length = "Content-Length: 5\r\n";
    check_fields("PUT", &format!("{length}Expect: 100-Continue"), "PUT / @a 1.1 length=5 keep expect");
    check_fields("GET", "Expect: 100-continue", "GET / @a 1.1 none keep");
    check_fields("PUT", &format!("{length}Expect: 200-ok"), "417 expect");
    check_fields("PUT", &format!("{length}Expect: 100-continue\r\nExpect: x"), "417 expect");
    check("PUT / HTTP/1.0\r\nContent-Length: 5\r\nExpect: x\r\n\r\n", "PUT / @ 1.0 length=5 end");
}

#[test]
fn limits_are_exact() {
    let limits = Limits { line_bytes_max: 30, head_bytes_max: 100, fields_max: 3 };
    let read = |given: &str| {
        let mut buf = BytesMut::from(given);
        match RequestReader::new(limits).read(&mut buf) {
            Ok(head) => head.map_or("more".into(), |head| describe_request(&head)),
            Err(refusal) => format!("{} {}", refusal.status().as_u16(), refusal.reason()),
        }
    };
    let line = |bytes: usize| format!("GET /{} HTTP/1.1", "x".repeat(bytes - "GET / HTTP/1.1".len()));
    assert!(read(&format!("{}\r\nHost: a\r\n\r\n", line(30))).ends_with("@a 1.1 none keep"));
    assert_eq!(read(&format!("{}\r\nHost: a\r\n\r\n", line(31))), "414 line-too-long");
    assert_eq!(read(&"G".repeat(31)), "more");
    assert_eq!(read(&"G".repeat(32)), "414 line-too-long");
    let head = |bytes: usize| {
        let start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
        format!("{start}{}\r\n\r\n", "y".repeat(bytes - start.len() - 4))
    };
    assert_eq!(read(&head(100)), "GET / @a 1.1 none keep");
    assert_eq!(read(&head(101)), "431 head-too-large");
    assert_eq!(read(&head(102)[..99]), "more");
    assert_eq!(read(&head(102)[..100]), "431 head-too-large");
    assert_eq!(read("GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 2\r\n\r\n"), "GET / @a 1.1 none keep");
    assert_eq!(read("GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 2\r\nC: 3\r\n"), "431 too-many-fields");
}

#[test]
fn heads_follow_one_another_in_one_buffer() {
    let mut buf = BytesMut::from(
        "GET /1 HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n\r\nPOST /2 HTTP/1.1\r\nHost: b\r\n\r\nrest",
    );
    let mut reader = RequestReader::new(Limits::default());
    let first = reader.read(&mut buf).unwrap().unwrap();
    assert_eq!(describe_request(&first), "GET /1 @a 1.1 none keep");
    assert_eq!(first.head_bytes, 34);
    assert_eq!(first.headers["x"], "1");
    reader.recycle(first.headers);
    let second = reader.read(&mut buf).unwrap().unwrap();
    assert_eq!(describe_request(&second), "POST /2 @b 1.1 none keep");
    assert_eq!(second.headers.len(), 1);
    assert_eq!(buf, "rest");
    assert!(reader.has_begun(&buf));
    assert!(!reader.has_begun(&BytesMut::from("\r\n\r")));
}

#[test]
fn path_and_query_are_raw() {
    let mut buf = BytesMut::from("GET /a/../b%2F?x?y=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = RequestReader::new(Limits::default()).read(&mut buf).unwrap().unwrap();
    let Target::Path(path) = head.target else { panic!("a path") };
    assert_eq!((path.path(), path.query()), ("/a/../b%2F", Some("x?y=1")));
}

#[test]
fn a_refused_connection_stays_refused() {
    let mut buf = BytesMut::from("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n");
    let mut reader = RequestReader::new(Limits::default());
    let refusal = reader.read(&mut buf).unwrap_err();
    let mut next = BytesMut::from("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(reader.read(&mut next).unwrap_err(), refusal);
    assert_eq!(reader.read(&mut BytesMut::new()).unwrap_err(), refusal);
}

#[test]
fn segments_of_one_dot_are_removed_and_nothing_else() {
    for (given, expect) in [
        ("/./a", "/a"),
        ("/a/./b", "/a/b"),
        ("/a/././././b/./", "/a/b/"),
        ("/./", "/"),
        ("/././", "/"),
        ("/a/./b?x=/./y", "/a/b?x=/./y"),
        ("/.//b", "//b"),
        ("/a//./b", "/a//b"),
        ("/./..", "/.."),
        ("/a/./../b", "/a/../b"),
        ("/.././a", "/../a"),
        ("/%2e/./a", "/%2e/a"),
        ("/./%2e%2e/./a", "/%2e%2e/a"),
        ("/a%2f./b/./c", "/a%2f./b/c"),
    ] {
        assert_eq!(crate::without_dots(given), expect, "{given}");
    }
    for same in [
        "/", "/.", "/a/.", "/..", "/../", "/a/../b", "/...", "/.../", "/.a/", "/a./", "/%2e/", "/%2E/a",
        "/.%2f", "/.;/a", "/.\\a", "/\\./a", "/?/./", "/a?/./b", "/.?/./", "*", "",
    ] {
        assert!(matches!(crate::without_dots(same), std::borrow::Cow::Borrowed(_)), "{same}");
    }
}
