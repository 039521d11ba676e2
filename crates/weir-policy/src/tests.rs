//! Properties that hold across the rooms of this crate.

pub(crate) mod given;
mod served;

use crate::tests::given::{ask, at, at_ms, fields, judged, request};
use crate::{
    CacheKey, CacheRules, Lifetimes, RequestView, Statuses, Verdict, forwarded, freshness, verdict, write_key,
};
use bytes::Bytes;
use http::{Method, StatusCode};
use proptest::prelude::*;

/// Cache-Control of a response, put together at random.
fn directives() -> impl Strategy<Value = String> {
    let one = prop_oneof![
        (0_u32..100).prop_map(|age| format!("max-age={age}")),
        (0_u32..100).prop_map(|age| format!("s-maxage={age}")),
        (0_u32..100).prop_map(|window| format!("stale-while-revalidate={window}")),
        (0_u32..100).prop_map(|window| format!("stale-if-error={window}")),
        Just("public".to_owned()),
        Just("no-cache".to_owned()),
        Just("must-revalidate".to_owned()),
        Just("immutable".to_owned()),
        Just("must-understand".to_owned()),
        Just("no-cache=\"x\"".to_owned()),
    ];
    proptest::collection::vec(one, 0..4).prop_map(|all| all.join(", "))
}

fn rules() -> impl Strategy<Value = CacheRules> {
    let one = prop_oneof![
        (200_u16..600).prop_map(|code| Statuses::One(StatusCode::from_u16(code).expect("a status"))),
        (2_u8..6).prop_map(Statuses::Class),
        Just(Statuses::Any),
    ];
    let lifetime = (0_u64..100).prop_map(std::time::Duration::from_secs);
    let ttl = proptest::collection::vec((one, lifetime), 0..4).prop_map(Lifetimes);
    (ttl.clone(), ttl).prop_map(|(ttl, ttl_override)| CacheRules {
        ttl,
        ttl_override,
        ..CacheRules::default()
    })
}

proptest! {
    /// What is stale stays stale.
    #[test]
    fn staleness_only_grows(
        control in directives(), rules in rules(), first in 0_u64..300, more in 0_u64..300,
    ) {
        let response = format!("cache-control: {control}\netag: \"a\"");
        let Ok(storable) = judged("", 200, &response, &rules) else { return Ok(()) };
        let stored = storable.into_stored();
        let is_hit = |seconds| matches!(verdict(&ask(""), Some(&stored), at(seconds)), Verdict::Hit(_));
        prop_assert!(is_hit(first) || !is_hit(first + more));
        let is_sent = |seconds| {
            matches!(verdict(&ask(""), Some(&stored), at(seconds)), Verdict::Hit(_) | Verdict::Stale(..))
        };
        prop_assert!(is_sent(first) || !is_sent(first + more));
    }

    /// Adding no-store or private never makes a response storable. What nothing overrules makes it not
    /// storable.
    #[test]
    fn forbidding_never_permits(
        control in directives(), rules in rules(), status in 200_u16..600, private in any::<bool>(),
    ) {
        let word = if private { "private" } else { "no-store" };
        let before = judged("", status, &format!("cache-control: {control}\netag: \"a\""), &rules);
        let after = judged("", status, &format!("cache-control: {control}, {word}\netag: \"a\""), &rules);
        prop_assert!(before.is_ok() || after.is_err());
        if private || !control.contains("must-understand") {
            prop_assert!(after.is_err());
        }
    }

    /// Age is additive: time in this cache and time before it count alike.
    #[test]
    fn age_is_additive(said in 0_u64..1000, delay in 0_u64..1000, here_ms in 0_u64..1_000_000) {
        let response = fields(&format!("cache-control: max-age=5000\nage: {said}"));
        let headers = fields("");
        let stored = crate::storable(
            &request(&Method::GET, "/", &headers),
            &crate::ResponseView::new(http::StatusCode::OK, &response, at(0), at(delay)),
            &CacheRules::default(),
        ).expect("storable").into_stored();
        let now = freshness(&stored, at_ms(delay * 1000 + here_ms));
        prop_assert_eq!(now.age.as_millis() as u64, (said + delay) * 1000 + here_ms);
        prop_assert_eq!(now.is_fresh(), now.age < now.lifetime);
    }

    /// A response to an authenticated request is stored only if it allows sharing itself.
    #[test]
    fn authorization_never_helps(control in directives(), rules in rules()) {
        let response = format!("cache-control: {control}\netag: \"a\"");
        let with = judged("authorization: x", 200, &response, &rules);
        prop_assert!(with.is_err() || judged("", 200, &response, &rules).is_ok());
    }

    /// Two requests have the same key exactly if scheme, host and forwarded target are the same.
    #[test]
    fn keys_tell_targets_apart(a in "/[a-c?&=%]{0,6}", b in "/[a-c?&=%]{0,6}", secure in any::<bool>()) {
        let headers = fields("");
        let rules = crate::KeyRules::default();
        let key = |path: &str, scheme: &str| {
            let mut out = Vec::new();
            let view = RequestView { scheme, ..request(&Method::GET, path, &headers) };
            let digest = write_key(&rules, &view, crate::KeyParts::default(), &mut out);
            CacheKey { digest, full: Bytes::from(out), site: 0 }
        };
        let scheme = if secure { "https" } else { "http" };
        let is_same = forwarded(&rules, &a) == forwarded(&rules, &b) && scheme == "http";
        prop_assert_eq!(key(&a, scheme) == key(&b, "http"), is_same);
    }
}

#[test]
fn what_connection_names_is_gone() {
    use crate::tests::given::fields;
    let mut headers = fields(
        "connection: keep-alive, X-A\nconnection: te, x-c, ?\nx-a: 1\nx-b: 2\nte: trailers\nx-c: 3\nx-c: 4",
    );
    crate::strip_named(&mut headers);
    let mut left: Vec<&str> = headers.keys().map(http::HeaderName::as_str).collect();
    left.sort_unstable();
    assert_eq!(left, ["connection", "te", "x-b"]);
}
