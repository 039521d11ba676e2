//! A second caller of the walk, without any socket of a client: a request goes in as a value, and a response comes out as
//! one. Beside each request `explain` is asked first, and must say what then comes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use weir_config::{Flags, from_flags};
use weir_edge::plan::Plan;
use weir_edge::simulated::{Alone, Answer};
use weir_edge::{Explanation, Question};
use weir_front::listen::Peer;
use weir_front::{ClientLimits, PeerInfo, Request, Trust};
use weir_observe::{Count, Observatory};
use weir_testkit::{Origin, Resource, pattern};
use weir_wire::{RequestReader, Target};

const HOST: &str = "shop.example";
/// More than one chunk of a part.
const LARGE_BYTES: usize = 5 << 20;

/// One request of the table.
struct Row {
    /// Method, target and fields.
    head: &'static str,
    /// What `explain` must call it.
    verdict: &'static str,
    /// The status that must come.
    status: u16,
}

const fn row(head: &'static str, verdict: &'static str, status: u16) -> Row {
    Row { head, verdict, status }
}

/// In this order: later rows find what earlier ones left behind.
const TABLE: &[Row] = &[
    row("GET /page", "miss", 200),
    row("GET /page", "hit", 200),
    row("HEAD /page", "hit", 200),
    row("GET /page?x=1", "miss", 200),
    row("GET /page\r\nrange: bytes=2-4", "hit", 206),
    row("GET /page\r\nif-none-match: \"v1\"", "hit", 304),
    row("GET /page\r\nrange: bytes=900-", "hit", 416),
    row("GET /page\r\ncache-control: no-cache", "revalidate", 200),
    row("GET /page\r\ncache-control: no-store", "pass", 200),
    row("GET /a/../page", "pass", 404),
    row("GET /none\r\ncache-control: only-if-cached", "gateway-timeout", 504),
    row("GET /page\r\ncache-control: only-if-cached", "hit", 200),
    row("GET /page\r\nupgrade: other\r\nconnection: upgrade", "pass", 200),
    row("POST /page", "pass", 200),
    row("GET /page", "miss", 200),
    row("GET /large\r\nrange: bytes=0-9", "miss", 206),
    row("GET /large\r\nrange: bytes=0-9", "hit", 206),
    row("GET /large\r\ncache-control: only-if-cached", "gateway-timeout", 504),
    row("GET /large", "miss", 200),
    row("GET /large", "hit", 200),
    row("GET /vary\r\naccept-language: de", "miss", 200),
    row("GET /vary\r\naccept-language: en", "miss", 200),
    row("GET /vary\r\naccept-language: de", "hit", 200),
    row("GET /private", "miss", 200),
    row("GET /private", "pass", 200),
    row("PURGE /page", "local", 405),
    row("OPTIONS /page\r\nmax-forwards: 0", "local", 204),
];

fn origin() -> Origin {
    let origin = Origin::start();
    let page = |etag: &str| {
        Resource::new("a page of some bytes").etag(etag).header("cache-control", "max-age=600").ranges()
    };
    origin.put("/page", page("\"v1\"")).put("/page?x=1", page("\"x1\""));
    let large = Resource::new(pattern(7, LARGE_BYTES)).etag("\"l1\"").header("cache-control", "max-age=600");
    origin.put("/large", large.ranges());
    let vary = Resource::new("in a language").header("cache-control", "max-age=600");
    origin.put("/vary", vary.header("vary", "accept-language"));
    origin.put("/private", Resource::new("for one").header("cache-control", "private"));
    origin
}

fn alone(origin: &Origin) -> Alone {
    let memory = Some("64MiB".to_owned());
    let loaded = from_flags(&Flags { origin: origin.url(), memory, ..Flags::default() }).ok().unwrap();
    let observatory = Observatory::start(1, &[]).unwrap();
    let plan = Plan::compile(&loaded, &|name| observatory.site(name));
    Alone::begin(plan, observatory).unwrap()
}

fn request(head: &str) -> Request {
    let (line, fields) = head.split_once("\r\n").unwrap_or((head, ""));
    let end = if fields.is_empty() { "" } else { "\r\n" };
    let text = format!("{line} HTTP/1.1\r\nhost: {HOST}\r\n{fields}{end}\r\n");
    let mut input = BytesMut::from(text.as_bytes());
    let head = RequestReader::new(weir_wire::Limits::default()).read(&mut input).unwrap().unwrap();
    let (peer, limits) = (Peer::at("192.0.2.7:1".parse().unwrap()), Arc::new(ClientLimits::default()));
    let peer = PeerInfo { peer, trust: Trust::Untrusted, limits, scheme: "http" };
    Request::of_head(head, Rc::new(peer), weir_clock::now())
}

fn question(request: &Request) -> Question {
    let Target::Path(target) = &request.target else { panic!("not about a path") };
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = request.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let url = format!("http://{HOST}{}", target.as_str());
    Question { method: request.method.to_string(), url, headers }
}

/// What was said of a request must be what came.
fn check(row: &Row, said: &Explanation, came: &Answer) {
    let head = row.head;
    assert_eq!(said.verdict, row.verdict, "{head}: {said:?}");
    assert_eq!(came.status.unwrap().as_u16(), row.status, "{head}: {came:?}");
    let status = came.headers["cache-status"].to_str().unwrap();
    match &said.cache_status {
        None => {
            // Whether this client may purge is not known to who explains.
            let word = if said.reason == "purge" { "purge-refused" } else { said.reason };
            assert_eq!(status, format!("weir; detail={word}"), "{head}");
        }
        // What the origin answered, and how long it is fresh, is added by then; a 416 has a word of its own.
        Some(_) if row.status == 416 => assert_eq!(status, "weir; detail=range", "{head}"),
        Some(first) => {
            let first = first.split("; ttl=").next().unwrap();
            let first = first.split("; fwd-status=").next().unwrap();
            assert!(
                status.starts_with(first.split("; detail=").next().unwrap()),
                "{head}: {status}, not {first}"
            );
        }
    }
}

#[test]
fn explain_says_of_each_request_what_then_comes_to_a_caller_without_a_socket() {
    let origin = origin();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let alone = alone(&origin);
        for row in TABLE {
            let request = request(row.head);
            let said = alone.explain(&question(&request)).unwrap();
            let came = alone.ask(request, Bytes::new()).await;
            check(row, &said, &came);
            assert_eq!(came.cut, None, "{}", row.head);
            if row.head == "GET /large" {
                assert!(came.body == pattern(7, LARGE_BYTES), "{} bytes", came.body.len());
            }
            // What was fetched is stored once its transfer has ended.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let snapshot = alone.snapshot();
        assert_eq!(snapshot.counts[Count::ConnectionsAccepted], 0);
    });
}
