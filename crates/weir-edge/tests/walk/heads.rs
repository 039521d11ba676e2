//! HEAD that fills the cache: the origin is asked with a GET, and the client gets the head alone.

use weir_testkit::{Origin, Resource, Response};

use crate::kit::{Weir, message, server};

fn head(weir: &Weir, path: &str, fields: &[(&str, &str)]) -> Response {
    weir.send(&message("HEAD", "localhost", path, fields))
}

#[test]
fn a_head_fills_the_cache_and_gets_what_a_get_would_but_its_body() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello").etag("\"1\""));
    let weir = server(&[&origin]).site("head = \"fill\"").start();
    let first = head(&weir, "/x", &[]);
    assert_eq!((first.status(), first.text().as_str()), (200, ""));
    assert_eq!(first.header("content-length").as_deref(), Some("5"));
    assert!(first.cache_status().contains("stored"), "{:?}", first.head);
    assert_eq!(origin.requests("/x")[0].method, "GET");
    let second = head(&weir, "/x", &[]);
    assert!(second.is_hit() && second.header("content-length").as_deref() == Some("5"), "{:?}", second.head);
    let whole = weir.get("/x");
    assert!(whole.is_hit() && whole.text() == "hello", "{:?}", whole.head);
    assert_eq!(origin.count("/x"), 1);
    // Without the key a HEAD is passed on.
    let plain = server(&[&origin]).start();
    head(&plain, "/x", &[]);
    assert_eq!(origin.requests("/x")[1].method, "HEAD");
    assert!(!plain.get("/x").is_hit());
}

#[test]
fn a_head_that_fills_asks_for_no_range_and_keeps_its_conditions_to_itself() {
    let origin = Origin::start();
    origin.put("/r", Resource::fresh("hello").etag("\"1\"").ranges());
    origin.put("/c", Resource::fresh("hello").etag("\"1\""));
    let weir = server(&[&origin]).site("head = \"fill\"").start();
    let ranged = head(&weir, "/r", &[("Range", "bytes=1-2")]);
    assert_eq!((ranged.status(), ranged.header("content-length").as_deref()), (200, Some("5")));
    assert_eq!(origin.requests("/r")[0].header("range"), None);
    assert_eq!(head(&weir, "/c", &[("If-None-Match", "\"1\"")]).status(), 304);
    assert_eq!(origin.requests("/c")[0].header("if-none-match"), None);
    for path in ["/r", "/c"] {
        let whole = weir.get(path);
        assert!(whole.is_hit() && whole.text() == "hello", "{path}: {:?}", whole.head);
    }
}

#[test]
fn a_head_that_brings_nothing_storable_gets_its_head_and_stores_nothing() {
    let origin = Origin::start();
    origin.put("/own", Resource::new("hello").header("Cache-Control", "private"));
    origin.put("/down", Resource::new("sorry").status(503));
    origin.put("/none", Resource::new("").status(404));
    let weir = server(&[&origin]).site("head = \"fill\"").start();
    for (path, status, length) in [("/own", 200, "5"), ("/down", 503, "5"), ("/none", 404, "0")] {
        for _ in 0..3 {
            let answer = head(&weir, path, &[]);
            assert_eq!((answer.status(), answer.text().as_str()), (status, ""), "{path}");
            assert_eq!(answer.header("content-length").as_deref(), Some(length), "{path}");
            assert!(!answer.is_hit(), "{path}: {:?}", answer.head);
        }
    }
}

#[test]
fn a_head_revalidates_and_is_explained() {
    let origin = Origin::start();
    origin.put("/x", Resource::new("hello").header("Cache-Control", "max-age=60").etag("\"1\""));
    let weir = server(&[&origin]).site("head = \"fill\"").start();
    let question = message("HEAD", "localhost", "/x", &[]);
    let told = weir.explain(&question);
    assert!(told.because.contains("fills the cache"), "{}", told.because);
    assert_eq!(told.asked.unwrap().line, "GET /x");
    head(&weir, "/x", &[]);
    weir.later(std::time::Duration::from_secs(61));
    let again = head(&weir, "/x", &[]);
    assert!(again.status() == 200 && again.cache_status().contains("fwd-status=304"), "{:?}", again.head);
    let asked = origin.requests("/x");
    assert_eq!(asked[1].header("if-none-match").as_deref(), Some("\"1\""));
    assert!(weir.get("/x").is_hit());
    let stale = server(&[&origin]).site("head = \"fill\"\nstale = { if_status = { 404 = \"1h\" } }").start();
    head(&stale, "/x", &[]);
    stale.later(std::time::Duration::from_secs(61));
    origin.put("/x", Resource::new("gone").status(404));
    assert_eq!(head(&stale, "/x", &[]).status(), 200);
}
