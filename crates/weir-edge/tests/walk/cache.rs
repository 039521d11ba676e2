//! Which requests the store answers, and which not: RFC 9111.

use std::time::Duration;

use weir_observe::Count;
use weir_testkit::{Origin, Resource, Response, pattern, until};

use crate::kit::{Weir, before, server};

fn one(resource: Resource) -> (Origin, Weir) {
    let origin = Origin::start();
    origin.put("/x", resource);
    let weir = before(&origin);
    (origin, weir)
}

/// Asks twice and says how both were answered.
fn twice(weir: &Weir, headers: &[(&str, &str)]) -> (Response, Response) {
    (weir.get_with("/x", headers), weir.get_with("/x", headers))
}

#[test]
fn both_directions_name_weir() {
    let (origin, weir) = one(Resource::fresh("hello"));
    let (first, second) = twice(&weir, &[]);
    assert!(first.header("via").is_some() && second.header("via").is_some(), "{:?}", second.head);
    let asked = &origin.requests("/x")[0];
    assert!(asked.header("via").is_some_and(|via| via.starts_with("1.1 ")), "{asked:?}");
    assert!(asked.header("cdn-loop").is_some_and(|id| !id.is_empty()), "{asked:?}");
    assert!(asked.header("x-request-id").is_some_and(|id| !id.is_empty()), "{asked:?}");
    assert_eq!(asked.header("x-forwarded-proto").as_deref(), Some("http"));
}

#[test]
fn no_cache_is_revalidated_each_time() {
    let (origin, weir) = one(Resource::new("hello").header("Cache-Control", "no-cache").etag("\"1\""));
    let (first, second) = twice(&weir, &[]);
    assert_eq!((first.status(), second.status()), (200, 200));
    assert_eq!(second.text(), "hello");
    let asked = origin.requests("/x");
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].header("if-none-match"), None);
    assert_eq!(asked[1].header("if-none-match").as_deref(), Some("\"1\""));
    assert_eq!(second.fwd().as_deref(), Some("stale"), "{:?}", second.head);
}

#[test]
fn a_revalidation_by_date_works_too() {
    let (origin, weir) = one(Resource::new("hello")
        .header("Cache-Control", "no-cache")
        .modified_ago(Duration::from_secs(3600)));
    let (_, second) = twice(&weir, &[]);
    assert_eq!(second.text(), "hello");
    assert!(origin.requests("/x")[1].header("if-modified-since").is_some());
}

#[test]
fn a_changed_object_replaces_the_old_one() {
    let (origin, weir) = one(Resource::new("old").header("Cache-Control", "no-cache").etag("\"1\""));
    assert_eq!(weir.get("/x").text(), "old");
    origin.put("/x", Resource::fresh("new").etag("\"2\""));
    assert_eq!(weir.get("/x").text(), "new");
    let third = weir.get("/x");
    assert_eq!(third.text(), "new");
    assert!(third.is_hit(), "{:?}", third.head);
}

#[test]
fn a_freshened_object_is_hit_again() {
    let origin = Origin::start();
    origin.put("/x", Resource::new("hello").header("Cache-Control", "max-age=1").etag("\"1\""));
    let weir = before(&origin);
    weir.get("/x");
    origin.put("/x", Resource::new("hello").header("Cache-Control", "max-age=600").etag("\"1\""));
    weir.later(Duration::from_millis(2100));
    assert_eq!(weir.get("/x").text(), "hello");
    let third = weir.get("/x");
    assert!(third.is_hit(), "{:?}", third.head);
    assert_eq!(third.header("cache-control").as_deref(), Some("max-age=600"));
    assert_eq!(origin.count("/x"), 2);
}

#[test]
fn a_clients_condition_is_answered_from_the_store() {
    let (origin, weir) = one(Resource::fresh("hello").etag("\"1\"").modified_ago(Duration::from_secs(3600)));
    let first = weir.get("/x");
    let modified = first.header("last-modified").unwrap();
    let by_tag = weir.get_with("/x", &[("If-None-Match", "\"0\", \"1\"")]);
    let by_date = weir.get_with("/x", &[("If-Modified-Since", &modified)]);
    let other = weir.get_with("/x", &[("If-None-Match", "\"2\"")]);
    let failed = weir.get_with("/x", &[("If-Match", "\"2\"")]);
    assert_eq!((by_tag.status(), by_date.status(), other.status(), failed.status()), (304, 304, 200, 412));
    assert_eq!(by_tag.header("etag").as_deref(), Some("\"1\""));
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn a_clients_condition_does_not_reach_the_fill() {
    let (origin, weir) = one(Resource::fresh("hello").etag("\"1\""));
    let first = weir.get_with("/x", &[("If-None-Match", "\"1\"")]);
    assert_eq!(first.status(), 304, "{:?}", first.head);
    assert_eq!(origin.requests("/x")[0].header("if-none-match"), None);
    let second = weir.get("/x");
    assert!(second.is_hit() && second.text() == "hello", "{:?}", second.head);
}

#[test]
fn what_may_not_be_stored_is_not() {
    let fresh = |name: &str, value: &str| Resource::fresh("x").header(name, value);
    let cases = [
        ("no-store", Resource::new("x").header("Cache-Control", "no-store, max-age=60")),
        ("private", Resource::new("x").header("Cache-Control", "private, max-age=60")),
        ("set-cookie", fresh("Set-Cookie", "a=b")),
        ("no-freshness", Resource::new("x")),
        ("vary-star", fresh("Vary", "*")),
        ("status", Resource::fresh("x").status(500).header("Cache-Control", "no-store")),
    ];
    let origin = Origin::start();
    let weir = before(&origin);
    for (name, resource) in cases {
        let path = format!("/{name}");
        origin.put(&path, resource);
        let (first, second) = (weir.get(&path), weir.get(&path));
        assert!(!first.cache_status().contains("stored"), "{name}: {:?}", first.head);
        assert!(first.fwd().is_some() && second.fwd().is_some(), "{name}: {:?}", second.head);
        assert_eq!(origin.count(&path), 2, "{name}");
    }
    assert!(weir.get("/no-freshness").cache_status().contains("detail=no-freshness"));
}

#[test]
fn authorized_requests_are_stored_only_where_the_response_says_so() {
    let (origin, weir) = one(Resource::fresh("x"));
    twice(&weir, &[("Authorization", "Basic YTpi")]);
    assert_eq!(origin.count("/x"), 2);
    origin.put("/x", Resource::new("x").header("Cache-Control", "public, max-age=60"));
    twice(&weir, &[("Authorization", "Basic YTpi")]);
    assert_eq!(origin.count("/x"), 3);
}

#[test]
fn variants_are_kept_apart() {
    let origin = Origin::start();
    origin.on("/x", |exchange| {
        let language = exchange.request.header("accept-language").unwrap_or_default();
        exchange.reply(200, &[("Cache-Control", "max-age=60"), ("Vary", "Accept-Language")], language);
    });
    let weir = before(&origin);
    for round in 0..2 {
        for language in ["de", "en"] {
            let response = weir.get_with("/x", &[("Accept-Language", language)]);
            assert_eq!(response.text(), language);
            assert_eq!(response.is_hit(), round == 1, "{:?}", response.head);
        }
    }
    assert_eq!(origin.count("/x"), 2);
}

#[test]
fn encodings_are_normalised_for_the_key_of_a_variant() {
    let origin = Origin::start();
    origin.on("/x", |exchange| {
        let headers =
            [("Cache-Control", "max-age=60"), ("Vary", "Accept-Encoding"), ("Content-Encoding", "gzip")];
        exchange.reply(200, &headers, "pretend");
    });
    let weir = before(&origin);
    weir.get_with("/x", &[("Accept-Encoding", "gzip, deflate, br")]);
    let second = weir.get_with("/x", &[("Accept-Encoding", "br,gzip , deflate")]);
    assert!(second.is_hit(), "{:?}", second.head);
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn hosts_and_queries_are_different_objects() {
    let (origin, weir) = one(Resource::fresh("x"));
    for target in ["/x", "/x?a=1", "/x?a=2", "/x?A=1"] {
        assert!(!weir.get(target).is_hit());
        assert!(weir.get(target).is_hit());
    }
    assert!(!weir.get_of("other.example", "/x", &[]).is_hit());
    assert!(weir.get_of("OTHER.example:80", "/x", &[]).is_hit());
    assert_eq!(origin.total(), 5);
}

#[test]
fn head_is_answered_from_a_stored_get() {
    let (origin, weir) = one(Resource::fresh("hello"));
    weir.get("/x");
    let head = weir.send("HEAD /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status(), head.header("content-length").as_deref()), (200, Some("5")));
    assert!(head.is_hit(), "{:?}", head.head);
    assert!(head.body.is_empty() && weir.get("/x").is_hit());
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn ages_add_up() {
    let (_origin, weir) = one(Resource::fresh("x").header("Age", "1000"));
    let (first, second) = twice(&weir, &[]);
    assert!(first.age().is_none_or(|age| (1000..1010).contains(&age)), "{:?}", first.head);
    assert!(second.age().is_some_and(|age| (1000..1010).contains(&age)), "{:?}", second.head);
    assert!(
        second.cache_status().contains("ttl=25") || second.cache_status().contains("ttl=26"),
        "{:?}",
        second.head
    );
}

#[test]
fn the_first_member_of_an_age_counts_and_what_is_no_number_is_ignored() {
    let origin = Origin::start();
    let weir = before(&origin);
    let cases: [(&str, &[&str], Option<u64>); 7] = [
        ("/list", &["10, 5000"], Some(10)),
        ("/lines", &["10", "5000"], Some(10)),
        ("/twice", &["10, 10"], Some(10)),
        ("/word", &["abc"], Some(0)),
        ("/fraction", &["5000.0"], Some(0)),
        ("/parameter", &["5000;a=b"], Some(0)),
        ("/old", &["5000, 10"], None),
    ];
    for (path, lines, age) in cases {
        let resource = Resource::fresh("x");
        origin.put(path, lines.iter().fold(resource, |resource, line| resource.header("Age", line)));
        weir.get(path);
        let second = weir.get(path);
        assert_eq!(second.is_hit(), age.is_some(), "{path} {:?}", second.head);
        let found = second.age().filter(|_| second.is_hit());
        assert!(
            found.is_none_or(|found| (age.unwrap()..age.unwrap() + 10).contains(&found)),
            "{:?}",
            second.head
        );
    }
}

#[test]
fn dates_are_read_in_every_form_and_case() {
    let origin = Origin::start();
    let weir = before(&origin);
    // Both are Tuesdays.
    let forms = [
        ("Tue, 03 Aug 2066 02:01:18 GMT", "Tue, 03 Aug 1993 02:01:18 GMT"),
        ("TUE, 03 AUG 2066 02:01:18 gmt", "tue, 03 aug 1993 02:01:18 Gmt"),
        ("Tuesday, 03-Aug-66 02:01:18 UTC", "Tuesday, 03-Aug-93 02:01:18 utc"),
        ("tuesday, 03-aug-66 02:01:18 GMT", "TUESDAY, 03-AUG-93 02:01:18 GMT"),
        ("Tue Aug  3 02:01:18 2066", "TUE AUG  3 02:01:18 1993"),
    ];
    for (number, (expires, modified)) in forms.iter().enumerate() {
        let path = format!("/{number}");
        origin.put(&path, Resource::new("x").header("Expires", expires).header("Last-Modified", modified));
        weir.get(&path);
        assert!(weir.get(&path).is_hit(), "{expires}");
        for (_, since) in &forms {
            assert_eq!(
                weir.get_with(&path, &[("If-Modified-Since", since)]).status(),
                304,
                "{modified} {since}"
            );
        }
        let before = weir.get_with(&path, &[("If-Modified-Since", "mon aug  2 02:01:18 1993")]);
        assert_eq!(before.status(), 200, "{modified}");
        let part =
            weir.get_with(&path, &[("Range", "bytes=0-0"), ("If-Range", "TUE, 03 AUG 1993 02:01:18 UTC")]);
        assert_eq!(part.status(), 206, "{modified}");
        assert_eq!(origin.count(&path), 1);
    }
    origin.put("/zone", Resource::new("x").header("Expires", "Tue, 03 Aug 2066 02:01:18 AEST"));
    weir.get("/zone");
    assert!(!weir.get("/zone").is_hit());
}

#[test]
fn an_unsafe_request_invalidates() {
    let (origin, weir) = one(Resource::fresh("x"));
    weir.get("/x");
    assert!(weir.get("/x").is_hit());
    assert_eq!(weir.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx").status(), 200);
    assert!(!weir.get("/x").is_hit());
    assert_eq!(origin.count("/x"), 3);
}

#[test]
fn a_failed_unsafe_request_does_not() {
    let (origin, weir) = one(Resource::fresh("x"));
    weir.get("/x");
    origin.put("/x", Resource::new("no").status(500));
    assert_eq!(weir.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx").status(), 500);
    assert!(weir.get("/x").is_hit());
}

#[test]
fn stale_is_answered_while_it_is_revalidated() {
    let (origin, weir) =
        one(Resource::new("x").header("Cache-Control", "max-age=1, stale-while-revalidate=60").etag("\"1\""));
    weir.get("/x");
    weir.later(Duration::from_millis(2100));
    origin.put(
        "/x",
        Resource::new("y")
            .header("Cache-Control", "max-age=60")
            .etag("\"2\"")
            .head_delay(Duration::from_millis(300)),
    );
    let stale = weir.get("/x");
    assert_eq!(stale.text(), "x", "{:?}", stale.head);
    assert!(stale.cache_status().contains("ttl=-"), "{:?}", stale.head);
    origin.await_count("/x", 2);
    until("the new version is answered", || weir.get("/x").text() == "y");
    assert_eq!(origin.count("/x"), 2, "one refresh for all");
}

#[test]
fn stale_is_answered_when_the_origin_fails() {
    let (origin, weir) = one(Resource::new("x").header("Cache-Control", "max-age=1, stale-if-error=60"));
    weir.get("/x");
    weir.later(Duration::from_millis(2100));
    origin.put("/x", Resource::new("no").status(503));
    let failed = weir.get("/x");
    assert_eq!((failed.status(), failed.text().as_str()), (200, "x"), "{:?}", failed.head);
    origin.raw("/x", "");
    let gone = weir.get("/x");
    assert_eq!((gone.status(), gone.text().as_str()), (200, "x"), "{:?}", gone.head);
}

#[test]
fn stale_is_not_answered_where_it_must_be_revalidated() {
    let (origin, weir) =
        one(Resource::new("x").header("Cache-Control", "max-age=1, must-revalidate, stale-if-error=60"));
    weir.get("/x");
    weir.later(Duration::from_millis(2100));
    origin.raw("/x", "");
    assert!(weir.get("/x").status() >= 500);
}

#[test]
fn only_if_cached_does_not_go_forward() {
    let (origin, weir) = one(Resource::fresh("x"));
    assert_eq!(weir.get_with("/x", &[("Cache-Control", "only-if-cached")]).status(), 504);
    assert_eq!(origin.count("/x"), 0);
    weir.get("/x");
    assert!(weir.get_with("/x", &[("Cache-Control", "only-if-cached")]).is_hit());
}

#[test]
fn a_range_is_cut_from_the_stored_object() {
    let (origin, weir) = one(Resource::fresh("0123456789").etag("\"1\""));
    weir.get("/x");
    let part = weir.get_with("/x", &[("Range", "bytes=2-4")]);
    assert_eq!((part.status(), part.text().as_str()), (206, "234"), "{:?}", part.head);
    assert_eq!(part.header("content-range").as_deref(), Some("bytes 2-4/10"));
    assert_eq!(weir.get_with("/x", &[("Range", "bytes=-2")]).text(), "89");
    assert_eq!(weir.get_with("/x", &[("Range", "bytes=20-")]).status(), 416);
    let changed = weir.get_with("/x", &[("Range", "bytes=2-4"), ("If-Range", "\"2\"")]);
    assert_eq!((changed.status(), changed.text().len()), (200, 10));
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn negative_answers_are_stored_where_they_say_so() {
    let (origin, weir) = one(Resource::fresh("gone").status(404));
    let (first, second) = twice(&weir, &[]);
    assert_eq!((first.status(), second.status()), (404, 404));
    assert!(second.is_hit(), "{:?}", second.head);
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn a_redirect_is_stored_and_not_followed() {
    let (origin, weir) = one(Resource::fresh("").status(301).header("Location", "/y"));
    let (_, second) = twice(&weir, &[]);
    assert!(second.is_hit(), "{:?}", second.head);
    assert_eq!((second.status(), second.header("location").as_deref()), (301, Some("/y")));
    assert_eq!(origin.total(), 1);
}

#[test]
fn repeated_fields_survive_the_store() {
    let origin = Origin::start();
    origin.put(
        "/x",
        Resource::fresh("x")
            .header("X-A", "1")
            .header("X-A", "2")
            .header("Link", "</a>")
            .header("Link", "</b>"),
    );
    let weir = before(&origin);
    let (first, second) = twice(&weir, &[]);
    for response in [first, second] {
        assert_eq!(response.head.all("x-a"), ["1", "2"]);
        assert_eq!(response.header("link").as_deref(), Some("</a>, </b>"));
    }
}

#[test]
fn what_an_origin_reflects_of_a_stripped_field_is_never_seen_by_a_second_client() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.body();
        let raw = exchange.request.raw.clone();
        exchange.reply(200, &[("Cache-Control", "max-age=60")], raw);
    });
    let weir = before(&origin);
    let names = [
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-Host",
        "X-Forwarded-Host",
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
        "X-Original-Host",
        "X-Forwarded-Server",
        "X-Forwarded-Scheme",
        "X-Forwarded-Prefix",
        "X-Forwarded-Path",
        "X-HTTP-Host-Override",
        "Forwarded",
    ];
    for name in names {
        let path = format!("/{name}");
        let evil = weir.get_with(&path, &[(name, "poisoned.example")]);
        assert!(!evil.text().contains("poisoned"), "{name} reached the origin: {}", evil.text());
        let clean = weir.get(&path);
        assert!(clean.is_hit() && !clean.text().contains("poisoned"), "{name}: {}", clean.text());
    }
}

#[test]
fn the_variants_of_a_key_are_bounded() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let own = exchange.request.header("x-own").unwrap_or_default();
        exchange.reply(200, &[("Cache-Control", "max-age=60"), ("Vary", "X-Own")], own);
    });
    let weir = before(&origin);
    for number in 0..100 {
        let own = number.to_string();
        assert_eq!(weir.get_with("/", &[("X-Own", &own)]).text(), own);
    }
    let variants = weir.usage().generations;
    assert!((1..=32).contains(&variants), "{variants} variants");
    assert!(weir.get_with("/", &[("X-Own", "99")]).is_hit());
}

#[test]
fn what_one_request_is_refused_for_is_for_nobody_else() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let status = exchange.request.path()[1..].parse().unwrap();
        let is_odd = exchange.request.header("x-odd").is_some();
        let fresh = [("Cache-Control", "public, max-age=600")];
        exchange.reply(if is_odd { status } else { 200 }, &fresh, if is_odd { "odd" } else { "clean" });
    });
    let after_an_odd_one = |weir: &Weir, status: u16| {
        let path = format!("/{status}");
        assert_eq!(weir.get_with(&path, &[("X-Odd", "1")]).status(), status);
        weir.get(&path).status()
    };
    let weir = before(&origin);
    for status in [400, 408, 411, 413, 414, 415, 417, 421, 422, 425, 426, 431] {
        assert_eq!(after_an_odd_one(&weir, status), 200, "{status}");
    }
    // A failure that the request did not cause applies to all.
    assert_eq!(after_an_odd_one(&weir, 404), 404);
}

#[test]
fn an_odd_request_does_not_keep_what_follows_out_of_the_cache() {
    for status in [400, 408, 412, 413, 414, 416, 417, 421, 431, 501] {
        let origin = Origin::start();
        origin.on("/x", move |exchange| match exchange.request.header("x-odd") {
            Some(_) => drop(exchange.reply(status, &[], "evil")),
            None => drop(exchange.reply(200, &[("Cache-Control", "max-age=600")], "clean")),
        });
        let weir = before(&origin);
        assert_eq!(weir.get_with("/x", &[("X-Odd", "1")]).status(), status);
        assert_eq!(weir.get("/x").text(), "clean");
        let second = weir.get("/x");
        assert!(second.is_hit(), "{status}: {:?}", second.head);
        assert_eq!(origin.count("/x"), 2);
    }
}

#[test]
fn what_a_post_brings_answers_gets_where_it_says_that_it_may() {
    let origin = Origin::start();
    let body = pattern(3, 200_000);
    let posted = body.clone();
    origin.on("/x", move |exchange| {
        let sent = exchange.body();
        let own = ("Content-Location", "/x");
        match exchange.request.method.as_str() {
            "POST" if sent == b"keep" => {
                exchange.reply(200, &[("Cache-Control", "max-age=600"), own], &posted);
            }
            "POST" => {
                exchange.reply(200, &[("Cache-Control", "max-age=600")], "unnamed");
            }
            _ => {
                exchange.reply(200, &[("Cache-Control", "max-age=600")], "got");
            }
        }
    });
    let weir = before(&origin);
    let post = |body: &str| {
        let length = body.len();
        weir.send(&format!("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}"))
    };
    assert_eq!(weir.get("/x").text(), "got");
    let answer = post("keep");
    assert!(answer.body == body && answer.cache_status().contains("stored"), "{:?}", answer.head);
    let held = weir.get("/x");
    assert!(held.is_hit() && held.body == body, "{:?}", held.head);
    assert_eq!(post("other").text(), "unnamed");
    let next = weir.get("/x");
    assert!(!next.is_hit() && next.text() == "got", "{:?}", next.head);
}

#[test]
fn an_unsafe_request_outdates_what_is_held_under_every_key() {
    let origin = Origin::start();
    origin.on("/x", |exchange| match exchange.request.method.as_str() {
        "POST" => drop(exchange.reply(204, &[], "")),
        _ => drop(exchange.reply(200, &[("Cache-Control", "max-age=60")], "page")),
    });
    let weir = server(&[&origin]).site("key = { headers = [\"X-Country\"] }").start();
    let get = |country| weir.get_with("/x", &[("X-Country", country)]);
    for country in ["de", "fr"] {
        assert!(!get(country).is_hit());
        assert!(get(country).is_hit());
    }
    let posted = weir.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(posted.status(), 204);
    assert!(!get("de").is_hit() && !get("fr").is_hit());
}

#[test]
fn what_is_stored_for_nobody_leads_one_fill_however_long_it_is_asked_for() {
    let (origin, weir) = one(Resource::new("own").header("Cache-Control", "no-store"));
    for _ in 0..150 {
        assert_eq!(weir.get("/x").text(), "own");
        weir.later(Duration::from_secs(2));
    }
    assert_eq!(origin.count("/x"), 150);
    assert_eq!(weir.snapshot().counts[Count::Fills], 1, "nobody waits for another's response");
    // Once it may be stored it is.
    origin.put("/x", Resource::fresh("for all"));
    assert!(!weir.get("/x").is_hit());
    assert!(!weir.get("/x").is_hit());
    assert!(weir.get("/x").is_hit());
}
