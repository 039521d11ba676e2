//! `/./` in paths: removed before key, routes and origin see the path. Other dot segments go past the cache.

use weir_testkit::Origin;

use crate::kit::{message, server};

/// An origin that answers with its target, fresh for a minute.
fn told() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let target = exchange.request.target.clone();
        exchange.reply(200, &[("Cache-Control", "max-age=60")], format!("[{target}]"));
    });
    origin
}

#[test]
fn a_path_with_single_dots_is_that_without_them() {
    let origin = told();
    let weir = server(&[&origin]).start();
    assert_eq!(weir.get("/debian/./pool/./a.deb?x=/./y").text(), "[/debian/pool/a.deb?x=/./y]");
    for same in ["/debian/pool/a.deb?x=/./y", "/./debian/././pool/a.deb?x=/./y"] {
        assert!(weir.get(same).is_hit(), "{same}");
    }
    assert!(!weir.get("/debian/pool/a.deb?x=/y").is_hit(), "the query is another");
    assert_eq!(origin.total(), 2);
    let told = weir.explain(&message("GET", "localhost", "/debian/./pool/a.deb?x=/./y", &[]));
    assert_eq!(
        (told.verdict.word(), told.asked.unwrap().line.as_str()),
        ("hit", "GET /debian/pool/a.deb?x=/./y")
    );
}

#[test]
fn routes_see_the_path_without_single_dots() {
    let origin = told();
    let site = "[[site.route]]\nprefix = \"/closed/\"\nanswer = { status = 403, body = \"closed\" }\n";
    let weir = server(&[&origin]).site(site).start();
    for path in ["/closed/x", "/./closed/x", "/closed/./x", "/././closed/././x"] {
        assert_eq!(weir.get(path).status(), 403, "{path}");
    }
    assert_eq!(weir.get("/open/./x").text(), "[/open/x]");
}

#[test]
fn other_dot_segments_go_past_the_cache_as_they_are() {
    let origin = told();
    let weir = server(&[&origin]).start();
    for (path, asked) in [
        ("/a/..", "/a/.."),
        ("/a/../b", "/a/../b"),
        ("/a/./../b", "/a/../b"),
        ("/a/.", "/a/."),
        ("/a/%2e/b", "/a/%2e/b"),
        ("/a/%2E/./b", "/a/%2E/b"),
        ("/a/%2e%2e/./b", "/a/%2e%2e/b"),
        ("/a/.%2fb", "/a/.%2fb"),
        ("/a/.;/b", "/a/.;/b"),
        ("/a/.\\b", "/a/.\\b"),
    ] {
        for _ in 0..2 {
            let answer = weir.get(path);
            assert_eq!(answer.text(), format!("[{asked}]"), "{path}");
            assert!(answer.cache_status().contains("dot-segment"), "{path}: {:?}", answer.head);
        }
    }
}
