//! Hosts: their one spelling, and what is refused.

use crate::{Host, Scheme};
use bytes::Bytes;

fn check(given: &str, expect: &str) {
    let parsed = Host::parse(&Bytes::copy_from_slice(given.as_bytes()), None);
    let shown = parsed.map_or_else(|refusal| refusal.reason().into(), |host| host.as_str().to_owned());
    assert_eq!(shown, expect, "given {given:?}");
}

#[test]
fn hosts_have_one_spelling() {
    check("a", "a");
    check("A.b-C_d.example", "a.b-c_d.example");
    check("a.", "a");
    check("a.:80", "a");
    check("a:80", "a");
    check("a:", "a");
    check("A.:", "a");
    check("[::1]:", "[::1]");
    check("a:443", "a:443");
    check("A:8080", "a:8080");
    check("127.0.0.1:65535", "127.0.0.1:65535");
    check("[::1]", "[::1]");
    check("[0:0:0:0:0:0:0:1]:80", "[::1]");
    check("[2001:DB8::A]:81", "[2001:db8::a]:81");
    check(&"a".repeat(255), &"a".repeat(255));
}

#[test]
fn hosts_that_are_refused() {
    for given in
        ["", ".", "..", ".a", "a..b", "a..", "a b", "a,b", "a/b", "a?b", "a\\b", "a%20", "a*", "é", "a;b"]
    {
        check(given, "host");
    }
    for given in ["u@a", "u:p@a", "@a", "a@", "a:80@b"] {
        check(given, "host-userinfo");
    }
    for given in ["a:0", "a:080", "a:65536", "a:100000", "a:+80", "a:8 0", "a:80:80", "a:x", "a:-1"] {
        check(given, "host-port");
    }
    for given in [":80", "[::1", "[::1]x", "[]", "[1.2.3.4]", "[fe80::1%25eth0]", "[v1.x]", "[::g]"] {
        check(given, "host");
    }
    check(":", "host");
    check("[::1]::80", "host-port");
    check(&"a".repeat(256), "host");
    check("::1", "host");
    check("::1]", "host");
}

#[test]
fn the_scheme_decides_the_default_port() {
    let host = |text: &'static str| Host::parse(&Bytes::from_static(text.as_bytes()), None).unwrap();
    assert_eq!(host("a:443").under(Scheme::Https).as_str(), "a");
    assert_eq!(host("a:80").under(Scheme::Https).as_str(), "a:80");
    assert_eq!(host("a:80").under(Scheme::Http).as_str(), "a");
    assert_eq!(host("a").under(Scheme::Https).as_str(), "a");
    assert_eq!((host("a:80").name(), host("a:80").port()), ("a", Some(80)));
    assert_eq!((host("[::1]:8080").name(), host("[::1]:8080").port()), ("[::1]", Some(8080)));
}
