//! Purges on the real binary: by each scope, hard and soft, by the command line, the control socket and
//! `PURGE`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use weir_testkit::{Address, Client, Gate, Origin, Output, Resource, Response, Weir, pattern, until};

use crate::server::{before, server, setup};

const ALLOWED: &str = "purge = { allow = [\"127.0.0.0/8\"] }";

fn purge(weir: &Weir, args: &[&str]) -> Output {
    let output = weir.command(&[&["purge"], args].concat());
    assert_eq!(output.code, Some(0), "{args:?} {output:?}");
    output
}

fn status(weir: &Weir) -> Value {
    let output = weir.command(&["status", "--json"]);
    serde_json::from_str(&output.stdout).unwrap()
}

fn number(weir: &Weir) -> u64 {
    digits(&status(weir)["ledger"]["number"])
}

/// A number of the ledger: a string of digits, so that no reader of JSON rounds it.
fn digits(value: &Value) -> u64 {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).parse().unwrap()
}

fn ask(weir: &Weir, target: &str) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", target, &[]);
    client
}

/// Sends a request of this method on a connection of its own.
fn request(weir: &Weir, method: &str, target: &str, fields: &str) -> Response {
    let mut client = weir.client();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
    client.recv().unwrap()
}

const PATHS: [&str; 4] = ["/a", "/dir/b", "/dir/c?x=1", "/d"];

/// The paths of `PATHS` on `localhost` that each scope concerns, and whether it concerns `/a` of
/// `other.test`.
const SCOPES: [(&[&str], [bool; 4], bool); 9] = [
    (&["http://localhost/a"], [true, false, false, false], false),
    (&["localhost/dir/c?x=1"], [false, false, true, false], false),
    (&["localhost/dir/c"], [false, false, false, false], false),
    (&["--prefix", "http://localhost/dir/"], [false, true, true, false], false),
    (&["--prefix", "other.test/"], [false, false, false, false], true),
    (&["--tag", "red"], [true, false, true, false], true),
    (&["--tag", "green", "--tag", "blue"], [false, true, false, true], false),
    (&["--site", "other.test"], [false, false, false, false], true),
    (&["--all"], [true, true, true, true], true),
];

/// A Weir with two sites that has stored all of them.
fn holding() -> (Origin, Weir) {
    let origin = Origin::start();
    let tagged = |name: &str, value: &str| Resource::fresh("old").etag("\"1\"").header(name, value);
    origin.put("/a", tagged("Surrogate-Key", "red dark"));
    origin.put("/dir/b", tagged("Cache-Tag", "green, light"));
    origin.put("/dir/c", tagged("xkey", "red,light"));
    origin.put("/d", tagged("X-Cache-Tags", "blue"));
    let weir = server(&[&origin]).more("[[site]]\nhosts = [\"other.test\"]\nupstream = \"main\"").start();
    let mut client = weir.client();
    for (host, path) in everything() {
        assert_eq!(client.get(host, path, &[]).text(), "old");
    }
    (origin, weir)
}

fn everything() -> impl Iterator<Item = (&'static str, &'static str)> {
    PATHS.iter().map(|path| ("localhost", *path)).chain([("other.test", "/a")])
}

#[test]
fn each_scope_removes_exactly_what_it_concerns() {
    let (origin, weir) = holding();
    for (args, of_localhost, of_other) in SCOPES {
        let expect: Vec<bool> = of_localhost.into_iter().chain([of_other]).collect();
        let said = purge(&weir, args);
        assert!(said.stdout.starts_with("purged: ") && said.stdout.contains("(mark "), "{said:?}");
        let mut client = weir.client();
        let asked = origin.total();
        let fetched: Vec<bool> =
            everything().map(|(host, path)| !client.get(host, path, &[]).is_hit()).collect();
        assert_eq!(fetched, expect, "{args:?}");
        assert_eq!(origin.total() - asked, expect.iter().filter(|fetched| **fetched).count());
        let seen = origin.seen();
        assert!(seen[asked..].iter().all(|seen| seen.request.header("if-none-match").is_none()), "{args:?}");
    }
}

#[test]
fn each_soft_scope_makes_exactly_its_objects_stale() {
    let (origin, weir) = holding();
    for (args, of_localhost, of_other) in SCOPES {
        let expect: Vec<bool> = of_localhost.into_iter().chain([of_other]).collect();
        let said = purge(&weir, &[args, &["--soft"]].concat());
        assert!(said.stdout.starts_with("stale from now on: "), "{said:?}");
        let mut client = weir.client();
        let asked = origin.total();
        for ((host, path), is_stale) in everything().zip(&expect) {
            let answer = client.get(host, path, &[]);
            assert_eq!((answer.status(), answer.text().as_str()), (200, "old"));
            assert_eq!(answer.fwd().as_deref() == Some("stale"), *is_stale, "{args:?} {:?}", answer.head);
        }
        let seen = origin.seen();
        let asked: Vec<_> = seen[asked..].iter().map(|seen| seen.request.header("if-none-match")).collect();
        assert_eq!(asked.len(), expect.iter().filter(|stale| **stale).count(), "{args:?}");
        assert!(asked.iter().all(|tag| tag.as_deref() == Some("\"1\"")), "a 304 is enough");
        let all_hit = everything().all(|(host, path)| client.get(host, path, &[]).is_hit());
        assert!(all_hit, "{args:?}: the 304 has made them fresh");
    }
}

#[test]
fn a_url_goes_with_all_its_variants_and_keys() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("x").header("Vary", "Accept-Language"));
    let key = "key = { headers = [\"X-Country\"], query = { drop = [\"utm_*\"] } }";
    let weir = server(&[&origin]).site(key).start();
    let fields: Vec<Vec<(&str, &str)>> = ["de", "fr"]
        .iter()
        .flat_map(|language| {
            let country = |country| vec![("Accept-Language", *language), ("X-Country", country)];
            [country("DE"), country("FR"), vec![("Accept-Language", *language)]]
        })
        .collect();
    for round in 1..=2 {
        for fields in &fields {
            assert!(!weir.get_with("/x?utm_source=mail", fields).is_hit(), "{fields:?}");
            assert!(weir.get_with("/x", fields).is_hit(), "{fields:?}");
        }
        assert_eq!(origin.count("/x"), 6 * round);
        purge(&weir, &["localhost/x?utm_source=news"]);
    }
}

#[test]
fn a_purge_during_a_fill_leaves_it_to_its_present_readers() {
    for args in [&["http://localhost/x"][..], &["--tag", "t"], &["--all"]] {
        let (origin, gate) = (Origin::start(), Gate::new());
        let (old, new) = (pattern(1, 300_000), pattern(2, 200_000));
        let tagged = |body: &[u8]| Resource::fresh(body).header("Surrogate-Key", "t");
        origin.put("/x", tagged(&old).body_gate(100_000, &gate));
        let weir = before(&origin);
        let mut first = ask(&weir, "/x");
        origin.await_count("/x", 1);
        let early = first.recv_head_only().unwrap();
        assert!(early.header("content-length").as_deref() == Some("300000"));
        origin.put("/x", tagged(&new));
        purge(&weir, args);
        assert!(weir.get("/x").body == new, "{args:?}");
        assert_eq!(origin.count("/x"), 2, "{args:?}: nobody joins what was asked for before");
        gate.open();
        let mut got = Vec::new();
        while got.len() < old.len() {
            let piece = first.read_some();
            assert!(!piece.is_empty(), "{args:?}: cut after {}", got.len());
            got.extend(piece);
        }
        assert!(got == old);
        let after = weir.get("/x");
        assert!(after.is_hit() && after.body == new, "{args:?} {:?}", after.head);
    }
}

#[test]
fn a_purge_before_the_head_of_a_fill_counts_for_later_requests() {
    for args in
        [&["http://localhost/x"][..], &["--all", "--soft"], &["--tag", "t"], &["--tag", "t", "--soft"]]
    {
        let (origin, gate) = (Origin::start(), Gate::new());
        let tagged = |body: &str| Resource::fresh(body).header("Surrogate-Key", "t");
        origin.put("/x", tagged("old").head_gate(&gate));
        let weir = before(&origin);
        let mut first = ask(&weir, "/x");
        origin.await_count("/x", 1);
        purge(&weir, args);
        origin.put("/x", tagged("new"));
        let mut second = ask(&weir, "/x");
        if args.contains(&"--tag") {
            // Nobody knows yet which tags the first response will have. The second request waits for it and
            // then fetches again. Or the mark was swept by now, with all that was requested before it.
            until("both wait, or the second has asked by itself", || {
                let is_waiting = weir.metric("weir_requests_running").is_some_and(|now| now >= 2.0);
                is_waiting || origin.count("/x") >= 2
            });
            gate.open();
        }
        assert_eq!(second.recv().unwrap().text(), "new", "{args:?}");
        gate.open();
        assert_eq!(first.recv().unwrap().text(), "old");
        let after = weir.get("/x");
        assert!(after.is_hit() && after.text() == "new", "{args:?} {:?}", after.head);
    }
}

#[test]
fn an_object_purged_during_its_revalidation_is_not_sent_stale() {
    for (args, expect) in [(&["--tag", "t"][..], 503), (&["--tag", "t", "--soft"], 200)] {
        let (origin, gate) = (Origin::start(), Gate::new());
        let lasting = "max-age=0, stale-if-error=600";
        let resource = Resource::new("old").header("Cache-Control", lasting).etag("\"1\"");
        origin.put("/x", resource.header("Surrogate-Key", "t"));
        let weir = server(&[&origin]).site("revalidation_wait = \"60s\"").start();
        assert_eq!(weir.get("/x").text(), "old");
        origin.put("/x", Resource::new("broken").status(503).head_gate(&gate));
        let mut client = ask(&weir, "/x");
        origin.await_count("/x", 2);
        purge(&weir, args);
        gate.open();
        assert_eq!(client.recv().unwrap().status(), expect, "{args:?}");
    }
}

#[test]
fn a_soft_purge_opens_the_window_of_stale_while_revalidate() {
    let origin = Origin::start();
    let fresh = |body: &str, tag: &str| {
        Resource::new(body).header("Cache-Control", "max-age=3600, stale-while-revalidate=600").etag(tag)
    };
    origin.put("/x", fresh("old", "\"1\""));
    let weir = before(&origin);
    assert_eq!(weir.get("/x").text(), "old");
    origin.put("/x", fresh("new", "\"2\""));
    purge(&weir, &["--soft", "localhost/x"]);
    let stale = weir.get("/x");
    assert_eq!(stale.text(), "old");
    let status = stale.cache_status();
    let ttl_s: i64 =
        status.strip_prefix("weir; hit; ttl=").unwrap_or_else(|| panic!("{status}")).parse().unwrap();
    assert!(ttl_s <= 0, "past its lifetime since the purge: {status}");
    until("it is refreshed without a client", || weir.get("/x").text() == "new");
    let fresh = weir.get("/x");
    assert!(fresh.is_hit() && origin.count("/x") == 2, "{:?}", fresh.head);
}

/// The other rows of the table in `docs/guide/purging.md`.
#[test]
fn a_soft_purge_without_a_window_demands_validation() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("old").etag("\"1\""));
    let log = "[log]\naccess = \"json\"\npath = \"{folder}/access.log\"";
    let weir = server(&[&origin]).more(log).start();
    let ask = || {
        let status = weir.get("/x").cache_status();
        status.split("; ").skip(1).filter(|part| !part.starts_with("ttl=")).collect::<Vec<_>>().join("; ")
    };
    weir.get("/x");
    purge(&weir, &["--soft", "--all"]);
    assert_eq!(ask(), "fwd=stale; fwd-status=304");
    origin.put("/x", Resource::fresh("new").etag("\"2\""));
    purge(&weir, &["--soft", "--all"]);
    assert_eq!(ask(), "fwd=stale; fwd-status=200; stored");
    purge(&weir, &["--soft", "--all"]);
    drop(origin);
    assert_eq!(ask(), "hit; detail=stale-if-unreachable");
    let lines = || std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
    until("all is logged", || lines().lines().count() == 4);
    let told: Vec<(String, String)> = lines()
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            (text("outcome"), text("detail"))
        })
        .collect();
    let expect = [
        ("miss", "uri-miss"),
        ("revalidated", "soft-purged"),
        ("miss", "soft-purged"),
        ("stale", "stale-if-unreachable"),
    ];
    assert_eq!(told, expect.map(|(outcome, detail)| (outcome.to_owned(), detail.to_owned())));
}

#[test]
fn a_softly_purged_object_is_sent_when_the_origin_fails() {
    let origin = Origin::start();
    let lasting = "max-age=3600, stale-if-error=600";
    origin.put("/x", Resource::new("old").header("Cache-Control", lasting).etag("\"1\""));
    origin.put("/y", Resource::fresh("old").etag("\"1\""));
    let weir = before(&origin);
    assert_eq!((weir.get("/x").text(), weir.get("/y").text()), ("old".to_owned(), "old".to_owned()));
    purge(&weir, &["--soft", "--all"]);
    for path in ["/x", "/y"] {
        origin.put(path, Resource::new("broken").status(503));
    }
    let stale = weir.get("/x");
    assert_eq!((stale.status(), stale.text().as_str()), (200, "old"));
    assert!(stale.cache_status().contains("stale-if-error"), "{:?}", stale.head);
    assert_eq!(weir.get("/y").status(), 503, "without a window nothing stale goes out");
    purge(&weir, &["--all"]);
    assert_eq!(weir.get("/x").status(), 503, "what was purged hard does not");
}

#[test]
fn explain_names_a_soft_purge() {
    let origin = Origin::start();
    let swr = "max-age=3600, stale-while-revalidate=600";
    origin.put("/x", Resource::fresh("x").etag("\"1\""));
    origin.put("/y", Resource::new("y").header("Cache-Control", swr));
    let weir = before(&origin);
    weir.get("/x");
    weir.get("/y");
    purge(&weir, &["--soft", "--all"]);
    let explain = |path: &str| weir.command(&["explain", &format!("http://localhost{path}")]).stdout;
    let said = explain("/x");
    assert!(said.contains("revalidate: soft-purged  (what is held was purged softly"), "{said}");
    assert!(said.contains("  soft-purged; stale-if-unreachable 3600 s\n"), "{said}");
    assert!(said.contains("stale for 0 s"), "{said}");
    let said = explain("/y");
    assert!(
        said.contains("stale: stale  (it goes out stale") && said.contains("it was purged softly"),
        "{said}"
    );
}

#[test]
fn purge_requests_are_refused_by_default() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("x"));
    let weir = before(&origin);
    weir.get("/x");
    let refused = request(&weir, "PURGE", "/x", "");
    assert_eq!(refused.status(), 405);
    assert!(refused.header("allow").is_some_and(|allow| allow.contains("GET")), "{:?}", refused.head);
    assert!(weir.get("/x").is_hit());
    assert_eq!(origin.total(), 1, "it is not passed on");
}

#[test]
fn purge_requests_of_allowed_clients_are_done() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("x").header("Vary", "Accept-Language"));
    origin.put("/y", Resource::fresh("y"));
    let weir = server(&[&origin]).site(ALLOWED).start();
    for language in ["de", "fr"] {
        weir.get_with("/x", &[("Accept-Language", language)]);
        weir.get_with("/x", &[("Accept-Language", language), ("X-Forwarded-Proto", "https")]);
    }
    weir.get("/y");
    assert_eq!(origin.total(), 5);
    let done = request(&weir, "PURGE", "/x", "");
    assert_eq!(done.status(), 200);
    assert_eq!(done.text(), format!("purged: mark {}, exact; 4 held\n", number(&weir)));
    assert_eq!(done.header("cache-status").as_deref(), Some("weir; detail=purged"));
    assert!(weir.get("/y").is_hit());
    for language in ["de", "fr"] {
        for scheme in ["http", "https"] {
            let fields = [("Accept-Language", language), ("X-Forwarded-Proto", scheme)];
            assert!(!weir.get_with("/x", &fields).is_hit(), "{fields:?}");
        }
    }
}

#[test]
fn the_resolved_address_decides_who_may_purge() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("x"));
    let site = "purge = { allow = [\"127.0.0.0/8\", \"192.0.2.7\"] }";
    let weir = server(&[&origin]).site(site).start();
    for (fields, expect) in [
        ("", 200),
        ("X-Forwarded-For: 192.0.2.7\r\n", 200),
        ("X-Forwarded-For: 192.0.2.8\r\n", 405),
        ("X-Forwarded-For: 192.0.2.7, 192.0.2.8\r\n", 405),
        ("X-Forwarded-For: 192.0.2.8, 127.0.0.1\r\n", 405),
        ("X-Forwarded-For: nobody\r\n", 405),
        ("Via: 1.1 front\r\n", 405),
        ("X-Forwarded-For: 192.0.2.8\r\nConnection: X-Forwarded-For\r\n", 400),
    ] {
        assert_eq!(request(&weir, "PURGE", "/x", fields).status(), expect, "{fields:?}");
    }
    let untrusting = server(&[&origin]).top("trusted_proxies = []").site(ALLOWED).start();
    let said = request(&untrusting, "PURGE", "/x", "X-Forwarded-For: 192.0.2.8\r\n");
    assert_eq!(said.status(), 200, "who is not trusted speaks for itself");
    let listen = "address = \"{listen}\"";
    let text = server(&[&origin]).site(site).text();
    let proxied = setup().run_config(&text.replace(listen, &format!("{listen}\nproxy_protocol = \"v1\"")));
    for (client, expect) in [("192.0.2.7", 200), ("192.0.2.8", 405)] {
        let mut stream = proxied.client();
        stream.send(format!("PROXY TCP4 {client} 127.0.0.1 5000 80\r\n"));
        stream.send("PURGE /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(stream.recv().unwrap().status(), expect, "{client}");
    }
}

#[test]
fn the_right_to_purge_is_inherited_and_a_route_may_pass_the_method() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.reply(200, &[("Cache-Control", "max-age=60")], "of the origin");
    });
    let routes = "\n[[site.route]]\nprefix = \"/closed/\"\npurge = { allow = [] }\n\
                  [[site.route]]\nprefix = \"/chain/\"\nmethod = [\"PURGE\", \"GET\"]\n";
    let weir = server(&[&origin]).site(routes).top(&format!("[defaults]\n{ALLOWED}\n[state]")).start();
    assert_eq!(request(&weir, "PURGE", "/x", "").status(), 200);
    assert_eq!(request(&weir, "PURGE", "/closed/x", "").status(), 405);
    assert_eq!(origin.total(), 0);
    assert_eq!(request(&weir, "PURGE", "/chain/x", "").text(), "of the origin");
}

/// One request to the control socket.
fn tell(client: &mut Client, body: &str) -> (u16, Value) {
    let length = body.len();
    client.send(format!(
        "POST /v1/purge HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: \
         {length}\r\n\r\n{body}"
    ));
    let answer = client.recv().unwrap();
    (answer.status(), serde_json::from_slice(&answer.body).unwrap())
}

fn control(weir: &Weir) -> Client {
    Client::connect(Address::Unix(weir.state().join("control.sock")))
}

#[test]
fn a_thousand_purges_at_once_are_all_done() {
    const THREADS: usize = 40;
    const EACH: usize = 25;
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.reply(200, &[("Cache-Control", "max-age=600"), ("ETag", "\"1\"")], "x");
    });
    let weir = server(&[&origin]).site(ALLOWED).start();
    let path = |thread: usize, at: usize| format!("/{thread}/{at}");
    let all = || (0..THREADS).flat_map(|thread| (0..EACH).map(move |at| (thread, at)));
    let mut client = weir.client();
    all().for_each(|(thread, at)| drop(client.get("localhost", &path(thread, at), &[])));
    assert_eq!(origin.total(), THREADS * EACH);
    assert!(all().all(|(thread, at)| client.get("localhost", &path(thread, at), &[]).is_hit()));
    let begun = number(&weir);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let weir = &weir;
            scope.spawn(move || {
                let (mut client, mut control) = (weir.client(), control(weir));
                for at in 0..EACH {
                    let path = path(thread, at);
                    if at % 5 == 0 {
                        let order = json!({ "scope": { "url": format!("localhost{path}") } });
                        let (status, purged) = tell(&mut control, &order.to_string());
                        assert_eq!(status, 200, "{purged}");
                        assert!(digits(&purged["mark"]) > begun);
                    } else {
                        client.send(format!("PURGE {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
                        assert_eq!(client.recv().unwrap().status(), 200);
                    }
                    client.send_get("localhost", &path, &[]);
                    let answer = client.recv().unwrap();
                    assert!(!answer.is_hit(), "{path}: {:?}", answer.head);
                }
            });
        }
    });
    assert_eq!(origin.total(), 2 * THREADS * EACH);
    let ledger = &status(&weir)["ledger"];
    assert_eq!(digits(&ledger["number"]), begun + 2 * (THREADS * EACH) as u64, "one for each scheme");
    assert_eq!(ledger["durable"], ledger["number"]);
}

/// A state folder that outlives the Weir.
struct Kept(PathBuf);

impl Kept {
    fn new(name: &str) -> Kept {
        let path = std::env::temp_dir().join(format!("weir-purge-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Kept(path)
    }

    fn start(&self, origin: &Origin) -> Weir {
        setup().arg("--state").arg(self.0.display().to_string()).run(&origin.url())
    }

    fn status(&self, weir: &Weir) -> Value {
        let output = weir.command(&["status", "--json", "--state", &self.0.display().to_string()]);
        serde_json::from_str(&output.stdout).unwrap()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn an_acknowledged_purge_survives_a_kill() {
    let origin = Origin::start();
    let kept = Kept::new("kill");
    let state = kept.0.display().to_string();
    let mut mark = 0;
    for round in 1..=3_u64 {
        let mut weir = kept.start(&origin);
        let ledger = kept.status(&weir)["ledger"].clone();
        assert!(digits(&ledger["number"]) > mark, "the counter goes on: {ledger}");
        assert_eq!(ledger["marks"].as_u64(), Some(round - 1), "{ledger}");
        let tag = format!("tag-{round}");
        let said = weir.command(&["purge", "--tag", &tag, "--state", &state, "--json"]);
        weir.signal("KILL");
        let purged: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!((&purged["scopes"], &purged["soft"]), (&json!([{ "tags": [tag] }]), &json!(false)));
        mark = digits(&purged["mark"]);
        weir.wait(Duration::from_secs(10)).unwrap();
        assert_eq!(mode(&kept.0.join("ledger")), 0o600);
    }
    let weir = kept.start(&origin);
    let ledger = kept.status(&weir)["ledger"].clone();
    assert!(digits(&ledger["number"]) > mark && ledger["marks"] == json!(3), "{ledger}");
}

#[test]
fn a_purge_that_cannot_be_written_is_reported_and_in_force() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("x"));
    // A limit on the size of files stands in for a full disk: a header and a few records fit.
    let limited = setup().first("trap '' XFSZ; ulimit -f 1");
    let weir = limited.run_config(&server(&[&origin]).site(ALLOWED).text());
    let mut control = control(&weir);
    let mut tries =
        (1..=64).map(|number| tell(&mut control, &format!(r#"{{"scope":{{"tags":["{number}"]}}}}"#)));
    let (status_code, refusal) = tries.find(|(status, _)| *status != 200).unwrap();
    assert_eq!(status_code, 500, "{refusal}");
    let error = refusal["message"].as_str().unwrap();
    assert!(
        error.starts_with("purged until a restart only: the ledger cannot be written: File too large"),
        "{error}"
    );
    weir.get("/x");
    let refused = request(&weir, "PURGE", "/x", "");
    assert!(refused.status() == 500 && refused.text().contains("until a restart only"), "{}", refused.text());
    assert!(!weir.get("/x").is_hit(), "it is in force all the same");
    let ledger = &status(&weir)["ledger"];
    assert!(digits(&ledger["durable"]) < digits(&ledger["number"]), "{ledger}");
    assert!(ledger["failure"].as_str().is_some_and(|failure| failure.contains("File too large")), "{ledger}");
    weir.await_stderr("purges and invalidations are in force until a restart only");
}

#[test]
fn a_damaged_ledger_is_refused_with_an_explanation() {
    let kept = Kept::new("damaged");
    std::fs::create_dir(&kept.0).unwrap();
    std::fs::set_permissions(&kept.0, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(kept.0.join("ledger"), "no ledger").unwrap();
    let state = kept.0.display().to_string();
    let output = setup().command(&[
        "run",
        "--demo",
        "--state",
        &state,
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("is no ledger") && output.stderr.contains(&state), "{}", output.stderr);
}

#[test]
fn invalidations_by_unsafe_requests_are_in_the_ledger() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("x"));
    let weir = server(&[&origin]).site("key = { headers = [\"X-Country\"] }").start();
    let fields = [[("X-Country", "DE")], [("X-Country", "FR")]];
    fields.iter().for_each(|fields| drop(weir.get_with("/x", fields)));
    let before = number(&weir);
    origin.on("/x", |exchange| {
        exchange.reply(200, &[("Cache-Control", "max-age=600")], "new");
    });
    assert_eq!(request(&weir, "POST", "/x", "Content-Length: 0\r\n").status(), 200);
    for fields in &fields {
        assert_eq!(weir.get_with("/x", fields).text(), "new", "{fields:?}: all keys of the URL");
    }
    assert_eq!(number(&weir), before + 1);
    until("it is on disk", || digits(&status(&weir)["ledger"]["durable"]) == before + 1);
}

#[test]
fn a_purge_that_cannot_be_is_refused_with_an_explanation() {
    let origin = Origin::start();
    let weir = before(&origin);
    for (args, expect) in [
        (&["/x"][..], "/x: write it with its host: HOST/PATH or http://HOST/PATH"),
        (&["ftp://localhost/"], "the scheme is http or https, not ftp"),
        (&["--prefix", "http://localhost/img/*"], "leave the `*` at its end out"),
        (&["--site", "nobody.test"], "no site is named nobody.test; there are: *"),
        (&["--tag", ""], "a tag is empty"),
    ] {
        let output = weir.command(&[&["purge"], args].concat());
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.starts_with("weir: ") && output.stderr.contains(expect), "{}", output.stderr);
    }
    for args in [&[][..], &["localhost/x", "--all"], &["--site", "*", "--all"], &["--soft"]] {
        assert_eq!(weir.command(&[&["purge"], args].concat()).code, Some(2), "{args:?}");
    }
    let mut client = control(&weir);
    for (body, status, expect) in [
        ("", 400, "not a purge: "),
        ("[]", 422, "name what is meant"),
        (r#"{"scope":"some"}"#, 400, "unknown variant `some`"),
        (r#"{"scope":{"tags":[]}}"#, 422, "name 1 to 4096 tags at once, not 0"),
    ] {
        let (said, refusal) = tell(&mut client, body);
        assert_eq!(said, status, "{refusal}");
        assert!(refusal["message"].as_str().is_some_and(|error| error.contains(expect)), "{refusal}");
    }
    assert_eq!(status(&weir)["ledger"]["marks"], json!(0));
}
