//! Cookies and suffixes, as clients send them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{COOKIE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use proptest::prelude::*;

use super::*;

fn key(secret: &str) -> Key {
    Key::of(secret.as_bytes()).unwrap()
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn own(keys: &[&str], lifetime: Option<u64>) -> Affinity {
    let keys = keys.iter().map(|secret| key(secret)).collect();
    let lifetime = lifetime.map(Duration::from_secs);
    let cookie =
        OwnCookie { name: "o".into(), keys, attributes: "; Path=/".into(), secure: Secure::AsSet, lifetime };
    Affinity { by: By::Own(cookie), bypass: false }
}

fn suffix() -> Affinity {
    let (cookie, parameter) = ("JSESSIONID".into(), "jsessionid".into());
    Affinity { by: By::Suffix { cookie, parameter }, bypass: false }
}

fn read(
    affinity: &Affinity,
    upstream: &str,
    fields: &[(HeaderName, &str)],
    target: &str,
    now: u64,
) -> Reading {
    let fields = fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()));
    let mut headers = HeaderMap::new();
    fields.for_each(|(name, value)| _ = headers.append(name, value));
    affinity.read(upstream, &Asked { received: &headers, left: &headers, target }, at(now))
}

fn cookie(affinity: &Affinity, upstream: &str, origin: OriginId, now: u64) -> String {
    let set = affinity.set_cookie(upstream, origin, ("http", at(now))).unwrap();
    set.to_str().unwrap().split(';').next().unwrap().to_owned()
}

fn found(id: OriginId, place: Place) -> Reading {
    Reading::Session { session: Session::At(id), place }
}

const NOW: u64 = 1_800_000_000;

#[test]
fn a_cookie_names_its_origin_to_every_weir_with_the_key() {
    let (one, other) = (own(&["first"], None), own(&["second", "first"], None));
    let id = OriginId::of_address("http://10.0.0.7:8080");
    let sent = cookie(&one, "app", id, NOW);
    for weir in [&one, &other] {
        let line = format!("a=1; {sent}; b=2");
        assert_eq!(read(weir, "app", &[(COOKIE, &line)], "/", NOW), found(id, Place::Field));
    }
    let text = one.set_cookie("app", id, ("http", at(NOW))).unwrap();
    assert!(text.to_str().unwrap().ends_with("; Path=/"), "{text:?}");
    let over_tls = one.set_cookie("app", id, ("https", at(NOW))).unwrap();
    assert!(over_tls.to_str().unwrap().ends_with("; Path=/; Secure"), "{over_tls:?}");
    assert_eq!(sent.len(), "o=".len() + 40);
    // Neither the address nor its number can be read in it.
    assert_ne!(sent, cookie(&own(&["second"], None), "app", id, NOW));
}

#[test]
fn what_nobody_with_the_key_has_written_for_this_upstream_is_refused() {
    let affinity = own(&["first"], None);
    let id = OriginId::of_address("http://10.0.0.7:8080");
    let good = cookie(&affinity, "app", id, NOW);
    let value = good.strip_prefix("o=").unwrap();
    let foreign = cookie(&own(&["other"], None), "app", id, NOW);
    let of_another = cookie(&affinity, "shop", id, NOW);
    for bad in ["o=", "o=node1", &foreign, &of_another, &format!("o={value}A"), &format!("o={}", &value[1..])]
    {
        assert_eq!(read(&affinity, "app", &[(COOKIE, bad)], "/", NOW), Reading::Refused, "{bad}");
    }
    assert_eq!(read(&affinity, "app", &[(COOKIE, "O=x; oo=y")], "/", NOW), Reading::Nothing);
    assert_eq!(read(&affinity, "app", &[], "/", NOW), Reading::Nothing);
    // A valid one beside bad ones counts, however many cannot be one. Beyond sixteen that may be, none is
    // looked at.
    let two = format!("o=bad; {good}");
    assert_eq!(read(&affinity, "app", &[(COOKIE, &two)], "/", NOW), found(id, Place::Field));
    let behind = |count: usize, bad: &str| format!("{}{good}", format!("{bad}; ").repeat(count));
    for (many, expect) in [
        (behind(500, "o=a"), found(id, Place::Field)),
        (behind(15, &foreign), found(id, Place::Field)),
        (behind(16, &foreign), Reading::Refused),
    ] {
        assert_eq!(read(&affinity, "app", &[(COOKIE, &many)], "/", NOW), expect, "{many}");
    }
}

#[test]
fn a_lifetime_ends_and_is_renewed_at_half() {
    let affinity = own(&["first"], Some(100));
    let id = OriginId::of_node("a");
    let set = affinity.set_cookie("app", id, ("http", at(NOW))).unwrap();
    assert!(set.to_str().unwrap().contains("; Max-Age=100; Path=/"), "{set:?}");
    let sent = cookie(&affinity, "app", id, NOW);
    for (age, expect) in [
        (0, found(id, Place::Field)),
        (49, found(id, Place::Field)),
        (50, found(id, Place::AgingCookie)),
        (99, found(id, Place::AgingCookie)),
        (100, Reading::Refused),
    ] {
        assert_eq!(read(&affinity, "app", &[(COOKIE, &sent)], "/", NOW + age), expect, "{age}");
    }
    // The clocks of two Weirs differ a little. A cookie of tomorrow is none.
    assert_eq!(read(&affinity, "app", &[(COOKIE, &sent)], "/", NOW - 299), found(id, Place::Field));
    assert_eq!(read(&affinity, "app", &[(COOKIE, &sent)], "/", NOW - 86_400), Reading::Refused);
}

#[test]
fn a_session_id_ends_with_its_node() {
    let check = |fields: &[(HeaderName, &str)], target: &str, expect: Reading| {
        assert_eq!(read(&suffix(), "app", fields, target, NOW), expect, "{fields:?} {target}");
    };
    let node = OriginId::of_node("node1");
    check(&[(COOKIE, "JSESSIONID=0A4F.node1")], "/", found(node, Place::Field));
    check(&[(COOKIE, "x=y; JSESSIONID=\"0A4F.node1\"")], "/", found(node, Place::Field));
    check(&[(COOKIE, "JSESSIONID=a.b.node1")], "/", found(node, Place::Field));
    check(&[(COOKIE, "JSESSIONID=old; JSESSIONID=0A.node1")], "/", found(node, Place::Field));
    check(&[], "/shop;jsessionid=0A4F.node1?x=;jsessionid=1.node2", found(node, Place::Path));
    check(&[], "/a;v=1;jsessionid=0.node1/b", found(node, Place::Path));
    check(
        &[(COOKIE, "JSESSIONID=0.node2")],
        "/;jsessionid=0.node1",
        found(OriginId::of_node("node2"), Place::Path),
    );
    check(&[(COOKIE, "JSESSIONID=0A4F")], "/", Reading::Refused);
    check(&[(COOKIE, "JSESSIONID=0A4F.")], "/", Reading::Refused);
    check(&[(COOKIE, "JSESSIONID=0A4F.http://10.0.0.1:80")], "/", Reading::Refused);
    check(&[(COOKIE, "jsessionid=0A4F.node1")], "/?a;jsessionid=0.node1", Reading::Nothing);
}

#[test]
fn sessions_bypass_the_cache_where_that_is_wanted() {
    let check = |affinity: &Affinity, cookie: &str, target: &str, expect: bool| {
        let reading = read(affinity, "app", &[(COOKIE, cookie)], target, NOW);
        let bypasses = affinity.may_bypass(target) && affinity.bypasses(&reading);
        assert_eq!(bypasses, expect, "{cookie} {target}");
    };
    let on = |affinity: Affinity| Affinity { bypass: true, ..affinity };
    let sent = cookie(&own(&["first"], None), "app", OriginId::of_node("a"), NOW);
    check(&own(&["first"], None), &sent, "/", false);
    check(&on(own(&["first"], None)), &sent, "/", true);
    check(&on(own(&["first"], None)), "o=forged", "/", false);
    check(&on(own(&["first"], None)), "a=b", "/", false);
    check(&suffix(), "JSESSIONID=1.node1", "/", false);
    check(&on(suffix()), "JSESSIONID=1.node1", "/", true);
    check(&on(suffix()), "JSESSIONID=1", "/", true);
    // What is under such a URL is for one session, whatever the configuration says.
    check(&suffix(), "a=b", "/shop;jsessionid=1.node1", true);
    check(&suffix(), "JSESSIONID=1.node1", "/shop;jsessionid=1", true);
    check(&suffix(), "a=b", "/shop;color=red", false);
}

#[test]
fn a_name_for_sessions_is_never_an_address() {
    assert_ne!(OriginId::of_node("a"), OriginId::of_address("a"));
    for (name, expect) in [("node1", true), ("a-b_C", true), ("", false), ("a.b", false), ("http://a", false)]
    {
        assert_eq!(suffix::is_node(name), expect, "{name}");
    }
    assert!(!suffix::is_node(&"n".repeat(129)));
}

#[test]
fn a_hash_is_of_one_part_of_the_request() {
    let of = |of| Affinity { by: By::Hash(of), bypass: false };
    let by_cookie = of(SessionOf::Cookie("sid".into()));
    let by_field = of(SessionOf::Header(HeaderName::from_static("x-user")));
    let session = |affinity: &Affinity, name: HeaderName, value: &str| {
        read(affinity, "app", &[(name, value)], "/", NOW).session()
    };
    let user = || HeaderName::from_static("x-user");
    assert_eq!(session(&by_cookie, COOKIE, "sid=1; a=2"), session(&by_cookie, COOKIE, "a=3; sid=1"));
    assert_ne!(session(&by_cookie, COOKIE, "sid=1"), session(&by_cookie, COOKIE, "sid=2"));
    assert_eq!(session(&by_cookie, COOKIE, "sid="), None);
    assert_eq!(session(&by_cookie, user(), "1"), None);
    assert!(session(&by_field, user(), "1").is_some());
}

#[test]
fn weirs_own_cookie_leaves_no_byte() {
    let check = |lines: &[&str], expect: Option<&[&str]>| {
        let mut headers = HeaderMap::new();
        lines.iter().for_each(|line| _ = headers.append(COOKIE, HeaderValue::from_str(line).unwrap()));
        let left = without(&headers, &["o".to_owned()]);
        let left: Option<Vec<&str>> =
            left.as_ref().map(|left| left.iter().map(|line| line.to_str().unwrap()).collect());
        assert_eq!(left.as_deref(), expect, "{lines:?}");
    };
    check(&[], None);
    check(&["a=1; oo=2; O=3"], None);
    check(&["o=1"], Some(&[]));
    check(&["o"], Some(&[]));
    check(&["o=1; a=1"], Some(&["a=1"]));
    check(&["a=1; o=1; b=2"], Some(&["a=1; b=2"]));
    check(&["a=1;b=2; o=1"], Some(&["a=1;b=2"]));
    check(&["a=1; o =1", "o=2;o=3", "b=o=4"], Some(&["a=1", "b=o=4"]));
}

#[test]
fn a_response_begins_a_session_by_its_cookie_alone() {
    let begins = |line: &'static str| {
        let headers = HeaderMap::from_iter([(SET_COOKIE, HeaderValue::from_static(line))]);
        suffix().is_begun_by(&headers)
    };
    assert!(begins("JSESSIONID=1.node1; Path=/"));
    assert!(!begins("theme=JSESSIONID=1"));
    assert!(!suffix().is_begun_by(&HeaderMap::new()));
}

proptest! {
    #[test]
    fn every_origin_comes_back_and_no_changed_cookie_does(
        number: u64,
        seconds in 0u64..1 << 40,
        at_byte in 0usize..40,
        other in 0u8..64,
    ) {
        let affinity = own(&["first"], None);
        let id = OriginId(number);
        let sent = cookie(&affinity, "app", id, seconds);
        prop_assert_eq!(read(&affinity, "app", &[(COOKIE, &sent)], "/", NOW), found(id, Place::Field));
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut changed = sent.clone().into_bytes();
        changed[2 + at_byte] = letters[usize::from(other)];
        let changed = String::from_utf8(changed).unwrap();
        let expect = if changed == sent { found(id, Place::Field) } else { Reading::Refused };
        prop_assert_eq!(read(&affinity, "app", &[(COOKIE, &changed)], "/", NOW), expect);
    }

    #[test]
    fn any_text_is_read_to_the_end(line in "[ -~]{0,200}", target in "/[ -~]{0,200}") {
        for affinity in [own(&["first"], Some(10)), suffix()] {
            if let Reading::Session { session: Session::At(id), .. } =
                read(&affinity, "app", &[(COOKIE, &line)], &target, NOW)
            {
                prop_assert!(affinity.own_cookie().is_none(), "{:?}", id);
            }
        }
    }
}
