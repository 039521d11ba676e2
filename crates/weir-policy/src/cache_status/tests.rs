//! Cache-Status as bytes, read back by a parser of structured fields.

use super::{Forward, Forwarded, forwarded, hit, hit_with, key, local};
use http::StatusCode;
use proptest::prelude::*;
use sfv::{List, Parser};

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    let text = String::from_utf8(out).expect("text");
    let list: List = Parser::new(&text).parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(list.len(), 1, "{text}");
    text
}

#[test]
fn hits() {
    assert_eq!(text(|out| hit(out, 58)), "weir; hit; ttl=58");
    assert_eq!(text(|out| hit(out, -3)), "weir; hit; ttl=-3");
    assert_eq!(text(|out| hit(out, i64::MIN)), "weir; hit; ttl=-999999999999999");
    assert_eq!(text(|out| hit_with(out, 0, "stale-if-error")), "weir; hit; ttl=0; detail=stale-if-error");
    assert_eq!(text(|out| local(out, "no origin")), "weir; detail=\"no origin\"");
}

#[test]
fn forwards() {
    let all = Forwarded {
        status: Some(StatusCode::OK),
        is_stored: true,
        is_collapsed: true,
        ttl_s: Some(60),
        detail: Some("no-store"),
    };
    assert_eq!(
        text(|out| forwarded(out, Forward::UriMiss, &all)),
        "weir; fwd=uri-miss; fwd-status=200; ttl=60; stored; collapsed; detail=no-store"
    );
    assert_eq!(text(|out| forwarded(out, Forward::Stale, &Forwarded::default())), "weir; fwd=stale");
}

#[test]
fn a_key_is_a_string() {
    assert_eq!(
        text(|out| {
            hit(out, 1);
            key(out, b"http://a/\"b\\\xe9\n");
        }),
        "weir; hit; ttl=1; key=\"http://a/\\\"b\\\\??\""
    );
}

#[test]
fn reasons_have_a_word() {
    use crate::{MissReason, PassReason, RevalidateReason};
    for (forward, expect) in [
        (Forward::from(PassReason::Method), "method"),
        (Forward::from(PassReason::BypassPath), "bypass"),
        (Forward::from(PassReason::NoStore), "request"),
        (Forward::from(MissReason::Uri), "uri-miss"),
        (Forward::from(MissReason::Vary), "vary-miss"),
        (Forward::from(RevalidateReason::Stale), "stale"),
        (Forward::from(RevalidateReason::Request), "request"),
    ] {
        assert_eq!(forward.word(), expect);
    }
}

proptest! {
    #[test]
    fn always_parses(shown in any::<Vec<u8>>(), detail in ".{0,20}", ttl_s in any::<i64>()) {
        let said = Forwarded { ttl_s: Some(ttl_s), detail: Some(&detail), ..Forwarded::default() };
        let _ = text(|out| {
            forwarded(out, Forward::Miss, &said);
            key(out, &shown);
        });
    }
}
