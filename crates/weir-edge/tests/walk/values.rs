//! Values with placeholders, in the key, towards the origin and towards the client; and that none of them
//! gives one client what another has said.

use weir_testkit::{Origin, Resource, Response};

use crate::kit::{Weir, server};

/// An origin that echoes each request's head, fresh for a minute; `vary` is its `Vary`.
fn echo(vary: &'static str) -> Origin {
    let origin = Origin::start();
    origin.otherwise(move |exchange| {
        exchange.body();
        let raw = exchange.request.raw.clone();
        exchange.reply(200, &[("Cache-Control", "max-age=60"), ("Vary", vary), ("X-Old", "1")], raw);
    });
    origin
}

/// What the origin was sent of a field, in the order of the lines.
fn sent(answer: &Response, name: &str) -> Vec<String> {
    let text = answer.text();
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).collect()
}

fn get(weir: &Weir, target: &str, fields: &[(&str, &str)]) -> Response {
    weir.get_of("shop.example", target, fields)
}

#[test]
fn origins_get_what_values_say_and_clients_cannot() {
    let origin = echo("X-None");
    let set = "X-Client = \"{client.address}\", \
               X-Where = \"{scheme}://{host}{uri} of {site} by {upstream}\", \
               X-Tag = \"{query.tag | default 'none'}\", X-Lang = \"{header.Accept-Language | lower}\", \
               X-Empty = \"{cookie.none}\"";
    let site =
        format!("[site.request_headers]\nset = {{ {set} }}\n[site.key]\nquery = {{ drop = [\"tag\"] }}\n");
    let weir = server(&[&origin]).site(&site).start();
    let given = [
        ("X-Client", "evil"),
        ("x_client", "evil"),
        ("X-Empty", "evil"),
        ("Accept-Language", "DE"),
        ("Accept-Language", "FR"),
    ];
    let answer = get(&weir, "/a?b=c&tag=x", &given);
    assert_eq!(sent(&answer, "x-client"), ["127.0.0.1"]);
    assert_eq!(sent(&answer, "x_client"), [""; 0]);
    assert_eq!(sent(&answer, "x-where"), ["http://shop.example/a?b=c of * by main"]);
    assert_eq!(sent(&answer, "x-lang"), ["de"]);
    assert_eq!(sent(&answer, "x-empty"), [""; 0]);
    // What the key leaves out of the query does not reach the origin by another way.
    assert_eq!(sent(&answer, "x-tag"), ["none"]);
    assert!(get(&weir, "/a?b=c&tag=y", &[]).is_hit());
    let pass = weir.send("POST /p?tag=1 HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(sent(&pass, "x-where"), ["http://shop.example/p of * by main"]);
}

/// `Vary` names a field that the route sets: what origins see of it selects, not what clients send.
#[test]
fn a_set_field_selects_by_what_the_origin_saw() {
    let origin = echo("X-Group");
    let weir = server(&[&origin])
        .site(
            "[site.request_headers]\nset = { X-Group = \"{header.X-Raw | default \\\"all\\\" | lower}\" }\n",
        )
        .start();
    let group = |answer: &Response| sent(answer, "x-group").concat();
    let first = get(&weir, "/", &[("X-Raw", "A"), ("X-Group", "b")]);
    assert_eq!((group(&first), first.is_hit()), ("a".to_owned(), false));
    for (raw, forged, expected, hit) in [
        ("a", "b", "a", true),
        ("A", "", "a", true),
        ("b", "a", "b", false),
        ("B", "a", "b", true),
        ("", "a", "all", false),
        ("", "b", "all", true),
    ] {
        let fields = [("X-Raw", raw), ("X-Group", forged)];
        let fields: Vec<_> = fields.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let answer = get(&weir, "/", &fields);
        assert_eq!((group(&answer).as_str(), answer.is_hit()), (expected, hit), "{raw} {forged}");
    }
}

#[test]
fn values_of_the_key_tell_objects_apart() {
    let origin = echo("X-None");
    let site = "[site.key]\nvalues = [\"{query.a}-{query.b}\", \"{header.X-C | lower}\", \"{cookie.d}\", \
                \"{header.X-E}\"]\n\
                query = { keep = [] }\nheaders = []\n";
    let weir = server(&[&origin]).site(site).start();
    let asks: &[(&str, &[(&str, &str)])] = &[
        ("/?a=1-2&b=3", &[]),
        ("/?a=1&b=2-3", &[]),
        ("/?a=1&a=2&b=2-3", &[]),
        ("/", &[]),
        ("/?a=", &[]),
        ("/", &[("X-C", "x")]),
        ("/", &[("X-C", "x"), ("X-C", "y")]),
        ("/", &[("X-C", "x,y")]),
        ("/", &[("Cookie", "d=1")]),
        ("/", &[("Cookie", "d=1; d=2")]),
        ("/", &[("Cookie", "d=2; d=1")]),
        ("/", &[("X-E", "x")]),
        ("/", &[("X-E", "value header.x-c=x")]),
    ];
    for (round, is_hit) in [(0, false), (1, true)] {
        for (target, fields) in asks {
            assert_eq!(get(&weir, target, fields).is_hit(), is_hit, "{round} {target} {fields:?}");
        }
    }
    assert!(get(&weir, "/?x=9", &[("X-C", "X"), ("Cookie", "e=1")]).is_hit());
    assert_eq!(origin.total(), asks.len());
}

#[test]
fn responses_say_how_they_came_about() {
    let origin = echo("X-None");
    let set = "X-Cache = \"{outcome} {reason | default \\\"-\\\"}\", X-Ttl = \"{ttl}\", X-Age = \"{age}\", \
               X-Asked = \"{origin.status} of {path}\", X-Status = \"{status}\", \
               X-You = \"{client.address}\", \
               X-Evil = \"{header.X-Evil}\", X-Old = \"{query.none}\"";
    let weir = server(&[&origin]).site(&format!("[site.response_headers]\nset = {{ {set} }}\n")).start();
    let value = |answer: &Response, name: &str| answer.header(name).unwrap_or_default();
    let miss = get(&weir, "/a?b", &[]);
    assert_eq!(value(&miss, "x-cache"), "miss uri-miss");
    assert_eq!((value(&miss, "x-ttl").as_str(), miss.header("x-age")), ("60", None));
    assert_eq!((value(&miss, "x-asked").as_str(), value(&miss, "x-status").as_str()), ("200 of /a", "200"));
    weir.come_from("192.0.2.9");
    let hit = get(&weir, "/a?b", &[("X-Evil", "a\tb \u{e9}")]);
    assert!(hit.is_hit());
    assert_eq!(value(&hit, "x-cache"), "hit -");
    assert_eq!((value(&hit, "x-age").as_str(), value(&hit, "x-you").as_str()), ("0", "192.0.2.9"));
    assert_eq!((value(&hit, "x-asked").as_str(), hit.header("x-old")), ("of /a", None));
    assert_eq!(hit.head.all("x-evil").len(), 1);
    // Nothing of it stays with the stored head.
    let plain = get(&weir, "/a?b", &[]);
    assert!(plain.is_hit() && plain.header("x-evil").is_none(), "{:?}", plain.head);
    let range = get(&weir, "/a?b", &[("Range", "bytes=0-3")]);
    assert_eq!((range.status(), value(&range, "x-status").as_str()), (206, "206"));
    assert_eq!(origin.total(), 1);
}

/// In one word: why it was not stored, also where Weir only remembers it.
#[test]
fn the_reason_is_that_of_cache_status() {
    let origin = Origin::start();
    origin.put("/", Resource::fresh("hello").header("Set-Cookie", "a=b"));
    let weir = server(&[&origin]).site("response_headers = { set = { X-Why = \"{reason}\" } }\n").start();
    for _ in 0..2 {
        let answer = get(&weir, "/", &[]);
        assert_eq!(answer.header("x-why").as_deref(), Some("set-cookie"));
        let status = answer.header("cache-status").unwrap_or_default();
        assert!(status.contains("detail=set-cookie"), "{status}");
        origin.put("/", Resource::fresh("hello"));
    }
}

/// A field of the origin that a value replaces is gone even where the value is empty.
#[test]
fn a_304_has_no_field_of_the_body() {
    let origin = Origin::start();
    origin.put("/", Resource::fresh("hello").etag("\"1\""));
    let set = "Content-Language = \"{header.X-Lang}\", X-Out = \"{outcome}\"";
    let weir = server(&[&origin]).site(&format!("[site.response_headers]\nset = {{ {set} }}\n")).start();
    let lang = [("X-Lang", "de")];
    assert_eq!(get(&weir, "/", &lang).header("content-language").as_deref(), Some("de"));
    let unchanged = get(&weir, "/", &[("If-None-Match", "\"1\""), lang[0]]);
    assert_eq!((unchanged.status(), unchanged.header("content-language")), (304, None));
    assert_eq!(unchanged.header("x-out").as_deref(), Some("hit"));
}

#[test]
fn explain_shows_what_values_make() {
    let origin = echo("X-None");
    let site = "[site.request_headers]\nset = { X-A = \"{query.a}-{header.X-B | lower}\" }\n\
                [site.key]\nvalues = [\"{header.X-B | lower}\"]\n";
    let weir = server(&[&origin]).site(site).start();
    let message = "GET /p?a=1 HTTP/1.1\r\nHost: shop.example\r\nX-B: Big\r\n\r\n";
    weir.send(message);
    let explained = weir.explain(message);
    assert_eq!(explained.verdict.word(), "hit");
    assert_eq!(explained.key.as_deref(), Some("http://shop.example/p?a=1\nvalue header.x-b=big"));
    let asked = explained.asked.unwrap();
    assert!(asked.headers.contains(&("x-a".to_owned(), "1-big".to_owned())), "{:?}", asked.headers);
}

#[test]
fn rewritten_paths_are_asked_for_and_mapped_back() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.body();
        let raw = exchange.request.raw.clone();
        let fields = [
            ("Cache-Control", "max-age=60"),
            ("Location", "/login"),
            ("Set-Cookie", "a=b; Path=/"),
            ("X-Origin", "1"),
        ];
        exchange.reply(200, &fields, raw);
    });
    let site = "set_cookie = \"store\"\n\
                rewrite = [{ from = \"/a/**\", to = \"/{1}\" }, { from = \"/b/**\", to = \"/{1}\" }]\n";
    let weir = server(&[&origin]).site(site).start();
    for (round, is_hit) in [(0, false), (1, true)] {
        for place in ["/a", "/b"] {
            let answer = get(&weir, &format!("{place}/x?q=1"), &[]);
            assert_eq!(answer.is_hit(), is_hit, "{round} {place}");
            assert_eq!(answer.text().lines().next(), Some("GET /x?q=1 HTTP/1.1"));
            assert_eq!(answer.header("location"), Some(format!("{place}/login")));
            assert_eq!(answer.header("set-cookie"), Some(format!("a=b; Path={place}/")));
        }
    }
    for target in ["/a/../b", "/a/%2e%2e%2fb"] {
        let refused = get(&weir, target, &[]);
        assert_eq!((refused.status(), refused.header("location")), (400, None), "{target}");
    }
    let message = "GET /a/x?q=1 HTTP/1.1\r\nHost: shop.example\r\n\r\n";
    let explained = weir.explain(message);
    assert_eq!(
        (explained.verdict.word(), explained.key.as_deref()),
        ("hit", Some("http://shop.example/a/x?q=1"))
    );
    assert_eq!(explained.rewritten.as_deref(), Some("/a/x?q=1 → /x?q=1  (/a/** → /{1})"));
    assert_eq!(explained.asked.unwrap().line, "GET /x?q=1");
    assert_eq!(weir.explain("GET /a/../b HTTP/1.1\r\nHost: shop.example\r\n\r\n").reason, "dot-segment");
    assert_eq!(origin.total(), 2);
    let pass = weir.send("POST /a/p HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(pass.text().lines().next(), Some("POST /p HTTP/1.1"));
    // The POST said Location: /login; it means /a/login.
}

/// Paths that become the same share what is stored, each with its own way back.
#[test]
fn the_key_may_have_the_rewritten_path() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("one").header("Location", "/y"));
    let site = "rewrite = [{ from = \"/a/**\", to = \"/{1}\" }, { from = \"/b/**\", to = \"/{1}\" }]\n\
                key = { path = \"rewritten\" }\n";
    let weir = server(&[&origin]).site(site).start();
    for (target, is_hit, location) in [
        ("/a/x", false, "/a/y"),
        ("/b/x", true, "/b/y"),
        ("/a/x", true, "/a/y"),
        ("/x", true, "/y"),
        ("/b/x", true, "/b/y"),
    ] {
        let answer = get(&weir, target, &[]);
        assert_eq!(
            (answer.is_hit(), answer.header("location").as_deref()),
            (is_hit, Some(location)),
            "{target}"
        );
    }
    assert_eq!(origin.total(), 1);
    weir.send("POST /b/x HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 0\r\n\r\n");
    assert!(!get(&weir, "/a/x", &[]).is_hit());
}

#[test]
fn maps_tell_objects_apart_and_say_so_to_the_origin() {
    let origin = echo("X-None");
    let site = "[site.key]\nvalues = [\"{map.tier}\"]\n\
                [site.request_headers]\nset = { X-Tier = \"{map.tier}\", X-Place = \"{map.place}\" }\n";
    let maps = "[map.tier]\nof = \"{cookie.tier}\"\n\
                rules = [[\"gold\", \"paid\"], [\"~^silver\", \"paid\"]]\n\
                default = \"free\"\n\
                [map.place]\nof = \"{client.address}\"\nrules = [[\"192.0.2.0/24\", \"office\"]]\n";
    let weir = server(&[&origin]).site(site).more(maps).start();
    for (cookie, tier, is_hit) in [
        ("tier=gold", "paid", false),
        ("tier=silver2", "paid", true),
        ("tier=tin", "free", false),
        ("", "free", true),
        // An origin may read the second one: no other request shares what it then says.
        ("tier=tin; tier=gold", "free", false),
        ("tier=tin; tier=gold", "free", true),
        ("tier=gold; tier=tin", "paid", false),
        ("tier=tin; tier=tin", "free", false),
        ("other=gold", "free", true),
    ] {
        let fields = [("Cookie", cookie), ("X-Tier", "paid"), ("X-Place", "forged")];
        let answer = get(&weir, "/", if cookie.is_empty() { &fields[1..] } else { &fields });
        assert_eq!((sent(&answer, "x-tier"), answer.is_hit()), (vec![tier.to_owned()], is_hit), "{cookie}");
        assert_eq!(sent(&answer, "x-place"), [""; 0]);
    }
    weir.come_from("192.0.2.9");
    assert_eq!(sent(&get(&weir, "/other", &[]), "x-place"), ["office"]);
}
