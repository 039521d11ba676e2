//! Variants: the same request again is a hit, and nobody gets a field that was made for another value of a
//! varied field.

use weir_testkit::{Exchange, Origin};

use crate::kit::before;

#[test]
fn a_second_request_of_a_kind_is_a_hit_though_all_variants_share_their_tag() {
    let origin = Origin::start();
    origin.on("/x", |exchange| {
        let own = exchange.request.header("x-own").unwrap_or_default();
        let fields = [("Cache-Control", "max-age=60"), ("Vary", "X-Own"), ("ETag", "\"x\"")];
        match exchange.request.header("if-none-match") {
            Some(_) => exchange.reply(304, &fields, ""),
            None => exchange.reply(200, &fields, own),
        };
    });
    let weir = before(&origin);
    for round in 0..2 {
        for own in ["a", "b", "c"] {
            let found = weir.get_with("/x", &[("X-Own", own)]);
            assert_eq!((found.text().as_str(), found.is_hit()), (own, round == 1), "{:?}", found.head);
        }
    }
    assert_eq!(origin.count("/x"), 3);
}

/// The fields of a font for a shop's page on another host, with one tag for everybody.
fn shares(exchange: &mut Exchange<'_>) {
    let of = exchange.request.header("origin").unwrap_or_default();
    let fields = [
        ("Cache-Control", "max-age=3600"),
        ("Vary", "Origin"),
        ("ETag", "\"font\""),
        ("Access-Control-Allow-Origin", of.as_str()),
    ];
    match exchange.request.header("if-none-match") {
        Some(_) => exchange.reply(304, &fields, ""),
        None => exchange.reply(200, &fields, "font"),
    };
}

#[test]
fn a_304_for_one_client_leaves_the_fields_of_others() {
    let origin = Origin::start();
    origin.on("/font", shares);
    let weir = before(&origin);
    let get = |of: &str, more: &[(&str, &str)]| {
        let found = weir.get_with("/font", &[&[("Origin", of)][..], more].concat());
        assert_eq!(found.header("access-control-allow-origin").as_deref(), Some(of), "{:?}", found.head);
        assert_eq!(found.text(), "font");
        found
    };
    get("https://shop.example", &[]);
    get("https://evil.example", &[]);
    assert!(get("https://shop.example", &[]).is_hit());
    // One of two stored variants is validated.
    get("https://evil.example", &[("Cache-Control", "no-cache")]);
    assert!(get("https://shop.example", &[]).is_hit());
    assert!(get("https://evil.example", &[]).is_hit());
}

#[test]
fn a_304_that_nobody_asked_for_is_served_to_nobody_else() {
    let origin = Origin::start();
    origin.on("/x", |exchange| {
        let fields = [("Cache-Control", "max-age=60"), ("Vary", "X-Own"), ("ETag", "\"x\"")];
        match exchange.request.header("x-own") {
            Some(_) => exchange.reply(304, &fields, ""),
            None => exchange.reply(200, &fields, "whole"),
        };
    });
    let weir = before(&origin);
    assert_eq!(weir.get("/x").text(), "whole");
    assert_eq!(weir.get_with("/x", &[("X-Own", "1")]).status(), 304);
    let clean = weir.get("/x");
    assert_eq!((clean.status(), clean.text().as_str(), clean.is_hit()), (200, "whole", true));
}
