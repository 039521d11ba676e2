//! What shares a key shares a response: no request gets what another one has caused by a spelling that only
//! the origin understands, or by a route that asks otherwise.

use weir_testkit::{Origin, Response, Weir};

use crate::server::server;

/// Each response says what the origin was asked.
fn echo() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let request = &exchange.request;
        let fields = ["host", "cookie", "x-mode", "x_mode", "x-country", "x_country", "x-staff"];
        let fields: Vec<_> = fields.iter().filter_map(|name| Some((*name, request.header(name)?))).collect();
        let text = format!("{} {fields:?}", request.target);
        exchange.reply(200, &[("Cache-Control", "max-age=600")], text);
    });
    origin
}

fn ask(weir: &Weir, target: &str, fields: &str) -> Response {
    let mut client = weir.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
    client.recv().unwrap()
}

const ROUTES: &str = r#"
[map.country]
of = "{header.X-Country}"
rules = [["de", "german"]]
default = "other"

[map.currency]
of = "{cookie.currency}"
rules = [["USD", "dollar"]]
default = "euro"
"#;

const SITE: &str = r#"
[[site.route]]
prefix = "/filtered"
key = { values = ["{header.X-Country | lower}"] }

[[site.route]]
prefix = "/map"
key = { values = ["{map.country}"] }

[[site.route]]
prefix = "/cookie"
key = { values = ["{map.currency}"] }

[[site.route]]
prefix = "/query"
key = { query = "none", values = ["{query.v}"] }

[[site.route]]
prefix = "/conditions"
bypass = { headers = ["X-Mode: debug*"], cookies = ["session*"] }
"#;

#[test]
fn no_spelling_that_the_key_does_not_see_is_kept_for_others() {
    let origin = echo();
    let weir = server(&[&origin]).top("trusted_proxies = []").site(SITE).more(ROUTES).start();
    let attacks = [
        ("/filtered", "", "X_Country: EVIL\r\n"),
        ("/map", "", "X_Country: EVIL\r\n"),
        ("/cookie", "", "Cookie: CURRENCY=EVIL\r\n"),
        ("/cookie", "", "Cookie: a=b, currency=EVIL\r\n"),
        ("/cookie", "", "Cookie: %63urrency=EVIL\r\n"),
        ("/query", "?%76=EVIL", ""),
        ("/query", "?v[]=EVIL", ""),
        ("/query", "?a=1;v=EVIL", ""),
        ("/conditions", "", "X_Mode: debug-EVIL\r\n"),
        ("/conditions", "", "X-Mode: DEBUG-EVIL\r\n"),
        ("/conditions", "", "X-Mode: x, debug-EVIL\r\n"),
        ("/conditions", "", "Cookie: SESSION=EVIL\r\n"),
        ("/conditions", "", "Cookie: a=\"x\" session=EVIL\r\n"),
        ("/conditions", "", "Cookie: a=b, session=EVIL\r\n"),
        ("/conditions", "", "Cookie: %73ession=EVIL\r\n"),
        ("/conditions", "", "Cookie: \"session\"=EVIL\r\n"),
    ];
    for (number, (prefix, query, fields)) in attacks.iter().enumerate() {
        let path = format!("{prefix}/{number}");
        let evil = ask(&weir, &format!("{path}{query}"), fields);
        assert!(evil.text().contains("EVIL") && !evil.cache_status().contains("stored"), "{:?}", evil.head);
        assert!(!ask(&weir, &path, "").text().contains("EVIL"), "{path}{query} {fields}");
        assert!(ask(&weir, &path, "").is_hit(), "{path}: what is spelled in one way is kept");
    }
}

#[test]
fn rewriting_gives_no_object_of_a_route_to_one_that_asks_otherwise() {
    let (app, api) = (echo(), echo());
    let site = r#"
[[site.route]]
prefix = "/staff/"
allow = ["192.0.2.0/24"]
request_headers = { set = { X-Staff = "yes" } }
rewrite = [{ from = "/staff/**", to = "/{1}" }]
key = { path = "rewritten" }

[[site.route]]
prefix = "/api/"
upstream = "api"
rewrite = [{ from = "/api/**", to = "/{1}" }]
key = { path = "rewritten" }

[[site.route]]
prefix = "/old-api/"
upstream = "api"
rewrite = [{ from = "/old-api/**", to = "/{1}" }]
key = { path = "rewritten" }
"#;
    let upstream = format!("[upstream.api]\norigins = [\"http://{}\"]\n", api.addr());
    let weir = server(&[&app]).site(site).more(&upstream).start();
    let staff = ask(&weir, "/staff/report", "X-Forwarded-For: 192.0.2.1\r\n");
    assert!(staff.text().contains("x-staff"), "{:?}", staff.text());
    assert!(!ask(&weir, "/report", "X-Forwarded-For: 203.0.113.1\r\n").text().contains("x-staff"));
    assert_eq!(ask(&weir, "/staff/report", "X-Forwarded-For: 203.0.113.1\r\n").status(), 403);
    ask(&weir, "/api/login", "");
    assert!(ask(&weir, "/old-api/login", "").is_hit(), "routes that ask alike share what is kept");
    assert_eq!((ask(&weir, "/login", "").is_hit(), app.count("/login"), api.count("/login")), (false, 1, 1));
    // One purge of the URL takes all of them.
    assert_eq!(weir.command(&["purge", "http://localhost/login"]).code, Some(0));
    assert!(!ask(&weir, "/login", "").is_hit() && !ask(&weir, "/api/login", "").is_hit());
}
