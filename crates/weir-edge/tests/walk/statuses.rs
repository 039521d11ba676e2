//! What a route says by status: which failures leave the stored response in its place, and which directives
//! of the origin do not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_testkit::{Origin, Resource};

use crate::kit::{message, server};

const IGNORE: &str = "ignore = [\"no-store\", \"private\", \"no-cache\"]\nttl_override = { any = \"1h\" }\n";

#[test]
fn a_status_that_the_route_names_is_answered_stale_within_its_window() {
    let origin = Origin::start();
    let good = Resource::new("good").header("Cache-Control", "max-age=1").etag("\"1\"");
    let site = "ttl = { 404 = \"1h\" }\n\
                stale = { if_status = { \"403,404\" = \"10s\", 4xx = \"5s\" }, if_unreachable = \"0s\" }\n";
    for (status, window_s) in [(403, 10), (404, 10), (429, 5), (401, 5), (410, 5), (500, 0), (302, 0)] {
        let path = format!("/{status}");
        origin.put(&path, good.clone());
        let weir = server(&[&origin]).site(site).start();
        assert_eq!(weir.get(&path).text(), "good");
        origin.put(&path, Resource::new("bad").status(status));
        weir.later(Duration::from_millis(2100));
        for _ in 0..3 {
            let answer = weir.get(&path);
            assert_eq!(answer.text() == "good", window_s > 0, "{status}: {:?}", answer.head);
            let said = answer.cache_status();
            assert_eq!(said.contains("detail=stale-if-status"), window_s > 0, "{status}: {said}");
        }
        if window_s > 0 {
            // A HEAD that finds nothing does not take the stored response away.
            weir.send(&format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            assert_eq!(weir.get(&path).text(), "good", "{status}");
            weir.later(Duration::from_secs(window_s));
        }
        let answer = weir.get(&path);
        assert_eq!((answer.status(), answer.text().as_str()), (status, "bad"), "{:?}", answer.head);
        assert_eq!(weir.get(&path).is_hit(), status == 404, "{status}: then its own lifetime counts");
    }
}

#[test]
fn an_error_with_a_lifetime_of_the_route_is_kept_again_and_again_and_never_in_place_of_what_may_go_out() {
    let origin = Origin::start();
    let site = "ttl = { 5xx = \"20s\" }\nstale = { if_error = \"10s\" }\n";
    origin.put("/x", Resource::new("good").header("Cache-Control", "max-age=1"));
    let weir = server(&[&origin]).site(site).start();
    assert_eq!(weir.get("/x").text(), "good");
    origin.put("/x", Resource::new("bad").status(503));
    weir.later(Duration::from_secs(2));
    for _ in 0..2 {
        assert!(weir.get("/x").cache_status().contains("stale-if-error"));
    }
    weir.later(Duration::from_secs(10));
    for round in 0..3 {
        let asked = origin.count("/x");
        assert_eq!(weir.get("/x").text(), "bad", "{round}");
        let second = weir.get("/x");
        assert!(second.is_hit() && second.status() == 503, "{round}: {:?}", second.head);
        assert_eq!(origin.count("/x"), asked + 1, "{round}");
        weir.later(Duration::from_secs(30));
    }
    origin.put("/x", Resource::new("good").header("Cache-Control", "max-age=1"));
    assert_eq!(weir.get("/x").text(), "good");
}

#[test]
fn what_the_route_ignores_is_stored_and_still_told_to_clients() {
    let origin = Origin::start();
    let php = "no-store, no-cache, must-revalidate";
    for (path, status) in [("/page", 200), ("/gone", 404)] {
        let resource = Resource::new("body").status(status).header("Cache-Control", php);
        origin.put(path, resource.header("Expires", "Thu, 19 Nov 1981 08:52:00 GMT"));
    }
    let weir = server(&[&origin]).site(IGNORE).start();
    for path in ["/page", "/gone"] {
        weir.get(path);
        let second = weir.get(path);
        assert!(second.is_hit(), "{path}: {:?}", second.head);
        assert_eq!(second.header("cache-control").as_deref(), Some(php), "{path}");
    }
    // By status: the page stays the client's own.
    let some = "ignore = { 404 = [\"no-store\", \"no-cache\"] }\nttl_override = { any = \"1h\" }\n";
    let weir = server(&[&origin]).site(some).start();
    for (path, is_kept) in [("/page", false), ("/gone", true)] {
        weir.get(path);
        assert_eq!(weir.get(path).is_hit(), is_kept, "{path}");
    }
}

#[test]
fn in_spite_of_the_origin_nothing_is_stored_that_may_be_for_one_client() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let cookie = exchange.request.header("x-sets").map(|value| ("Set-Cookie", value));
        let mut fields = vec![("Cache-Control", "private, must-revalidate")];
        if let Some((name, value)) = &cookie {
            fields.push((*name, value.as_str()));
        }
        let text = exchange.request.raw.clone();
        exchange.reply(200, &fields, text);
    });
    for more in ["", "set_cookie = \"strip\"\n", "set_cookie = \"store\"\n"] {
        let weir = server(&[&origin]).site(&format!("{IGNORE}{more}")).start();
        for (number, own) in
            [("Cookie", "session=1"), ("Authorization", "Basic eA=="), ("X-Sets", "session=1")]
                .iter()
                .enumerate()
        {
            let path = format!("/{number}");
            let first = weir.get_with(&path, &[*own]);
            let said = first.cache_status();
            assert!(
                ["request-cookie", "authorization", "set-cookie"].iter().any(|why| said.contains(why)),
                "{said}"
            );
            assert!(!weir.get(&path).is_hit(), "{more} {own:?}");
            // A cookie that was set a moment ago sends one more request past the cache.
            weir.get(&path);
            assert!(weir.get(&path).is_hit(), "{more} {own:?}: that of nobody is stored");
        }
    }
    let keyed = server(&[&origin]).site(&format!("{IGNORE}key = {{ cookies = [\"lang\"] }}\n")).start();
    for (cookie, is_kept) in [("lang=de", true), ("lang=de; session=1", false), ("lang=fr", true)] {
        keyed.get_with("/k", &[("Cookie", cookie)]);
        let second = keyed.get_with("/k", &[("Cookie", cookie)]);
        let expect = is_kept || cookie.contains("lang=de");
        assert_eq!(second.is_hit(), expect, "{cookie}: the key is of `lang` alone");
        assert!(!second.text().contains("session") || !second.is_hit(), "{cookie}");
    }
}

/// RFC 9110 §13.2.1, §15.4.5: a 304 to a condition on a date confirms the file that has appeared with an
/// older date, and not the 404 that is stored. A status outside of 2xx is asked for whole.
#[test]
fn what_is_no_success_is_never_renewed_by_a_304() {
    const PAGE: &str = "Wed, 01 Jan 2025 00:00:00 GMT";
    const OLDER: &str = "Mon, 01 Jan 2024 00:00:00 GMT";
    let rules = ["", "ttl = { any = \"1s\" }\n", "ignore = [\"no-cache\"]\n"];
    for (status, site) in
        [404, 410, 300, 301, 302, 308, 403, 405, 503].into_iter().zip(rules.into_iter().cycle())
    {
        let origin = Origin::start();
        let is_there = Arc::new(AtomicBool::new(false));
        let looked = is_there.clone();
        origin.on("/x", move |exchange| {
            let fresh = ("Cache-Control", "max-age=1");
            let is_asked = exchange.request.header("if-modified-since").is_some();
            match looked.load(Ordering::SeqCst) {
                false => drop(exchange.reply(status, &[fresh, ("Last-Modified", PAGE)], "none")),
                // As Apache, Node and most others: any date that is not older.
                true if is_asked => drop(exchange.reply(304, &[fresh, ("Last-Modified", OLDER)], "")),
                true => drop(exchange.reply(200, &[fresh, ("Last-Modified", OLDER)], "file")),
            }
        });
        let weir = server(&[&origin]).site(site).start();
        assert_eq!((weir.get("/x").status(), weir.get("/x").is_hit()), (status, true), "it is stored");
        is_there.store(true, Ordering::SeqCst);
        weir.later(Duration::from_millis(2100));
        let explained = weir.explain(&message("GET", "localhost", "/x", &[]));
        let fields = explained.asked.map(|asked| asked.headers).unwrap_or_default();
        assert!(!fields.iter().any(|(name, _)| name.starts_with("if-")), "{status}: {fields:?}");
        for _ in 0..2 {
            let now = weir.get("/x");
            assert_eq!((now.status(), now.text().as_str()), (200, "file"), "{status}: {:?}", now.head);
        }
        let conditions =
            origin.requests("/x").iter().filter(|asked| asked.header("if-modified-since").is_some()).count();
        assert_eq!(conditions, 0, "{status}");
        // A success is asked about.
        weir.later(Duration::from_millis(2100));
        assert_eq!(weir.get("/x").text(), "file");
        assert!(origin.requests("/x").last().unwrap().header("if-modified-since").is_some(), "{status}");
    }
}
