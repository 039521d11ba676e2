//! Orders of several scopes, from the command line and by the API; what they would take; what the history
//! says of purges; and purges of a site's tag against whatever can be under way.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use weir_testkit::{Gate, Origin, Output, Resource, Response, Weir, pattern, until};

use crate::durable::settle;
use crate::server::{binary, setup};

const HOSTS: [&str; 2] = ["a.test", "b.test"];
const VOLUME: &str =
    "[cache]\nadmission = \"always\"\n[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"256MiB\"\n";

/// A Weir with two sites, purged by every client on this machine.
fn sites(origin: &Origin, more: &str) -> Weir {
    let site = |host: &&str| {
        format!(
            "[[site]]\nhosts = [\"{host}\"]\nupstream = \"main\"\npurge = {{ allow = [\"127.0.0.0/8\"] }}\n"
        )
    };
    setup().run_config(&format!(
        "trusted_proxies = []\n[admin]\nlisten = \"{{admin}}\"\n[[listen]]\naddress = \"{{listen}}\"\n\
         [upstream.main]\norigins = [\"{}\"]\n{}{more}",
        origin.url(),
        HOSTS.iter().map(site).collect::<String>()
    ))
}

fn tagged(body: impl AsRef<[u8]>, tags: &str) -> Resource {
    Resource::fresh(body).etag("\"1\"").header("Surrogate-Key", tags)
}

fn get(weir: &Weir, host: &str, path: &str) -> Response {
    weir.client().get(host, path, &[])
}

fn hits(weir: &Weir, path: &str) -> [bool; 2] {
    HOSTS.map(|host| get(weir, host, path).is_hit())
}

fn purge(weir: &Weir, args: &[&str]) -> Output {
    let said = weir.command(&[&["purge"], args].concat());
    assert_eq!(said.code, Some(0), "{args:?} {said:?}");
    said
}

/// A purge of a tag in a site, by a request.
fn by_request(weir: &Weir, host: &str, tag: &str) -> Response {
    let mut client = weir.client();
    client.send(format!("PURGE / HTTP/1.1\r\nHost: {host}\r\nxkey: {tag}\r\n\r\n"));
    let said = client.recv().unwrap();
    assert_eq!(said.status(), 200, "{}", said.text());
    said
}

fn history(weir: &Weir) -> Vec<Value> {
    let said = weir.command(&["history", "--json"]);
    let shown: Value = serde_json::from_str(&said.stdout).unwrap();
    shown["entries"].as_array().unwrap().clone()
}

#[test]
fn several_scopes_are_one_order() {
    let origin = Origin::start();
    for path in ["/x", "/y", "/dir/z", "/w"] {
        origin.put(path, tagged("body", "t"));
    }
    let weir = sites(&origin, "");
    let fill = || {
        for host in HOSTS {
            ["/x", "/y", "/dir/z", "/w"].iter().for_each(|path| drop(get(&weir, host, path)));
        }
    };
    fill();
    let said = purge(&weir, &["a.test/x", "a.test/y", "--prefix", "b.test/dir/"]);
    assert!(said.stdout.contains("3 scopes") && said.stdout.contains("; 3 held"), "{said:?}");
    assert_eq!(hits(&weir, "/x"), [false, true]);
    assert_eq!(hits(&weir, "/y"), [false, true]);
    assert_eq!(hits(&weir, "/dir/z"), [true, false]);
    assert_eq!(hits(&weir, "/w"), [true, true]);
    fill();
    let said = purge(&weir, &["--site", "b.test", "--tag", "t"]);
    assert!(said.stdout.starts_with("purged: the tag t of b.test (mark "), "{said:?}");
    assert_eq!(hits(&weir, "/x"), [true, false]);
    // None of an order is carried out where one of its scopes makes no sense.
    fill();
    let refused = weir.command(&["purge", "a.test/x", "nowhere.test/x"]);
    assert_ne!(refused.code, Some(0));
    assert_eq!(hits(&weir, "/x"), [true, true]);
    let said = purge(&weir, &["a.test:8081/x"]);
    assert!(said.stdout.contains("nothing is held") && said.stdout.contains("--prefix"), "{said:?}");
}

#[test]
fn urls_come_from_the_standard_input() {
    let origin = Origin::start();
    let paths: Vec<String> = (0..1500).map(|at| format!("/{at}")).collect();
    for path in &paths {
        origin.put(path, tagged("body", "t"));
    }
    let weir = sites(&origin, "");
    let mut client = weir.client();
    for path in &paths {
        client.get("a.test", path, &[]);
    }
    let mut child = Command::new(binary())
        .args(["purge", "-"])
        .env("STATE_DIRECTORY", weir.state())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // All but the last, with an empty line between.
    let lines: Vec<String> = paths[..1499].iter().map(|path| format!("a.test{path}\n")).collect();
    child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let said = child.wait_with_output().unwrap();
    assert!(said.status.success(), "{said:?}");
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(text.contains("1000 scopes") && text.contains("499 scopes"), "{text}");
    let held: Vec<&String> = paths.iter().filter(|path| client.get("a.test", path, &[]).is_hit()).collect();
    assert_eq!(held, ["/1499"]);
}

#[test]
fn a_dry_run_counts_exactly_and_takes_nothing() {
    for more in ["", VOLUME] {
        let origin = Origin::start();
        origin.put("/x", tagged(pattern(1, 1000), "red all"));
        origin.put("/y", tagged(pattern(2, 20_000), "blue all"));
        origin.put("/v", tagged(pattern(3, 300), "red").header("Vary", "Accept-Language"));
        let mut weir = sites(&origin, more);
        for host in HOSTS {
            ["/x", "/y"].iter().for_each(|path| drop(get(&weir, host, path)));
            for language in ["de", "fr"] {
                weir.client().get(host, "/v", &[("Accept-Language", language)]);
            }
        }
        let check = |weir: &Weir| {
            for (args, objects, bytes) in [
                (&["a.test/x"][..], 1, 1000),
                (&["a.test/v"], 2, 600),
                (&["--tag", "red"], 6, 2 * 1600),
                (&["--tag", "red", "--site", "a.test"], 3, 1600),
                (&["--tag", "red", "--tag", "all", "a.test/x"], 8, 2 * 21_600),
                (&["--prefix", "b.test/"], 4, 21_600),
                (&["--site", "b.test"], 4, 21_600),
                (&["--all"], 8, 2 * 21_600),
                (&["--tag", "nobody"], 0, 0),
            ] {
                let said = purge(weir, &[args, &["--dry-run", "--json"]].concat());
                let counted: Value = serde_json::from_str(&said.stdout).unwrap();
                assert_eq!(counted, json!({ "objects": objects, "bytes": bytes }), "{more} {args:?}");
            }
        };
        check(&weir);
        if !more.is_empty() {
            settle(&weir);
            weir.restart();
            check(&weir);
        }
        assert_eq!((hits(&weir, "/x"), hits(&weir, "/y")), ([true, true], [true, true]));
        purge(&weir, &["--tag", "red"]);
        let said = purge(&weir, &["--all", "--dry-run"]);
        assert_eq!(said.stdout, "would take 2 objects, 39.1 KiB\n", "what is purged is not counted");
    }
}

#[test]
fn a_token_of_a_site_purges_the_tags_of_that_site() {
    let origin = Origin::start();
    origin.put("/x", tagged("body", "p-12"));
    let weir = sites(&origin, "");
    HOSTS.iter().for_each(|host| drop(get(&weir, host, "/x")));
    let made = weir.command(&["token", "add", "cms", "--role", "purge", "--site", "a.test"]);
    let token = made.stdout.lines().next().unwrap().to_owned();
    let ask = |path: &str, body: &str| {
        let mut client = weir_testkit::Client::connect(weir.admin());
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            weir.admin(),
            body.len()
        ));
        client.recv().unwrap()
    };
    let counted = ask("/v1/purge/dry-run", r#"{"scope":{"tags":["p-12"]}}"#);
    let job = counted.header("Location").unwrap();
    weir_testkit::until("it is counted", || {
        weir.admin_get_with(&job, &token).text().contains("\"objects\":1,\"bytes\"")
    });
    let foreign = r#"{"scopes":[{"tags-of":{"site":"b.test","tags":["p-12"]}},{"url":"a.test/x"}]}"#;
    assert_eq!(ask("/v1/purge", foreign).status(), 403);
    assert_eq!(ask("/v1/purge/dry-run", foreign).status(), 403);
    assert_eq!(hits(&weir, "/x"), [true, true]);
    assert_eq!(ask("/v1/purge", r#"{"scope":{"tags":["p-12"]}}"#).status(), 200);
    assert_eq!(hits(&weir, "/x"), [false, true]);
    let many: Vec<String> = (0..1001).map(|at| format!("{{\"url\":\"a.test/{at}\"}}")).collect();
    assert_eq!(ask("/v1/purge", &format!("{{\"scopes\":[{}]}}", many.join(","))).status(), 422);
}

#[test]
fn purges_by_requests_are_in_the_history() {
    let origin = Origin::start();
    let weir = sites(&origin, "");
    by_request(&weir, "a.test", "red");
    let send = |head: &str| {
        let mut client = weir.client();
        client.send(format!("{head}\r\n\r\n"));
        client.recv().unwrap().status()
    };
    assert_eq!(send("PURGE / HTTP/1.1\r\nHost: b.test\r\nX-Cache-Tags-Pattern: p-[0-9]+"), 200);
    assert_eq!(send("PURGE /x HTTP/1.1\r\nHost: b.test\r\nX-Purge-Method: tags"), 400);
    let entries = until_some("all three are written", || {
        let entries = history(&weir);
        (entries.len() >= 3).then_some(entries)
    });
    let [tags, wider, refused] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!(tags["actor"], "client:127.0.0.1");
    assert_eq!(
        (&tags["act"], &tags["result"], &tags["sites"]),
        (&json!("purge"), &json!("done"), &json!(["a.test"]))
    );
    assert_eq!(tags["scope"], json!({ "host": "a.test", "tags": ["red"] }));
    assert!(tags["mark"].is_string() && tags["request_id"].is_string(), "{tags}");
    assert_eq!(wider["scope"]["unread"], "x-cache-tags-pattern: p-[0-9]+");
    assert_eq!((&wider["scope"]["all"], &wider["sites"]), (&json!(true), &json!(["b.test"])));
    assert_eq!((&refused["act"], &refused["result"]), (&json!("purge"), &json!("refused")));
    assert_eq!(refused["request"], "PURGE /x");
    assert_eq!(weir.metric("weir_purges_widened_total"), Some(1.0));
}

fn until_some<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let mut found = None;
    until(what, || {
        found = look();
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_tag_of_a_site_ends_its_fill_and_no_other() {
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.put("/x", tagged(pattern(1, 300_000), "t").body_gate(100_000, &gate));
    let weir = sites(&origin, "");
    let mut readers = HOSTS.map(|host| {
        let mut client = weir.client();
        client.send_get(host, "/x", &[]);
        client.recv_head_only().unwrap();
        client
    });
    origin.put("/x", tagged(pattern(2, 300_000), "t"));
    by_request(&weir, "a.test", "t");
    assert!(get(&weir, "a.test", "/x").body == pattern(2, 300_000), "the purged fill is joined by nobody");
    gate.open();
    for reader in &mut readers {
        let mut got = Vec::new();
        while got.len() < 300_000 {
            let piece = reader.read_some();
            assert!(!piece.is_empty(), "cut after {}", got.len());
            got.extend(piece);
        }
        assert!(got == pattern(1, 300_000), "its reader gets it whole");
    }
    until("the other fill is held", || get(&weir, "b.test", "/x").is_hit());
    assert!(get(&weir, "b.test", "/x").body == pattern(1, 300_000), "the other site's fill lives");
    assert!(get(&weir, "a.test", "/x").is_hit() && get(&weir, "a.test", "/x").body == pattern(2, 300_000));
}

#[test]
fn a_tag_of_a_site_takes_variants_and_parts() {
    let origin = Origin::start();
    origin.put("/v", tagged("body", "t").header("Vary", "Accept-Language"));
    origin.put("/part", tagged(pattern(1, 3_000_000), "t").ranges());
    let weir = sites(&origin, "");
    let ask = |host: &str, path: &str, field: (&str, &str)| weir.client().get(host, path, &[field]);
    let asked = [
        ("/v", ("Accept-Language", "de")),
        ("/v", ("Accept-Language", "fr")),
        ("/part", ("Range", "bytes=2200000-2200099")),
    ];
    for host in HOSTS {
        for (path, field) in asked {
            ask(host, path, field);
            until("it is held", || ask(host, path, field).is_hit());
        }
    }
    by_request(&weir, "b.test", "t");
    for (path, field) in asked {
        assert!(ask("a.test", path, field).is_hit(), "{path} {field:?}");
        assert!(!ask("b.test", path, field).is_hit(), "{path} {field:?}");
    }
}

#[test]
fn an_acknowledged_purge_of_a_sites_tag_survives_a_kill() {
    let origin = Origin::start();
    for number in 0..20 {
        origin.put(
            &format!("/{number}"),
            tagged(pattern(number, 5000), if number < 10 { "low" } else { "high" }),
        );
    }
    let mut weir = sites(&origin, VOLUME);
    let all = |weir: &Weir| {
        let mut client = weir.client();
        HOSTS.map(|host| {
            (0..20).map(|number| client.get(host, &format!("/{number}"), &[]).is_hit()).collect::<Vec<_>>()
        })
    };
    all(&weir);
    settle(&weir);
    by_request(&weir, "a.test", "low");
    weir.signal("KILL");
    weir.start_again();
    let [own, other] = all(&weir);
    assert_eq!(own, (0..20).map(|number| number >= 10).collect::<Vec<_>>(), "gone, also from the volume");
    assert!(other.iter().all(|is_hit| *is_hit), "the other site is as it was: {other:?}");
}
