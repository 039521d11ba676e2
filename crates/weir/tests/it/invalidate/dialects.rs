//! Purges as applications send them: each row of the table in `docs/guide/purging.md` with the bytes of its
//! sender, where the client may and where it may not, over two sites with the same tags.

use weir_testkit::{Origin, Resource, Response, Weir};

use crate::server::setup;

const HOSTS: [&str; 2] = ["a.test", "b.test"];
/// What each site has, with its tags. A letter of a row's `goes` stands for one of them.
const HELD: [(char, &str, &str); 4] = [
    ('a', "/a", "p-12 cat_p_1 node:1 a /foo"),
    ('b', "/b", "p-123 cat_p_2 node_list b-c /a"),
    ('c', "/blog/x", "pt-post c /foo-bar"),
    ('d', "/foo/y?q=1", "cat_p_12 /b"),
];

/// A request for a purge, and what goes.
struct Row {
    /// The sender, and the version whose source says so.
    sender: &'static str,
    /// Its head without the line break at its end; `{cache}` is the cache's own address.
    head: &'static str,
    status: u16,
    /// `Cache-Purge-Result` without the count.
    word: &'static str,
    /// What goes of `a.test`, and of `b.test`.
    goes: [&'static str; 2],
    is_soft: bool,
}

const fn row(sender: &'static str, head: &'static str, word: &'static str, goes: [&'static str; 2]) -> Row {
    Row { sender, head, status: 200, word, goes, is_soft: false }
}

const fn soft(sender: &'static str, head: &'static str, word: &'static str, goes: [&'static str; 2]) -> Row {
    Row { is_soft: true, ..row(sender, head, word, goes) }
}

const fn refused(sender: &'static str, head: &'static str, status: u16) -> Row {
    Row { status, ..row(sender, head, "", ["", ""]) }
}

/// `VarnishPurger::{purge_url, purge_tags}` and `WP_Rocket\Addon\Varnish\Varnish::purge`, as the HTTP API of
/// WordPress 6.1.9 writes them (`host:` in small letters).
const WORDPRESS: &str = "Proxy Cache Purge 5.4.0 and 5.6.4, WP Rocket 3.5 and later";
/// `CacheInvalidate\Model\PurgeCache`: `Host` is the cache's without its port.
const MAGENTO: &str = "Magento 2.4 (CacheInvalidate), elgentos/magento2-varnish-extended";
const DRUPAL: &str = "Drupal varnish_purge 8.x-2.x";
/// `ZeroConfigPurger` at 81b7d1ed, by Guzzle 7.4.5.
const ZERO: &str = "Drupal varnish_purge 8.x-2.x, zero-configuration purger";
/// `ProxyClient\Varnish` with `HttpDispatcher`, by Guzzle 7.4.5.
const FOS: &str = "FOSHttpCache 2.x, 3.x";
/// `HttpCache\{VarnishPurger, VarnishXKeyPurger}` at 18782e64 and before, by Symfony HttpClient 5.4.53.
const API: &str = "API Platform 2.x to 4.x";
/// `ReverseProxy\VarnishReverseProxyGateway` at 0f8b3d74, by Guzzle 7.4.5. Before, it cleared all with
/// `PURGE /`.
const SHOPWARE: &str = "Shopware 6";

const ROWS: &[Row] = &[
    row(WORDPRESS, "PURGE /a HTTP/1.1\r\nHost: a.test\r\nX-Purge-Method: default", "exact", ["a", ""]),
    row(
        WORDPRESS,
        "PURGE /foo/y?q=1 HTTP/1.1\r\nHost: a.test\r\nX-Purge-Method: default",
        "exact",
        ["d", ""],
    ),
    row(WORDPRESS, "PURGE /.* HTTP/1.1\r\nHost: a.test\r\nX-Purge-Method: regex", "wildcard", ["abcd", ""]),
    row(WORDPRESS, "PURGE /blog/.* HTTP/1.1\r\nhost: a.test\r\nX-Purge-Method: regex", "wildcard", ["c", ""]),
    row(
        WORDPRESS,
        "PURGE / HTTP/1.1\r\nhost: a.test\r\nX-Purge-Method: tags\r\nX-Cache-Tags-Pattern: p-12|pt-post",
        "tags",
        ["ac", ""],
    ),
    row(
        WORDPRESS,
        "PURGE / HTTP/1.1\r\nhost: b.test\r\nX-Purge-Method: tags\r\nX-Cache-Tags-Pattern: \\bp-12\\b",
        "tags",
        ["", "a"],
    ),
    refused(WORDPRESS, "PURGE / HTTP/1.1\r\nhost: a.test\r\nX-Purge-Method: tags", 400),
    row(
        "a pattern that cannot be read takes the site",
        "PURGE / HTTP/1.1\r\nhost: a.test\r\nX-Purge-Method: tags\r\nX-Cache-Tags-Pattern: p-1[0-9]",
        "all",
        ["abcd", ""],
    ),
    row(
        MAGENTO,
        "PURGE / HTTP/1.1\r\nHost: {cache}\r\n\
         X-Magento-Tags-Pattern: ((^|,)cat_p_1(,|$))|((^|,)cat_p_2(,|$))",
        "tags",
        ["ab", "ab"],
    ),
    row(
        MAGENTO,
        "PURGE / HTTP/1.1\r\nHost: a.test\r\nX-Magento-Tags-Pattern: ((^|,)cat_p_1(,|$))",
        "tags",
        ["a", ""],
    ),
    row(MAGENTO, "PURGE / HTTP/1.1\r\nHost: {cache}\r\nX-Magento-Tags-Pattern: .*", "all", ["abcd", "abcd"]),
    soft(
        MAGENTO,
        "PURGE / HTTP/1.1\r\nHost: {cache}\r\nX-Magento-Tags-Pattern: ((^|,)cat_p_1(,|$))\r\n\
         X-Magento-Purge-Soft: 1",
        "tags",
        ["a", "a"],
    ),
    soft(
        MAGENTO,
        "PURGE / HTTP/1.1\r\nHost: {cache}\r\nX-Magento-Tags-Pattern: .*\r\nX-Magento-Purge-Soft: 1",
        "all",
        ["abcd", "abcd"],
    ),
    refused(MAGENTO, "PURGE / HTTP/1.1\r\nHost: {cache}\r\nX-Magento-Purge-Soft: 1", 400),
    refused(MAGENTO, "PURGE / HTTP/1.1\r\nHost: {cache}\r\nX-Pool: a", 400),
    row(DRUPAL, "BAN / HTTP/1.1\r\nHost: a.test\r\nCache-Tags: node:1|node_list", "tags", ["ab", ""]),
    row(
        DRUPAL,
        "BAN / HTTP/1.1\r\nHost: a.test\r\nPurge-Cache-Tags: node:1|node_list\r\nX-Shop-Key: 4711",
        "tags",
        ["ab", ""],
    ),
    refused(DRUPAL, "BAN / HTTP/1.1\r\nHost: a.test\r\nCache-Tags: ", 400),
    row(ZERO, "BAN /tags HTTP/1.1\r\nHost: {cache}\r\nCache-Tags: node:1 node_list", "tags", ["ab", "ab"]),
    row(ZERO, "PURGE /a HTTP/1.1\r\nAccept-Encoding: gzip\r\nHost: a.test", "exact", ["a", ""]),
    row(ZERO, "BAN /blog/* HTTP/1.1\r\nAccept-Encoding: gzip\r\nHost: a.test", "wildcard", ["c", ""]),
    row(ZERO, "BAN /.* HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip", "all", ["abcd", ""]),
    row(ZERO, "BAN /site HTTP/1.1\r\nHost: {cache}\r\nAccept-Encoding: gzip", "all", ["abcd", "abcd"]),
    row("Drupal varnish_image_purge 8.x-1.x", "URIBAN /a HTTP/1.1\r\nHost: a.test", "exact", ["a", ""]),
    row(
        FOS,
        "BAN / HTTP/1.1\r\nHost: a.test\r\nX-Cache-Tags: (^|,)(a|b\\-c)(,|$)\r\nX-Host: .*\r\nX-Url: .*\r\n\
         X-Content-Type: .*",
        "tags",
        ["ab", ""],
    ),
    row(
        FOS,
        "BAN / HTTP/1.1\r\nHost: {cache}\r\nX-Host: .*\r\nX-Url: ^/foo/.*\r\nX-Content-Type: .*",
        "wildcard",
        ["d", "d"],
    ),
    row(
        FOS,
        "BAN / HTTP/1.1\r\nHost: {cache}\r\nX-Host: ^(b.test)$\r\nX-Url: ^/foo/.*\r\n\
         X-Content-Type: text/html",
        "wildcard",
        ["", "d"],
    ),
    row(
        FOS,
        "BAN / HTTP/1.1\r\nHost: {cache}\r\nX-Host: ^(a.test|b.test)$\r\nX-Url: /foo/.*\r\n\
         X-Content-Type: .*",
        "all",
        ["abcd", "abcd"],
    ),
    row(
        FOS,
        "BAN / HTTP/1.1\r\nHost: {cache}\r\nX-Host: .*\r\nX-Url: ^/a$\r\nX-Content-Type: .*",
        "exact",
        ["a", "a"],
    ),
    row(
        "FOSHttpCache 2.0 before its release: a form that is not read takes the site",
        "BAN / HTTP/1.1\r\nHost: a.test\r\nConnection: Close\r\nX-Cache-Tags: (a|b\\-c)(,.+)?$\r\n\
         X-Host: .*\r\nX-Url: .*\r\nX-Content-Type: .*",
        "all",
        ["abcd", ""],
    ),
    row(
        "hosts that cannot be read beside tags are all",
        "BAN / HTTP/1.1\r\nHost: a.test\r\nX-Cache-Tags: (^|,)(a)(,|$)\r\nX-Host: ^(www\\.)?b\\.test$\r\n\
         X-Url: .*\r\nX-Content-Type: .*",
        "tags",
        ["a", "a"],
    ),
    soft(FOS, "PURGEKEYS / HTTP/1.1\r\nHost: a.test\r\nxkey-softpurge: a b-c", "tags", ["ab", ""]),
    row(FOS, "PURGEKEYS / HTTP/1.1\r\nHost: a.test\r\nxkey-purge: c", "tags", ["c", ""]),
    refused(FOS, "PURGEKEYS / HTTP/1.1\r\nHost: a.test", 400),
    row(
        API,
        "BAN / HTTP/1.1\r\nHost: a.test\r\nApiPlatform-Ban-Regex: (^|\\,)/foo($|\\,)",
        "tags",
        ["a", ""],
    ),
    row(
        API,
        "BAN / HTTP/1.1\r\nHost: a.test\r\n\
         ApiPlatform-Ban-Regex: ((^|\\,)/a($|\\,))|((^|\\,)/b($|\\,))",
        "tags",
        ["bd", ""],
    ),
    row(API, "BAN / HTTP/1.1\r\nHost: a.test\r\nApiPlatform-Ban-Regex: (/a|/b)($|\\,)", "tags", ["bd", ""]),
    refused(API, "BAN / HTTP/1.1\r\nHost: a.test\r\nApiPlatform-Ban-Regex:", 400),
    row(SHOPWARE, "PURGE / HTTP/1.1\r\nHost: a.test\r\nxkey: a c", "tags", ["ac", ""]),
    row(SHOPWARE, "BAN / HTTP/1.1\r\nHost: {cache}", "all", ["abcd", "abcd"]),
    refused("a URL of a host that no site has", "PURGE /a HTTP/1.1\r\nHost: {cache}", 421),
];

/// A Weir with two sites that are both purged by `rules`, which has stored all of [`HELD`].
fn holding(top: &str, rules: &str) -> (Origin, Weir) {
    let origin = Origin::start();
    for (_, path, tags) in HELD {
        let path = path.split('?').next().unwrap();
        origin.put(path, Resource::fresh("body").etag("\"1\"").header("Surrogate-Key", tags));
    }
    let sites: Vec<String> = HOSTS
        .iter()
        .map(|host| format!("[[site]]\nhosts = [\"{host}\"]\nupstream = \"main\"\n{rules}\n"))
        .collect();
    let weir = setup().run_config(&format!(
        "{top}\n[admin]\nlisten = \"{{admin}}\"\n[[listen]]\naddress = \"{{listen}}\"\n\
         [upstream.main]\norigins = [\"{}\"]\n{}",
        origin.url(),
        sites.concat()
    ));
    fill(&weir);
    (origin, weir)
}

fn fill(weir: &Weir) {
    let mut client = weir.client();
    for host in HOSTS {
        for (_, path, _) in HELD {
            assert_eq!(client.get(host, path, &[]).text(), "body");
        }
    }
}

/// What is gone of each host, or stale.
fn gone(weir: &Weir, is_gone: impl Fn(&Response) -> bool) -> [String; 2] {
    let mut client = weir.client();
    HOSTS.map(|host| {
        let of_host = HELD.iter().filter(|(_, path, _)| is_gone(&client.get(host, path, &[])));
        of_host.map(|(letter, ..)| *letter).collect()
    })
}

fn send(weir: &Weir, head: &str) -> Response {
    let mut client = weir.client();
    client.send(format!("{}\r\n\r\n", head.replace("{cache}", &weir.addr().to_string())));
    client.recv().unwrap()
}

/// Not behind a proxy: the peer is the client.
const ALONE: &str = "trusted_proxies = []";
const ALLOWED: &str = "purge = { allow = [\"127.0.0.0/8\"] }";

#[test]
fn each_row_takes_what_it_says_of_the_sites_that_it_means() {
    let (origin, weir) = holding(ALONE, ALLOWED);
    for Row { sender, head, status, word, goes, is_soft } in ROWS {
        let said = send(&weir, head);
        assert_eq!(said.status(), *status, "{sender}: {head}\n{}", said.text());
        let result = said.header("cache-purge-result").unwrap_or_default();
        assert_eq!(result.split(';').next(), Some(*word), "{sender}: {head}");
        if *status == 200 {
            let count: usize = goes.iter().map(|goes| goes.len()).sum();
            assert_eq!(result, format!("{word}; count={count}"), "{sender}: {head}");
            assert!(said.text().contains(&format!("; {count} held\n")), "{sender}: {}", said.text());
        }
        let found = gone(&weir, |answer| match is_soft {
            true => answer.fwd().as_deref() == Some("stale"),
            false => !answer.is_hit(),
        });
        assert_eq!(found, *goes, "{sender}: {head}");
    }
    assert!(origin.seen().iter().all(|seen| seen.request.method == "GET"), "none was passed on");
}

#[test]
fn no_row_takes_anything_where_its_client_may_not_purge() {
    let (origin, weir) = holding(ALONE, "purge = { allow = [\"192.0.2.7\"] }");
    let bare = holding(ALONE, "");
    for Row { sender, head, status, .. } in ROWS {
        for weir in [&weir, &bare.1] {
            let said = send(weir, head);
            // That no site has a host is no secret: any request learns it. What its fields name is not read.
            let is_lost = head.starts_with("PURGE") && head.contains("Host: {cache}");
            let expect = if *status == 421 || is_lost { 421 } else { 405 };
            assert_eq!(said.status(), expect, "{sender}: {head}\n{}", said.text());
            assert!(expect == 421 || said.header("allow").is_some_and(|allow| allow.contains("GET")));
            assert_eq!(gone(weir, |answer| !answer.is_hit()), ["", ""], "{sender}: {head}");
        }
    }
    assert_eq!(origin.total(), 8, "none was passed on");
}

#[test]
fn a_site_that_the_client_may_not_purge_is_spared() {
    let (_origin, weir) = holding(ALONE, ALLOWED);
    let config = std::fs::read_to_string(weir.folder().join("weir.toml")).unwrap();
    let mut parts = config.rsplitn(2, "purge = ");
    let (last, first) = (parts.next().unwrap(), parts.next().unwrap());
    weir.rewrite_config(&format!("{first}purge = {}", last.replace("127.0.0.0/8", "192.0.2.7")));
    assert_eq!(weir.reload().code, Some(0));
    for (head, goes) in [
        ("PURGE / HTTP/1.1\r\nHost: {cache}\r\nX-Magento-Tags-Pattern: ((^|,)cat_p_1(,|$))", ["a", ""]),
        ("BAN / HTTP/1.1\r\nHost: {cache}\r\nX-Host: .*\r\nX-Url: ^/foo/.*", ["d", ""]),
        ("BAN / HTTP/1.1\r\nHost: {cache}\r\nX-Host: ^(a.test|b.test)$\r\nX-Url: .*", ["abcd", ""]),
        ("BAN / HTTP/1.1\r\nHost: {cache}\r\nX-Host: ^(a.test|a.test:80)$\r\nX-Cache-Tags: a", ["a", ""]),
        ("BAN / HTTP/1.1\r\nHost: b.test", ["abcd", ""]),
    ] {
        assert_eq!(send(&weir, head).status(), 200, "{head}");
        assert_eq!(gone(&weir, |answer| !answer.is_hit()), goes, "{head}");
    }
    for head in [
        "BAN / HTTP/1.1\r\nHost: a.test\r\nX-Host: ^(b.test)$\r\nX-Url: .*",
        "PURGE / HTTP/1.1\r\nHost: b.test\r\nxkey: a",
        "PURGE /a HTTP/1.1\r\nHost: b.test",
    ] {
        assert_eq!(send(&weir, head).status(), 405, "{head}");
        assert_eq!(gone(&weir, |answer| !answer.is_hit()), ["", ""], "{head}");
    }
}

#[test]
fn a_key_opens_from_anywhere_and_reaches_no_origin() {
    let secret = "4711-4711-4711-4711-4711";
    let key = format!("purge = {{ key = {{ header = \"X-Shop-Key\", secret = \"{secret}\" }} }}");
    // Its client cannot be known, and the peer is a trusted proxy.
    let log = "[log]\naccess = \"json\"\npath = \"{folder}/access.log\"\n";
    let (origin, weir) = holding(log, &key);
    let tags = "Via: 1.1 front\r\nxkey: a";
    for (given, status) in [
        (secret.to_owned(), 200),
        (secret[1..].to_owned(), 405),
        (format!("{secret}4"), 405),
        (secret.replace('7', "8"), 405),
        (String::new(), 405),
    ] {
        let said = send(&weir, &format!("BAN / HTTP/1.1\r\nHost: a.test\r\nX-Shop-Key: {given}\r\n{tags}"));
        assert_eq!(said.status(), status, "{given}");
        let goes = if status == 200 { "a" } else { "" };
        assert_eq!(gone(&weir, |answer| !answer.is_hit()), [goes, ""], "{given}");
    }
    // It goes neither with a miss nor with a pass, in no spelling.
    for method in ["GET", "POST"] {
        let fields = format!("X-Shop-Key: {secret}\r\nx_shop_key: {secret}\r\nContent-Length: 0");
        send(&weir, &format!("{method} /other HTTP/1.1\r\nHost: a.test\r\n{fields}"));
    }
    let seen: Vec<String> = origin.requests("/other").iter().map(|request| format!("{request:?}")).collect();
    // Ids of requests are of random digits, and have no hyphen.
    assert!(seen.len() == 2 && seen.iter().all(|seen| !seen.contains("4711-")), "{seen:?}");
    let file = weir.folder().join("weir.toml").display().to_string();
    let shown = weir.command(&["check", "--show", &file]);
    assert!(shown.stdout.contains("X-Shop-Key"), "{shown:?}");
    let said = [shown.stdout, shown.stderr, weir.stderr(), weir.stdout()].concat();
    let log = std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
    assert!(!said.contains("4711-") && !log.contains("4711-"), "{said}\n{log}");
}

#[test]
fn a_proxy_that_names_no_client_may_purge_one_url() {
    let prefix = "PURGE /blog/.* HTTP/1.1\r\nHost: a.test\r\nX-Purge-Method: regex";
    let tags = "PURGE / HTTP/1.1\r\nHost: a.test\r\nxkey: a";
    let all = "BAN / HTTP/1.1\r\nHost: a.test";
    let url = "PURGE /b HTTP/1.1\r\nHost: a.test";
    let (_origin, weir) = holding("", ALLOWED);
    // A client behind a proxy that adds no field can write the proxy's own address.
    for field in ["", "\r\nX-Forwarded-For: 127.0.0.1"] {
        for head in [prefix, tags, all] {
            let said = send(&weir, &format!("{head}{field}"));
            assert_eq!(said.status(), 403, "{head}");
            assert!(said.text().contains("purge.local"), "{}", said.text());
            assert_eq!(gone(&weir, |answer| !answer.is_hit()), ["", ""], "{head}");
        }
        assert_eq!(send(&weir, &format!("{url}{field}")).status(), 200);
        assert_eq!(gone(&weir, |answer| !answer.is_hit()), ["b", ""]);
    }
    let (_origin, weir) = holding("", "purge = { allow = [\"127.0.0.0/8\"], local = true }");
    for head in [prefix, tags, all, url] {
        assert_eq!(send(&weir, head).status(), 200, "{head}");
        fill(&weir);
    }
    let file = weir.folder().join("weir.toml").display().to_string();
    let checked = weir.command(&["check", &file]);
    assert!(checked.stderr.contains("purge.local"), "{checked:?}");
}

#[test]
fn a_route_of_its_own_gives_the_right_to_its_urls_alone() {
    let route = "[[site.route]]\nprefix = \"/blog/\"\npurge = { allow = [\"127.0.0.0/8\"] }";
    let (_origin, weir) = holding(ALONE, route);
    for (head, status) in [
        ("PURGE /blog/.* HTTP/1.1\r\nHost: a.test\r\nX-Purge-Method: regex", 403),
        ("PURGE /blog/x HTTP/1.1\r\nHost: a.test\r\nxkey: a", 403),
        ("PURGE /a HTTP/1.1\r\nHost: a.test", 405),
        ("PURGE /blog/x HTTP/1.1\r\nHost: a.test", 200),
    ] {
        assert_eq!(send(&weir, head).status(), status, "{head}");
    }
    assert_eq!(gone(&weir, |answer| !answer.is_hit()), ["c", ""]);
}

#[test]
fn who_may_purge_refreshes_with_no_cache() {
    for (rules, is_refreshed) in
        [(ALLOWED, true), ("", false), ("purge = { allow = [\"192.0.2.7\"] }", false)]
    {
        let (origin, weir) =
            holding(&format!("{ALONE}\n[defaults]\nclient_directives = \"ignore\"\n"), rules);
        for field in ["Cache-Control: no-cache", "X-Refresh: 1"] {
            let before = origin.count("/a");
            let said = send(&weir, &format!("GET /a HTTP/1.1\r\nHost: a.test\r\n{field}"));
            assert_eq!(!said.is_hit(), is_refreshed, "{rules} {field}: {:?}", said.head);
            assert_eq!(origin.count("/a") - before, usize::from(is_refreshed), "{rules} {field}");
            assert!(weir.client().get("a.test", "/a", &[]).is_hit(), "{rules} {field}");
        }
    }
}

#[test]
fn a_url_of_which_nothing_is_held_says_so() {
    let (_origin, weir) = holding(ALONE, ALLOWED);
    for target in ["/*", "/a?x", "/nothing"] {
        let said = send(&weir, &format!("PURGE {target} HTTP/1.1\r\nHost: a.test"));
        assert_eq!(said.header("cache-purge-result").as_deref(), Some("exact; count=0"), "{target}");
        let text = said.text();
        assert!(text.contains("nothing is held") && text.contains("--prefix"), "{text}");
    }
    let said = send(&weir, "PURGE /a HTTP/1.1\r\nHost: a.test:8081");
    assert!(said.text().contains("nothing is held"), "another port is another URL: {}", said.text());
    let said = send(&weir, "PURGE / HTTP/1.1\r\nHost: a.test\r\nxkey: nobody");
    assert_eq!(said.header("cache-purge-result").as_deref(), Some("tags; count=0"));
    assert_eq!(gone(&weir, |answer| !answer.is_hit()), ["", ""]);
}

#[test]
fn fields_of_tags_are_for_caches() {
    let names = ["X-Magento-Tags", "X-Cache-Tags", "Cache-Tags", "Purge-Cache-Tags", "xkey"];
    for (top, rules, is_sent) in [
        ("", "", true),
        (ALONE, "", false),
        (ALONE, "show_tags = true", true),
        ("", "show_tags = false", true),
    ] {
        let (origin, weir) = holding(top, rules);
        let tagged = names.iter().fold(Resource::fresh("x"), |x, name| x.header(name, "t"));
        origin.put("/tagged", tagged.header("Surrogate-Key", "t"));
        for round in 0..3 {
            let said = weir.client().get("a.test", "/tagged", &[]);
            for name in names {
                assert_eq!(said.header(name).is_some(), is_sent, "{top} {rules} {round} {name}");
            }
            assert!(said.header("surrogate-key").is_some());
        }
        weir.command(&["purge", "--tag", "t"]);
        assert!(!weir.client().get("a.test", "/tagged", &[]).is_hit());
    }
}

#[test]
fn a_page_with_thousands_of_tags_goes_with_its_own_alone() {
    let (origin, weir) = holding(ALONE, ALLOWED);
    let tags: Vec<String> = (0..4096).map(|at| format!("cat_p_{at}")).collect();
    origin.put("/category", Resource::fresh("x").header("X-Magento-Tags", &tags.join(",")));
    let get = || weir.client().get("a.test", "/category", &[]);
    get();
    let purge = |tag: &str| {
        let pattern = format!("((^|,){tag}(,|$))");
        send(&weir, &format!("PURGE / HTTP/1.1\r\nHost: {{cache}}\r\nX-Magento-Tags-Pattern: {pattern}"))
    };
    assert_eq!(purge("cat_p_4096").status(), 200);
    assert!(get().is_hit(), "a tag that it does not have");
    assert_eq!(purge("cat_p_4095").status(), 200);
    assert!(!get().is_hit());
}
