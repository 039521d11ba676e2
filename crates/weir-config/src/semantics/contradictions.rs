//! What contradicts itself, with the exact sentence for it: mistakes, and warnings where it is legal.

use crate::sample::{expect, good};

/// An upstream and a site around what is tested, which begins in line 6.
fn site(inner: &str) -> String {
    format!(
        "[upstream.app]\norigins = [\"http://127.0.0.1:1\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n\
         {inner}"
    )
}

/// Expects these mistakes alone; an empty sentence: none.
fn check(inner: &str, line: u32, sentence: &str) {
    match sentence {
        "" => drop(good(&site(inner))),
        sentence => expect(&site(inner), &[(line, sentence)]),
    }
}

#[test]
fn a_rule_of_rewrite_can_match() {
    const NEVER: &str = "this rule is never reached";
    for (route, rule, sentence) in [
        ("prefix = \"/a/\"", "from = \"/b/**\"", NEVER),
        ("prefix = \"/a/\"", "from = \"/**\"", ""),
        ("prefix = \"/a/\"", "from = \"/a/b/**\"", ""),
        ("path = \"/a/*.php\"", "from = \"/a/*.css\"", NEVER),
        ("path = \"/a/*.php\"", "from = \"/a/x*\"", ""),
        ("path = \"/a/**\"", "regex = '^/b/(.*)$'", NEVER),
        ("path = \"/a/**\"", "regex = '^/b?/(.*)$'", ""),
        ("path = \"/a/**\"", "regex = '^/b/|^/a/'", ""),
        ("path = \"/a/**\"", "regex = '/b/'", ""),
        ("regex = '^/a/[0-9]'", "from = \"/b/**\"", NEVER),
        ("regex = '^/a/[0-9]'", "from = \"/a/**\"", ""),
        ("regex = '^/a/[0-9]'", "regex = '^/b/'", NEVER),
    ] {
        let inner = format!("[[site.route]]\n{route}\nrewrite = [{{ {rule}, to = \"/x\" }}]");
        check(&inner, 8, sentence);
    }
    let two = "rewrite = [{ from = \"/a/**\", to = \"/x\" }, { from = \"/a/b/*\", to = \"/y\" }]";
    check(two, 6, NEVER);
}

#[test]
fn a_key_of_rewritten_paths_has_paths_that_are_rewritten() {
    const NONE: &str = "`key.path` is `rewritten`, and no path is rewritten here";
    let (key, rule) =
        ("key = { path = \"rewritten\" }\n", "rewrite = [{ from = \"/a/**\", to = \"/{1}\" }]\n");
    check(key, 6, NONE);
    check(&format!("{key}{rule}"), 6, "");
    check(&format!("{key}[[site.route]]\nprefix = \"/a/\"\n{rule}"), 6, "");
    check(&format!("[[site.route]]\nprefix = \"/a/\"\n{key}"), 8, NONE);
    check(&format!("{rule}[[site.route]]\nprefix = \"/a/\"\n{key}"), 8, "");
    check(&format!("key = {{ path = \"received\" }}\n[[site.route]]\nprefix = \"/a/\"\n{rule}"), 6, "");
}

#[test]
fn a_status_stands_once_and_can_be_stored() {
    for (inner, sentence) in [
        ("ttl = { \"200,200\" = \"1d\" }", "`200` appears twice in `200,200`"),
        ("ttl = { \"404\" = \"1d\", \"200,404\" = \"1m\" }", "`404` appears twice in `ttl`"),
        ("ttl_override = { \"5xx,5xx\" = \"1d\" }", "`5xx` appears twice in `5xx,5xx`"),
        ("stale = { if_status = { \"404,404\" = \"1d\" } }", "`404` appears twice in `404,404`"),
        ("ignore = { \"404,404\" = [\"private\"] }", "`404` appears twice in `404,404`"),
        (
            "ttl = { \"304\" = \"1d\" }",
            "a 304 is not stored: it renews a response, which keeps its own status",
        ),
        ("ttl = { \"200,416\" = \"1d\" }", "a 416 is never stored"),
        ("ttl = { 404 = \"1d\", 4xx = \"1m\", any = \"1s\" }", ""),
        ("min_uses = 0", "`min_uses` is out of bounds"),
        ("min_uses = { memory = 0 }", "`memory` is out of bounds"),
        ("cookies = { keep = [\"a\"], drop = [\"b\"] }", "`keep` and `drop` exclude each other"),
        ("key = { query = { keep = [\"a\"], drop = [\"b\"] } }", "`keep` and `drop` exclude each other"),
    ] {
        check(inner, 6, sentence);
    }
}

#[test]
fn each_rule_of_a_map_can_be_reached() {
    const NEVER: &str = "this rule is never reached";
    let map = |of: &str, rules: &str, default: &str| {
        format!(
            "response_headers.set.X-A = \"{{map.a}}\"\n[map.a]\nof = \"{{{of}}}\"\n\
             rules = [{rules}]\n{default}"
        )
    };
    for (of, rules, sentence) in [
        ("header.A", "[\"a\", \"1\"], [\"a\", \"2\"]", "the pattern `a` stands twice"),
        ("header.A", "[\"~a\", \"1\"], [\"a\", \"2\"]", ""),
        ("header.A", "[\"~*mobile\", \"1\"], [\"~Mobile Safari\", \"2\"]", NEVER),
        ("header.A", "[\"~Mobile\", \"1\"], [\"~*mobile\", \"2\"]", ""),
        ("header.A", "[\"~mobile\", \"1\"], [\"~automobile\", \"2\"]", NEVER),
        ("header.A", "[\"~automobile\", \"1\"], [\"~mobile\", \"2\"]", ""),
        ("header.A", "[\"~.*\", \"1\"], [\"~x[0-9]\", \"2\"]", NEVER),
        ("header.A", "[\"~x[0-9]\", \"1\"], [\"~.*\", \"2\"]", ""),
        ("header.A", "[\"~a.c\", \"1\"], [\"~a.c.e\", \"2\"]", ""),
        ("client.address", "[\"192.0.2.0/24\", \"1\"], [\"192.0.2.7\", \"2\"]", NEVER),
        ("client.address", "[\"192.0.2.7\", \"1\"], [\"192.0.2.0/24\", \"2\"]", ""),
        ("client.address", "[\"192.0.2.7\", \"1\"], [\"192.0.2.7/32\", \"2\"]", NEVER),
    ] {
        check(&map(of, rules, ""), 9, sentence);
    }
}

/// Expects one warning with this in it, or none of the kind.
fn warned(inner: &str, part: &str, is_there: bool) {
    let found = good(&site(inner)).warnings();
    let count = found.iter().filter(|text| text.contains(part)).count();
    assert_eq!(count, usize::from(is_there), "{inner}: {found:?}");
}

#[test]
fn what_is_legal_and_has_no_effect_is_warned_of() {
    let unused = "weir.toml:6: nothing names the map `a`";
    let map = "[map.a]\nof = \"{host}\"\nrules = []\n";
    warned(map, unused, true);
    for user in [
        "[log]\nformat = \"{map.a}\"",
        "[log]\nformat = \"{map.a | json}\"",
        "[site.key]\nvalues = [\"{map.a|lower}\"]",
        "[site.response_headers]\nset.X-A = \"x{map.a}\"",
    ] {
        warned(&format!("{map}{user}"), unused, false);
    }
    for (inner, part, is_there) in [
        ("allow = []", "the site *: `allow` is empty: no client gets an answer", true),
        (
            "allow = [\"10.0.0.0/8\"]\ndeny = [\"0.0.0.0/0\"]",
            "`deny` has all that `allow` has: no client",
            true,
        ),
        (
            "allow = [\"10.0.0.0/8\", \"192.0.2.1\"]\ndeny = [\"192.0.2.0/24\"]",
            "`allow` has `192.0.2.1/32`, and `deny` has it as well: it gets no answer",
            true,
        ),
        ("allow = [\"10.0.0.0/8\"]\ndeny = [\"10.0.0.1\"]", "gets no answer", false),
        ("deny = [\"0.0.0.0/0\", \"::/0\"]", "`deny` has every address: no client gets an answer", true),
        ("deny = [\"0.0.0.0/0\"]", "gets an answer", false),
        (
            "bypass = { query = [\"a\"] }\nrefresh = { query = [\"a\", \"b\"] }",
            "`refresh` has a condition that `bypass` has as well, and such a request goes past the cache",
            true,
        ),
        ("bypass = { query = [\"a\"] }\nno_store = { query = [\"b\"] }", "`bypass` has as well", false),
        (
            "head = \"fill\"\nbypass = { methods = [\"HEAD\"] }",
            "`head = \"fill\"` has no effect: `bypass.methods` has HEAD",
            true,
        ),
        (
            "[[site.route]]\nmethod = \"GET\"\nhead = \"fill\"",
            "`head = \"fill\"` has no effect: the route does not take HEAD",
            true,
        ),
        ("head = \"fill\"", "has no effect", false),
        (
            "key = { path = \"rewritten\", query = \"none\" }\n\
             rewrite = [{ from = \"/a/**\", to = \"/{1}\" }]",
            "all that the origin is asked for is in the key, the query as well",
            true,
        ),
    ] {
        warned(inner, part, is_there);
    }
}
