//! What `tags` must do, by example.

use super::{TAG_BYTES_MAX, TAGS_MAX, Tags, has_hidden, hide, of, tag_hash};
use http::{HeaderMap, HeaderName, HeaderValue};

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let field = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    };
    fields.iter().map(field).collect()
}

fn check(fields: &[(&'static str, &str)], expect: &[&str]) {
    let headers = headers(fields);
    let found: Vec<&[u8]> = of(&headers).collect();
    let expect: Vec<&[u8]> = expect.iter().map(|tag| tag.as_bytes()).collect();
    assert_eq!(found, expect, "{fields:?}");
    let mut hashes: Vec<u64> = expect.iter().map(|tag| tag_hash(tag)).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let tags = Tags::read(&headers);
    assert_eq!(tags.hashes(), hashes);
    assert!(tags.is_complete());
}

#[test]
fn each_field_has_its_own_separators() {
    check(&[], &[]);
    check(&[("surrogate-key", "a b,c  d")], &["a", "b,c", "d"]);
    check(&[("cache-tag", "a, b c ,,d")], &["a", "b c", "d"]);
    check(&[("edge-cache-tag", "a,b"), ("x-cache-tags", "c,d")], &["a", "b", "c", "d"]);
    check(&[("xkey", "a b,c"), ("xkey", "d")], &["a", "b", "c", "d"]);
    check(&[("surrogate-key", "a"), ("cache-tag", "a")], &["a", "a"]);
    check(&[("x-magento-tags", "cat_p_1,cat_p_2,FPC")], &["cat_p_1", "cat_p_2", "FPC"]);
    check(&[("cache-tags", "/foo,/bar")], &["/foo", "/bar"]);
    check(&[("cache-tags", "node:1 node_list")], &["node:1", "node_list"]);
    check(&[("purge-cache-tags", "node:1 node_list")], &["node:1", "node_list"]);
}

#[test]
fn those_for_caches_alone_are_hidden() {
    let mut fields = headers(&[
        ("surrogate-key", "a"),
        ("x-cache-tags", "a"),
        ("x-magento-tags", "a"),
        ("xkey", "a"),
        ("xkey", "b"),
        ("cache-tags", "a"),
        ("purge-cache-tags", "a"),
        ("cache-tag", "a"),
    ]);
    assert!(has_hidden(&fields) && hide(&mut fields));
    let left: Vec<&str> = fields.keys().map(HeaderName::as_str).collect();
    assert_eq!(left, ["surrogate-key", "cache-tag"]);
    assert!(!has_hidden(&fields) && !hide(&mut fields));
}

#[test]
fn they_are_compared_byte_by_byte() {
    check(&[("cache-tag", "A,a,ä")], &["A", "a", "ä"]);
    assert_ne!(tag_hash(b"A"), tag_hash(b"a"));
}

#[test]
fn what_is_too_long_is_left_out() {
    let (longest, longer) = ("x".repeat(TAG_BYTES_MAX), "y".repeat(TAG_BYTES_MAX + 1));
    check(&[("cache-tag", &format!("{longest},{longer},z"))], &[&longest, "z"]);
}

#[test]
fn too_many_tags_are_noted_as_incomplete() {
    let text = |count: usize| (0..count).map(|at| format!("t{at}")).collect::<Vec<_>>().join(" ");
    let all = Tags::read(&headers(&[("surrogate-key", &text(TAGS_MAX))]));
    assert!(all.is_complete() && all.hashes().len() == TAGS_MAX);
    for count in [TAGS_MAX + 1, 2 * TAGS_MAX, 2 * TAGS_MAX + 1, 10 * TAGS_MAX] {
        let some = Tags::read(&headers(&[("surrogate-key", &text(count))]));
        assert!(!some.is_complete(), "{count}");
        assert!(some.hashes().len() <= 2 * TAGS_MAX);
    }
    let repeated = "same ".repeat(10 * TAGS_MAX);
    check_repeated(&repeated);
}

fn check_repeated(text: &str) {
    let tags = Tags::read(&headers(&[("surrogate-key", text)]));
    assert_eq!((tags.hashes(), tags.is_complete()), (&[tag_hash(b"same")][..], true));
}
