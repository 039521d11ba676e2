//! What each known form means, and that everything else is unread.

use super::*;
use proptest::prelude::*;

fn check(pattern: &str, expect: &[&str]) {
    let expect: Vec<Vec<u8>> = expect.iter().map(|tag| tag.as_bytes().to_vec()).collect();
    assert_eq!(tags(pattern.as_bytes()), TagPattern::Tags(expect), "{pattern}");
}

#[test]
fn the_forms_of_the_senders_are_tags() {
    check("p-12|pt-post", &["p-12", "pt-post"]);
    check(r"\bp-12\b", &["p-12"]);
    check(r"\bp-12\b|\bp-7\b", &["p-12", "p-7"]);
    check(r"\b(p-12|p-7)\b", &["p-12", "p-7"]);
    check(r"((^|,)cat_p_1(,|$))|((^|,)cat_p_2(,|$))", &["cat_p_1", "cat_p_2"]);
    check(r"(^|,)(a|b\-c)(,|$)", &["a", "b-c"]);
    check(r"(^|\,)/foo($|\,)", &["/foo"]);
    check(r"((^|\,)/a($|\,))|((^|\,)/b($|\,))", &["/a", "/b"]);
    check(r"(/a|/b)($|\,)", &["/a", "/b"]);
    check(r"(/people/1\?x\=2)($|\,)", &["/people/1?x=2"]);
    check("node:1|node_list", &["node:1", "node_list"]);
    check("node:1 node_list", &["node:1", "node:1 node_list", "node_list"]);
    check("config:system.menu.main", &["config:system.menu.main"]);
    check("a,b,,a ", &["a", "a,b,,a", "b"]);
    check("a, b", &["a", "b"]);
    check("^a$", &["a"]);
}

/// Fields that are separated by commas alone have tags with blanks.
#[test]
fn a_tag_with_a_blank_is_purged_whole_and_in_parts() {
    let both = &["my", "my tag", "tag"];
    for pattern in ["(^|,)(my tag)(,|$)", "((^|,)my tag(,|$))", "my tag", r"my\ tag", r"\bmy tag\b"] {
        check(pattern, both);
    }
    check("(^|,)(my tag|x)(,|$)", &["my", "my tag", "tag", "x"]);
}

#[test]
fn an_end_on_one_side_alone_is_unread() {
    for pattern in [
        "(^|,)product-",
        r"(^|\,)/books",
        "(^|,)p-12",
        "^a",
        "a$",
        r"\ba",
        "a(,|$)",
        "(^|,)(a|b)",
        "^(a|b)",
        "(a|b)$",
        "(^|,)a|b(,|$)",
        "((^|,)a)(,|$)",
        "((^|,)a(,|$))|((^|,)b)",
        "((^|,)a(,|$)|b)(,|$)|c$",
    ] {
        assert_eq!(tags(pattern.as_bytes()), TagPattern::Unread, "{pattern}");
    }
}

#[test]
fn what_is_another_pattern_is_unread() {
    for pattern in [
        "",
        "|",
        "a|",
        "|a",
        "()",
        "a|()",
        "a*",
        "a.*",
        ".*a",
        "a+",
        "a?",
        "a{2}",
        "[ab]",
        "a[0-9]",
        r"\d+",
        r"a\w",
        r"a\",
        "(a",
        "a)",
        "((a)",
        "(a)b",
        "a(b|c)",
        "a^b",
        "(?i)a",
        "a$b",
        "(^|,)",
        ",",
        r"(a|b)(,.+)?$",
        r"(a)+",
        r"\1",
        "((((((((((a))))))))))",
        "p-1.",
        ".p-1",
        "a..b",
    ] {
        assert_eq!(tags(pattern.as_bytes()), TagPattern::Unread, "{pattern}");
    }
    for pattern in [".*", "^.*$", "(.*)", ".+"] {
        assert_eq!(tags(pattern.as_bytes()), TagPattern::All, "{pattern}");
    }
    let many: Vec<String> = (0..=TAGS_MAX).map(|at| format!("t{at}")).collect();
    assert_eq!(tags(many.join("|").as_bytes()), TagPattern::Unread);
    assert!(matches!(tags(many[1..].join("|").as_bytes()), TagPattern::Tags(read) if read.len() == TAGS_MAX));
    assert_eq!(tags(&[b'x'; TAG_BYTES_MAX + 1]), TagPattern::Unread);
}

#[test]
fn a_list_is_no_pattern() {
    let read = |text: &str| list(text.as_bytes());
    let expect = ["a", "a b", "b", "b,c|d", "c|d"].map(|tag| tag.as_bytes().to_vec());
    assert_eq!(read("a b,c|d"), TagPattern::Tags(expect.to_vec()));
    assert_eq!(read(".*"), TagPattern::Tags(vec![b".*".to_vec()]));
    assert_eq!(read(" , "), TagPattern::Unread);
}

#[test]
fn paths_are_a_prefix_a_url_or_unread() {
    let prefix = |path: &str| UrlPattern::Prefix(path.to_owned());
    let exact = |path: &str| UrlPattern::Exact(path.to_owned());
    for (pattern, expect) in [
        (".*", UrlPattern::All),
        ("^/.*", UrlPattern::All),
        ("^/foo/.*", prefix("/foo/")),
        ("^/foo/.*$", prefix("/foo/")),
        (r"^/a\-b\.c\?d.*", prefix("/a-b.c?d")),
        ("^/foo$", exact("/foo")),
        (r"^/foo\.html\?x\=1$", exact("/foo.html?x=1")),
        ("/foo/.*", UrlPattern::Unread),
        ("/foo$", UrlPattern::Unread),
        ("^/foo", UrlPattern::Unread),
        ("^/foo?x=1$", UrlPattern::Unread),
        ("^/(a|b)/.*", UrlPattern::Unread),
        (r"^/a\.*", UrlPattern::Unread),
        (r"^/a\$", UrlPattern::Unread),
        ("^/a b$", UrlPattern::Unread),
        ("^/index.html$", exact("/index.html")),
        ("^/a-.b.*", prefix("/a-.b")),
        ("^/foo.$", UrlPattern::Unread),
        ("^/.foo$", UrlPattern::Unread),
        ("^/foo..bar/.*", UrlPattern::Unread),
        ("^/a$|^/b$", UrlPattern::Unread),
        ("", UrlPattern::Unread),
    ] {
        assert_eq!(url(pattern.as_bytes()), expect, "{pattern}");
    }
}

#[test]
fn hosts_are_named_whole_or_unread() {
    let named = |names: &[&str]| HostPattern::Named(names.iter().map(ToString::to_string).collect());
    for (pattern, expect) in [
        (".*", HostPattern::All),
        ("^(a.test|b.test:8080)$", named(&["a.test", "b.test:8080"])),
        (r"^a\.test$", named(&["a.test"])),
        ("a.test", HostPattern::Unread),
        ("^a.test", HostPattern::Unread),
        ("^(a.test|)$", HostPattern::Unread),
        (r"^.*\.test$", HostPattern::Unread),
        ("^$", HostPattern::Unread),
        ("^a/b$", HostPattern::Unread),
        ("^a.test|b.test$", HostPattern::Unread),
        ("^(a.test)|(b.test)$", HostPattern::Unread),
        ("^a.test.$", HostPattern::Unread),
        ("^.a.test$", HostPattern::Unread),
    ] {
        assert_eq!(hosts(pattern.as_bytes()), expect, "{pattern}");
    }
}

/// What PHP's `preg_quote` makes of a text.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars() {
        if r".\+*?[^]$(){}=!<>|:-#/".contains(char) {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

proptest! {
    #[test]
    fn quoted_tags_come_back(
        names in prop::collection::btree_set(r"[!-+\--~]{1,12}", 1..20),
    ) {
        let expect = TagPattern::Tags(names.iter().map(|name| name.as_bytes().to_vec()).collect());
        let quoted: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let magento: Vec<String> = quoted.iter().map(|name| format!("((^|,){name}(,|$))")).collect();
        for pattern in [
            quoted.join("|"),
            format!("(^|,)({})(,|$)", quoted.join("|")),
            format!(r"({})($|\,)", quoted.join("|")),
            magento.join("|"),
        ] {
            prop_assert_eq!(tags(pattern.as_bytes()), expect.clone(), "{}", pattern);
        }
    }

    #[test]
    fn any_bytes_are_read_without_harm(text in prop::collection::vec(any::<u8>(), 0..200)) {
        if let TagPattern::Tags(read) = tags(&text) {
            prop_assert!(!read.is_empty() && read.iter().all(|tag| !tag.is_empty()));
        }
        let _ = (url(&text), hosts(&text), list(&text));
    }
}
