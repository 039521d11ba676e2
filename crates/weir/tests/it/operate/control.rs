//! Commands to a running Weir: reload, explain, status.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::time::Instant;

use weir_testkit::{Origin, Resource, until};

use crate::server::{before, server, setup};

fn answer(text: &str) -> String {
    server(&[])
        .origins("\"http://127.0.0.1:9\"")
        .site(&format!("[[site.route]]\npath = \"/**\"\nanswer = {{ body = \"{text}\" }}"))
        .text()
}

#[test]
fn a_reload_puts_the_new_file_in_force() {
    let weir = setup().run_config(&answer("one"));
    assert_eq!(weir.get("/").text(), "one");
    weir.rewrite_config(&answer("two"));
    assert_eq!(weir.get("/").text(), "one");
    let output = weir.reload();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(weir.get("/").text(), "two");
    weir.rewrite_config(&answer("three"));
    weir.signal("HUP");
    until("the hangup reloads", || weir.get("/").text() == "three");
}

#[test]
fn a_bad_file_is_refused_and_the_old_one_stays() {
    let mut weir = setup().run_config(&answer("one"));
    weir.rewrite_config(&(answer("two") + "\n[limits]\nlien = \"1KiB\"\nhead = 7\n"));
    let output = weir.reload();
    let said = format!("{}{}", output.stdout, output.stderr);
    assert_ne!(output.code, Some(0), "{said}");
    assert!(said.contains("lien") && said.contains("line") && said.contains("weir.toml"), "{said}");
    assert_eq!(weir.get("/").text(), "one");
    weir.signal("HUP");
    weir.await_stderr("lien");
    assert_eq!(weir.get("/").text(), "one");
    assert!(weir.runs());
}

#[test]
fn stored_objects_survive_a_reload() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    let server = server(&[&origin]);
    let weir = server.start();
    weir.get("/x");
    weir.rewrite_config(&server.site("[site.response_headers]\nset = { X-New = \"1\" }").text());
    assert_eq!(weir.reload().code, Some(0));
    let after = weir.get("/x");
    assert!(after.is_hit(), "{:?}", after.head);
    assert_eq!(after.header("x-new").as_deref(), Some("1"));
}

#[test]
fn a_listener_is_added_and_taken_away_by_a_reload() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    let weir = server(&[&origin]).start();
    let more = std::net::SocketAddr::from(([127, 0, 0, 1], weir_testkit::free_port()));
    weir.rewrite_config(&server(&[&origin]).more(&format!("[[listen]]\naddress = \"{more}\"")).text());
    let output = weir.reload();
    assert_eq!(output.code, Some(0), "{output:?}");
    let said = format!("{}{}{}", output.stdout, output.stderr, weir.stderr());
    // Either it listens there from now on, or it says that this needs a restart.
    let listens = || weir_testkit::Address::Tcp(more).connect().is_ok();
    until("it listens or says why not", || said.contains("restart") || listens());
    assert_eq!(weir.get("/x").text(), "hello");
}

#[test]
fn the_control_socket_is_for_its_owner() {
    let origin = Origin::start();
    let weir = before(&origin);
    let state = weir.state();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700, "{state:?}");
    let entries = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap());
    let sockets: Vec<_> = entries.filter(|entry| entry.file_type().unwrap().is_socket()).collect();
    assert_eq!(sockets.len(), 1, "{sockets:?}");
    assert_eq!(mode(&sockets[0].path()), 0o600);
}

#[test]
fn status_says_what_runs() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    let weir = before(&origin);
    weir.get("/x");
    let plain = weir.command(&["status"]);
    assert_eq!(plain.code, Some(0), "{plain:?}");
    assert!(plain.stdout.contains(&weir.addr().to_string()), "{}", plain.stdout);
    let json = weir.command(&["status", "--json"]);
    assert_eq!(json.code, Some(0), "{json:?}");
    assert!(json.stdout.trim_start().starts_with('{') && json.stdout.contains("\"plan\""), "{}", json.stdout);
}

#[test]
fn explain_says_what_would_happen_and_asks_nobody() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    let weir = before(&origin);
    let url = format!("http://{}/x", weir.addr());
    let explain = |more: &[&str]| weir.command(&[&["explain", url.as_str()], more].concat());
    let cold = explain(&[]);
    assert_eq!(cold.code, Some(0), "{cold:?}");
    assert!(cold.stdout.contains("miss"), "{}", cold.stdout);
    assert_eq!(origin.total(), 0);
    let mut client = weir.client();
    client.get(&weir.addr().to_string(), "/x", &[]);
    let warm = explain(&[]);
    assert!(warm.stdout.contains("hit") && warm.stdout.contains("max-age"), "{}", warm.stdout);
    assert!(explain(&["--json"]).stdout.contains("\"verdict\""));
    assert_eq!(origin.total(), 1);
}

#[test]
fn explain_names_what_the_log_and_cache_status_name() {
    let origin = Origin::start();
    let fields = [
        ("Cache-Control", "max-age=60, stale-while-revalidate=5"),
        ("Surrogate-Key", "shop p-1"),
        ("Vary", "Accept-Language"),
        ("ETag", "\"1\""),
    ];
    origin.on("/x", move |exchange| {
        exchange.reply(200, &fields, "hello");
    });
    origin.on("/private", |exchange| {
        exchange.reply(200, &[("Cache-Control", "private")], "yours");
    });
    let rules = "ttl = \"5m\"\nshow_key = true\nkey = { query = { drop = [\"utm_*\"] } }\n[site.bypass]\n\
    cookies = [\"session*\"]";
    let weir = server(&[&origin]).site(rules).start();
    let explain = |path: &str, more: &[&str]| {
        let url = format!("http://localhost{path}");
        let output = weir.command(&[&["explain", url.as_str()], more].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        output.stdout
    };
    let german = ["-H", "Accept-Language: de"];
    let said = weir.get_with("/x?a=1&utm_source=mail", &[("Accept-Language", "de")]);
    let status = said.header("cache-status").unwrap();
    let key = "http://localhost/x?a=1";
    assert!(status.contains(&format!("key=\"{key}\"")), "{status}");
    let held = explain("/x?a=1&utm_source=mail", &german);
    for expected in [
        key,
        "utm_source=mail",
        "GET /x?a=1",
        "of 60 s (max-age)",
        "<- matches",
        "for accept-language: de",
        "stale-while-revalidate 5 s",
        "tags: shop; p-1",
        "cookie session*",
        "ttl = \"5m\"",
        "weir.toml:",
        "verdict      hit",
        "weir; hit; ttl=",
    ] {
        assert!(held.contains(expected), "no {expected} in:\n{held}");
    }
    let other = explain("/x?a=1", &["-H", "Accept-Language: fr"]);
    assert!(other.contains("miss: vary") && !other.contains("if-none-match"), "{other}");
    let past = explain("/x?a=1", &["-H", "Cookie: session1=2"]);
    assert!(past.contains("pass: bypass-cookie") && past.contains("cookie session* (this one)"), "{past}");
    weir.get("/private");
    let private = explain("/private", &[]);
    assert!(private.contains("not stored   private"), "{private}");
    let json: serde_json::Value =
        serde_json::from_str(&explain("/x?a=1", &["--json", "-H", "Accept-Language: de"])).unwrap();
    assert_eq!(json["stored"][0]["tags"][1], "p-1", "{json}");
    assert_eq!((origin.count("/x?a=1"), origin.total()), (1, 2));
}

#[test]
fn commands_without_a_running_weir_explain_that() {
    let setup = setup();
    for command in ["reload", "status"] {
        let output = setup.command(&[command]);
        assert_ne!(output.code, Some(0), "{output:?}");
        assert!(!output.stderr.trim().is_empty(), "{output:?}");
        assert!(!output.stderr.contains("panicked"), "{output:?}");
    }
}

#[test]
fn a_thousand_sites_of_ten_routes_reload() {
    let site = |number: usize, word: &str| {
        let routes: String = (0..10)
            .map(|at| {
                format!(
                    "[[site.route]]\npath = \"/r{at}/**\"\nanswer = {{ body = \"{word} {number} {at}\" }}\n"
                )
            })
            .collect();
        format!(
            "[[site]]\nhosts = [\"s{number}.example\", \"*.s{number}.example\"]\nupstream = \"main\"\n\
            {routes}"
        )
    };
    let text = |word: &str| {
        let sites: String = (0..1000).map(|number| site(number, word)).collect();
        server(&[]).origins("\"http://127.0.0.1:9\"").more(&sites).text()
    };
    let weir = setup().run_config(&text("old"));
    let ask = |host: &str, target: &str| weir.client().get(host, target, &[]).text();
    assert_eq!(ask("s999.example", "/r9/x"), "old 999 9");
    weir.rewrite_config(&text("new"));
    let begun = Instant::now();
    let output = weir.reload();
    println!("1,000 sites of 10 routes reloaded in {:?}", begun.elapsed());
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(ask("a.s0.example", "/r0/x"), "new 0 0");
    assert_eq!(ask("s999.example", "/r9/x"), "new 999 9");
}

#[test]
fn explain_shows_what_is_stored_of_each_variant() {
    const LENGTH: usize = 4 << 20;
    let origin = Origin::start();
    let fields = Resource::fresh(vec![b'x'; LENGTH]).etag("\"1\"").ranges();
    let fields = fields.header("Surrogate-Key", "one two").header("X-Evil", "a\u{9b}2Jb\u{202e}c");
    origin.put("/part", fields.clone());
    origin.put("/whole", fields);
    let volume = "[cache]\nadmission = \"always\"\n\
                  [[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"512MiB\"\n";
    let weir = server(&[&origin]).site("range.chunk = \"1MiB\"\n").more(volume).start();
    assert_eq!(weir.get("/whole").status(), 200);
    assert_eq!(weir.get_with("/part", &[("Range", "bytes=1048576-1048580")]).status(), 206);
    let explain = |path: &str, more: &[&str]| {
        let url = format!("http://localhost{path}");
        weir.command(&[&["explain", url.as_str()], more].concat()).stdout
    };
    let json =
        |path: &str| -> serde_json::Value { serde_json::from_str(&explain(path, &["--json"])).unwrap() };
    until("both are on the volume", || {
        ["/whole", "/part"].iter().all(|path| json(path)["stored"][0]["volume"].is_string())
    });
    let (whole, part) = (json("/whole"), json("/part"));
    let (whole, part) = (&whole["stored"][0], &part["stored"][0]);
    assert_eq!((&whole["held_bytes"], whole["held"].is_null()), (&LENGTH.into(), true), "{whole:#}");
    assert_eq!(part["held"], serde_json::json!([{ "first": 1048576, "last": 1114111 }]), "{part:#}");
    assert_eq!(part["tags"], serde_json::json!(["one", "two"]), "{part:#}");
    let fields = part["fields"].as_array().unwrap();
    assert!(fields.contains(&serde_json::json!(["x-evil", "a\u{9b}2Jb\u{202e}c"])), "{part:#}");
    let text = explain("/part", &[]);
    assert!(text.contains("  holds 1048576-1114111\n"), "{text}");
    assert!(text.contains("on the volume ") && text.contains("/volume\n"), "{text}");
    assert!(text.contains("  x-evil: a\\u009b2Jb\\u202ec\n"), "{text}");
    assert!(text.contains("  tags: one; two\n"), "{text}");
    assert!(
        !text.contains('\u{9b}') && !explain("/part", &["--json"]).contains(['\u{9b}', '\u{202e}']),
        "{text}"
    );
}
