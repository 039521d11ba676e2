//! Hostile requests against what a site says for itself: no spelling leaves the place that a rule of
//! `rewrite` gives, and no client decides by failures or floods what others get.

use std::time::Duration;

use weir_testkit::{Origin, Resource};

use crate::kit::server;

/// An origin that answers everything.
fn open() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.reply(200, &[("Cache-Control", "max-age=600")], "page");
    });
    origin
}

#[test]
fn no_spelling_leaves_the_place_that_a_rule_gives() {
    let long = "%2e".repeat(2000);
    let tails = [
        "x",
        "..",
        "../x",
        "%2e%2e/x",
        "%2E%2E%2Fx",
        "..%2fx",
        "..%5cx",
        "..\\x",
        "..;/x",
        ".;x/y",
        "a/../../x",
        "a/.%2e/x",
        "%2e",
        ".",
        "a/.",
        "./../x",
        "%00",
        "..%00/x",
        "%0d%0aHost:%20evil",
        "%0aX:%20y",
        "/x",
        "//x",
        "/../x",
        "http://evil.example/",
        "%252e%252e/x",
        "%c0%ae%c0%ae/x",
        "{1}",
        "{query}",
        "%7b1%7d",
        "x%3fa=b",
        "x%23a",
        "x?../../y",
        "x?a=%0d%0aX:y",
        "a%2f..%2f..%2fx",
        &long,
    ];
    for key in ["", "key = { path = \"rewritten\" }\n"] {
        for rule in [
            "{ from = \"/app/**\", to = \"/inner/{1}\" }",
            "{ regex = '^/app/(.*)$', to = \"/inner/{1}\" }",
            "{ from = \"/app/**\", to = \"/inner/{1}?{query}\" }",
        ] {
            let origin = open();
            let weir = server(&[&origin]).site(&format!("{key}rewrite = [{rule}]\n")).start();
            for tail in tails {
                let asked = origin.total();
                let answer = weir.get(&format!("/app/{tail}"));
                let targets: Vec<String> =
                    origin.seen().iter().skip(asked).map(|seen| seen.request.target.clone()).collect();
                assert!(matches!(answer.status(), 200 | 400), "{tail:.40}: {:?}", answer.head);
                for target in targets {
                    let path = target.split('?').next().unwrap();
                    assert!(path.starts_with("/inner/"), "{tail:.40}: {target}");
                    assert!(!weir_policy::has_dot_segment(path), "{tail:.40}: {target}");
                    assert!(target.bytes().all(|byte| byte.is_ascii_graphic()), "{tail:.40}: {target}");
                    let written = path.strip_prefix("/inner/").unwrap();
                    assert_eq!(written, tail.split('?').next().unwrap(), "nothing is decoded or encoded");
                }
            }
        }
    }
}

#[test]
fn a_failure_that_one_client_causes_keeps_nobody_else_on_what_is_stale() {
    for status in [403, 404, 410, 429] {
        let origin = Origin::start();
        let version = std::sync::atomic::AtomicUsize::new(0);
        origin.on("/x", move |exchange| {
            match exchange.request.header("x-odd") {
                Some(_) => exchange.reply(status, &[("Cache-Control", "max-age=600")], "evil"),
                None => {
                    let number = version.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    exchange.reply(200, &[("Cache-Control", "max-age=1")], number.to_string())
                }
            };
        });
        let weir = server(&[&origin]).site("stale = { if_status = { 4xx = \"1h\" } }\n").start();
        assert_eq!(weir.get("/x").text(), "0");
        for number in 1..4 {
            weir.later(Duration::from_secs(3));
            for _ in 0..3 {
                let odd = weir.get_with("/x", &[("X-Odd", "1")]);
                assert!(odd.text() != "evil" || odd.status() == status, "{:?}", odd.head);
            }
            let clean = weir.get("/x");
            assert_eq!(clean.text(), number.to_string(), "{status}: {:?}", clean.head);
        }
    }
}

#[test]
fn a_stored_404_goes_out_to_nobody_for_whom_the_origin_has_more() {
    let origin = Origin::start();
    origin.put("/x", Resource::new("none yet").status(404));
    let weir =
        server(&[&origin]).site("ttl = { 404 = \"1s\" }\nstale = { if_status = { 4xx = \"1h\" } }\n").start();
    assert_eq!(weir.get("/x").status(), 404);
    origin.on("/x", |exchange| {
        match exchange.request.header("x-odd") {
            Some(_) => exchange.reply(429, &[], "evil"),
            None => exchange.reply(200, &[("Cache-Control", "no-cache")], "here"),
        };
    });
    weir.later(Duration::from_secs(3));
    for _ in 0..3 {
        assert_ne!(weir.get_with("/x", &[("X-Odd", "1")]).status(), 200);
        assert_eq!(weir.get("/x").text(), "here");
    }
}

#[test]
fn a_flood_of_urls_neither_stores_them_nor_keeps_others_out() {
    let origin = open();
    let weir = server(&[&origin]).site("min_uses = 3\n").start();
    let flood = |from: usize| {
        for number in from..from + 1000 {
            assert!(!weir.get(&format!("/flood/{number}")).is_hit());
        }
    };
    for round in 0..3 {
        flood(round * 1000);
        assert!(!weir.get("/victim").is_hit(), "{round}");
    }
    assert!(weir.get("/victim").is_hit(), "three requests are three, whatever comes between");
    for number in (0..3000).step_by(100) {
        let url = format!("/flood/{number}");
        assert!(!weir.get(&url).is_hit() && !weir.get(&url).is_hit(), "{url} was asked for once");
        assert!(weir.get(&url).is_hit(), "{url}");
    }
}
