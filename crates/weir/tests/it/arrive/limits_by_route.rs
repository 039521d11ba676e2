//! `limits` by site and route, beside those of all requests: each with its status over HTTP/1 and HTTP/2, and
//! what becomes of the connection.

use std::time::Duration;

use weir_testkit::{Client, End, H2Client, Origin, Weir};

use super::limits::origin;
use crate::server::setup;

const HOST: &str = "localhost";
const PATIENCE: Duration = Duration::from_secs(60);

/// `/small/` takes less than all, `/large/` more, and `/slow/` content at any rate.
fn weir(origin: &Origin) -> Weir {
    setup().run_config(&format!(
        "[admin]\nlisten = \"{{admin}}\"\n[limits]\nbody = \"10KiB\"\nhead = \"4KiB\"\nfields = 20\n\
         body_rate = \"1KiB\"\n\
         [[listen]]\naddress = \"{{listen}}\"\nprotocols = [\"h2\", \"http/1.1\"]\n\
         [upstream.main]\norigins = [\"{}\"]\n\
         [[site]]\nhosts = [\"*\"]\nupstream = \"main\"\nlimits = {{ fields = 8 }}\n\
         [[site.route]]\nprefix = \"/small/\"\nlimits = {{ body = \"1KiB\", head = \"512B\", fields = 4 }}\n\
         error_pages = {{ 431 = \"too much\" }}\n\
         [[site.route]]\nprefix = \"/large/\"\nlimits = {{ body = \"1MiB\" }}\n\
         [[site.route]]\nprefix = \"/none/\"\nlimits = {{ body = \"0\" }}\n\
         [[site.route]]\nprefix = \"/slow/\"\nlimits = {{ body_rate = \"0\" }}\n\
         [[site.route]]\nprefix = \"/page/\"\nlimits = {{ head = \"512B\" }}\n\
         answer = {{ body = \"page\" }}\n",
        origin.url()
    ))
}

fn post(target: &str, more: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: {HOST}\r\n{more}\r\n{body}")
}

fn of_length(target: &str, length: usize) -> String {
    post(target, &format!("Content-Length: {length}\r\n"), &"x".repeat(length))
}

/// A body in chunks of 256 bytes.
fn chunked(target: &str, length: usize) -> String {
    let chunks = format!("100\r\n{}\r\n", "x".repeat(256)).repeat(length / 256);
    post(target, "Transfer-Encoding: chunked\r\n", &(chunks + "0\r\n\r\n"))
}

fn said(client: &mut Client, request: impl AsRef<[u8]>) -> (u16, String) {
    client.send(request);
    let answer = client.recv().unwrap();
    (answer.status(), answer.text())
}

/// The same over HTTP/2, without a length where `is_counted` is false.
fn said_in_stream(client: &mut H2Client, target: &str, length: usize, is_counted: bool) -> (u16, String) {
    let counted = length.to_string();
    let fields = [("content-length", &*counted)];
    let fields = if is_counted { &fields[..] } else { &[] };
    let stream = client.begin("POST", HOST, target, fields);
    for at in (0..length).step_by(4096) {
        let piece = vec![b'x'; 4096.min(length - at)];
        let end = if at + piece.len() == length { End::Stream } else { End::Open };
        if client.data(stream, &piece, end).is_err() {
            break;
        }
    }
    let answer = client.recv(stream).unwrap();
    (answer.status(), answer.text())
}

#[test]
fn a_body_is_bounded_by_its_route_with_a_length_and_without() {
    let origin = origin();
    let weir = weir(&origin);
    for (target, most) in [("/small/a", 1024), ("/large/a", 1 << 20), ("/a", 10 << 10)] {
        let fits = (200, most.to_string());
        let mut kept = weir.client();
        assert_eq!(said(&mut kept, of_length(target, most)), fits, "{target}");
        assert_eq!(said(&mut kept, chunked(target, most)), fits, "{target}, and the connection goes on");
        let mut streams = H2Client::connect(weir.addr()).patience(PATIENCE);
        assert_eq!(said_in_stream(&mut streams, target, most, true), fits, "{target}");
        assert_eq!(said_in_stream(&mut streams, target, most, false), fits, "{target}");
        let before = origin.total();
        let mut client = weir.client();
        let (status, text) = said(&mut client, of_length(target, most + 1));
        assert_eq!(status, 413, "{target}: {text}");
        assert!(client.is_closed_within(PATIENCE), "{target}: what follows is no request");
        let length = (most + 1).to_string();
        let declared = streams.begin("POST", HOST, target, &[("content-length", &length)]);
        assert_eq!(streams.recv(declared).unwrap().status(), 413, "{target}");
        assert_eq!(origin.total(), before, "{target}: a declared length is refused at once");
        let mut client = weir.client();
        assert_eq!(said(&mut client, chunked(target, most + 256)).0, 413, "{target}");
        assert!(client.is_closed_within(PATIENCE), "{target}");
        // As much as a stream's first window takes: nothing waits for room that nobody gives.
        if most < 1 << 15 {
            assert_eq!(said_in_stream(&mut streams, target, most + 1, false).0, 413, "{target}");
        }
        assert_eq!(
            said_in_stream(&mut streams, target, 1, true),
            (200, "1".to_owned()),
            "other streams go on"
        );
    }
}

#[test]
fn a_body_that_passes_the_limit_under_way_is_never_whole_for_the_origin() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let (length, is_whole) = (exchange.body().len(), exchange.is_whole());
        exchange.reply(200, &[], format!("{length} {is_whole}"));
    });
    let weir = weir(&origin);
    let mut client = weir.client();
    // More than is held before a connection is taken.
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(65536));
    client.send(post("/large/a", "Transfer-Encoding: chunked\r\n", &chunk.repeat(4)));
    origin.await_count("/large/a", 1);
    client.send(chunk.repeat(13) + "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.recv().unwrap().status(), 413);
    assert!(client.is_closed_within(PATIENCE));
    assert_eq!((origin.count("/large/a"), origin.count("/smuggled")), (1, 0));
}

#[test]
fn nothing_is_asked_for_that_would_be_refused() {
    let origin = origin();
    let weir = weir(&origin);
    let expecting = |target, length| {
        let mut client = weir.client();
        client.send(post(target, &format!("Content-Length: {length}\r\nExpect: 100-continue\r\n"), ""));
        client.recv_head_only().unwrap().status
    };
    assert_eq!((expecting("/small/a", 1025), expecting("/small/a", 1024)), (413, 100));
    assert_eq!((expecting("/a", 1025), expecting("/none/a", 1)), (100, 413));
    let mut client = weir.client();
    assert_eq!(said(&mut client, of_length("/none/a", 0)), (200, "0".to_owned()));
    assert_eq!(said(&mut client, format!("GET /none/a HTTP/1.1\r\nHost: {HOST}\r\n\r\n")).0, 200);
    assert_eq!(said(&mut client, chunked("/none/a", 256)).0, 413);
}

#[test]
fn a_head_is_bounded_by_its_route_and_the_connection_goes_on() {
    let origin = origin();
    let weir = weir(&origin);
    let get = |target: &str, more: &str| format!("GET {target} HTTP/1.1\r\nHost: {HOST}\r\n{more}\r\n");
    let (long, many) = (format!("X-A: {}\r\n", "a".repeat(600)), "X-A: a\r\n".repeat(8));
    let mut client = weir.client();
    let mut streams = H2Client::connect(weir.addr()).patience(PATIENCE);
    for (target, more, status) in [
        ("/small/a", "", 200),
        ("/small/a", &*long, 431),
        ("/small/a", &*many, 431),
        ("/large/a", &*long, 200),
        ("/large/a", &*many, 431),
        ("/small/a", "X-A: 1\r\nX-B: 1\r\nX-C: 1\r\n", 200),
        ("/small/a", "X-A: 1\r\nX-B: 1\r\nX-C: 1\r\nX-D: 1\r\n", 431),
        ("/small/a", "X-A: 1\r\nConnection: a, b, c\r\na: 1\r\nb: 1\r\nc: 1\r\n", 200),
        ("/page/a", "", 200),
        ("/page/a", &*long, 431),
    ] {
        let (found, text) = said(&mut client, get(target, more));
        assert_eq!(found, status, "{target} {more:.40}: {text}");
        assert!(found == 200 || !target.starts_with("/small") || text == "too much", "{text}");
        if more.contains("Connection") {
            continue;
        }
        let lower = more.to_ascii_lowercase();
        let fields: Vec<(&str, &str)> = lower.lines().map(|line| line.split_once(": ").unwrap()).collect();
        assert_eq!(streams.get(HOST, target, &fields).status(), status, "{target} {more:.40}");
    }
    let long = format!("/small/{}", "a".repeat(600));
    assert_eq!(said(&mut client, get(&long, "")).0, 431, "the line belongs to the head");
    assert_eq!(said(&mut client, of_length("/small/a", 4)), (200, "4".to_owned()));
    let long = post("/small/a", &format!("Content-Length: 4\r\nX-A: {}\r\n", "a".repeat(600)), "xxxx");
    assert_eq!(said(&mut client, long).0, 431);
    assert_eq!(said(&mut client, get("/small/a", "")).0, 200, "the refused request's body was no request");
    let (url, field) = (format!("http://{HOST}/small/a"), format!("X-A: {}", "a".repeat(600)));
    let explained = weir.command(&["explain", &url, "-H", &field]).stdout;
    assert!(explained.contains("head-too-large"), "{explained}");
}

#[test]
fn a_slow_body_is_refused_where_its_route_says_so() {
    let origin = origin();
    let weir = weir(&origin);
    let slow = |target| {
        let mut client = weir.client().patience(PATIENCE);
        client.send(post(target, "Content-Length: 4\r\n", "xx"));
        client
    };
    let (mut slow, mut refused) = (slow("/slow/a"), slow("/a"));
    assert_eq!(refused.recv().map(|answer| answer.status()), Ok(408));
    assert!(refused.is_closed_within(PATIENCE));
    slow.send("xx");
    assert_eq!(slow.recv().unwrap().text(), "4");
}
