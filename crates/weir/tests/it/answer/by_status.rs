//! What a site says by status: lifetimes, failures that leave the stored response in its place, and
//! directives that do not count.

use std::time::Duration;

use weir_testkit::{Origin, Resource, until};

use crate::server::server;

/// Whether the second answer came from the cache.
fn is_kept(weir: &weir_testkit::Weir, path: &str) -> bool {
    weir.get(path);
    weir.get(path).is_hit()
}

#[test]
fn lifetimes_by_status_hold_in_the_running_program_and_change_with_a_reload() {
    let origin = Origin::start();
    origin.put("/page", Resource::new("page"));
    origin.put("/gone", Resource::new("gone").status(404));
    origin.put("/down", Resource::new("down").status(503));
    let plain = server(&[&origin]).site("ttl = \"1h\"");
    let text = plain.text();
    let weir = plain.start();
    assert!(is_kept(&weir, "/page"));
    assert!(!is_kept(&weir, "/gone") && !is_kept(&weir, "/down"), "`ttl` alone is not for errors");
    let table = "ttl = { 200 = \"1h\", 404 = \"1m\", 5xx = \"1s\" }";
    weir.rewrite_config(&text.replace("ttl = \"1h\"", table));
    let told = weir.reload();
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(is_kept(&weir, "/page"));
    // What was not stored a moment ago is fetched past the cache once.
    until("a 404 is kept", || is_kept(&weir, "/gone"));
    let asked = origin.count("/down");
    until("a 503 is kept for a second", || is_kept(&weir, "/down"));
    until("and then asked for again", || {
        weir.get("/down");
        origin.count("/down") > asked + 1
    });
    let explained = weir.command(&["explain", "http://localhost/gone"]);
    let explained = explained.stdout;
    assert!(explained.contains(table) && explained.contains("of 60 s (ttl)"), "{explained}");
}

#[test]
fn a_status_that_the_route_names_leaves_the_stored_response_in_its_place() {
    let origin = Origin::start();
    let good = Resource::new("good").header("Cache-Control", "max-age=1").etag("\"1\"");
    for status in [403, 404, 429, 410] {
        origin.put(&format!("/{status}"), good.clone());
    }
    let weir = server(&[&origin]).site("stale = { if_status = { \"403,404,429\" = \"1h\" } }").start();
    for status in [403, 404, 429, 410] {
        assert_eq!(weir.get(&format!("/{status}")).text(), "good");
        origin.put(&format!("/{status}"), Resource::new("bad").status(status));
    }
    std::thread::sleep(Duration::from_millis(2100));
    for status in [403, 404, 429] {
        for _ in 0..2 {
            let answer = weir.get(&format!("/{status}"));
            assert_eq!((answer.status(), answer.text().as_str()), (200, "good"), "{status}");
            assert!(answer.cache_status().contains("stale-if-status"), "{:?}", answer.head);
        }
    }
    assert_eq!(weir.get("/410").status(), 410, "it is not named");
    origin.put("/404", Resource::fresh("new").etag("\"2\""));
    until("what is good again is stored", || weir.get("/404").text() == "new");
}

#[test]
fn directives_that_do_not_count_are_warned_of_and_still_go_out() {
    let origin = Origin::start();
    origin.on("/page", |exchange| {
        let own = exchange.request.header("cookie").unwrap_or_default();
        exchange.reply(200, &[("Cache-Control", "no-store, private")], format!("page of [{own}]"));
    });
    let site = "ignore = { 200 = [\"no-store\", \"private\"] }\nttl_override = \"1h\"";
    let server = server(&[&origin]).site(site);
    let text = server.text();
    let weir = server.start();
    let own = weir.get_with("/page", &[("Cookie", "session=secret")]);
    assert!(own.cache_status().contains("request-cookie"), "{:?}", own.head);
    assert_eq!(weir.get("/page").text(), "page of []");
    until("the page of nobody is stored", || weir.get("/page").is_hit());
    let again = weir.get_with("/page", &[("Cookie", "session=secret")]);
    assert_eq!((again.is_hit(), again.text().as_str()), (true, "page of []"));
    assert_eq!(again.header("cache-control").as_deref(), Some("no-store, private"));
    let file = weir.rewrite_config(&text);
    let checked = weir.command(&["check", &file.to_string_lossy()]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(checked.stderr.contains("`ignore` stores what the origin means for one client"), "{checked:?}");
}
