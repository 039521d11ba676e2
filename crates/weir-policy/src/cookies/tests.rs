//! Cookies by name, by example, and against origins that read the field in their own way.

use super::{CookieRule, LeftCookies, has_unkeyed, is_ambiguous, unkeyed};
use crate::tests::given::{fields, judged, request};
use crate::{CacheRules, KeyRules, NotStored, matches, write_key};
use http::{HeaderMap, HeaderValue, Method, header};
use proptest::prelude::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn keyed(cookies: &[&str]) -> KeyRules {
    KeyRules { cookies: names(cookies), ..KeyRules::default() }
}

/// The field that a rule leaves; empty for none.
fn left(rule: &CookieRule, lines: &str) -> String {
    let mut headers = fields(lines);
    if let Some(left) = rule.apply(&headers) {
        left.put(&mut headers);
    }
    let lines: Vec<&str> =
        headers.get_all(header::COOKIE).iter().map(|line| line.to_str().unwrap()).collect();
    lines.join("\n")
}

#[test]
fn what_is_named_goes() {
    let drop = CookieRule::Drop(names(&["_ga*", "_fbp"]));
    for (given, expect) in [
        ("cookie: _ga=1", ""),
        ("cookie: _ga=1; session=2; _ga_X=3; _fbp=4", "session=2"),
        ("cookie: b=1; a=2", "a=2; b=1"),
        ("cookie: a=2; a=1; _ga=", "a=2; a=1"),
        ("cookie: a=1\ncookie: _ga=2\ncookie: b=3", "a=1; b=3"),
        ("cookie: a= 1 ;;b=; ", "a= 1; b="),
        ("cookie: a=\"x y\"; _GA=1; _fb.p=2; _.ga=3", "_.ga=3; _fb.p=2; a=\"x y\""),
        ("cookie:", ""),
        ("x: y", ""),
    ] {
        assert_eq!(left(&drop, given), expect, "{given}");
    }
    let keep = CookieRule::Keep(names(&["session*"]));
    for (given, expect) in [
        ("cookie: session=1; _ga=2; sessionid=3", "session=1; sessionid=3"),
        ("cookie: Session=1; asession=2", ""),
        ("cookie: session=\"Zm9v==\"; session2=Zm9v==", "session=\"Zm9v==\"; session2=Zm9v=="),
    ] {
        assert_eq!(left(&keep, given), expect, "{given}");
    }
    assert_eq!(left(&CookieRule::Keep(Vec::new()), "cookie: a=1"), "");
    assert_eq!(left(&CookieRule::All, "cookie: b=1;a\ncookie: c"), "b=1;a\nc");
}

#[test]
fn what_is_left_as_it_came_is_not_written_again() {
    let drop = CookieRule::Drop(names(&["_ga"]));
    assert_eq!(drop.apply(&fields("cookie: a=1; b=2")), None);
    assert_eq!(drop.apply(&fields("x: _ga=1")), None);
    assert_eq!(drop.apply(&fields("cookie: _ga=1")), Some(LeftCookies(None)));
}

/// A cookie that is taken out must not come back as what an origin finds in another.
#[test]
fn nothing_is_hidden_in_another_cookie() {
    let drop = CookieRule::Drop(names(&["session"]));
    let keep = CookieRule::Keep(names(&["a"]));
    for hiding in [
        "a=x, session=1",
        "a=x session=1",
        "a=x\tsession=1",
        "a= session=1",
        "a=\"x\"session=1",
        "a=\"x\", session=1",
        "a=,session=1",
        "a=\"x; b=y\" session=1",
        "SESSION=1",
        "%73ession=1",
        "session[x]=1",
        "session =1",
        "session",
        "=session",
        "\"session\"=1",
        "(session)=1",
    ] {
        for rule in [&drop, &keep] {
            let found = left(rule, &format!("cookie: {hiding}"));
            assert!(!found.to_ascii_lowercase().contains("session"), "{rule:?} {hiding}: {found}");
        }
    }
    // What holds no name that is taken out stays as it is.
    for plain in ["a={\"k\":1,\"v\":[2,3]}", "a=1, 2, 3", "a=x y", "a=\"q\\\"r\""] {
        assert_eq!(left(&keep, &format!("cookie: {plain}")), plain);
    }
}

#[test]
fn the_names_that_went_are_told() {
    let drop = CookieRule::Drop(names(&["_ga*"]));
    let headers = fields("cookie: _ga=1; a=1; _ga=2; b; _gat=3; c=1, _ga=2");
    assert_eq!(drop.dropped(&headers), [&b"_ga"[..], b"b", b"_gat", b"c"]);
    assert!(CookieRule::All.dropped(&headers).is_empty());
    assert_eq!(unkeyed(&fields("cookie: a=1; b=2; a=3; c"), &keyed(&["b"])), [&b"a"[..], b"c"]);
}

#[test]
fn a_rule_that_never_keeps_a_name_says_so() {
    for (rule, pattern, expect) in [
        (CookieRule::Drop(names(&["_ga*"])), "_ga_X", true),
        (CookieRule::Drop(names(&["_ga*"])), "_ga_*", true),
        (CookieRule::Drop(names(&["_ga_*"])), "_ga*", false),
        (CookieRule::Drop(names(&["_ga"])), "_GA", true),
        (CookieRule::Keep(names(&["session"])), "sess*", false),
        (CookieRule::Keep(names(&["*session"])), "a*", false),
        (CookieRule::Keep(names(&["x*session"])), "a*", true),
        (CookieRule::Keep(Vec::new()), "a", true),
        (CookieRule::All, "a", false),
    ] {
        assert_eq!(rule.never_keeps(pattern), expect, "{rule:?} {pattern}");
    }
}

#[test]
fn vary_cookie_is_judged_by_what_is_in_the_key() {
    let by = |cookies: &[&str]| CacheRules { key: keyed(cookies), ..CacheRules::default() };
    let fresh = "cache-control: max-age=60\nvary: cookie";
    for (rules, asked, expect) in [
        (by(&[]), "", None),
        (by(&[]), "cookie: a=1", Some(NotStored::VaryCookie)),
        (by(&["a"]), "", None),
        (by(&["a"]), "cookie: a=1", None),
        (by(&["a"]), "cookie: a=1; b=2", Some(NotStored::VaryCookie)),
        (by(&["a"]), "cookie: a", Some(NotStored::VaryCookie)),
        (by(&["a", "b"]), "cookie: b=1; a=2", None),
    ] {
        assert_eq!(judged(asked, 200, fresh, &rules).err(), expect, "{asked}");
    }
    let plain = judged("", 200, fresh, &by(&[])).unwrap().into_stored();
    assert!(matches(&plain.variant, &fields("")) && !matches(&plain.variant, &fields("cookie: a=1")));
    let german = judged("cookie: lang=de", 200, fresh, &by(&["lang"])).unwrap().into_stored();
    assert!(matches(&german.variant, &fields("cookie: lang=de")));
    for other in ["", "cookie: lang=de; session=1", "cookie: session=1; lang=de", "cookie: lang=en"] {
        assert!(!matches(&german.variant, &fields(other)), "{other}");
    }
}

/// A request whose cookies an origin may read in another way than the key is not stored, whatever `Vary`
/// says.
#[test]
fn a_key_is_not_made_of_cookies_that_can_be_read_in_two_ways() {
    let rules = keyed(&["lang"]);
    for odd in [
        "lang =de",
        "a=\"; lang=de; b=\"",
        "a=\"x\\\"; lang=de; b=\\\"\"",
        "a=x, lang=en; lang=de",
        "a=x lang=en; lang=de",
        "LANG=en; lang=de",
        "%6cang=en; lang=de",
        "lang[x]=en; lang=de",
        "lang; lang=de",
        "a=1\ncookie: lang=de",
        "lang=de\ncookie: lang=en",
    ] {
        let headers = fields(&format!("cookie: {odd}"));
        assert!(is_ambiguous(&headers, &rules), "{odd}");
        assert!(!is_ambiguous(&headers, &keyed(&[])), "{odd}");
        let of_key = CacheRules { key: rules.clone(), ..CacheRules::default() };
        let stored = judged(&format!("cookie: {odd}"), 200, "cache-control: max-age=60", &of_key);
        assert_eq!(stored.err(), Some(NotStored::Respelled), "{odd}");
    }
    for plain in
        ["lang=de", "a=1; lang=de; lang=en", "a=\"x y\"; lang=de", "a={\"k\":1}; lang=de; b", "lang="]
    {
        assert!(!is_ambiguous(&fields(&format!("cookie: {plain}")), &rules), "{plain}");
    }
}

/// Names and values in which all separators occur.
const PIECES: &str = "((lang|LANG|a|session| |\"|,|;|=|\\\\|x|%61|\\[|\\.)){0,12}";

proptest! {
    /// Where all that is left is in the key, the key tells every byte of the field.
    #[test]
    fn one_key_means_one_field(one in PIECES, other in PIECES) {
        let rule = CookieRule::Keep(names(&["lang", "a"]));
        let rules = keyed(&["lang", "a"]);
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, HeaderValue::from_str(text).unwrap());
            if let Some(left) = rule.apply(&headers) {
                left.put(&mut headers);
            }
            let mut key = Vec::new();
            write_key(&rules, &request(&Method::GET, "/", &headers), crate::KeyParts::default(), &mut key);
            (key, headers)
        };
        let ((key, headers), (other_key, others)) = (read(&one), read(&other));
        prop_assert!(!has_unkeyed(&headers, &rules) && !has_unkeyed(&others, &rules));
        prop_assert_eq!(key == other_key, headers == others);
    }

    /// However an origin reads what is left, it finds no cookie that is taken out; and writing it again
    /// changes nothing.
    #[test]
    fn no_origin_finds_what_was_taken_out(text in PIECES) {
        let drop = CookieRule::Drop(names(&["session", "lang"]));
        let field = left(&drop, &format!("cookie: {text}"));
        // A quote that opens a value ends none.
        let opened = field.replace("=\"", "=");
        for ends in [&[';'][..], &[';', ','], &[';', ' '], &[';', ',', ' ', '"']] {
            for piece in opened.split(ends) {
                let name = piece.trim().split('=').next().unwrap_or_default();
                let has_value = piece.contains('=');
                let found = ["session", "lang"].iter().any(|gone| name.eq_ignore_ascii_case(gone));
                prop_assert!(!(found && has_value), "{} in {}", piece, field);
            }
        }
        prop_assert_eq!(left(&drop, &format!("cookie: {field}")), field);
    }
}
