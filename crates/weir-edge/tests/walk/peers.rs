//! Which peers' statements about a client are believed, and what the origin is told about the client.

use weir_testkit::{Origin, Resource};

use crate::kit::{message, server};

const CLAIMS: [(&str, &str); 4] = [
    ("X-Forwarded-For", "192.0.2.1"),
    ("X-Forwarded-Proto", "https"),
    ("X-Request-Id", "mine-1"),
    ("X-Forwarded-Host", "localhost"),
];

fn origin() -> Origin {
    let origin = Origin::start();
    origin.put("/x", Resource::new("x").header("Cache-Control", "no-store"));
    origin
}

/// What the origin saw of a field in its last request.
fn seen(origin: &Origin, name: &str) -> Option<String> {
    origin.requests("/x").last().unwrap().header(name)
}

#[test]
fn a_trusted_proxy_is_believed() {
    let origin = origin();
    let weir = server(&[&origin]).start();
    weir.get_with("/x", &CLAIMS);
    // A fill is for all: it names one address as its sender, and nothing that a client could have written
    // before it.
    assert_eq!(seen(&origin, "x-forwarded-for").as_deref(), Some("192.0.2.1"));
    assert_eq!(seen(&origin, "x-forwarded-proto").as_deref(), Some("https"));
    assert_eq!(seen(&origin, "x-request-id").as_deref(), Some("mine-1"));
    let claims = [&CLAIMS[..], &[("X-Forwarded-Port", "8443"), ("Content-Length", "0")]].concat();
    weir.send(&message("POST", "localhost", "/x", &claims));
    assert_eq!(seen(&origin, "x-forwarded-for").as_deref(), Some("192.0.2.1, 127.0.0.1"));
    assert_eq!(seen(&origin, "x-forwarded-port").as_deref(), Some("8443"));
}

/// `Location: http://host:1337/` was once given to everybody.
#[test]
fn a_port_or_an_address_that_a_trusted_proxy_passes_on_does_not_reach_others() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let seen = |name| exchange.request.header(name).unwrap_or_default();
        let to = format!("http://host:{}/{}", seen("x-forwarded-port"), seen("x-real-ip"));
        exchange.reply(301, &[("Cache-Control", "max-age=600"), ("Location", &to)], "");
    });
    let weir = server(&[&origin]).start();
    let claims = [("X-Forwarded-Port", "1337"), ("X-Real-IP", "192.0.2.1")];
    for (host, path, fields, expect) in [
        ("a.example", "/x", &claims[..], "http://host:80/"),
        ("a.example", "/x", &[], "http://host:80/"),
        ("a.example", "/y", &[("X-Forwarded-Proto", "https")], "http://host:443/"),
        ("a.example:8080", "/z", &claims, "http://host:8080/"),
    ] {
        let answer = weir.get_of(host, path, fields);
        assert_eq!(answer.header("location").as_deref(), Some(expect), "{host} {path}");
    }
    assert_eq!(origin.total(), 3);
}

#[test]
fn anybody_else_is_not() {
    let origin = origin();
    let weir = server(&[&origin]).top("trusted_proxies = [\"192.0.2.0/24\"]").start();
    weir.get_with("/x", &CLAIMS);
    assert_eq!(seen(&origin, "x-forwarded-for").as_deref(), Some("127.0.0.1"));
    assert_eq!(seen(&origin, "x-forwarded-proto").as_deref(), Some("http"));
    assert!(seen(&origin, "x-request-id").is_some_and(|id| id != "mine-1" && !id.is_empty()));
}

/// RFC 9110 §4.2.3. Else a purge of `https://a/x` leaves what was stored for `a:443`.
#[test]
fn the_default_port_is_that_of_the_scheme_and_no_other_is_left_out() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("x"));
    let weir = server(&[&origin]).start();
    let rows = [
        ("http", "a", "http://a/x"),
        ("http", "a:80", "http://a/x"),
        ("http", "a:443", "http://a:443/x"),
        ("https", "a", "https://a/x"),
        ("https", "a:443", "https://a/x"),
        ("https", "A.:443", "https://a/x"),
        ("https", "a:80", "https://a:80/x"),
        ("https", "[::1]:443", "https://[::1]/x"),
        ("https", "[::1]:80", "https://[::1]:80/x"),
    ];
    let mut stored = std::collections::HashSet::new();
    for (scheme, host, url) in rows {
        let answer = weir.get_of(host, "/x", &[("X-Forwarded-Proto", scheme)]);
        assert_eq!(answer.is_hit(), !stored.insert(url), "{scheme} {host}");
    }
}

#[test]
fn the_believed_scheme_is_part_of_the_key() {
    let origin = Origin::start();
    origin.on("/x", |exchange| {
        let scheme = exchange.request.header("x-forwarded-proto").unwrap_or_default();
        exchange.reply(200, &[("Cache-Control", "max-age=60")], scheme);
    });
    let weir = server(&[&origin]).start();
    for scheme in ["http", "https", "http", "https"] {
        assert_eq!(weir.get_with("/x", &[("X-Forwarded-Proto", scheme)]).text(), scheme);
    }
    assert_eq!(origin.count("/x"), 2);
}
