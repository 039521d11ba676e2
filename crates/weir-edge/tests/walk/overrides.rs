//! Fields that name another method, URL, host or scheme: which of them an origin gets, and what they decide.

use std::collections::BTreeSet;

use weir_testkit::{Origin, Resource};

use crate::kit::{Weir, message, server};

/// They name a method alone, and go through with unsafe ones.
const OF_METHOD: [&str; 3] = ["X-HTTP-Method", "X-HTTP-Method-Override", "X-Method-Override"];

/// They never go through.
const NEVER: [&str; 44] = [
    "Client-Cert",
    "Client-Cert-Chain",
    "Forwarded",
    "Front-End-Https",
    "Http-Host",
    "Proxy",
    "Translate",
    "X-Envoy-Original-Path",
    "X-Forwarded",
    "X-Forwarded-Base-Url",
    "X-Forwarded-Method",
    "X-Forwarded-Path",
    "X-Forwarded-Prefix",
    "X-Forwarded-Protocol",
    "X-Forwarded-Request-Uri",
    "X-Forwarded-Scheme",
    "X-Forwarded-Server",
    "X-Forwarded-Ssl",
    "X-Forwarded-Uri",
    "X-Forwarded-Url",
    "X-Host",
    "X-Host-Override",
    "X-HTTP-Host-Override",
    "X-HTTP-Path-Override",
    "X-Invoke-Path",
    "X-Matched-Path",
    "X-Method",
    "X-Middleware-Subrequest",
    "X-MS-Original-URL",
    "X-Now-Route-Matches",
    "X-Orig-Url",
    "X-Original-Host",
    "X-Original-Method",
    "X-Original-Path",
    "X-Original-Uri",
    "X-Original-URL",
    "X-Override-Url",
    "X-Proxy-Url",
    "X-Real-Host",
    "X-Request-Uri",
    "X-Rewrite-Uri",
    "X-Rewrite-URL",
    "X-Scheme",
    "X-Url-Scheme",
];

fn echo() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.body();
        exchange.reply(200, &[("Cache-Control", "max-age=60")], "done");
    });
    origin
}

fn send(weir: &Weir, method: &str, path: &str, fields: &[(&str, &str)]) -> weir_testkit::Response {
    let fields = [&[("Content-Length", "0")], fields].concat();
    let fields = if matches!(method, "GET" | "HEAD") { &fields[1..] } else { &fields[..] };
    weir.send(&message(method, "localhost", path, fields))
}

#[test]
fn each_name_goes_through_where_it_may_and_nowhere_else() {
    let listed: BTreeSet<String> =
        NEVER.iter().chain(&OF_METHOD).map(|name| name.to_ascii_lowercase()).collect();
    let stripped: BTreeSet<String> =
        weir_edge::transform::request::STRIPPED.iter().map(ToString::to_string).collect();
    assert_eq!(listed, stripped, "each name has its line here");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/behind.md");
    let page = std::fs::read_to_string(page).unwrap().to_ascii_lowercase();
    let origin = echo();
    let weir = server(&[&origin]).start();
    for name in NEVER.iter().chain(&OF_METHOD) {
        assert!(page.contains(&format!("`{}`", name.to_ascii_lowercase())), "{name} is not in behind.md");
        for method in
            ["GET", "HEAD", "OPTIONS", "QUERY", "PROPFIND", "POST", "PUT", "PATCH", "DELETE", "FROB"]
        {
            let is_unsafe = matches!(method, "POST" | "PUT" | "PATCH" | "DELETE" | "FROB");
            let path = format!("/{name}/{method}");
            let names = [(*name, "PUT"), ("X-Kept", "1")];
            assert_eq!(send(&weir, method, &path, &names).status(), 200, "{name} {method}");
            let asked = &origin.requests(&path)[0];
            let expect = is_unsafe && OF_METHOD.contains(name);
            assert_eq!(asked.header(name).is_some(), expect, "{name} {method}");
            assert!(asked.header("x-kept").is_some(), "{name} {method}");
            for mark in ["_", ".", "!"] {
                let respelled = name.replace('-', mark);
                if respelled != *name {
                    let path = format!("/{respelled}/{method}");
                    send(&weir, method, &path, &[(&respelled, "PUT")]);
                    assert_eq!(origin.requests(&path)[0].header(&respelled), None, "{respelled} {method}");
                }
            }
            let explained = weir.explain(&message(method, "localhost", &path, &names));
            let lost = explained.asked.unwrap().lost;
            assert_eq!(lost.contains(&name.to_ascii_lowercase()), !expect, "{name} {method}: {lost:?}");
            assert!(!lost.contains(&"x-kept".to_owned()), "{lost:?}");
        }
    }
}

#[test]
fn a_route_is_asked_about_both_methods_and_the_strictest_decides() {
    let origin = echo();
    let site = "[[site.route]]\nmethod = [\"DELETE\"]\ndeny = [\"0.0.0.0/0\"]\n\
                [[site.route]]\nmethod = [\"PUT\"]\nanswer = { status = 405, body = \"none\" }\n\
                [[site.route]]\nmethod = [\"PATCH\"]\n";
    let weir = server(&[&origin]).site(site).start();
    for (method, fields, status) in [
        ("POST", &[][..], 200),
        ("DELETE", &[], 403),
        ("POST", &[("X-HTTP-Method-Override", "DELETE")], 403),
        ("POST", &[("X-HTTP-Method-Override", "delete")], 403),
        ("POST", &[("X-HTTP-Method-Override", " Delete ")], 403),
        ("POST", &[("X-HTTP-Method", "DELETE")], 403),
        ("POST", &[("X-Method-Override", "DELETE")], 403),
        ("PUT", &[("X-Method-Override", "DELETE")], 403),
        ("DELETE", &[("X-Method-Override", "POST")], 403),
        ("POST", &[("X-HTTP-Method-Override", "PUT")], 405),
        ("PUT", &[("X-HTTP-Method-Override", "POST")], 405),
        ("POST", &[("X-HTTP-Method-Override", "PATCH")], 200),
        ("POST", &[("X-HTTP-Method-Override", "GET")], 200),
        ("POST", &[("X-HTTP-Method-Override", "")], 200),
        ("POST", &[("X-HTTP-Method-Override", "PATCH"), ("X-HTTP-Method", "patch")], 200),
        ("POST", &[("X-HTTP-Method-Override", "PATCH"), ("X-HTTP-Method", "DELETE")], 400),
        ("POST", &[("X-HTTP-Method-Override", "PATCH"), ("X-HTTP-Method-Override", "DELETE")], 400),
        ("POST", &[("X-HTTP-Method-Override", "PATCH, DELETE")], 400),
        // A safe method is overridden by nothing: the field goes nowhere.
        ("GET", &[("X-HTTP-Method-Override", "DELETE")], 200),
    ] {
        let before = origin.total();
        let answer = send(&weir, method, "/x", fields);
        assert_eq!(answer.status(), status, "{method} {fields:?}: {:?}", answer.head);
        assert_eq!(origin.total() > before, status == 200, "{method} {fields:?}");
        let word = answer.cache_status();
        assert_eq!(word.contains("method-override"), status == 400, "{word}");
    }
    // Another method's route does not make a path ambiguous.
    let answer = send(&weir, "POST", "/a/..;/b", &[("X-HTTP-Method-Override", "PATCH")]);
    assert_eq!(answer.status(), 200, "{:?}", answer.head);
}

/// WordPress's editor moves a post to the trash so.
#[test]
fn what_overrides_its_method_stores_nothing_and_invalidates() {
    let origin = Origin::start();
    origin.on("/x", |exchange| {
        exchange.body();
        let fields = [("Cache-Control", "max-age=60"), ("Content-Location", "/x")];
        exchange.reply(200, &fields, exchange.request.method.clone());
    });
    let weir = server(&[&origin]).start();
    // Without one it is stored: it says so itself.
    send(&weir, "POST", "/x", &[]);
    assert_eq!(weir.get("/x").text(), "POST");
    for by in ["DELETE", "PUT", "GET", "head", "QUERY"] {
        assert!(weir.get("/x").is_hit(), "{by}");
        let answer = send(&weir, "POST", "/x", &[("X-HTTP-Method-Override", by)]);
        assert!(!answer.cache_status().contains("stored"), "{by}: {:?}", answer.head);
        let next = weir.get("/x");
        assert!(!next.is_hit() && next.text() == "GET", "{by}: {:?}", next.head);
    }
    origin.put("/y", Resource::fresh("y"));
    assert!(!weir.get("/y").is_hit() && weir.get("/y").is_hit(), "others stay");
}
