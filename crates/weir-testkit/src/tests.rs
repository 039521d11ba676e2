//! The kit's own tests: its client against its origin.

use std::time::Duration;

use crate::{
    Authority, Client, Fault, Gate, Key, Origin, Resource, Response, Shape, TlsClient, Trouble, get,
    get_with, pattern,
};

fn shapes() -> [Shape; 3] {
    [Shape::Length, Shape::Chunked(1000), Shape::Close]
}

#[test]
fn a_body_arrives_in_each_shape() {
    let body = pattern(1, 100_001);
    let origin = Origin::start();
    for shape in shapes() {
        origin.put("/x", Resource::new(&body).shape(shape));
        assert!(get(origin.addr(), "/x").body == body, "{shape:?}");
    }
    assert_eq!(origin.count("/x"), 3);
}

#[test]
fn patterns_differ_by_version_and_by_offset() {
    assert_ne!(pattern(1, 64), pattern(2, 64));
    assert_ne!(pattern(1, 64)[..8], pattern(1, 64)[8..16]);
    assert_eq!(pattern(1, 64)[..13], pattern(1, 13));
}

#[test]
fn a_truncated_body_is_a_cut_and_a_stalled_one_silent() {
    let origin = Origin::start();
    let faulty = |fault| Resource::new(pattern(1, 5000)).fault(fault);
    let ask = |path: &str| -> Trouble {
        let mut client = Client::connect(origin.addr()).patience(Duration::from_millis(200));
        client.send_get("x", path, &[]);
        client.recv().unwrap_err()
    };
    origin.put("/cut", faulty(Fault::Truncate(100)));
    origin.put("/cut-chunks", faulty(Fault::Truncate(100)).shape(Shape::Chunked(10)));
    origin.put("/stall", faulty(Fault::Stall(100)));
    assert!(matches!(ask("/cut"), Trouble::Cut(r) if r.body.len() == 100));
    assert!(matches!(ask("/cut-chunks"), Trouble::Cut(r) if r.body.len() == 100));
    assert!(matches!(ask("/stall"), Trouble::Silent(r) if r.body.len() == 100));
    origin.raw("/nothing", "");
    assert_eq!(ask("/nothing"), Trouble::Closed);
    origin.raw("/junk", "HTTP/1.1 200\r\n\r\n");
    assert!(matches!(ask("/junk"), Trouble::Malformed(_)));
}

#[test]
fn conditional_requests_are_answered_by_the_validators() {
    let origin = Origin::start();
    origin.put("/tag", Resource::new("x").etag("\"1\""));
    origin.put("/date", Resource::new("x").modified_ago(Duration::from_secs(60)));
    assert_eq!(get_with(origin.addr(), "/tag", &[("If-None-Match", "\"0\", W/\"1\"")]).status(), 304);
    assert_eq!(get_with(origin.addr(), "/tag", &[("If-None-Match", "\"2\"")]).status(), 200);
    let date = get(origin.addr(), "/date").header("last-modified").unwrap();
    assert_eq!(get_with(origin.addr(), "/date", &[("If-Modified-Since", &date)]).status(), 304);
}

#[test]
fn ranges_are_served() {
    let origin = Origin::start();
    origin.put("/r", Resource::new("0123456789").etag("\"1\"").ranges());
    let part = |range: &str| -> Response { get_with(origin.addr(), "/r", &[("Range", range)]) };
    assert_eq!((part("bytes=2-4").status(), part("bytes=2-4").text()), (206, "234".to_owned()));
    assert_eq!(part("bytes=-3").text(), "789");
    assert_eq!(part("bytes=20-").status(), 416);
}

#[test]
fn a_gate_holds_the_body_and_keep_alive_holds_the_connection() {
    let origin = Origin::start();
    let gate = Gate::new();
    origin.put("/gated", Resource::new("abcdef").body_gate(3, &gate));
    let mut client = Client::connect(origin.addr());
    client.send_get("x", "/gated", &[]);
    let head = client.recv_head_only().unwrap();
    assert_eq!(head.header("content-length").unwrap(), "6");
    assert_eq!(client.read_some(), b"abc");
    gate.open();
    assert_eq!(client.read_some(), b"def");
    assert_eq!(client.get("x", "/gated", &[]).text(), "abcdef");
    assert_eq!((origin.connections(), origin.count("/gated")), (1, 2));
}

#[test]
fn request_bodies_are_decoded() {
    let origin = Origin::start();
    origin.on("/post", |exchange| {
        let body = exchange.body();
        exchange.reply(200, &[], body);
    });
    let mut client = Client::connect(origin.addr());
    client.send("POST /post HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.recv().unwrap().text(), "abc");
    client.send(
        "POST /post HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n",
    );
    assert_eq!(client.recv().unwrap().text(), "abcde");
}

#[test]
fn interim_responses_and_trailers_are_separate() {
    let origin = Origin::start();
    origin.put("/t", Resource::new("x").interim(103, &[("Link", "</a>")]).trailer("X-Sum", "1"));
    let response = get(origin.addr(), "/t");
    assert_eq!(response.interim[0].status, 103);
    assert_eq!(response.trailers, [("X-Sum".to_owned(), "1".to_owned())]);
}

#[test]
fn random_numbers_repeat_and_spread() {
    let numbers = |seed| -> Vec<u64> {
        let mut random = crate::Random::new(seed);
        (0..1000).map(|_| random.below(10)).collect()
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
    assert!((0..10).all(|digit| numbers(3).iter().filter(|n| **n == digit).count() > 50));
}

#[test]
fn a_client_of_tls_believes_its_authority_alone() {
    let authority = Authority::new();
    let origin = Origin::https(&authority, &["localhost", "127.0.0.1"]);
    origin.put("/x", Resource::new("hello"));
    let client = TlsClient::trusting(&authority);
    let socket = client.connect(origin.addr(), "localhost").unwrap();
    let session = socket.session().unwrap();
    assert!(!session.resumed && session.protocol.is_none());
    assert_eq!(Client::over(socket).get("localhost", "/x", &[]).text(), "hello");
    let again = client.connect(origin.addr(), "localhost").unwrap();
    assert!(again.session().unwrap().resumed);
    for name in ["127.0.0.1", "localhost"] {
        let old = client.clone().only_1_2().connect(origin.addr(), name).unwrap().session().unwrap();
        assert_eq!(old.version.unwrap().as_str(), Some("TLSv1_2"));
    }

    let stranger = TlsClient::trusting(&Authority::new());
    let refused = stranger.connect(origin.addr(), "localhost").err().unwrap().to_string();
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    assert!(TlsClient::insecure().connect(origin.addr(), "other.test").is_ok());
}

#[test]
fn a_certificate_has_the_key_that_is_wanted() {
    let authority = Authority::new();
    for key in [Key::P256, Key::P384, Key::Rsa, Key::Ed25519] {
        let (chain, pem) = authority.certificate(&["a.test", "*.b.test"]).key(key).issue();
        assert!(chain.contains("BEGIN CERTIFICATE") && pem.contains("PRIVATE KEY"), "{key:?}");
    }
}
