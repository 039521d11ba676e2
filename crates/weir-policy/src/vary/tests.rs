//! Variants and the normal forms they are compared in.

use super::{Coded, Selecting, Variant, Varies, accept_encoding, matches};
use crate::tests::given::fields;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use proptest::prelude::*;

fn variant(request: &str, response: &str) -> Variant {
    match Varies::read(&fields(request), &fields(response), &[]) {
        Varies::On(variant) => variant,
        other => panic!("{other:?}"),
    }
}

fn check(vary: &str, made_for: &str, asked: &str, expect: bool) {
    let variant = variant(made_for, &format!("vary: {vary}"));
    assert_eq!(matches(&variant, &fields(asked)), expect, "vary: {vary} | {made_for} | {asked}");
}

#[test]
fn reads_vary() {
    for given in
        ["vary: *", "vary: *, *", "vary:\nvary: *", "vary: foo, *", "vary: a b", "vary: foo\nvary: *"]
    {
        assert_eq!(Varies::read(&fields(""), &fields(given), &[]), Varies::Any, "{given}");
    }
    assert!(
        variant("", "vary: a, Cookie").varies_on_cookies() && !variant("", "vary: a").varies_on_cookies()
    );
    assert_eq!(variant("", "vary: , ,"), Variant::default());
    let both = variant("", "vary: Foo, bar\nvary: foo");
    let names: Vec<&str> = both.selecting.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["bar", "foo"]);
    assert_eq!(both, variant("", "vary: BAR,FOO"));
}

#[test]
fn compares_unknown_fields() {
    for (made_for, asked, expect) in [
        ("foo: 1", "foo: 1", true),
        ("foo: 1", "foo: 2", false),
        ("foo: 1", "", false),
        ("", "foo: 1", false),
        ("", "", true),
        ("foo:", "", false),
        ("foo: 1, 2", "foo: 1\nfoo: 2", true),
        ("foo: 1,2", "foo:  1 ,\t2 ", true),
        ("foo: 1 2", "foo: 12", false),
        ("foo: 1  2", "foo: 1 2", false),
        ("foo: a", "foo: A", false),
        ("foo: \"a, b\"", "foo: \"a,b\"", false),
        ("foo: \"a\\\", b\"", "foo: \"a\\\",b\"", false),
        ("foo: 1", "foo: 1\nbar: 9", true),
        ("foo: 1,", "foo: 1", false),
    ] {
        check("foo", made_for, asked, expect);
    }
    check("foo, bar", "foo: 1\nbar: a", "foo: 1\nbar: a", true);
    check("foo, bar", "foo: 1\nbar: a", "foo: 1\nbar: b", false);
    check("foo, bar", "foo: 1", "foo: 1", true);
}

#[test]
fn compares_languages() {
    for (made_for, asked, expect) in [
        ("en, de", "de, en", true),
        ("en, de", "eN,  De ", true),
        ("en;q=0.5, de", "de, en;q=0.5", true),
        ("en;q=0.5, de", "de, en;q=0.500", true),
        ("en, de", "en, de;q=0.9", false),
        ("en, de", "en", false),
        ("en, en", "en", true),
        ("en", "en-gb", false),
    ] {
        let (made_for, asked) = (format!("accept-language: {made_for}"), format!("accept-language: {asked}"));
        check("accept-language", &made_for, &asked, expect);
    }
    check("accept-language", "accept-language: en", "", false);
}

#[test]
fn the_best_language_is_enough() {
    let response = "vary: accept-language\ncontent-language: de";
    for (asked, expect) in [
        ("fr;q=0.5, de;q=1.0", true),
        ("DE", true),
        ("fr, de", false),
        ("fr, de;q=0.9", false),
        ("de-AT", false),
        ("de;q=0", false),
        ("*", false),
    ] {
        let variant = variant("accept-language: en, de", response);
        assert_eq!(matches(&variant, &fields(&format!("accept-language: {asked}"))), expect, "{asked}");
    }
    let two = variant("accept-language: en", "vary: accept-language\ncontent-language: de, en");
    assert!(!matches(&two, &fields("accept-language: de")));
}

#[test]
fn long_lists_of_languages_are_compared_as_sent() {
    let list = |count: usize| (0..count).map(|at| format!("l{at}")).collect::<Vec<_>>();
    let sent = |list: &[String]| format!("accept-language: {}", list.join(", "));
    for (count, expect) in [(32, true), (33, false)] {
        let forth = list(count);
        let back: Vec<String> = forth.iter().rev().cloned().collect();
        check("accept-language", &sent(&forth), &sent(&back), expect);
        check("accept-language", &sent(&forth), &sent(&forth), true);
        check("accept-language", &sent(&forth), &sent(&forth[1..]), false);
    }
}

#[test]
fn blanks_take_no_longer_a_byte() {
    let value = format!("a{}b, {}c", " ".repeat(200_000), " ,".repeat(100_000));
    check("foo", &format!("foo: {value}"), &format!("foo: {value}"), true);
}

#[test]
fn too_many_fields_are_as_good_as_any() {
    let names = |count: usize| (0..count).map(|at| format!("a{at}")).collect::<Vec<_>>().join(",");
    assert!(Variant::of(&fields(""), &fields(&format!("vary: {}", names(32)))).is_some());
    assert!(Variant::of(&fields(""), &fields(&format!("vary: {}", names(33)))).is_none());
}

#[test]
fn normalises_codings() {
    for (given, expect) in [
        (None, None),
        (Some(""), None),
        (Some("gzip"), Some("gzip")),
        (Some("x-gzip"), Some("gzip")),
        (Some("GZIP;q=1.0"), Some("gzip")),
        (Some("gzip, deflate, br"), Some("gzip, br")),
        (Some("gzip,deflate,br"), Some("gzip, br")),
        (Some("gzip, deflate"), Some("gzip")),
        (Some("gzip,deflate"), Some("gzip")),
        (Some("gzip,deflate,br,zstd"), Some("gzip, br, zstd")),
        (Some("gzip, deflate, br, zstd"), Some("gzip, br, zstd")),
        (Some("br , gzip"), Some("gzip, br")),
        (Some("gzip;q=0.7, br;q=0.7"), Some("gzip, br")),
        (Some("br, gzip;q=0.5"), Some("gzip;q=0.8, br")),
        (Some("deflate"), Some("deflate")),
        (Some("deflate, gzip;q=0.1"), Some("gzip;q=0.8, deflate")),
        (Some("*"), Some("gzip, br, zstd")),
        (Some("*;q=0"), Some("identity;q=0")),
        (Some("gzip;q=0"), None),
        (Some("gzip;q=0, *"), Some("br, zstd")),
        (Some("identity"), None),
        (Some("identity;q=0, gzip"), Some("gzip, identity;q=0")),
        (Some("foo, gzip"), Some("gzip")),
        (Some("gzip;q=abc"), None),
        (Some("gzip;q=0.0001"), None),
        (Some("dcb, dcz"), None),
    ] {
        let headers = given.map_or_else(HeaderMap::new, |given| fields(&format!("accept-encoding: {given}")));
        let value = accept_encoding(&headers);
        let text = value.as_ref().map(|value| value.to_str().expect("text"));
        assert_eq!(text, expect, "{given:?}");
    }
}

#[test]
fn compares_codings() {
    let vary = "accept-encoding";
    check(vary, "accept-encoding: gzip, br", "accept-encoding: br,gzip", true);
    check(vary, "accept-encoding: gzip, deflate, br", "accept-encoding: br,gzip", true);
    check(vary, "", "accept-encoding: gzip", false);
    check(vary, "", "accept-encoding: identity", true);
    check(vary, "accept-encoding: gzip;q=0", "accept-encoding: gzip", false);
    check(vary, "accept-encoding: br", "accept-encoding: br, gzip", false);
}

/// Whether a response in `coding` to a client that accepts `made_for` answers one that accepts `asked`.
fn stands(made_for: &str, coding: &str, asked: &str) -> bool {
    let field = |taken: &str| {
        fields(&if taken.is_empty() { String::new() } else { format!("accept-encoding: {taken}") })
    };
    let coded = if coding.is_empty() { String::new() } else { format!("content-encoding: {coding}") };
    let variant = Variant::of(&field(made_for), &fields(&format!("vary: accept-encoding\n{coded}"))).unwrap();
    matches(&variant, &field(asked))
}

#[test]
fn one_copy_serves_all_clients_that_the_origin_would_code_alike_for() {
    let browser = "gzip, deflate, br, zstd";
    for (made_for, coding, asked, expect) in [
        (browser, "gzip", browser, true),
        (browser, "gzip", "gzip, deflate, br", true),
        (browser, "gzip", "gzip, deflate", true),
        (browser, "x-gzip", "GZIP", true),
        (browser, "gzip", "*", true),
        (browser, "gzip", "", false),
        (browser, "gzip", "gzip;q=0", false),
        (browser, "gzip", "br", false),
        (browser, "gzip", "gzip, br;q=0.5", true),
        (browser, "gzip", "br, gzip;q=0.5", false),
        (browser, "gzip", "deflate, gzip;q=0.5", false),
        ("br, gzip;q=0.5", "gzip", "gzip, br", true),
        ("br, gzip;q=0.5", "gzip", "br, gzip;q=0.1", true),
        ("gzip", "gzip", "gzip, br", false),
        ("gzip", "gzip", "gzip, identity;q=0", true),
        ("gzip, identity;q=0", "gzip", "gzip", false),
        (browser, "", "", true),
        (browser, "identity", "gzip", true),
        ("gzip, br", "", "gzip, br, zstd", false),
        ("gzip, br", "", "gzip, identity;q=0", false),
        ("", "", "gzip", false),
        // The origin was not asked to.
        ("", "gzip", "", true),
        ("", "gzip", browser, true),
        ("", "gzip", "br", false),
        (browser, "foo", browser, true),
        (browser, "foo", "gzip", false),
        (browser, "gzip, gzip", "gzip", false),
    ] {
        assert_eq!(stands(made_for, coding, asked), expect, "{coding} for {made_for:?}, to {asked:?}");
    }
}

#[test]
fn a_coded_response_varies_even_if_it_does_not_say_so() {
    let coded = variant("accept-encoding: gzip", "content-encoding: gzip\nvary: origin");
    let names: Vec<&str> = coded.selecting.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["accept-encoding", "origin"]);
    assert!(!matches(&coded, &fields("")));
    assert!(!variant("accept-encoding: gzip", "content-encoding: identity").varies_on_codings());
    let stored = crate::tests::given::stored_for(
        "accept-encoding: gzip",
        "cache-control: max-age=9\ncontent-encoding: gzip",
    );
    assert_eq!(stored.headers["vary"], "Accept-Encoding");
    let said = "cache-control: max-age=9\ncontent-encoding: gzip\nvary: foo, accept-encoding";
    let said = crate::tests::given::stored_for("accept-encoding: gzip", said);
    assert_eq!(said.headers.get_all("vary").iter().count(), 1);
}

#[test]
fn a_coded_response_stored_for_all_is_for_clients_that_accept_it() {
    let mut response = fields("content-encoding: gzip");
    let old = Variant::from_parts(smallvec::SmallVec::new(), None, &mut response);
    assert_eq!(response["vary"], "Accept-Encoding");
    for (asked, expect) in [("gzip", true), ("", false), ("gzip, br", false)] {
        let asked =
            fields(&if asked.is_empty() { String::new() } else { format!("accept-encoding: {asked}") });
        assert_eq!(matches(&old, &asked), expect, "{asked:?}");
    }
    let mut response = fields("content-encoding: foo");
    let old = Variant::from_parts(smallvec::SmallVec::new(), None, &mut response);
    assert!(!matches(&old, &fields("")) && !matches(&old, &fields("accept-encoding: gzip")));
    let mut plain = fields("x: y");
    assert_eq!(Variant::from_parts(smallvec::SmallVec::new(), None, &mut plain), Variant::default());
    assert!(!plain.contains_key("vary"));
}

#[test]
fn a_plain_response_beside_coded_ones_is_for_its_own_clients() {
    let given = "cache-control: max-age=9";
    let plain = crate::tests::given::judged("", 200, given, &crate::CacheRules::default()).unwrap();
    let plain = plain.beside_codings(&fields("")).into_stored();
    assert_eq!(plain.headers["vary"], "Accept-Encoding");
    assert!(
        matches(&plain.variant, &fields("")) && !matches(&plain.variant, &fields("accept-encoding: gzip"))
    );
}

#[test]
fn selecting_fields_come_back_from_their_parts() {
    let request = fields("accept-encoding: br, gzip;q=0.5\naccept-language: de, en\nfoo: 1, 2");
    for name in ["accept-encoding", "accept-language", "foo", "absent"] {
        let read = Selecting::read(http::HeaderName::from_static(name), &request);
        let back = Selecting::from_parts(read.name.clone(), read.value.clone());
        assert_eq!(back, read);
        assert!(back.matches(Coded::Identity, &request));
    }
    assert!(Variant::of(&request, &fields("vary: foo")).is_some());
    assert!(Variant::of(&request, &fields("vary: cookie")).is_some());
    assert!(Variant::of(&fields("cookie: a=1"), &fields("vary: cookie")).is_none());
    assert!(Variant::of(&request, &fields("vary: *")).is_none());
}

/// A value of Accept-Encoding, as a pattern.
const TAKEN: &str =
    "(gzip|br|zstd|deflate|identity|\\*)(;q=0\\.[0-9]|)(, (gzip|br|zstd)(;q=0\\.[0-9]|)){0,3}";

proptest! {
    #[test]
    fn normal_form_is_stable(given in "(gzip|br|zstd|deflate|identity|\\*|foo|;q=0\\.[0-9]|;q=0|, ){0,8}") {
        let headers = fields(&format!("accept-encoding: {given}"));
        let mut again = HeaderMap::new();
        if let Some(value) = accept_encoding(&headers) {
            again.insert(header::ACCEPT_ENCODING, value);
        }
        prop_assert_eq!(accept_encoding(&again), accept_encoding(&headers));
        // A response to the one request answers the other.
        let variant = variant(&format!("accept-encoding: {given}"), "vary: accept-encoding");
        prop_assert!(matches(&variant, &again));
    }

    /// Selection never ignores Vary: a request whose field differs by more than blanks and lines never
    /// matches.
    #[test]
    fn selection_never_crosses(a in "[ab,\" ]{0,8}", b in "[ab,\" ]{0,8}") {
        let one = variant(&format!("foo: {a}"), "vary: foo");
        let squeezed = |text: &str| text.replace(' ', "");
        if matches(&one, &fields(&format!("foo: {b}"))) {
            prop_assert_eq!(squeezed(&a), squeezed(&b));
        }
        let itself = fields(&format!("foo: {a}"));
        prop_assert!(matches(&one, &itself));
    }

    #[test]
    fn never_panics(line in proptest::collection::vec(32_u8..=255, 0..60)) {
        let line: Vec<u8> = line.into_iter().filter(|byte| *byte != 127).collect();
        let value = HeaderValue::from_bytes(&line).expect("a value");
        for name in [header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE, header::ACCEPT] {
            let mut request = HeaderMap::new();
            request.insert(name.clone(), value.clone());
            let mut response = HeaderMap::new();
            response.insert(header::VARY, HeaderValue::from_str(name.as_str()).expect("a value"));
            response.insert(header::CONTENT_LANGUAGE, value.clone());
            let Varies::On(variant) = Varies::read(&request, &response, &[]) else { panic!("varies") };
            prop_assert!(matches(&variant, &request));
            response.insert(header::VARY, value.clone());
            let _ = Varies::read(&request, &response, &[]);
        }
    }

    /// A variant that replaces another answers all requests that the other answered.
    #[test]
    fn a_covering_variant_answers_all(
        taken in proptest::collection::vec(TAKEN, 2),
        codings in proptest::collection::vec(prop_oneof![Just(""), Just("gzip"), Just("br"), Just("foo")], 2),
        asked in "((gzip|br|zstd|deflate|identity|\\*)(;q=0\\.[0-9]|)(, |)){0,4}",
    ) {
        let made = |at: usize| {
            let coded = if codings[at].is_empty() { "" } else { "content-encoding: " };
            let response = format!("vary: accept-encoding\n{coded}{}", codings[at]);
            variant(&format!("accept-encoding: {}", taken[at]), &response)
        };
        let (newer, older) = (made(0), made(1));
        prop_assert!(newer.covers(&newer));
        let asked = fields(&format!("accept-encoding: {asked}"));
        let is_other_version = newer.selecting == older.selecting;
        if newer.covers(&older) && !is_other_version && matches(&older, &asked) {
            prop_assert!(matches(&newer, &asked), "{newer:?} {older:?}");
        }
    }
}

#[test]
fn ignored_fields_select_nothing() {
    let ignored = [HeaderName::from_static("user-agent")];
    let read = |vary: &str| {
        Varies::read(&fields("user-agent: a\nfoo: 1"), &fields(&format!("vary: {vary}")), &ignored)
    };
    let Varies::On(one) = read("User-Agent, Foo") else { panic!("not stored") };
    assert!(matches(&one, &fields("user-agent: b\nfoo: 1")) && !matches(&one, &fields("user-agent: a")));
    assert_eq!(read("User-Agent, *"), Varies::Any);
}
