//! Conditions on requests: past the cache, fetched again, not stored; which clients get an answer; and what
//! the key and the variants leave out.

use std::time::Duration;

use weir_testkit::{Origin, Resource};

use crate::kit::{Weir, message, server};

/// Each response is another one, fresh for a minute.
fn counting() -> Origin {
    let origin = Origin::start();
    let count = std::sync::atomic::AtomicUsize::new(0);
    origin.otherwise(move |exchange| {
        exchange.body();
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let text = format!("{number} {}", exchange.request.target);
        exchange.reply(200, &[("Cache-Control", "max-age=60"), ("Vary", "User-Agent")], text);
    });
    origin
}

fn text(weir: &Weir, target: &str, fields: &[(&str, &str)]) -> String {
    weir.get_with(target, fields).text()
}

/// The same conditions under each key, and the request that fulfils each of them.
const HOLD: [(&str, &[(&str, &str)]); 8] = [
    ("/a?preview=1", &[]),
    ("/a?x=1&%70review", &[]),
    ("/a?mode=draft2", &[]),
    ("/a", &[("Cookie", "b=1; mode=draft")]),
    ("/a", &[("X-Preview", "1")]),
    ("/drafts/a", &[]),
    ("/a", &[("X-Role", "editor")]),
    ("/a", &[("Cookie", "a=b; kind=draft")]),
];
/// Some origins read the first of two fields or cookies, some the last.
const DOUBTFUL: [&[(&str, &str)]; 4] = [
    &[("X-Role", "guest"), ("X-Role", "editor")],
    &[("X-Role", "editor"), ("X-Role", "guest")],
    &[("Cookie", "kind=a; kind=draft")],
    &[("Cookie", "kind=a"), ("Cookie", "kind=draft")],
];
const MAPS: &str = "[map.role]\nof = \"{header.X-Role}\"\nrules = [[\"~^edit\", \"may-edit\"]]\n\
                    default = \"reader\"\n\
                    [map.kind]\nof = \"{cookie.kind}\"\nrules = [[\"draft\", \"draft\"]]\n";
const CONDITIONS: &str = "{ query = [\"preview\", \"mode=draft*\"], cookies = [\"mode=draft\"], \
                          headers = [\"X-Preview\"], paths = [\"/drafts/**\"], \
                          map = [\"role=may-*\", \"kind\"] }";

#[test]
fn a_bypassing_request_neither_looks_nor_keeps() {
    let origin = counting();
    let weir = server(&[&origin]).site(&format!("bypass = {CONDITIONS}\n{MAPS}")).start();
    for (target, fields) in HOLD {
        let (first, second) = (text(&weir, target, fields), text(&weir, target, fields));
        assert_ne!(first, second, "{target}");
        assert_eq!(weir.get_with(target, fields).fwd().as_deref(), Some("bypass"), "{target}");
    }
    assert_eq!(
        weir.get_with("/a?mode=plain&previews", &[("Cookie", "mode=x")]).fwd().as_deref(),
        Some("uri-miss")
    );
}

#[test]
fn a_refreshing_request_does_not_look_but_keeps() {
    let origin = counting();
    let weir = server(&[&origin]).site(&format!("refresh = {CONDITIONS}\n{MAPS}")).start();
    for (target, fields) in HOLD {
        let first = text(&weir, target, fields);
        let second = text(&weir, target, fields);
        assert_ne!(first, second, "{target}");
        if target == "/a" {
            assert_eq!(text(&weir, target, &[]), second, "the newer one is kept");
        }
    }
}

#[test]
fn a_request_may_look_and_not_keep() {
    let origin = counting();
    let weir = server(&[&origin]).site(&format!("no_store = {CONDITIONS}\n{MAPS}")).start();
    for (target, fields) in HOLD {
        let (first, second) = (text(&weir, target, fields), text(&weir, target, fields));
        assert_ne!(first, second, "{target}: {:?}", weir.get_with(target, fields).head);
        let explained = weir.explain(&message("GET", "localhost", target, fields));
        assert_eq!((explained.verdict.word(), explained.reason), ("pass", "route-no-store"), "{target}");
        assert!(
            explained.no_store.iter().any(|text| text.ends_with("(this one)")),
            "{:?}",
            explained.no_store
        );
    }
    let kept = text(&weir, "/a", &[]);
    for (target, fields) in HOLD.into_iter().filter(|(target, _)| *target == "/a") {
        assert_eq!(text(&weir, target, fields), kept, "what is held answers it");
    }
}

/// A client cannot have an editor's page stored by a second field that the map does not read.
#[test]
fn a_request_in_doubt_is_not_stored_and_refreshes_nothing() {
    let origin = counting();
    let start = |key: &str| server(&[&origin]).site(&format!("{key} = {CONDITIONS}\n{MAPS}")).start();
    for fields in DOUBTFUL {
        let bypassing = start("bypass");
        assert_eq!(bypassing.get_with("/a", fields).fwd().as_deref(), Some("bypass"), "{fields:?}");
        assert_eq!(bypassing.explain(&message("GET", "localhost", "/a", fields)).reason, "bypass-map");
        let keeping = start("no_store");
        assert_ne!(text(&keeping, "/a", fields), text(&keeping, "/a", fields), "{fields:?}");
        let refreshing = start("refresh");
        let held = text(&refreshing, "/a", fields);
        assert_eq!(text(&refreshing, "/a", fields), held, "{fields:?}");
    }
}

#[test]
fn a_map_of_the_client_holds_by_its_address() {
    let origin = counting();
    let site = "bypass = { map = [\"place=office\"] }\nrefresh = { map = [\"place=desk\"] }\n\
                [map.place]\nof = \"{client.address}\"\n\
                rules = [[\"192.0.2.7\", \"desk\"], [\"192.0.2.0/24\", \"office\"], \
                [\"127.0.0.1\", \"desk\"]]\n";
    let weir = server(&[&origin]).top("trusted_proxies = [\"127.0.0.0/8\"]").site(site).start();
    weir.come_from("203.0.113.1");
    let held = text(&weir, "/a", &[]);
    assert_eq!(text(&weir, "/a", &[]), held);
    weir.come_from("192.0.2.9");
    assert_eq!(weir.get("/a").fwd().as_deref(), Some("bypass"));
    weir.come_from("192.0.2.7");
    let held = text(&weir, "/a", &[]);
    assert_ne!(text(&weir, "/a", &[]), held);
    // A proxy that names no client is not taken for it.
    weir.come_from("127.0.0.1");
    assert_eq!(weir.get_with("/a", &[("X-Forwarded-For", "unknown")]).fwd().as_deref(), Some("bypass"));
    assert_eq!(weir.get_with("/a", &[("X-Forwarded-For", "192.0.2.9")]).fwd().as_deref(), Some("bypass"));
}

#[test]
fn a_request_that_keeps_nothing_refreshes_nothing_stale() {
    let origin = Origin::start();
    origin.put("/", Resource::new("old").header("Cache-Control", "max-age=1, stale-while-revalidate=600"));
    let weir = server(&[&origin]).site("no_store = { headers = [\"X-Odd\"] }\n").start();
    weir.get("/");
    weir.later(Duration::from_secs(5));
    origin.put("/", Resource::new("odd").header("Cache-Control", "max-age=600"));
    assert_eq!(text(&weir, "/", &[("X-Odd", "1")]), "old");
    assert_eq!(origin.total(), 1);
    assert_eq!(weir.get("/").text(), "old", "goes out stale, and is refreshed");
    assert_eq!((weir.get("/").text().as_str(), origin.total()), ("odd", 2));
}

#[test]
fn conditions_hold_by_method_and_client() {
    let origin = counting();
    let site = "bypass = { clients = [\"192.0.2.0/24\"] }\nno_store = { clients = [\"198.51.100.7\"] }\n\
                refresh = { methods = [\"HEAD\"] }\n";
    let weir = server(&[&origin]).top("trusted_proxies = [\"127.0.0.0/8\"]").site(site).start();
    weir.come_from("203.0.113.1");
    let held = text(&weir, "/a", &[]);
    assert_eq!(text(&weir, "/a", &[]), held);
    weir.come_from("192.0.2.9");
    assert_ne!(text(&weir, "/a", &[]), held);
    weir.come_from("198.51.100.7");
    assert_eq!(text(&weir, "/a", &[]), held);
    assert_ne!(text(&weir, "/b", &[]), text(&weir, "/b", &[]));
    // A trusted proxy names the client. Where it does not, nothing is stored or answered from the cache.
    weir.come_from("127.0.0.1");
    let of = |client: &str| text(&weir, "/a", &[("X-Forwarded-For", client)]);
    assert_eq!(of("203.0.113.1"), held);
    for client in ["192.0.2.9", "203.0.113.1, 192.0.2.9", "unknown"] {
        assert_ne!(of(client), held, "{client}");
    }
    assert_eq!(text(&weir, "/a", &[("X-Forwarded-For", "192.0.2.9, 203.0.113.1")]), held);
}

#[test]
fn a_route_answers_the_clients_that_it_may() {
    let origin = counting();
    let routes = "[[site.route]]\nprefix = \"/allow\"\nallow = [\"192.0.2.0/24\"]\n\
                  [[site.route]]\nprefix = \"/deny\"\ndeny = [\"192.0.2.9\"]\n\
                  [[site.route]]\nprefix = \"/both\"\nallow = [\"192.0.2.0/24\"]\ndeny = [\"192.0.2.9\"]\n\
                  [[site.route]]\nprefix = \"/own\"\nallow = [\"192.0.2.0/24\"]\n\
                  answer = { body = \"own\" }\n";
    let weir = server(&[&origin]).top("trusted_proxies = [\"127.0.0.0/8\"]").site(routes).start();
    for (client, refused) in [
        ("192.0.2.9", &["/deny", "/both"][..]),
        ("192.0.2.8", &[]),
        ("203.0.113.1", &["/allow", "/both", "/own"]),
    ] {
        // First the page is stored by a client that may have it.
        weir.come_from("192.0.2.8");
        let paths = ["/allow", "/deny", "/both", "/own", "/other"];
        paths.iter().for_each(|path| drop(weir.get(path)));
        weir.come_from(client);
        for path in paths {
            let status = if refused.contains(&path) { 403 } else { 200 };
            let answer = weir.get(path);
            assert_eq!(answer.status(), status, "{client} {path}");
            assert!(status == 200 || answer.header("cache-control").as_deref() == Some("no-store"));
        }
    }
    // What cannot be known is refused: a client could else hide behind a proxy.
    weir.come_from("127.0.0.1");
    for path in ["/allow", "/deny", "/both", "/own"] {
        let hidden = [("X-Forwarded-For", "192.0.2.8, unknown")];
        assert_eq!(weir.get_with(path, &hidden).status(), 403, "{path}");
    }
    assert_eq!(weir.get_with("/allow", &[("X-Forwarded-For", "192.0.2.8")]).status(), 200);
}

#[test]
fn a_query_out_of_the_key_still_reaches_the_origin() {
    let origin = counting();
    let weir = server(&[&origin]).site("key = { query = \"none\" }\nrate = { query = \"rate\" }\n").start();
    let first = text(&weir, "/a?b=1&rate=1MB/s", &[]);
    assert_eq!(first, "0 /a?b=1");
    assert_eq!(text(&weir, "/a?b=2", &[]), first);
    assert_eq!(text(&weir, "/a", &[]), first);
    let explained = weir.explain(&message("GET", "localhost", "/a?b=2", &[]));
    assert_eq!((explained.verdict.word(), explained.dropped.len()), ("hit", 0));
    assert!(explained.not_in_key.contains(&"the query".to_owned()));
    // A change by any query is a change of what is held.
    weir.send("POST /a?b=3 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_ne!(text(&weir, "/a?b=2", &[]), first);
}

#[test]
fn an_ignored_field_makes_no_variants() {
    let origin = counting();
    let agent = |name| [("User-Agent", name)];
    let weir = server(&[&origin]).site("vary = { ignore = [\"User-Agent\"] }\n").start();
    assert_eq!(text(&weir, "/", &agent("a")), text(&weir, "/", &agent("b")));
    assert_eq!(weir.get("/").header("vary").as_deref(), Some("User-Agent"), "other caches are told");
    let by_default = server(&[&origin]).start();
    assert_ne!(text(&by_default, "/", &agent("a")), text(&by_default, "/", &agent("b")));
}
