//! Cookies by name in a configuration, by example.

use crate::sample::{expect, good};

/// A site that has its own keys from the sixth line of its file.
fn site(inner: &str) -> String {
    format!("[upstream.a]\norigins = [\"http://a\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n{inner}")
}

#[test]
fn a_table_does_not_take_out_what_it_asks_for() {
    let never =
        |key: &str, name: &str| format!("`{key}` names the cookie `{name}`, which `cookies` takes out");
    for (rule, key, name, is_wrong) in [
        ("drop = [\"_ga*\"]", "key", "_ga", true),
        ("drop = [\"_ga*\"]", "key", "lang", false),
        ("drop = [\"SESSION\"]", "bypass", "session", true),
        ("drop = [\"session_*\"]", "bypass", "session*", false),
        ("keep = [\"lang\"]", "bypass", "session*", true),
        ("keep = [\"lang\", \"*\"]", "bypass", "session*", false),
        ("keep = []", "refresh", "a", true),
        ("drop = []", "refresh", "a", false),
    ] {
        let text = site(&format!("cookies = {{ {rule} }}\n{key} = {{ cookies = [\"{name}\"] }}"));
        let sentence = never(key, name);
        let expected: &[(u32, &str)] = if is_wrong { &[(7, &sentence)] } else { &[] };
        expect(&text, expected);
    }
}

#[test]
fn a_route_may_take_out_what_its_site_asks_for() {
    good(&site(
        "key = { cookies = [\"lang\"] }\n[[site.route]]\nprefix = \"/static/\"\ncookies = { keep = [] }",
    ));
}

#[test]
fn words_and_kinds_are_checked() {
    expect(
        &site("cookies = { drop = [\"a\"], keep = [\"b\"] }"),
        &[(6, "`keep` and `drop` exclude each other")],
    );
    expect(&site("cookies = { dorp = [\"a\"] }"), &[(6, "unknown key `dorp` in `cookies`")]);
    expect(&site("cookies = { drop = [\"a;b\"] }"), &[(6, "';' is not allowed in a name; `*` is any text")]);
    expect(&site("set_cookie = \"stirp\""), &[(6, "unknown value `stirp` for `set_cookie`")]);
    expect(&site("set_cookie = { stirp = [\"a\"] }"), &[(6, "unknown key `stirp` in `set_cookie`")]);
    expect(&site("set_cookie = [\"a\"]"), &[(6, "`set_cookie` is of the wrong kind")]);
    good(&site("set_cookie = { strip = [\"_ga*\"] }"));
}

#[test]
fn a_bypass_that_a_cookie_rule_makes_void_is_warned_of() {
    let of = |route: &str| {
        let inner =
            format!("bypass = {{ cookies = [\"session*\"] }}\n[[site.route]]\nprefix = \"/a\"\n{route}");
        good(&site(&inner)).warnings().iter().filter(|text| text.contains("`bypass` names")).count()
    };
    assert_eq!(of("cookies = { keep = [\"lang\"] }"), 1);
    assert_eq!(of("cookies = { drop = [\"session*\"] }"), 1);
    assert_eq!(of("cookies = { keep = [\"sess*\"] }"), 0);
    assert_eq!(of("cookies = { keep = [] }"), 0, "files");
}

#[test]
fn flags_change_something_once() {
    let flags = |rules: &str| site(&format!("set_cookie = {{ flags = [{rules}] }}"));
    for (rules, sentence) in [
        ("{ cookies = [\"a\"] }", "this rule changes nothing"),
        ("{ add = [\"secure\"] }", "`cookies` is missing in `flags`"),
        ("{ cookies = [], add = [\"secure\"] }", "`cookies` is empty"),
        ("{ cookies = [\"a\"], add = [\"Secure\"] }", "unknown value `Secure` for `add`"),
        ("{ cookies = [\"a\"], remove = [\"samesite=lax\"] }", "unknown value `samesite=lax` for `remove`"),
        ("{ cookies = [\"a\"], add = [\"secure\", \"secure\"] }", "a rule of `flags` names `secure` twice"),
        (
            "{ cookies = [\"a\"], add = [\"samesite=lax\", \"samesite=none\"] }",
            "a rule of `flags` names `samesite` twice",
        ),
        (
            "{ cookies = [\"a\"], add = [\"secure\"], remove = [\"secure\"] }",
            "a rule of `flags` names `secure` twice",
        ),
        (
            "{ cookies = [\"*\"], add = [\"secure\"] }, { cookies = [\"a\"], remove = [\"secure\"] }",
            "the cookie `a` never has these flags",
        ),
        ("", "`flags` is empty"),
    ] {
        let found = crate::sample::sentences(&flags(rules));
        assert!(found.contains(&(6, sentence.to_owned())), "{rules}: {found:?}");
    }
    let stripped =
        "set_cookie = { strip = [\"_ga*\"], flags = [{ cookies = [\"_gat\"], add = [\"secure\"] }] }";
    expect(&site(stripped), &[(6, "the cookie `_gat` never has these flags")]);
    expect(&site("set_cookie = {}"), &[(6, "`set_cookie` is empty")]);
    good(&site(
        "set_cookie = { strip = [\"_ga*\"], flags = [{ cookies = [\"a*\", \"b\"], add = [\"secure\"] }, \
         { cookies = [\"*\"], add = [\"httponly\", \"samesite=lax\"], remove = [\"secure\"] }] }",
    ));
}
