//! Warmings of the real binary: what is stored without a client, what goes first, and what a stop leaves.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use weir_testkit::{Address, Client, Drive, Exchange, Gate, Origin, Output, Resource, Weir, until};

use super::access::{Ask, JSON, answer};
use crate::server::{server, setup};

/// A Weir of one site, whose only host is `localhost`.
fn of_localhost(origin: &Origin, more: &str) -> Weir {
    let text = server(&[origin]).more(more).text().replace("hosts = [\"*\"]", "hosts = [\"localhost\"]");
    setup().run_config(&text)
}

fn warmed(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
}

fn warm(weir: &Weir, args: &[&str]) -> Value {
    warmed(&weir.command(&[&["warm", "--json"], args].concat()))
}

fn jobs(weir: &Weir) -> Vec<Value> {
    let shown = weir.command(&["jobs", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap_or_else(|why| panic!("{why}: {shown:?}"));
    shown.as_array().unwrap().clone()
}

fn begun(weir: &Weir, args: &[&str]) -> String {
    let begun = warm(weir, &[&["--background"], args].concat());
    begun["id"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned()
}

fn ended(weir: &Weir, id: &str) -> Value {
    let find = || jobs(weir).into_iter().find(|job| job["id"] == id);
    until("the warming ends", || find().is_some_and(|job| job["state"] != "running"));
    find().unwrap()
}

/// How often each path was asked for.
fn counts(origin: &Origin) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for seen in origin.seen() {
        *counts.entry(seen.request.target).or_default() += 1;
    }
    counts
}

const LOGS: &str = "[log]\naccess = \"json\"\npath = \"{folder}/access.log\"\n\
                    upstream = \"{folder}/upstream.log\"\n";

#[test]
fn urls_are_stored_without_a_client_and_all_is_told() {
    let origin = Origin::start();
    origin.put("/a", Resource::fresh("hello"));
    origin.put("/b", Resource::new("hello").header("Cache-Control", "no-store"));
    origin.put("/c", Resource::new("broken").status(503));
    origin.on("/v", |exchange| {
        let wanted = exchange.request.header("accept-encoding").unwrap_or_default();
        let fields = [("Cache-Control", "max-age=600"), ("Vary", "Accept-Encoding")];
        exchange.reply(200, &fields, wanted);
    });
    let weir = of_localhost(&origin, LOGS);
    let urls = ["a", "b", "c"].map(|path| format!("http://localhost/{path}"));
    let mut args: Vec<&str> = urls.iter().map(String::as_str).collect();
    args.push("http://elsewhere.test/a");
    let output = weir.command(&[&["warm", "--json"], &args[..]].concat());
    assert_eq!(output.code, Some(1), "some have failed");
    let first = warmed(&output);
    assert_eq!((&first["stored"], &first["fresh"]), (&json!(1), &json!(0)), "{first}");
    assert_eq!(first["not_stored"], json!({ "no-store": 1 }));
    assert_eq!(first["failed"], json!({ "503": 1, "other-site": 1 }));
    assert_eq!(first["examples"].as_array().unwrap().len(), 3);
    let second = warm(&weir, &args[..1]);
    assert_eq!((&second["stored"], &second["fresh"]), (&json!(0), &json!(1)));
    assert_eq!(origin.count("/a"), 1);
    let refreshed = warm(&weir, &["--refresh", args[0]]);
    assert_eq!((&refreshed["stored"], origin.count("/a")), (&json!(1), 2));
    let variant = warm(&weir, &["-H", "Accept-Encoding: br", "http://localhost/v"]);
    assert_eq!(variant["stored"], 1);

    // What was warmed is no client's request, in no log, account or metric.
    let sites: Value = serde_json::from_str(&weir.command(&["sites", "--json"]).stdout).unwrap();
    assert!(
        sites.to_string().contains("localhost") && !sites.to_string().contains("\"misses\":1"),
        "{sites}"
    );
    let mut client = weir.client();
    assert!(client.get("localhost", "/a", &[]).is_hit());
    assert!(client.get("localhost", "/v", &[("Accept-Encoding", "br")]).is_hit());
    assert!(!client.get("localhost", "/v", &[("Accept-Encoding", "gzip")]).is_hit());
    let access = || std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
    until("the clients are in the log", || access().lines().count() == 3);
    let upstream = || std::fs::read_to_string(weir.folder().join("upstream.log")).unwrap_or_default();
    let of_warming = || upstream().lines().filter(|line| line.contains("\"purpose\":\"warm\"")).count();
    until("the origin's log tells of it", || of_warming() == 5);
    for (args, expect) in [
        (&["-H", "Cookie: a=b", "http://localhost/a"][..], "cannot send cookie"),
        (&["-H", "nonsense", "http://localhost/a"], "`Name: value`"),
        (&["localhost/a"], "not a URL of http or https: localhost/a"),
        (&["--list", "none"], "cannot read none"),
    ] {
        let refused = weir.command(&[&["warm"], args].concat());
        assert!(refused.code == Some(1) && refused.stderr.contains(expect), "{refused:?}");
    }
}

/// An origin of which a warming may use three connections: the fourth stays for clients.
#[test]
fn clients_go_first() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let closed = gate.clone();
    origin.otherwise(move |exchange| {
        if exchange.request.target.starts_with("/w") {
            closed.pass();
        }
        exchange.reply(200, &[("Cache-Control", "max-age=600")], "hello");
    });
    let weir = server(&[&origin]).upstream("connections = 4").start();
    let list: String = (0..40).map(|number| format!("http://localhost/w{number}\n")).collect();
    let file = weir.folder().join("list");
    std::fs::write(&file, list).unwrap();
    let id = begun(&weir, &["--parallel", "16", "--list", file.to_str().unwrap()]);
    until("the warming has its places", || origin.total() == 3);
    // A place is left for each client, one after another.
    for number in 0..10 {
        assert_eq!(weir.get(&format!("/c{number}")).status(), 200);
    }
    // One that wants what is being warmed reads along. What still waits for a place would get a client's.
    let (address, warmed) = (weir.addr(), origin.seen().remove(0).request.target);
    let joined = std::thread::spawn(move || Client::connect(address).get("localhost", &warmed, &[]));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(origin.total(), 13, "the warming takes no further place");
    gate.open();
    assert_eq!(joined.join().unwrap().status(), 200);
    let job = ended(&weir, &id);
    assert_eq!(job["result"]["stored"], 40, "{job}");
    assert!(counts(&origin).values().all(|count| *count == 1));
    assert!(origin.running_peak() <= 4);
}

/// An index of two sitemaps, and an origin that is slow here and fails there.
fn catalogue(origin: &Origin, urls: usize) {
    origin.otherwise(move |exchange| {
        let target = exchange.request.target.clone();
        let part = target.strip_prefix("/sitemap").and_then(|number| number.parse::<usize>().ok());
        if let Some(part) = part {
            let from = urls / 2 * part;
            let entry = |number| format!("<url><loc>http://localhost/p/{number}</loc></url>");
            let all: String = (from..from + urls / 2).map(entry).collect();
            exchange.reply(200, &[], format!("<urlset>{all}</urlset>"));
        } else if target == "/index.xml" {
            let entry = |number| format!("<sitemap><loc>http://localhost/sitemap{number}</loc></sitemap>");
            let all: String = (0..2).map(entry).collect();
            exchange.reply(200, &[], format!("<sitemapindex>{all}</sitemapindex>"));
        } else {
            page(exchange, &target);
        }
    });
}

fn page(exchange: &mut Exchange<'_>, target: &str) {
    let number: usize = target.trim_start_matches("/p/").parse().unwrap_or_default();
    if number % 500 == 3 {
        std::thread::sleep(Duration::from_millis(100));
    }
    match number % 50 {
        7 => exchange.reply(503, &[], "broken"),
        8 => exchange.reply(200, &[("Cache-Control", "no-store")], "never"),
        _ => exchange.reply(200, &[("Cache-Control", "max-age=86400")], target),
    };
}

/// No URL twice and none left out: but for those that were being noted when the process was killed.
#[test]
fn a_warming_of_a_large_sitemap_goes_on_after_a_kill_and_an_upgrade() {
    const URLS: usize = 50_000;
    const PARALLEL: usize = 16;
    let origin = Origin::start();
    catalogue(&origin, URLS);
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"1GiB\"\n";
    let mut weir = server(&[&origin]).more(volume).start();
    let parallel = PARALLEL.to_string();
    let id = begun(&weir, &["--parallel", &parallel, "--sitemap", "http://localhost/index.xml"]);
    let asked = || origin.total();
    until("a third is warmed", || asked() > URLS / 3);
    assert_eq!(weir.get("/p/0").status(), 200, "clients are answered meanwhile");
    weir.signal("KILL");
    weir.start_again();
    let before = asked();
    until("it goes on by itself", || asked() > before + URLS / 10);
    assert!(weir.reload().code == Some(0));
    assert_eq!(weir.upgrade(&[]).code, Some(0));
    let before = asked();
    until("it goes on in the next process", || asked() > before + URLS / 10);
    let shown = jobs(&weir).into_iter().find(|job| job["id"] == *id).unwrap();
    assert_eq!(shown["total"], URLS, "{shown}");
    let mut last = asked();
    while jobs(&weir).iter().any(|job| job["id"] == *id && job["state"] == "running") {
        until("it goes on", || asked() > last || jobs(&weir).iter().any(|job| job["state"] != "running"));
        last = asked();
        std::thread::sleep(Duration::from_secs(1));
    }
    let job = ended(&weir, &id);
    assert_eq!((&job["state"], &job["done"]), (&json!("done"), &json!(URLS)), "{job}");
    let result = &job["result"];
    assert_eq!(result["failed"], json!({ "503": URLS / 50 }), "{result}");
    assert_eq!(result["not_stored"], json!({ "no-store": URLS / 50 }), "{result}");
    let counts = counts(&origin);
    let pages: Vec<_> = counts.iter().filter(|(target, _)| target.starts_with("/p/")).collect();
    assert_eq!(pages.len(), URLS, "none is left out");
    let twice: Vec<_> = pages.into_iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.len() <= PARALLEL && twice.iter().all(|(_, count)| **count == 2), "{twice:?}");
    let files = std::fs::read_dir(weir.state().join("warm")).unwrap().count();
    assert_eq!(files, 1, "only the lock is left");
}

/// What cannot be noted is waited for: after a crash it would be fetched again.
#[test]
fn on_a_full_disk_a_warming_waits_and_a_new_one_is_refused() {
    const URLS: usize = 2000;
    let Some(drive) = Drive::tmpfs(16 << 20) else { return };
    let origin = Origin::start();
    catalogue(&origin, URLS);
    let setup = setup();
    let state = drive.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::os::unix::fs::symlink(state, setup.folder().join("state")).unwrap();
    let weir = server(&[&origin]).start_in(setup);
    let id = begun(&weir, &["--rate", "300", "--sitemap", "http://localhost/index.xml"]);
    until("the list is whole, and some are warmed", || counts(&origin).len() > 50);
    drive.fill_up_to(0);
    weir.await_stderr("what it has done cannot be written down");
    assert!(jobs(&weir).iter().any(|job| job["id"] == *id && job["state"] == "running"));
    assert_eq!(weir.get("/p/0").status(), 200, "clients are answered meanwhile");
    let refused = weir.command(&["warm", "http://localhost/p/1"]);
    let is_told = refused.stderr.contains("cannot write in the state folder");
    assert!(refused.code == Some(1) && is_told, "{refused:?}");
    drive.empty();
    let job = ended(&weir, &id);
    assert_eq!((&job["state"], &job["done"]), (&json!("done"), &json!(URLS)), "{job}");
    let counts = counts(&origin);
    let pages: Vec<_> = counts.iter().filter(|(target, _)| target.starts_with("/p/")).collect();
    assert_eq!(pages.len(), URLS, "none is left out");
    let twice: Vec<_> = pages.into_iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn what_was_cancelled_is_not_fetched_again() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        std::thread::sleep(Duration::from_millis(2));
        exchange.reply(200, &[("Cache-Control", "max-age=86400")], "hello");
    });
    let weir = server(&[&origin]).start();
    let list: String = (0..2000).map(|number| format!("http://localhost/{number}\n")).collect();
    let file = weir.folder().join("list");
    std::fs::write(&file, list).unwrap();
    let file = file.to_str().unwrap();
    let id = begun(&weir, &["--list", file]);
    until("a part is warmed", || origin.total() > 500);
    assert_eq!(weir.command(&["jobs", &id, "--cancel"]).code, Some(0));
    let cancelled = ended(&weir, &id);
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
    let so_far = cancelled["result"]["stored"].as_u64().unwrap();
    assert!((500..2000).contains(&so_far), "{cancelled}");
    let again = warm(&weir, &["--list", file]);
    assert_eq!(again["fresh"].as_u64().unwrap() + again["stored"].as_u64().unwrap(), 2000, "{again}");
    assert!(again["fresh"].as_u64().unwrap() >= so_far);
    let counts = counts(&origin);
    assert!(counts.len() == 2000 && counts.values().all(|count| *count == 1));
}

#[test]
fn hostile_sitemaps_lead_nowhere() {
    let (origin, foreign) = (Origin::start(), Origin::start());
    let index = |url: &str| format!("<sitemapindex><sitemap><loc>{url}</loc></sitemap></sitemapindex>");
    let outside = format!("{}/x", foreign.url());
    for (path, text) in [
        (
            "/urls",
            format!("<urlset><url><loc>{outside}</loc></url><url><loc>file:///etc</loc></url></urlset>"),
        ),
        ("/loop", index("http://localhost/loop")),
        ("/away", index(&outside)),
        ("/bomb", "<!DOCTYPE x [<!ENTITY a \"aaaa\">]><urlset><url><loc>&a;</loc></url></urlset>".to_owned()),
        ("/html", "<html></html>".to_owned()),
    ] {
        origin.put(path, Resource::new(text));
    }
    origin.on("/endless", |exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<urlset>");
        let entry = "<url><loc>http://localhost/same</loc></url>".repeat(1000);
        while exchange.send(&entry) {}
        exchange.close();
    });
    let weir = of_localhost(&origin, "");
    let sitemap = |path: &str| {
        let url = format!("http://localhost{path}");
        weir.command(&["warm", "--json", "--sitemap", &url])
    };
    let urls = warmed(&sitemap("/urls"));
    assert_eq!(urls["failed"], json!({ "malformed-url": 1, "other-site": 1 }), "{urls}");
    assert_eq!(warmed(&sitemap("/loop"))["stored"], 0);
    for (path, expect) in [
        ("/away", "it is not of a site of this Weir"),
        ("/bomb", "the entity `a` is not one of XML"),
        ("/html", "is no sitemap, but `html`"),
        ("/none", "it is answered 404"),
        ("/endless", "more than 50000 entries"),
    ] {
        let refused = sitemap(path);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(refused.code == Some(1) && said.contains(expect), "{path}: {refused:?}");
    }
    assert_eq!((foreign.total(), origin.count("/same")), (0, 0));
    assert_eq!(origin.count("/loop"), 1);
}

#[test]
fn a_token_of_a_site_warms_that_site_alone() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    origin.put("/s", Resource::new("http://a.test/x\nhttp://b.test/x\n"));
    let sites = "[[site]]\nhosts = [\"a.test\"]\nupstream = \"main\"\n\
                 [[site]]\nhosts = [\"b.test\"]\nupstream = \"main\"\n";
    let weir = server(&[&origin]).more(sites).start();
    let token = weir.token("admin", &["a.test"]);
    let fields = format!("{JSON}Authorization: Bearer {token}\r\n");
    let ask = |path: &'static str, content: &'static str| {
        let answered = answer(Address::Tcp(weir.admin()), Ask("POST", path, content), &fields);
        let body: Value = serde_json::from_slice(&answered.body).unwrap_or_default();
        (answered.status(), body)
    };
    for content in [
        r#"{"urls":["http://a.test/x","http://b.test/x"]}"#,
        r#"{"sitemaps":["http://b.test/s"]}"#,
        r#"{"urls":["http://nowhere.example/x"],"more":true}"#,
    ] {
        let (status, body) = ask("/v1/warm", content);
        assert!(status == 403 || body["error"] == "other-site", "{content}: {status} {body}");
    }
    assert_eq!(ask("/v1/warm", r#"{"folder":{"path":"/etc","url":"http://a.test/"}}"#).1["error"], "folder");
    assert_eq!(ask("/v1/warm", "{}").1["error"], "unfit");
    let (status, job) = ask("/v1/warm", r#"{"sitemaps":["http://a.test/s"]}"#);
    assert_eq!(status, 202, "{job}");
    let job = ended(&weir, job["id"].as_str().unwrap());
    assert_eq!(job["result"]["stored"], 1, "{job}");
    assert_eq!(job["result"]["failed"], json!({ "other-site": 1 }), "{job}");
    // Another's job takes no pieces.
    let id = warm(&weir, &["--background", "http://a.test/x"])["id"].as_str().unwrap().to_owned();
    let path: &'static str = Box::leak(format!("/v1/warm/{id}").into_boxed_str());
    assert_eq!(ask(path, r#"{"at":0,"urls":[]}"#).0, 404);
}

#[test]
fn a_folder_is_put_in_as_if_the_origin_had_answered() {
    let origin = Origin::start();
    let weir = server(&[&origin]).site("ttl = \"1h\"").start();
    let folder = weir.folder().join("files");
    std::fs::create_dir_all(folder.join("a b")).unwrap();
    std::fs::write(folder.join("x.html"), "<p>hello").unwrap();
    let large: Vec<u8> = (0..3_000_000u32).map(|number| number as u8).collect();
    std::fs::write(folder.join("a b/large.bin"), &large).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
    let path = folder.to_str().unwrap();
    let put = warm(&weir, &["--folder", path, "--as", "http://localhost/f"]);
    assert_eq!((&put["stored"], &put["failed"]), (&json!(2), &json!({})), "{put}");
    let page = weir.get("/f/x.html");
    assert!(page.is_hit() && page.text() == "<p>hello", "{page:?}");
    assert_eq!(page.header("content-type").as_deref(), Some("text/html; charset=utf-8"));
    let tag = page.header("etag").unwrap();
    assert!(tag.starts_with('"') && page.header("last-modified").is_some());
    assert_eq!(weir.get_with("/f/x.html", &[("If-None-Match", &tag)]).status(), 304);
    let whole = weir.get("/f/a%20b/large.bin");
    assert!(whole.is_hit() && whole.body == large);
    assert_eq!(origin.total(), 0);
    let again = warm(&weir, &["--folder", path, "--as", "http://localhost/f/"]);
    assert_eq!(again["fresh"], 2, "{again}");
    // A route that stores nothing stores no file either.
    let refused = weir.command(&["warm", "--folder", "/none", "--as", "http://localhost/f/"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("cannot use the folder"), "{refused:?}");
}

#[test]
fn a_warming_waits_for_an_origin_that_is_down_and_goes_on_without_a_client() {
    let origin = Origin::start();
    let address = origin.addr().to_string();
    let weir = server(&[&origin])
        .upstream("eject = { failures = 3, time = \"100ms\", time_max = \"200ms\" }")
        .start();
    drop(origin);
    let origins = || weir.command(&["origins", "--json"]).stdout;
    let mut number = 0;
    until("the origin is ejected", || {
        number += 1;
        weir.get(&format!("/c{number}"));
        origins().contains("ejected")
    });
    let list: String =
        (0..40).map(|number| format!("http://localhost/{number}\n")).chain(["# all\n".to_owned()]).collect();
    let file = weir.folder().join("list");
    std::fs::write(&file, list).unwrap();
    let id = begun(&weir, &["--list", file.to_str().unwrap()]);
    until("it says what it waits for", || {
        weir.command(&["jobs", &id]).stdout.contains("waits for an answer of the upstream main")
    });
    let origin = Origin::listen(&address);
    origin.otherwise(|exchange| {
        exchange.reply(200, &[("Cache-Control", "max-age=600")], "hello");
    });
    let job = ended(&weir, &id);
    assert_eq!((&job["state"], &job["result"]["failed"]), (&json!("done"), &json!({})), "{job}");
    assert_eq!((&job["result"]["stored"], origin.total()), (&json!(40), 40), "{job}");
    let told = weir.command(&["jobs", &id]).stdout;
    assert!(told.contains("stored 40, confirmed by the origin 0") && !told.contains("waits"), "{told}");
}

#[test]
fn a_warming_that_reads_an_endless_sitemap_is_cancelled_and_its_caller_takes_back_a_broken_list() {
    let origin = Origin::start();
    origin.on("/drip", |exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<urlset>");
        while exchange.send("<url></url>") {
            std::thread::sleep(Duration::from_millis(50));
        }
        exchange.close();
    });
    let weir = server(&[&origin]).start();
    let fields = ["-H", "Accept-Encoding: br", "--sitemap", "http://localhost/drip"];
    let id = begun(&weir, &fields);
    until("the sitemap is read", || origin.count("/drip") == 1);
    let asked = origin.requests("/drip")[0].header("accept-encoding").unwrap_or_default();
    assert!(!asked.contains("br"), "its reader knows no br: {asked}");
    assert_eq!(weir.command(&["jobs", &id, "--cancel"]).code, Some(0));
    let files = || std::fs::read_dir(weir.state().join("warm")).unwrap().count();
    assert_eq!(files(), 1, "no later process goes on with it");
    assert_eq!(ended(&weir, &id)["state"], "cancelled");

    let list: String = (0..12_000).map(|number| format!("http://localhost/{number}\n")).collect();
    let file = weir.folder().join("list");
    std::fs::write(&file, list + "localhost/bare\n").unwrap();
    let refused = weir.command(&["warm", "--list", file.to_str().unwrap()]);
    assert!(refused.code == Some(1) && refused.stderr.contains("list, line 12001: not a URL"), "{refused:?}");
    until("its job has ended", || jobs(&weir).iter().all(|job| job["state"] == "cancelled"));
    assert_eq!(files(), 1);
}

#[test]
fn an_entry_of_the_configuration_is_gone_through_again_and_again() {
    let origin = Origin::start();
    origin.put("/x", Resource::new("hello").header("Cache-Control", "max-age=1"));
    origin.put("/once", Resource::fresh("hello"));
    let entries = "[[warm]]\nurls = [\"http://localhost/x#top\"]\nevery = \"1s\"\n\
                   [[warm]]\nurls = [\"http://localhost/once\"]\nrefresh = true\n";
    let weir = of_localhost(&origin, entries);
    until("it is warmed again and again", || origin.count("/x") >= 3);
    until("the other entry has its turn", || origin.count("/once") == 1);
    let so_far = origin.count("/x");
    until("and the first one again", || origin.count("/x") > so_far);
    assert_eq!(origin.count("/once"), 1, "without `every` it is gone through once");
    assert!(jobs(&weir).iter().all(|job| job["state"] != "failed"), "{:?}", jobs(&weir));
}
