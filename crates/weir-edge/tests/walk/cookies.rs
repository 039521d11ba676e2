//! Cookies by name: what a route takes out of requests and responses, and what is stored by what is left.

use std::time::Duration;

use weir_testkit::{Exchange, Origin, Response};

use crate::kit::{Weir, message, server};

/// An origin that says which cookies it got, by `Vary: Cookie` for a minute; below `/set` it sets those that
/// the query names.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange: &mut Exchange<'_>| {
        exchange.body();
        let text = format!("[{}]", exchange.request.header("cookie").unwrap_or_default());
        let query =
            exchange.request.target.split_once('?').map(|(_, query)| query.to_owned()).unwrap_or_default();
        let is_set = exchange.request.path().starts_with("/set");
        let mut fields = vec![("Cache-Control", "max-age=60")];
        if !exchange.request.path().starts_with("/plain") {
            fields.push(("Vary", "Cookie"));
        }
        fields.extend(query.split('&').filter(|_| is_set).map(|cookie| ("Set-Cookie", cookie)));
        exchange.reply(200, &fields, text);
    });
    origin
}

fn get(weir: &Weir, target: &str, cookie: &str) -> Response {
    let fields: &[(&str, &str)] = &[("Cookie", cookie)];
    weir.get_with(target, if cookie.is_empty() { &[] } else { fields })
}

#[test]
fn what_is_dropped_is_seen_by_nobody() {
    let origin = origin();
    let site = "cookies = { drop = [\"_ga*\", \"_fbp\"] }\nkey = { cookies = [\"lang\"] }\n\
                bypass = { cookies = [\"session*\"] }\n";
    let weir = server(&[&origin]).site(site).start();
    for (cookie, text, hit) in [
        ("_ga=1", "[]", false),
        ("", "[]", true),
        ("_ga_X=2; _fbp=3", "[]", true),
        ("_ga=1; lang=de", "[lang=de]", false),
        ("lang=de; _ga=2", "[lang=de]", true),
        ("lang=en, _ga=1", "[]", true),
    ] {
        let answer = get(&weir, "/", cookie);
        assert_eq!((answer.text().as_str(), answer.is_hit()), (text, hit), "{cookie}: {:?}", answer.head);
    }
    let passed = get(&weir, "/", "_ga=1; session=2");
    assert_eq!((passed.text().as_str(), passed.fwd().as_deref()), ("[session=2]", Some("bypass")));
    let inside = get(&weir, "/", "x=1, session=2");
    assert_eq!(inside.fwd().as_deref(), Some("bypass"), "some origins read two cookies");
    let posted =
        weir.send("POST / HTTP/1.1\r\nHost: localhost\r\nCookie: b=1; _ga=2\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(posted.text(), "[b=1]");
}

#[test]
fn vary_cookie_is_one_variant_for_requests_without_cookies() {
    let origin = origin();
    let weir = server(&[&origin]).start();
    assert_eq!((get(&weir, "/", "").text().as_str(), get(&weir, "/", "").is_hit()), ("[]", true));
    for round in 0..2 {
        for cookie in ["a=1", "a=2"] {
            let answer = get(&weir, "/", cookie);
            assert_eq!((answer.text(), answer.is_hit()), (format!("[{cookie}]"), false), "{round}");
        }
        assert!(get(&weir, "/", "").is_hit(), "visitors with cookies do not take it away");
    }
    assert_eq!(origin.total(), 5);
}

#[test]
fn a_visitor_with_cookies_waits_for_no_fill_and_closes_none_to_others() {
    let origin = origin();
    let weir = server(&[&origin]).start();
    let declined = get(&weir, "/", "a=1");
    assert!(declined.header("cache-status").unwrap().contains("vary-cookie"), "{:?}", declined.head);
    let verdict = |fields| weir.explain(&message("GET", "localhost", "/", fields)).verdict.word();
    assert_eq!((verdict(&[("Cookie", "a=2")]), verdict(&[])), ("pass", "miss"), "others fill it");
    assert_eq!((get(&weir, "/", "a=2").text().as_str(), get(&weir, "/", "").is_hit()), ("[a=2]", false));
    assert!(get(&weir, "/", "").is_hit());
    assert_eq!((verdict(&[("Cookie", "a=2")]), verdict(&[])), ("pass", "hit"));
}

#[test]
fn with_some_left_all_of_them_must_be_in_the_key() {
    let origin = origin();
    let weir = server(&[&origin]).site("key = { cookies = [\"lang\", \"currency\"] }\n").start();
    for (cookie, hit) in [
        ("lang=de", false),
        ("lang=de", true),
        ("lang=de; session=1", false),
        ("lang=de; session=1", false),
        ("lang=de", true),
        ("lang=de; currency=EUR", false),
        ("lang=de; currency=EUR", true),
        ("lang=de; currency=USD", false),
    ] {
        let answer = get(&weir, "/", cookie);
        assert_eq!((answer.text(), answer.is_hit()), (format!("[{cookie}]"), hit), "{cookie}");
    }
}

/// Each writes the same two words with other separators. None may get what another has filled.
#[test]
fn no_two_requests_share_a_key_by_their_separators() {
    let cookies = [
        "lang=de",
        "lang=de; x=1",
        "lang=de, x=1",
        "lang=de x=1",
        "lang=\"de; x=1\"",
        "lang=de\\; x=1",
        "lang=; x=de",
        "x=1, lang=de",
        "x=\"; lang=de; y=\"",
        "lang=de%0acookie x=1",
        "LANG=de",
    ];
    for site in ["", "cookies = { drop = [\"_ga\"] }\n", "cookies = { keep = [\"lang\", \"x\"] }\n"] {
        for target in ["/", "/plain"] {
            let origin = origin();
            let weir =
                server(&[&origin]).site(&format!("{site}key = {{ cookies = [\"lang\", \"x\"] }}\n")).start();
            for cookie in cookies {
                let first = get(&weir, target, cookie);
                assert!(!first.is_hit() || first.text() == "[]", "{site}{cookie}: {:?}", first.text());
                let again = get(&weir, target, cookie);
                assert_eq!(again.text(), first.text(), "{site}{cookie}");
            }
        }
    }
}

#[test]
fn stripped_cookies_reach_nobody_and_do_not_hinder() {
    let origin = origin();
    let site =
        "set_cookie = { strip = [\"_ga*\"] }\n[[site.route]]\npath = \"/set/all\"\nset_cookie = \"store\"\n";
    let weir = server(&[&origin]).site(site).start();
    let set = |answer: &Response| -> Vec<String> {
        let fields = answer.head.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        fields.map(|(_, value)| value.clone()).collect()
    };
    for (target, stored, left) in [
        ("/set?_ga=1", true, vec![]),
        ("/set?_ga=1&_gat=2", true, vec![]),
        ("/set?_ga=1&session=2", false, vec!["session=2"]),
        ("/set/all?_ga=1", true, vec!["_ga=1"]),
    ] {
        let (first, second) = (get(&weir, target, ""), get(&weir, target, ""));
        assert_eq!(second.is_hit(), stored, "{target}: {:?}", second.head);
        assert_eq!(
            (set(&first), set(&second)),
            (set(&second), left.iter().map(ToString::to_string).collect())
        );
    }
    let posted = "POST /set?_ga=1&session=2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(set(&weir.send(posted)), ["session=2"], "also of what is not stored");
}

#[test]
fn explain_names_what_is_dropped_and_what_hinders() {
    let origin = origin();
    let site = "cookies = { drop = [\"_ga*\"] }\nkey = { cookies = [\"lang\"] }\n";
    let weir = server(&[&origin]).site(site).start();
    let cookie = "_ga=1; session=2; lang=de";
    let asked = message("GET", "localhost", "/", &[("Cookie", cookie)]);
    let told = weir.explain(&asked);
    assert_eq!(
        (told.cookies_dropped.as_slice(), told.cookies_not_in_key.as_slice()),
        (&["_ga".to_owned()][..], &["session".to_owned()][..])
    );
    assert!(told.key.unwrap().ends_with("cookie lang=de"));
    let sent = told.asked.unwrap().headers;
    assert!(sent.contains(&("cookie".to_owned(), "lang=de; session=2".to_owned())), "{sent:?}");
    assert_eq!((told.verdict.word(), told.not_stored), ("miss", None));
    get(&weir, "/", cookie);
    let told = weir.explain(&asked);
    assert_eq!((told.verdict.word(), told.not_stored), ("pass", Some("vary-cookie")));
    assert_eq!(get(&weir, "/", cookie).text(), "[lang=de; session=2]");
    let others = weir.explain(&message("GET", "localhost", "/", &[("Cookie", "lang=de; _gat=1")]));
    assert_eq!((others.verdict.word(), others.not_stored), ("miss", None));
}

#[test]
fn cookies_have_the_flags_that_their_route_gives_them() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let fields = [("Set-Cookie", "sid=1; Path=/; SameSite=None"), ("Set-Cookie", "other=2; Secure")];
        exchange.reply(200, &[&fields[..], &[("Cache-Control", "max-age=60")]].concat(), "page");
    });
    let site = "[site.set_cookie]\nflags = [\n\
                { cookies = [\"sid\"], add = [\"secure\", \"httponly\", \"samesite=lax\"] },\n\
                { cookies = [\"*\"], remove = [\"secure\"] },\n]\n\
                [[site.route]]\nprefix = \"/b/\"\nset_cookie = \"store\"\n";
    let weir = server(&[&origin]).site(site).start();
    let set = |answer: &Response| -> Vec<String> {
        let fields = answer.head.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        fields.map(|(_, value)| value.clone()).collect()
    };
    for _ in 0..2 {
        let answer = get(&weir, "/a", "");
        assert!(!answer.is_hit(), "a flag makes nothing storable");
        assert_eq!(set(&answer), ["sid=1; Path=/; Secure; HttpOnly; SameSite=Lax", "other=2"]);
        assert_eq!(set(&get(&weir, "/b/a", "")), ["sid=1; Path=/; SameSite=None", "other=2; Secure"]);
    }
}

/// An origin with a page for all, which it shows to no client with a cookie.
fn of_two_kinds(control: &'static str, own: &'static [(&'static str, &'static str)], status: u16) -> Origin {
    let origin = Origin::start();
    origin.otherwise(move |exchange: &mut Exchange<'_>| {
        match exchange.request.header("cookie") {
            Some(_) => exchange.reply(status, own, "own"),
            None => exchange.reply(200, &[("Cache-Control", control)], "for all"),
        };
    });
    origin
}

#[test]
fn a_cookie_of_one_client_does_not_take_what_all_have() {
    let own: [(&'static [(&str, &str)], u16); 4] = [
        (&[("Cache-Control", "private, no-store")], 200),
        (&[("Cache-Control", "no-store"), ("Location", "/login")], 302),
        (&[("Cache-Control", "max-age=60"), ("Set-Cookie", "a=b")], 200),
        (&[("Cache-Control", "no-store")], 404),
    ];
    for (own, status) in own {
        // The refresh that a client's request brings about in the background is one for all.
        let origin = of_two_kinds("max-age=1, stale-while-revalidate=600", own, status);
        let weir = server(&[&origin]).start();
        assert_eq!(get(&weir, "/x", "").text(), "for all");
        weir.later(Duration::from_secs(3));
        assert_eq!(get(&weir, "/x", "id=1").text(), "for all");
        assert_eq!(origin.requests("/x").len(), 2);
        assert_eq!(origin.requests("/x")[1].header("cookie"), None);
        assert!(get(&weir, "/x", "").is_hit());
        // A client that waits gets its own, and the page stays, for when the origin is gone.
        let origin = of_two_kinds("max-age=1", own, status);
        let weir = server(&[&origin]).start();
        for asked in [&[][..], &[("Cache-Control", "no-cache")]] {
            assert_eq!(get(&weir, "/x", "").text(), "for all");
            weir.later(Duration::from_secs(if asked.is_empty() { 3 } else { 0 }));
            let answer = weir.get_with("/x", &[asked, &[("Cookie", "id=1")]].concat());
            assert_eq!((answer.status(), answer.text().as_str()), (status, "own"));
        }
        weir.later(Duration::from_secs(3));
        drop(origin);
        assert_eq!(get(&weir, "/x", "").text(), "for all");
    }
}

/// A cookie that is in the key is the refresh's as well.
#[test]
fn a_refresh_keeps_the_cookies_that_count() {
    for (site, expect) in [("key.cookies = [\"lang\"]", Some("lang=de")), ("", None)] {
        let origin = Origin::start();
        origin.otherwise(|exchange: &mut Exchange<'_>| {
            exchange.reply(200, &[("Cache-Control", "max-age=1, stale-while-revalidate=600")], "page");
        });
        let weir = server(&[&origin]).site(site).start();
        get(&weir, "/x", "lang=de");
        weir.later(Duration::from_secs(3));
        get(&weir, "/x", "id=1; lang=de");
        let asked = origin.requests("/x");
        assert_eq!(asked.len(), 2, "{site}");
        assert_eq!(asked[1].header("cookie").as_deref(), expect, "{site}");
    }
}
