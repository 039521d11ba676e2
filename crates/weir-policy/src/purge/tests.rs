//! Each row of the table of dialects.

use super::*;

fn ask(method: &str, target: &str, fields: &[(&'static str, &str)]) -> Result<Asked, Nothing> {
    let field = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    };
    read(&Method::from_bytes(method.as_bytes()).unwrap(), target, &fields.iter().map(field).collect())
}

fn of(what: What, hosts: Hosts) -> Result<Asked, Nothing> {
    Ok(Asked { what, hosts, unread: None })
}

fn names(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}

fn hard(tags: &[&str]) -> What {
    What::Tags { hard: names(tags), soft: Vec::new() }
}

fn soft(tags: &[&str]) -> What {
    What::Tags { hard: Vec::new(), soft: names(tags) }
}

fn url(path: &str) -> What {
    What::Url(path.to_owned())
}

fn prefix(path: &str) -> What {
    What::Prefix(path.to_owned())
}

const ALL: What = What::Everything(Everything::Hard);

#[test]
fn wordpress() {
    let by = |method| [("x-purge-method", method)];
    assert_eq!(ask("PURGE", "/a?b", &by("default")), of(url("/a?b"), Hosts::Own));
    assert_eq!(ask("PURGE", "/a", &[]), of(url("/a"), Hosts::Own));
    assert_eq!(ask("PURGE", "/.*", &by("regex")), of(prefix("/"), Hosts::Own));
    assert_eq!(ask("PURGE", "/blog/.*", &by("regex")), of(prefix("/blog/"), Hosts::Own));
    let tags = |pattern| ask("PURGE", "/", &[("x-purge-method", "tags"), ("x-cache-tags-pattern", pattern)]);
    assert_eq!(tags("p-12|pt-post"), of(hard(&["p-12", "pt-post"]), Hosts::Own));
    assert_eq!(tags(r"\bp-12\b"), of(hard(&["p-12"]), Hosts::Own));
    assert_eq!(tags(""), Err(Nothing::Empty("X-Cache-Tags-Pattern")));
    assert_eq!(ask("PURGE", "/", &by("tags")), Err(Nothing::Missing("X-Cache-Tags-Pattern")));
    let unread = tags("p-[0-9]+").unwrap();
    assert_eq!((unread.what, unread.unread.as_deref()), (ALL, Some("x-cache-tags-pattern: p-[0-9]+")));
    let unread = ask("PURGE", "/a(b)/.*", &by("regex")).unwrap();
    assert_eq!((unread.what, unread.hosts, unread.unread.as_deref()), (ALL, Hosts::Own, Some("/a(b)/.*")));
    assert_eq!(ask("PURGE", "/x", &by("regex")).unwrap().what, ALL);
}

#[test]
fn magento() {
    let pattern = |pattern| ("x-magento-tags-pattern", pattern);
    let two = "((^|,)cat_p_1(,|$))|((^|,)cat_p_2(,|$))";
    assert_eq!(ask("PURGE", "/", &[pattern(two)]), of(hard(&["cat_p_1", "cat_p_2"]), Hosts::Own));
    assert_eq!(ask("PURGE", "/", &[pattern(".*")]), of(ALL, Hosts::Own));
    let gentle = ("x-magento-purge-soft", "1");
    assert_eq!(ask("PURGE", "/", &[pattern("a"), gentle]), of(soft(&["a"]), Hosts::Own));
    assert_eq!(
        ask("PURGE", "/", &[pattern("a"), ("x-magento-purge-soft", "0")]),
        of(hard(&["a"]), Hosts::Own)
    );
    let all_soft = What::Everything(Everything::Soft);
    assert_eq!(ask("PURGE", "/", &[pattern(".*"), gentle]), of(all_soft, Hosts::Own));
    assert_eq!(ask("PURGE", "/", &[pattern("a"), ("x-pool", "x")]), of(hard(&["a"]), Hosts::Own));
    let missing = Err(Nothing::Missing("X-Magento-Tags-Pattern"));
    assert_eq!(ask("PURGE", "/", &[gentle]), missing);
    assert_eq!(ask("PURGE", "/", &[("x-pool", "x")]), missing);
    assert_eq!(ask("PURGE", "/", &[pattern(" ")]), Err(Nothing::Empty("X-Magento-Tags-Pattern")));
}

#[test]
fn drupal() {
    for name in ["cache-tags", "purge-cache-tags"] {
        let expect = of(hard(&["node:1", "node_list"]), Hosts::Own);
        assert_eq!(ask("BAN", "/", &[(name, "node:1|node_list")]), expect);
        let with_blank = of(hard(&["node:1", "node:1 node_list", "node_list"]), Hosts::Own);
        assert_eq!(ask("BAN", "/tags", &[(name, "node:1 node_list")]), with_blank);
    }
    assert_eq!(ask("BAN", "/", &[("cache-tags", "")]), Err(Nothing::Empty("Cache-Tags")));
    assert_eq!(ask("PURGE", "/path", &[]), of(url("/path"), Hosts::Own));
    assert_eq!(ask("BAN", "/news/*", &[]), of(prefix("/news/"), Hosts::Own));
    assert_eq!(ask("BAN", "/news/.*", &[]), of(prefix("/news/"), Hosts::Own));
    assert_eq!(ask("BAN", "/.*", &[]), of(ALL, Hosts::Own));
    assert_eq!(ask("URIBAN", "/path", &[("cache-tags", "a")]), of(url("/path"), Hosts::Own));
    assert_eq!(ask("BAN", "/path", &[]), of(prefix("/path"), Hosts::Own));
    let middle = ask("BAN", "/a/*/b", &[]).unwrap();
    assert_eq!((middle.what, middle.unread.as_deref()), (prefix("/a/"), Some("/a/*/b")));
    assert_eq!(ask("BAN", "/(a|b)/.*", &[]).unwrap().what, ALL);
}

#[test]
fn foshttpcache() {
    let fields = |tags, host, url| {
        let all = [("x-cache-tags", tags), ("x-host", host), ("x-url", url), ("x-content-type", ".*")];
        ask("BAN", "/", if tags.is_empty() { &all[1..] } else { &all })
    };
    assert_eq!(fields(r"(^|,)(a|b\-c)(,|$)", ".*", ".*"), of(hard(&["a", "b-c"]), Hosts::Own));
    assert_eq!(fields("", ".*", "^/foo/.*"), of(prefix("/foo/"), Hosts::All));
    assert_eq!(fields("", ".*", "^/foo$"), of(url("/foo"), Hosts::All));
    let named = Hosts::Named(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(fields("", "^(a|b)$", "^/foo/.*"), of(prefix("/foo/"), named.clone()));
    assert_eq!(fields("x", "^(a|b)$", ".*"), of(hard(&["x"]), named.clone()));
    let unread = fields("", "^(a|b)$", "/foo/.*").unwrap();
    assert_eq!((unread.what, unread.hosts, unread.unread.as_deref()), (ALL, named, Some("x-url: /foo/.*")));
    assert_eq!(fields("", ".*", ".*"), of(ALL, Hosts::All));
    assert_eq!(ask("BAN", "/", &[("x-url", "^/a$")]), of(url("/a"), Hosts::Own));
    assert_eq!(ask("BAN", "/", &[("x-url", ""), ("x-host", "a")]), Err(Nothing::Empty("X-Url")));
    let both = [("xkey-softpurge", "a b"), ("xkey-purge", "c")];
    let both = ask("PURGEKEYS", "/", &both);
    assert_eq!(both, of(What::Tags { hard: names(&["c"]), soft: names(&["a", "a b", "b"]) }, Hosts::Own));
    assert_eq!(ask("PURGEKEYS", "/", &[]), Err(Nothing::Missing("xkey-purge or xkey-softpurge")));
}

#[test]
fn api_platform_and_shopware() {
    let regex = |text| ask("BAN", "/", &[("apiplatform-ban-regex", text)]);
    assert_eq!(regex(r"(^|\,)/foo($|\,)"), of(hard(&["/foo"]), Hosts::Own));
    assert_eq!(regex(r"((^|\,)/a($|\,))|((^|\,)/b($|\,))"), of(hard(&["/a", "/b"]), Hosts::Own));
    assert_eq!(regex(r"(/a|/b)($|\,)"), of(hard(&["/a", "/b"]), Hosts::Own));
    assert_eq!(regex(""), Err(Nothing::Empty("ApiPlatform-Ban-Regex")));
    assert_eq!(ask("PURGE", "/", &[("xkey", "a b")]), of(hard(&["a", "a b", "b"]), Hosts::Own));
    assert_eq!(ask("BAN", "/", &[]), of(ALL, Hosts::All));
}

#[test]
fn what_is_hard_stays_hard_beside_what_is_soft() {
    let fields = [("x-magento-tags-pattern", ".*"), ("x-magento-purge-soft", "1"), ("xkey", "a")];
    assert_eq!(ask("PURGE", "/", &fields), of(ALL, Hosts::Own));
    let fields = [("x-magento-tags-pattern", "["), ("x-magento-purge-soft", "1"), ("x-cache-tags", ".*")];
    assert_eq!(ask("PURGE", "/", &fields).unwrap().what, ALL);
}

/// What a request says and cannot be read or told apart is wider than what it means, and its text is kept.
#[test]
fn what_cannot_be_told_apart_takes_more() {
    let fields = |pairs: &[(&'static str, &str)]| ask("BAN", "/", pairs).unwrap();
    // Tags stay what they are; the hosts that could be meant are all.
    for host in ["^(www\\.)?a\\.test$", "a.test", "^a.test|b.test$", "^(a.test|b..test)$", "[a-z]+"] {
        let asked = fields(&[("x-cache-tags", "t"), ("x-host", host)]);
        assert_eq!((&asked.what, &asked.hosts), (&hard(&["t"]), &Hosts::All), "{host}");
        assert!(asked.unread.unwrap().starts_with("x-host: "), "{host}");
        let asked = fields(&[("x-url", "^/a$"), ("x-host", host)]);
        assert_eq!((&asked.what, &asked.hosts), (&url("/a"), &Hosts::All), "{host}");
    }
    let asked = fields(&[("x-cache-tags", "["), ("x-host", "[")]);
    assert_eq!((&asked.what, &asked.hosts), (&ALL, &Hosts::All));
    assert_eq!(asked.unread.as_deref(), Some("x-cache-tags: [, x-host: ["));
    let twice = fields(&[("x-cache-tags", "t"), ("x-host", "^(a)$"), ("x-host", "^(b)$")]);
    assert_eq!((&twice.hosts, twice.unread.is_some()), (&Hosts::All, true));
    let twice = fields(&[("x-host", "^(a)$"), ("x-url", "^/a$"), ("x-url", "^/b$")]);
    assert_eq!((&twice.what, twice.unread.as_deref()), (&ALL, Some("x-url: ^/a$, x-url: ^/b$")));
    assert_eq!(ask("BAN", "/", &[("x-cache-tags", "t"), ("x-host", "")]), Err(Nothing::Empty("X-Host")));
    // Soft only where each line says so.
    let softness = [("x-magento-purge-soft", "1"), ("x-magento-purge-soft", "0")];
    let asked = fields(&[&[("x-magento-tags-pattern", "t")][..], &softness[..]].concat());
    assert_eq!(asked.what, hard(&["t"]));
}

#[test]
fn a_path_that_says_more_than_a_text_takes_the_site() {
    for (method, target) in [
        ("PURGE", "/a/.*/b"),
        ("PURGE", "/a..*"),
        ("PURGE", "/a|b.*"),
        ("BAN", "/news/?$"),
        ("BAN", "/news/?"),
        ("BAN", "/(a|b)"),
        ("BAN", "/a+"),
        ("BAN", "/a..*"),
        ("BAN", "/^x*"),
    ] {
        let asked = ask(method, target, &[]).unwrap();
        assert_eq!((asked.what, asked.hosts), (ALL, Hosts::Own), "{method} {target}");
        assert_eq!(asked.unread.as_deref(), Some(target), "{method} {target}");
    }
    assert_eq!(ask("BAN", "/a?b=c", &[]), of(prefix("/a?b=c"), Hosts::Own));
    assert_eq!(ask("BAN", "/index.html", &[]), of(prefix("/index.html"), Hosts::Own));
    assert_eq!(ask("PURGE", "/index.html.*", &[]), of(prefix("/index.html"), Hosts::Own));
    assert_eq!(ask("BAN", "/site", &[]), of(ALL, Hosts::Own));
}
