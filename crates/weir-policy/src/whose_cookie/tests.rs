//! Whose cookies are, on every way into a stored head.

use crate::tests::given::{at, fields, judged, stored};
use crate::{CacheRules, HeadEffect, NotStored, ResponseView, SetCookie, freshen, head_effect};
use http::{HeaderMap, StatusCode};

/// A route whose sessions are in the cookie `sid`, beside a cookie `o` of Weir's own.
fn rules(set_cookie: SetCookie) -> CacheRules {
    let mut rules = CacheRules {
        set_cookie,
        session_cookie: Some("sid".into()),
        own_cookies: ["o".to_owned()].into(),
        ..CacheRules::default()
    };
    rules.key.cookies = vec!["lang".into()];
    rules
}

fn cookies(headers: &HeaderMap) -> Vec<&str> {
    headers.get_all("set-cookie").iter().map(|line| line.to_str().unwrap()).collect()
}

/// Lines that are for one client, whatever a route says.
const OF_ONE: [&str; 8] = [
    "sid=1.a; Path=/",
    "sid=",
    " sid =1",
    "sid",
    "o=x",
    // Sent back as a cookie of that name (RFC 6265bis §5.8.3).
    "=sid=1",
    "= o=1; Path=/",
    "lang=de",
];
/// Lines of others.
const OTHERS: [&str; 5] = ["Sid=1", "sidx=1", "a=sid=1", "a=1; sid=1", "==sid=1"];

#[test]
fn a_response_that_makes_a_session_is_not_stored() {
    let store = rules(SetCookie::Store);
    let by = |rules: &CacheRules, line: &str| {
        let lines = format!("cache-control: max-age=9\nset-cookie: a=1\nset-cookie: {line}");
        let judged = judged("", 200, &lines, rules);
        judged.map(|storable| cookies(&storable.stored().headers).join(", "))
    };
    for line in OF_ONE {
        let reason = by(&store, line).unwrap_err();
        assert!(matches!(reason, NotStored::SetCookie | NotStored::SetKeyCookie), "{line} {reason:?}");
        let strip = by(&rules(SetCookie::Strip), line);
        assert!(strip.is_err() == line.starts_with("lang") && strip.unwrap_or_default().is_empty(), "{line}");
    }
    for line in OTHERS {
        assert_eq!(by(&store, line), Ok(format!("a=1, {line}")));
    }
    // Where the route takes the cookie out by its name, it makes no session.
    let named = CacheRules { stripped_cookies: vec!["sid".into()], ..store };
    assert_eq!(by(&named, "sid=1"), Ok("a=1".to_owned()));
}

#[test]
fn what_freshens_brings_no_cookie_of_one_client() {
    let rules = rules(SetCookie::Store);
    let mut held = stored("cache-control: max-age=9\netag: \"a\"");
    let freshened = |held: &crate::Stored, lines: &str| {
        let news = fields(&format!("cache-control: max-age=99\n{lines}"));
        let view = |status| ResponseView::new(status, &news, at(20), at(20));
        let by_304 = freshen(&fields(""), held, &view(StatusCode::NOT_MODIFIED), &rules);
        let HeadEffect::Freshen(by_head) = head_effect(held, None, &view(StatusCode::OK), &rules) else {
            panic!("{lines}")
        };
        assert_eq!(by_304.headers, by_head.headers, "{lines}");
        assert_eq!(by_304.facts.lifetime.as_secs(), 99, "it freshens all the same: {lines}");
        cookies(&by_304.headers).join(", ")
    };
    for line in OF_ONE {
        assert_eq!(freshened(&held, &format!("set-cookie: {line}")), "", "{line}");
        assert_eq!(freshened(&held, &format!("set-cookie: {line}\nset-cookie: a=1")), "a=1", "{line}");
    }
    for line in OTHERS {
        assert_eq!(freshened(&held, &format!("set-cookie: {line}")), line);
    }
    // What was stored before the configuration named such a cookie goes as well; the others stay.
    held.headers.append("set-cookie", "sid=1".parse().unwrap());
    held.headers.append("set-cookie", "a=1".parse().unwrap());
    assert_eq!(freshened(&held, ""), "a=1");
    assert_eq!(freshened(&held, "set-cookie: sid=2"), "a=1");
}

#[test]
fn by_default_a_304_stores_no_cookie_at_all() {
    for set_cookie in [SetCookie::NoStore, SetCookie::Strip] {
        for rules in [CacheRules { set_cookie, ..CacheRules::default() }, rules(set_cookie)] {
            let held = stored("cache-control: max-age=9\netag: \"a\"");
            for line in OF_ONE.iter().chain(&OTHERS) {
                let news = fields(&format!("cache-control: max-age=99\nset-cookie: {line}"));
                let view = ResponseView::new(StatusCode::NOT_MODIFIED, &news, at(20), at(20));
                assert_eq!(
                    cookies(&freshen(&fields(""), &held, &view, &rules).headers).join(", "),
                    "",
                    "{line}"
                );
            }
        }
    }
}

#[test]
fn origins_never_set_a_cookie_of_weirs_name() {
    let taken = |rules: &CacheRules, lines: &str| {
        let mut headers = fields(lines);
        rules.strip_cookies(&mut headers);
        cookies(&headers).join(", ")
    };
    let lines =
        "set-cookie: o=1\nset-cookie: sid=1\nset-cookie: O=1\nset-cookie:  o ; Path=/\nset-cookie: =o=2";
    assert_eq!(taken(&rules(SetCookie::NoStore), lines), "sid=1, O=1");
    assert_eq!(taken(&CacheRules::default(), "set-cookie: o=1"), "o=1");
}

#[test]
fn who_only_waited_gets_no_cookie_but_those_of_all() {
    let taken = |set_cookie: SetCookie, lines: &str| {
        let mut headers = fields(lines);
        rules(set_cookie).strip_for_waiting(StatusCode::INTERNAL_SERVER_ERROR, &mut headers);
        assert!(!headers.contains_key("x-own"));
        cookies(&headers).join(", ")
    };
    let lines = "cache-control: private=\"x-own\"\nx-own: 1\nset-cookie: sid=1\nset-cookie: a=1";
    assert_eq!(taken(SetCookie::Store, lines), "a=1");
    assert_eq!(taken(SetCookie::Strip, lines), "");
    assert_eq!(taken(SetCookie::NoStore, lines), "");
}
