//! What a site's and a route's rules do to requests and responses.

use std::time::Duration;

use weir_testkit::{Origin, Resource, Response};

use crate::kit::{Weir, server, setup};

fn ask(weir: &Weir, host: &str, target: &str, headers: &[(&str, &str)]) -> Response {
    weir.get_of(host, target, headers)
}

/// An origin that echoes each request's head, fresh for a minute.
fn echo() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.body();
        let raw = exchange.request.raw.clone();
        exchange.reply(200, &[("Cache-Control", "max-age=60"), ("X-Origin", "1"), ("Server", "echo")], raw);
    });
    origin
}

#[test]
fn sites_are_chosen_by_host() {
    let (a, b, rest) = (Origin::start(), Origin::start(), Origin::start());
    for (origin, text) in [(&a, "a"), (&b, "b"), (&rest, "rest")] {
        origin.put("/", Resource::new(text));
    }
    let more = format!(
        "[upstream.a]\norigins = [\"{}\"]\n[upstream.b]\norigins = [\"{}\"]\n\
         [[site]]\nhosts = [\"a.example\"]\nupstream = \"a\"\n[[site]]\nhosts = [\"*.a.example\"]\n\
         upstream = \"b\"\n",
        a.url(),
        b.url()
    );
    let weir = server(&[&rest]).more(&more).start();
    let cases = [
        ("a.example", "a"),
        ("A.Example.", "a"),
        ("x.a.example", "b"),
        ("x.y.a.example", "b"),
        ("c", "rest"),
    ];
    for (host, text) in cases {
        assert_eq!(ask(&weir, host, "/", &[]).text(), text, "{host}");
    }
}

#[test]
fn the_first_route_that_fits_is_taken() {
    let origin = echo();
    let route = |condition: &str, answer: &str| {
        format!("[[site.route]]\n{condition}\nanswer = {{ body = \"{answer}\" }}\n")
    };
    let routes = [
        route("path = \"/a/*\"", "one-level"),
        route("path = \"/a/**\"", "deep"),
        route("prefix = \"/static/\"", "prefix"),
        route("regex = '^/item/[0-9]+$'", "regex"),
        route("method = \"PUT\"", "put"),
        route("path = \"/secure\"\nscheme = \"https\"", "https"),
        route("path = \"/*/b\"", "later"),
    ]
    .concat();
    let weir = server(&[&origin]).site(&routes).start();
    let text = |target: &str, headers: &[(&str, &str)]| ask(&weir, "x", target, headers).text();
    assert_eq!(text("/a/b", &[]), "one-level");
    assert_eq!(text("/a/b?c=d/e", &[]), "one-level");
    assert_eq!(text("/a/b/c", &[]), "deep");
    assert_eq!(text("/c/b", &[]), "later");
    assert_eq!(text("/static/x/y", &[]), "prefix");
    assert_eq!(text("/item/42", &[]), "regex");
    assert!(text("/item/42a", &[]).starts_with("GET /item/42a"));
    assert_eq!(text("/secure", &[("X-Forwarded-Proto", "https")]), "https");
    assert!(text("/secure", &[]).starts_with("GET /secure"));
    assert_eq!(weir.send("PUT /other HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").text(), "put");
}

#[test]
fn answers_and_redirects_need_no_origin() {
    let origin = echo();
    let setup = setup();
    let page = setup.file("page.html", "<p>hello</p>");
    let routes = format!(
        "[[site.route]]\npath = \"/teapot\"\nanswer = {{ status = 418, body = \"short\", headers = {{ X-A = \
        \"b\" }} }}\n\
         [[site.route]]\npath = \"/page\"\nanswer = {{ body_file = \"{}\" }}\n\
         [[site.route]]\npath = \"/old/**\"\nredirect = \"https://{{host}}{{uri}}\"\n\
         [[site.route]]\npath = \"/moved\"\nredirect = {{ to = \"/new?{{query}}\", status = 307 }}\n",
        page.display()
    );
    let weir = server(&[&origin]).site(&routes).start_in(setup);
    let teapot = ask(&weir, "x", "/teapot", &[]);
    assert_eq!(
        (teapot.status(), teapot.text().as_str(), teapot.header("x-a").as_deref()),
        (418, "short", Some("b"))
    );
    let page = ask(&weir, "x", "/page", &[]);
    assert_eq!(page.text(), "<p>hello</p>");
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    let old = ask(&weir, "www.x.example", "/old/a?b=c", &[]);
    let target = Some("https://www.x.example/old/a?b=c");
    assert_eq!((old.status(), old.header("location").as_deref()), (301, target));
    let moved = ask(&weir, "x", "/moved?b=c", &[]);
    assert_eq!((moved.status(), moved.header("location").as_deref()), (307, Some("/new?b=c")));
    assert_eq!(origin.total(), 0);
}

#[test]
fn error_pages_replace_weirs_own() {
    let origin = Origin::start();
    let url = origin.url();
    drop(origin);
    let setup = setup();
    let page = setup.file("down.html", "<h1>back soon</h1>");
    let site =
        format!("[site.error_pages]\n\"502\" = {{ file = \"{}\" }}\n\"*\" = \"other\"", page.display());
    let weir = server(&[]).origins(&format!("\"{url}\"")).site(&site).start_in(setup);
    let failed = ask(&weir, "x", "/", &[]);
    assert_eq!((failed.status(), failed.text().as_str()), (502, "<h1>back soon</h1>"));
    assert!(failed.header("content-type").unwrap().starts_with("text/html"));
    assert_eq!(ask(&weir, "x", "/", &[("Cache-Control", "only-if-cached")]).text(), "other");
}

#[test]
fn maintenance_answers_all_with_503() {
    let origin = echo();
    let site = "[site.maintenance]\non = true\nretry_after = \"2m\"\npage = \"mending\"";
    let weir = server(&[&origin]).site(site).start();
    let answer = ask(&weir, "x", "/", &[]);
    assert_eq!((answer.status(), answer.text().as_str()), (503, "mending"));
    assert_eq!(answer.header("retry-after").as_deref(), Some("120"));
    assert_eq!(origin.total(), 0);
}

#[test]
fn what_is_dropped_from_the_key_is_dropped_from_the_origins_request() {
    let origin = echo();
    let routes = "[[site.route]]\nprefix = \"/drop\"\nkey = { query = { drop = [\"utm_*\", \"s\"] } }\n\
                  [[site.route]]\nprefix = \"/keep\"\nkey = { query = { keep = [\"id\"] } }\n\
                  [[site.route]]\nprefix = \"/none\"\nkey = { query = { keep = [] } }\n\
                  [[site.route]]\nprefix = \"/sort\"\nkey = { query = { sort = true } }\n";
    let weir = server(&[&origin]).site(routes).start();
    let cases = [
        ("/drop?a=1&utm_source=x&s=2&b=3", "/drop?s=9&a=1&b=3", "/drop?a=1&b=3"),
        ("/keep?id=1&x=2", "/keep?y=3&id=1", "/keep?id=1"),
        ("/none?id=1", "/none?z", "/none"),
        ("/sort?b=2&a=1", "/sort?a=1&b=2", "/sort?a=1&b=2"),
    ];
    for (first, second, asked) in cases {
        let answer = ask(&weir, "x", first, &[]);
        assert_eq!(answer.text().lines().next(), Some(format!("GET {asked} HTTP/1.1").as_str()), "{first}");
        assert!(ask(&weir, "x", second, &[]).is_hit(), "{second}");
    }
    assert_eq!(origin.total(), 4);
}

#[test]
fn fields_and_cookies_can_be_part_of_the_key() {
    let origin = echo();
    let weir = server(&[&origin]).site("[site.key]\nheaders = [\"X-Tenant\"]\ncookies = [\"lang\"]").start();
    let cases = [
        (vec![("X-Tenant", "a")], false),
        (vec![("X-Tenant", "b")], false),
        (vec![("X-Tenant", "a"), ("Cookie", "other=1")], true),
        (vec![("X-Tenant", "a"), ("Cookie", "other=2; lang=de")], false),
        (vec![("Cookie", "lang=de; other=3"), ("X-Tenant", "a")], true),
    ];
    for (headers, hit) in cases {
        let answer = ask(&weir, "x", "/", &headers);
        assert_eq!(answer.is_hit(), hit, "{headers:?}: {:?}", answer.head);
    }
}

#[test]
fn a_bypassing_request_is_neither_answered_from_the_cache_nor_stored() {
    let origin = echo();
    let site = "[site.bypass]\ncookies = [\"session*\"]\nheaders = [\"X-Preview\"]\npaths = [\"/admin/**\"]";
    let weir = server(&[&origin]).site(site).start();
    ask(&weir, "x", "/", &[]);
    assert!(ask(&weir, "x", "/", &[]).is_hit());
    for headers in [[("Cookie", "a=b; session_id=1")], [("X-Preview", "1")]] {
        let answer = ask(&weir, "x", "/", &headers);
        assert_eq!(answer.fwd().as_deref(), Some("bypass"), "{:?}", answer.head);
    }
    for _ in 0..2 {
        assert!(!ask(&weir, "x", "/admin/x", &[]).is_hit());
    }
    assert_eq!(origin.total(), 5);
}

#[test]
fn a_refresh_replaces_what_is_stored() {
    let origin = Origin::start();
    origin.put("/", Resource::fresh("old"));
    let weir = server(&[&origin]).site("[site.refresh]\nheaders = [\"X-Refresh: now\"]").start();
    ask(&weir, "x", "/", &[]);
    origin.put("/", Resource::fresh("new"));
    assert_eq!(ask(&weir, "x", "/", &[("X-Refresh", "no")]).text(), "old");
    assert_eq!(ask(&weir, "x", "/", &[("X-Refresh", "now")]).text(), "new");
    let after = ask(&weir, "x", "/", &[]);
    assert!(after.is_hit() && after.text() == "new", "{:?}", after.head);
}

#[test]
fn fields_are_set_and_removed_both_ways() {
    let origin = echo();
    let setup = setup();
    let secret = setup.file("secret", "s3cret\n");
    let site = format!(
        "[site.request_headers]\nremove = [\"Accept-Language\"]\n\
        set = {{ X-Secret = {{ file = \"{}\" }}, X-Fixed = \"1\" }}\n\
         [site.response_headers]\nremove = [\"Server\"]\nset = {{ X-Frame-Options = \"DENY\", X-Origin = \
         \"hidden\" }}\n",
        secret.display()
    );
    let weir = server(&[&origin]).site(&site).start_in(setup);
    for round in 0..2 {
        let answer = ask(&weir, "x", "/", &[("Accept-Language", "de"), ("X-Fixed", "2")]);
        assert_eq!(answer.is_hit(), round == 1);
        let text = answer.text().to_lowercase();
        assert!(text.contains("x-secret: s3cret\r\n") && text.contains("x-fixed: 1\r\n"), "{text}");
        assert!(!text.contains("accept-language") && !text.contains("x-fixed: 2"), "{text}");
        assert_eq!(answer.header("x-frame-options").as_deref(), Some("DENY"));
        assert_eq!((answer.header("x-origin").as_deref(), answer.header("server")), (Some("hidden"), None));
    }
}

#[test]
fn each_status_has_the_lifetime_that_the_route_gives_it() {
    let origin = Origin::start();
    for status in [200, 301, 302, 400, 401, 403, 404, 405, 406, 410, 418, 500, 501, 503] {
        origin.put(&format!("/{status}"), Resource::new("x").status(status));
        origin.put(&format!("/o/{status}"), Resource::fresh("x").status(status));
    }
    let table = "{ \"200,301\" = \"1d\", \"404\" = \"1m\", \"5xx\" = \"5s\", \"any\" = \"10s\" }";
    let site = format!(
        "ttl = {table}\n[[site.route]]\nprefix = \"/o/\"\nttl_override = {table}\n\
         [[site.route]]\npath = \"/410\"\nttl = \"1h\"\n"
    );
    let weir = server(&[&origin]).site(&site).start();
    for (path, ttl_s) in [
        ("/200", Some(86_400)),
        ("/301", Some(86_400)),
        ("/302", Some(10)),
        ("/418", Some(10)),
        ("/404", Some(60)),
        ("/500", Some(5)),
        ("/503", Some(5)),
        // One client's odd request may cause these.
        ("/400", None),
        ("/401", None),
        ("/403", None),
        ("/405", None),
        ("/406", None),
        ("/501", None),
        // A route's lifetimes replace those of its site as a whole.
        ("/410", None),
        ("/o/200", Some(86_400)),
        ("/o/404", Some(60)),
        ("/o/302", Some(10)),
        ("/o/503", Some(5)),
    ] {
        ask(&weir, "x", path, &[]);
        let second = ask(&weir, "x", path, &[]);
        assert_eq!(second.is_hit(), ttl_s.is_some(), "{path}: {:?}", second.head);
        let left_s = number_behind(&second.cache_status(), "ttl=");
        let expect_s = ttl_s.unwrap_or_default();
        assert!((expect_s - 4..=expect_s).contains(&left_s.unwrap_or_default()), "{path}: {left_s:?}");
    }
}

#[test]
fn lifetimes_are_set_overridden_and_sent_to_browsers() {
    let origin = Origin::start();
    origin.put("/none", Resource::new("x"));
    origin.put("/short", Resource::new("x").header("Cache-Control", "max-age=0"));
    origin.put("/told", Resource::new("x").header("Cache-Control", "max-age=10"));
    origin.put("/never", Resource::new("x").header("Cache-Control", "no-store"));
    let site = "ttl = \"60s\"\n[[site.route]]\npath = \"/short\"\nttl_override = \"5m\"\n\
                [[site.route]]\npath = \"/told\"\nbrowser_ttl = \"1h\"\n\
                [[site.route]]\npath = \"/never\"\nttl_override = \"5m\"\n";
    let weir = server(&[&origin]).site(site).start();
    for path in ["/none", "/short", "/told"] {
        ask(&weir, "x", path, &[]);
        let second = ask(&weir, "x", path, &[]);
        assert!(second.is_hit(), "{path}: {:?}", second.head);
    }
    assert!(ask(&weir, "x", "/told", &[]).header("cache-control").unwrap().contains("max-age=3600"));
    ask(&weir, "x", "/never", &[]);
    assert!(!ask(&weir, "x", "/never", &[]).is_hit());
}

/// Once, a 404 for a file that appeared a moment later was kept for a year, here and in browsers.
#[test]
fn lifetimes_without_a_status_are_for_content_and_lasting_redirects_alone() {
    let origin = Origin::start();
    let control = "max-age=7";
    for status in [200, 203, 301, 302, 404, 410, 500] {
        let resource = Resource::new("x").status(status).etag("\"1\"");
        origin.put(&format!("/said/{status}"), resource.clone().header("Cache-Control", control));
        origin.put(&format!("/none/{status}"), resource);
    }
    let site = "ttl = \"365d\"\n[[site.route]]\nprefix = \"/said/\"\nttl_override = \"365d\"\n\
    browser_ttl = \"365d\"\n";
    let weir = server(&[&origin]).site(site).start();
    let year = 365 * 24 * 3600;
    for (path, told_s, ttl_s) in [
        ("/said/200", Some(year), Some(year)),
        ("/said/203", Some(year), Some(year)),
        ("/said/301", Some(7), Some(year)),
        ("/said/302", Some(7), Some(7)),
        ("/said/404", Some(7), Some(7)),
        ("/said/500", Some(7), Some(7)),
        ("/none/200", None, Some(year)),
        ("/none/301", None, Some(year)),
        ("/none/302", None, None),
        ("/none/404", None, None),
        ("/none/410", None, None),
        ("/none/500", None, None),
    ] {
        ask(&weir, "x", path, &[]);
        let second = ask(&weir, "x", path, &[]);
        assert_eq!(second.is_hit(), ttl_s.is_some(), "{path}: {:?}", second.head);
        if let Some(ttl_s) = ttl_s {
            let left_s = number_behind(&second.cache_status(), "ttl=").unwrap();
            assert!((ttl_s - 5..=ttl_s).contains(&left_s), "{path}: {left_s}");
        }
        let told = second.header("cache-control").map(|told| number_behind(&told, "max-age=").unwrap());
        assert_eq!(told.is_some(), told_s.is_some(), "{path}");
        // Browsers subtract the age that a response has on arrival.
        let expect_s = told_s.unwrap_or_default();
        assert!((expect_s..expect_s + 5).contains(&told.unwrap_or_default()), "{path}: {told:?}");
    }
    let unchanged = ask(&weir, "x", "/said/200", &[("If-None-Match", "\"1\"")]);
    assert_eq!(unchanged.status(), 304);
    let told_s = number_behind(&unchanged.header("cache-control").unwrap(), "max-age=").unwrap();
    assert!(told_s >= year, "{told_s}");
}

/// The number behind a word.
fn number_behind(text: &str, word: &str) -> Option<i64> {
    let (_, rest) = text.split_once(word)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[test]
fn cookies_of_responses_are_handled_as_the_route_says() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.reply(200, &[("Cache-Control", "max-age=60"), ("Set-Cookie", "a=b")], "x");
    });
    let site = "[[site.route]]\npath = \"/strip\"\nset_cookie = \"strip\"\n\
                [[site.route]]\npath = \"/store\"\nset_cookie = \"store\"\n";
    let weir = server(&[&origin]).site(site).start();
    for (path, hit, cookie) in [("/default", false, true), ("/strip", true, false), ("/store", true, true)] {
        ask(&weir, "x", path, &[]);
        let second = ask(&weir, "x", path, &[]);
        assert_eq!((second.is_hit(), second.header("set-cookie").is_some()), (hit, cookie), "{path}");
    }
}

#[test]
fn stale_windows_of_the_route_take_the_place_of_the_origins() {
    let origin = Origin::start();
    origin.put("/", Resource::new("x").header("Cache-Control", "max-age=1"));
    let weir = server(&[&origin]).site("[site.stale]\nif_error = \"1h\"").start();
    ask(&weir, "x", "/", &[]);
    weir.later(Duration::from_millis(2100));
    origin.put("/", Resource::new("no").status(500));
    assert_eq!(ask(&weir, "x", "/", &[]).text(), "x");
}

#[test]
fn a_clients_directives_count_only_as_far_as_the_route_lets_them() {
    let origin = echo();
    let site = "[[site.route]]\npath = \"/ignored\"\nclient_directives = \"ignore\"\n";
    let weir = server(&[&origin]).site(site).start();
    for (path, hit) in [("/honoured", false), ("/ignored", true)] {
        ask(&weir, "x", path, &[]);
        assert_eq!(ask(&weir, "x", path, &[("Cache-Control", "no-cache")]).is_hit(), hit, "{path}");
    }
}

#[test]
fn the_host_that_the_origin_is_sent_can_be_chosen() {
    let origin = echo();
    let weir = server(&[&origin]).upstream("host = \"fixed.example\"").start();
    let text = ask(&weir, "client.example", "/", &[]).text().to_lowercase();
    assert!(text.contains("host: fixed.example\r\n"), "{text}");
    let weir = server(&[&origin]).upstream("host = \"client\"").start();
    let text = ask(&weir, "client.example", "/", &[]).text().to_lowercase();
    assert!(text.contains("host: client.example\r\n"), "{text}");
}

#[test]
fn a_location_that_names_the_origin_is_written_back() {
    let origin = Origin::start();
    origin.put("/a", Resource::new("").status(302).header("Location", "http://fixed.example/b?c"));
    origin.put("/d", Resource::new("").status(302).header("Location", "http://elsewhere.example/b"));
    let weir = server(&[&origin]).upstream("host = \"fixed.example\"").start();
    let location = |path: &str| ask(&weir, "client.example", path, &[]).header("location").unwrap();
    assert_eq!(location("/a"), "http://client.example/b?c");
    assert_eq!(location("/d"), "http://elsewhere.example/b");
}

#[test]
fn a_health_path_is_answered_on_the_data_listener() {
    let origin = echo();
    let weir = server(&[&origin]).more("[health]\npath = \"/up\"").start();
    assert_eq!(ask(&weir, "whatever", "/up", &[]).status(), 200);
    assert_eq!(origin.total(), 0);
}

#[test]
fn a_host_without_a_site_is_a_421() {
    let origin = echo();
    let text =
        server(&[&origin]).text().replace("hosts = [\"*\"]", "hosts = [\"a.example\", \"*.b.example\"]");
    let weir = Weir::of_config(setup(), &text);
    let status = |host: &str| weir.get_of(host, "/x", &[]).status();
    assert_eq!([status("a.example"), status("x.b.example"), status("A.example:80")], [200, 200, 200]);
    assert_eq!([status("c.example"), status("b.example"), status("xa.example")], [421, 421, 421]);
    assert_eq!(origin.total(), 2, "two hosts");
}
