//! Purges that say more than can be read or told apart: more goes than they say, never less, and the answer
//! says so.

use weir_testkit::{Client, Origin, Resource, Response, Weir, free_port};

use crate::server::setup;

const KEY: &str = "4711-4711-4711-4711-4711";
const OTHER: &str = "0815-0815-0815-0815-0815";

/// A Weir for these sites. Each path of `paths` is held, with its tags in `X-Cache-Tags`.
fn holding(sites: &str, host: &str, paths: &[(&str, &str)]) -> (Origin, Weir) {
    let origin = Origin::start();
    for (path, tags) in paths {
        let path = path.split('?').next().unwrap();
        origin.put(path, Resource::fresh("body").header("X-Cache-Tags", tags));
    }
    let weir = setup().run_config(&format!(
        "trusted_proxies = []\n[admin]\nlisten = \"{{admin}}\"\n[[listen]]\naddress = \"{{listen}}\"\n\
         [upstream.main]\norigins = [\"{}\"]\n{sites}",
        origin.url()
    ));
    for (path, _) in paths {
        weir.client().get(host, path, &[]);
        assert!(weir.client().get(host, path, &[]).is_hit(), "{path}");
    }
    (origin, weir)
}

fn site(host: &str, more: &str) -> String {
    format!(
        "[[site]]\nhosts = [\"{host}\"]\nupstream = \"main\"\n\
         purge = {{ allow = [\"127.0.0.0/8\"] }}\n{more}\n"
    )
}

fn send(weir: &Weir, head: &str) -> Response {
    let mut client = weir.client();
    client.send(format!("{head}\r\n\r\n"));
    client.recv().unwrap()
}

/// What was done, without the count.
fn word(said: &Response) -> String {
    assert_eq!(said.status(), 200, "{}", said.text());
    let result = said.header("cache-purge-result").unwrap();
    result.split(';').next().unwrap().to_owned()
}

#[test]
fn a_tag_with_a_blank_goes() {
    for head in [
        "BAN / HTTP/1.1\r\nHost: a.test\r\nX-Cache-Tags: (^|,)(my tag)(,|$)\r\nX-Host: .*",
        "PURGE / HTTP/1.1\r\nHost: a.test\r\nX-Magento-Tags-Pattern: ((^|,)my tag(,|$))",
        "PURGE / HTTP/1.1\r\nHost: a.test\r\nxkey: my tag",
    ] {
        let (_origin, weir) = holding(&site("a.test", ""), "a.test", &[("/x", "my tag,other"), ("/y", "z")]);
        assert_eq!(word(&send(&weir, head)), "tags", "{head}");
        assert!(!weir.client().get("a.test", "/x", &[]).is_hit(), "{head}");
        assert!(weir.client().get("a.test", "/y", &[]).is_hit(), "{head}");
    }
}

#[test]
fn the_beginning_of_a_tag_takes_the_site() {
    for field in
        ["X-Cache-Tags: (^|,)product-", "X-Cache-Tags: (^|,)p-12", "ApiPlatform-Ban-Regex: (^|\\,)/books"]
    {
        let paths = [("/x", "product-17"), ("/y", "p-123"), ("/z", "/books/1")];
        let (_origin, weir) = holding(&site("a.test", ""), "a.test", &paths);
        assert_eq!(word(&send(&weir, &format!("BAN / HTTP/1.1\r\nHost: a.test\r\n{field}"))), "all");
        for (path, _) in paths {
            assert!(!weir.client().get("a.test", path, &[]).is_hit(), "{field} {path}");
        }
        assert_eq!(weir.metric("weir_purges_widened_total"), Some(1.0), "{field}");
        let history = weir.command(&["history", "--json"]).stdout;
        assert!(history.contains("more than was asked for") && history.contains("unread"), "{history}");
    }
}

#[test]
fn a_query_that_the_key_changes_hides_nothing() {
    let keys = "key = { query = { drop = [\"utm_*\"] } }";
    for (head, goes) in [
        ("BAN /q?utm_source=1 HTTP/1.1\r\nHost: a.test", "/q?utm_source=1"),
        ("BAN / HTTP/1.1\r\nHost: a.test\r\nX-Url: ^/q\\?utm_source=1&a=1.*", "/q?utm_source=1&a=1&b=2"),
        ("BAN / HTTP/1.1\r\nHost: a.test\r\nX-Url: ^/q\\?utm.*", "/q"),
        ("BAN / HTTP/1.1\r\nHost: a.test\r\nX-Url: ^/q\\?utm_source=1$", "/q?utm_source=1"),
    ] {
        let (_origin, weir) = holding(&site("a.test", keys), "a.test", &[(goes, "t"), ("/other", "t")]);
        assert_ne!(word(&send(&weir, head)), "all", "{head}");
        assert!(!weir.client().get("a.test", goes, &[]).is_hit(), "{head}");
        assert!(weir.client().get("a.test", "/other", &[]).is_hit(), "{head}");
    }
}

#[test]
fn a_whole_site_is_called_all() {
    let hosts = |count: usize| {
        let names: Vec<String> = (0..count).map(|at| format!("a.test:{}", 1000 + at)).collect();
        format!("BAN / HTTP/1.1\r\nHost: a.test\r\nX-Url: ^/x$\r\nX-Host: ^({})$", names.join("|"))
    };
    let any = "BAN / HTTP/1.1\r\nHost: a.test\r\nX-Url: ^/x$\r\nX-Host: .*".to_owned();
    for (host, head, is_all) in [
        ("a.test", hosts(1025), true),
        ("a.test", hosts(1024), false),
        ("*", any.clone(), true),
        ("a.test", any, false),
    ] {
        let (_origin, weir) = holding(&site(host, ""), "a.test", &[("/unrelated", "t")]);
        assert_eq!(word(&send(&weir, &head)), if is_all { "all" } else { "exact" }, "{host}");
        assert_eq!(weir.client().get("a.test", "/unrelated", &[]).is_hit(), !is_all, "{host}");
        assert_eq!(weir.metric("weir_purges_widened_total"), Some(f64::from(u8::from(is_all))), "{host}");
    }
}

/// A site with a key, and a route with another.
fn keyed() -> String {
    let key = |secret: &str| {
        format!("purge = {{ key = {{ header = \"X-{}-Key\", secret = \"{secret}\" }} }}", &secret[..4])
    };
    format!(
        "[[site]]\nhosts = [\"a.test\"]\nupstream = \"main\"\n{}\n\
         [[site.route]]\npath = \"/own/**\"\n{}\n[[site.route]]\npath = \"/list/**\"\n\
         purge = {{ allow = [\"192.0.2.7\"] }}\n",
        key(KEY),
        key(OTHER)
    )
}

#[test]
fn no_secret_of_a_site_reaches_an_origin() {
    let (origin, weir) = holding(&keyed(), "a.test", &[]);
    let fields =
        format!("X-4711-Key: {KEY}\r\nx_0815_key: {OTHER}\r\nX-0815-Key: {OTHER}\r\nContent-Length: 0");
    for path in ["/x", "/own/x", "/list/x"] {
        origin.put(path, Resource::fresh("x"));
        for method in ["GET", "POST"] {
            send(&weir, &format!("{method} {path} HTTP/1.1\r\nHost: a.test\r\n{fields}"));
        }
        let seen: Vec<String> = origin.requests(path).iter().map(|request| format!("{request:?}")).collect();
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|seen| !seen.contains(KEY) && !seen.contains(OTHER)), "{seen:?}");
    }
}

/// A route's own `purge` takes the place of the site's for what lies in the route, whatever the method.
#[test]
fn a_route_with_rules_of_its_own_is_purged_by_them() {
    let paths = [("/x", "t"), ("/own/k/1", "t"), ("/list/1", "t")];
    let (_origin, weir) = holding(&keyed(), "a.test", &paths);
    let own = format!("X-4711-Key: {KEY}");
    let other = format!("X-0815-Key: {OTHER}");
    for (head, key, status) in [
        ("PURGE /own/k/1 HTTP/1.1", &own, 405),
        ("BAN /own/k HTTP/1.1", &own, 405),
        ("BAN /list/1 HTTP/1.1", &own, 405),
        ("URIBAN /own/k/1 HTTP/1.1", &own, 405),
        ("PURGE /own/k/.* HTTP/1.1\r\nX-Purge-Method: regex", &own, 405),
        ("BAN / HTTP/1.1\r\nX-Url: ^/own/k/1$\r\nX-Host: .*", &own, 405),
        // The route's own rules are not those of the site.
        ("BAN /own/k HTTP/1.1", &other, 403),
        ("BAN /x HTTP/1.1", &other, 405),
    ] {
        let said = send(&weir, &format!("{head}\r\nHost: a.test\r\n{key}"));
        assert_eq!(said.status(), status, "{head} {key}: {}", said.text());
    }
    assert!(paths.iter().all(|(path, _)| weir.client().get("a.test", path, &[]).is_hit()));
    let both = format!("{own}\r\n{other}");
    for (head, keys, gone) in [
        ("PURGE /own/k/1 HTTP/1.1", &other, "/own/k/1"),
        ("BAN /own/k HTTP/1.1", &both, "/own/k/1"),
        ("PURGE /.* HTTP/1.1\r\nX-Purge-Method: regex", &own, "/own/k/1"),
        ("PURGE / HTTP/1.1\r\nxkey: t", &own, "/list/1"),
    ] {
        let said = send(&weir, &format!("{head}\r\nHost: a.test\r\n{keys}"));
        assert_eq!(said.status(), 200, "{head} {keys}: {}", said.text());
        assert!(!weir.client().get("a.test", gone, &[]).is_hit(), "{head}");
        weir.client().get("a.test", gone, &[]);
    }
}

/// A `PURGE` of one URL takes nothing that the `purge` of another route refuses its client, by scheme or by
/// port.
#[test]
fn a_purge_takes_no_url_of_a_route_that_refuses_its_client() {
    let port = free_port();
    for (condition, is_by_port) in
        [("scheme = \"https\"".to_owned(), false), (format!("port = {port}"), true)]
    {
        let origin = Origin::start();
        origin.put("/x", Resource::fresh("body"));
        let weir = setup().run_config(&format!(
            "trusted_proxies = [\"127.0.0.1\"]\n[[listen]]\naddress = \"{{listen}}\"\n\
             [[listen]]\naddress = \"127.0.0.1:{port}\"\n[upstream.main]\norigins = [\"{}\"]\n\
             [[site]]\nhosts = [\"p.test\"]\nupstream = \"main\"\npurge = {{ allow = [\"192.0.2.7\"] }}\n\
             [[site.route]]\n{condition}\npurge = {{ allow = [\"192.0.2.9\"] }}\n",
            origin.url()
        ));
        let mut inner = weir.addr();
        inner.set_port(port);
        // By the site's rules, and by the route's.
        let at = |is_route: bool| match (is_route, is_by_port) {
            (true, true) => (Client::connect(inner), "http"),
            (true, false) => (weir.client(), "https"),
            (false, _) => (weir.client(), "http"),
        };
        let send = |method: &str, client: &str, is_route: bool| {
            let (mut connection, scheme) = at(is_route);
            connection.send(format!(
                "{method} /x HTTP/1.1\r\nHost: p.test\r\nX-Forwarded-For: {client}\r\n\
                 X-Forwarded-Proto: {scheme}\r\n\r\n"
            ));
            connection.recv().unwrap()
        };
        let hits = || [false, true].map(|is_route| send("GET", "192.0.2.7", is_route).is_hit());
        hits();
        assert_eq!(hits(), [true, true], "{condition}");
        assert_eq!(send("PURGE", "192.0.2.7", true).status(), 405, "{condition}");
        let said = send("PURGE", "192.0.2.7", false);
        if is_by_port {
            // One URL, whichever port its objects came by.
            assert_eq!((said.status(), hits()), (405, [true, true]), "{}", said.text());
        } else {
            assert_eq!(said.status(), 200, "{}", said.text());
            assert!(said.text().contains("not purged: https://p.test/x;"), "{}", said.text());
            assert_eq!(said.header("cache-purge-result").as_deref(), Some("exact; count=1"));
            assert_eq!(hits(), [false, true]);
        }
    }
}
