//! Keys and what is forwarded.

use super::{CacheKey, forwarded, write_key, write_url};
use crate::tests::given::{fields, request};
use crate::{KeyRules, QueryOrder, QueryRule, RequestView};
use bytes::Bytes;
use http::{HeaderName, Method};
use proptest::prelude::*;

fn rules(query: QueryRule, order: QueryOrder) -> KeyRules {
    KeyRules { query, order, ..KeyRules::default() }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn forwards_what_the_key_keeps() {
    use QueryOrder::{Received, Sorted};
    let tracking = || QueryRule::Drop(names(&["utm_*", "fbclid"]));
    let kept = || QueryRule::Keep(names(&["id", "page"]));
    for (query, order, given, expect) in [
        (QueryRule::All, Received, "/a?b=1&a=2", "/a?b=1&a=2"),
        (QueryRule::All, Sorted, "/a?b=1&a=2&a=1", "/a?a=2&a=1&b=1"),
        (QueryRule::None, Received, "/a?b=1", "/a"),
        (QueryRule::None, Received, "/a", "/a"),
        (kept(), Received, "/a?x=1&id=2&page", "/a?id=2&page"),
        (kept(), Sorted, "/a?page=1&x=1&id=2", "/a?id=2&page=1"),
        (kept(), Received, "/a?x=1", "/a"),
        (tracking(), Received, "/a?utm_source=x&id=2&fbclid=9", "/a?id=2"),
        (tracking(), Received, "/a?id=2;utm_source=x", "/a?id=2;utm_source=x"),
        (tracking(), Received, "/a?%75tm_source=x", "/a?%75tm_source=x"),
        (tracking(), Received, "/a?", "/a?"),
        (QueryRule::Unkeyed(names(&["rate"])), Received, "/a?b=1&rate=2&c", "/a?b=1&c"),
    ] {
        assert_eq!(forwarded(&rules(query.clone(), order), given), expect, "{query:?} {given}");
    }
}

fn key(rules: &KeyRules, path: &str, lines: &str) -> Vec<u8> {
    let headers = fields(lines);
    let mut out = Vec::new();
    let digest =
        write_key(rules, &request(&Method::GET, path, &headers), crate::KeyParts::default(), &mut out);
    assert_eq!(digest, CacheKey::new(Bytes::from(out.clone())).digest);
    out
}

#[test]
fn writes_the_whole_key() {
    assert_eq!(key(&KeyRules::default(), "/a?b", "x: y"), b"http://example.com/a?b");
    let unkeyed = rules(QueryRule::Unkeyed(Vec::new()), QueryOrder::Received);
    assert_eq!(key(&unkeyed, "/a?b=1", ""), b"http://example.com/a");
    let rules = KeyRules {
        headers: vec![HeaderName::from_static("x-country")],
        cookies: names(&["ab"]),
        ..KeyRules::default()
    };
    assert_eq!(key(&rules, "/", ""), b"http://example.com/\nx-country\ncookie ab");
    assert_eq!(
        key(&rules, "/", "x-country: DE\ncookie: z=1; ab=2"),
        b"http://example.com/\nx-country:DE\ncookie ab=2"
    );
    // Two values are not one, and a value cannot look like the next line.
    assert_ne!(key(&rules, "/", "x-country: a\nx-country: b"), key(&rules, "/", "x-country: a\tb"));
    assert_ne!(key(&rules, "/", "x-country:"), key(&rules, "/", ""));
}

#[test]
fn digest_is_of_the_key_alone() {
    let headers = fields("");
    let view = request(&Method::GET, "/a", &headers);
    let mut out = b"before".to_vec();
    let digest = write_key(&KeyRules::default(), &view, crate::KeyParts::default(), &mut out);
    assert_eq!(digest, write_key(&KeyRules::default(), &view, crate::KeyParts::default(), &mut Vec::new()));
    for other in [
        RequestView { scheme: "https", ..view },
        RequestView { host: "example.org", ..view },
        RequestView { path_and_query: "/b", ..view },
    ] {
        assert_ne!(
            digest,
            write_key(&KeyRules::default(), &other, crate::KeyParts::default(), &mut Vec::new())
        );
    }
    let head = RequestView { method: &Method::HEAD, ..view };
    assert_eq!(digest, write_key(&KeyRules::default(), &head, crate::KeyParts::default(), &mut Vec::new()));
}

proptest! {
    /// The forwarded target has the same key as the requested one.
    #[test]
    fn forwarding_is_stable(query in "[ab=&;%]{0,16}", sorted in any::<bool>()) {
        let order = if sorted { QueryOrder::Sorted } else { QueryOrder::Received };
        for rule in [QueryRule::All, QueryRule::Drop(names(&["a"])), QueryRule::Keep(names(&["a*"]))] {
            let rules = rules(rule, order);
            let path = format!("/p?{query}");
            let once = forwarded(&rules, &path).into_owned();
            prop_assert_eq!(&forwarded(&rules, &once), &once);
            prop_assert_eq!(key(&rules, &path, ""), key(&rules, &once, ""));
        }
    }
}

#[test]
fn all_keys_of_a_url_begin_with_it() {
    let headers = fields("x-country: DE");
    let keyed = KeyRules { headers: vec![HeaderName::from_static("x-country")], ..KeyRules::default() };
    for rules in [KeyRules::default(), keyed] {
        let view = request(&Method::GET, "/a?b", &headers);
        let (mut url, mut full) = (Vec::new(), Vec::new());
        let digest = write_url(&rules, &view, None, &mut url);
        write_key(&rules, &view, crate::KeyParts::default(), &mut full);
        let key = CacheKey::new(Bytes::from(full)).of_site(7);
        assert_eq!((key.url(), key.url_digest(), key.site), (&url[..], digest, 7));
        assert_eq!(url, b"http://example.com/a?b");
    }
}
