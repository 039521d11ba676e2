//! What may be laid, by which token, and how much: one site touches no other.

use serde_json::Value;
use weir_testkit::{Address, Client, Origin, Resource, Weir, pattern};

use super::kit::{ask, bearer, lay, list, put, word};
use crate::server::server;

const SITES: &str = "[[site]]\nhosts = [\"a.test\", \"www.a.test\"]\nupstream = \"main\"\n\
                     [[site]]\nhosts = [\"b.test\"]\nupstream = \"main\"\n";

fn of_three_sites(origin: &Origin, more: &str) -> Weir {
    server(&[origin]).more(&format!("{SITES}{more}")).start()
}

fn get(weir: &Weir, host: &str, path: &str) -> weir_testkit::Response {
    weir.client().get(host, path, &[])
}

#[test]
fn a_token_of_one_site_lays_lists_and_resets_there_alone() {
    let origin = Origin::start();
    let weir = of_three_sites(&origin, "");
    lay(&weir, "b.test/x", "of b");
    let (of_a, view) = (bearer(&weir.token("admin", &["a.test"])), bearer(&weir.token("view", &["a.test"])));
    let api = |line: &str, fields: &str, content: &str| ask(weir.admin(), line, fields, content.as_bytes());
    assert_eq!(api("PUT /v1/content?url=https://www.a.test/x.html", &of_a, "of a").status(), 201);
    assert_eq!(api("PUT /v1/content?url=www.a.test/x.html", &of_a, "again").status(), 200);
    for (line, fields, expect) in [
        ("PUT /v1/content?url=b.test/y", &of_a, (403, "other-site")),
        ("DELETE /v1/content?url=b.test/x", &of_a, (403, "other-site")),
        ("PUT /v1/content?url=none.test/x", &of_a, (403, "other-site")),
        ("GET /v1/content?site=b.test", &of_a, (403, "other-site")),
        ("GET /cache/stats?site=b.test", &of_a, (403, "other-site")),
        ("POST /cache/add/y?site=b.test", &of_a, (403, "other-site")),
        ("POST /cache/reset/x?site=b.test", &of_a, (403, "other-site")),
        ("PUT /v1/content?url=ftp://a.test/x", &of_a, (422, "unfit")),
        ("DELETE /v1/content?url=a.test/x%23y", &of_a, (422, "unfit")),
        ("POST /cache/add/x?site=a%20b", &of_a, (422, "unfit")),
        ("PUT /v1/content?url=a.test/y", &view, (403, "role")),
        ("DELETE /v1/content?url=www.a.test/x.html", &view, (403, "role")),
        ("POST /cache/add/y", &view, (403, "role")),
    ] {
        let takes = line.starts_with("PUT") || line.starts_with("POST /cache/add");
        let answer = api(line, fields, if takes { "z" } else { "" });
        assert_eq!(word(&answer), (expect.0, expect.1.to_owned()), "{line}");
    }
    let page: Value = serde_json::from_slice(&api("GET /v1/content", &view, "").body).unwrap();
    assert_eq!(page["content"].as_array().unwrap().len(), 1, "{page}");
    assert_eq!(page["content"][0]["url"], "www.a.test/x.html");
    assert_eq!(page.get("use"), None, "how much others have is not told");
    assert_eq!(get(&weir, "www.a.test", "/x.html").text(), "again");
    assert_eq!(get(&weir, "a.test", "/x.html").status(), 404, "another host");
    assert_eq!(get(&weir, "b.test", "/x").text(), "of b");
    assert_eq!(get(&weir, "a.test", "/x").status(), 404);
    // The accounts tell what each has.
    let sites: Value = serde_json::from_str(&weir.command(&["sites", "--json"]).stdout).unwrap();
    let of = |name: &str| {
        let all = sites["sites"].as_array().unwrap();
        all.iter().find(|site| site["site"] == name).unwrap()["by_hand"]["bytes"].clone()
    };
    assert_eq!((of("a.test"), of("b.test")), (Value::from(5), Value::from(4)));
    let history: Value =
        serde_json::from_str(&weir.command(&["history", "--json", "--act", "content-put"]).stdout).unwrap();
    assert!(history["entries"].as_array().unwrap().len() >= 5, "{history}");
}

#[test]
fn a_token_of_one_site_fills_its_part_alone() {
    let origin = Origin::start();
    let weir = of_three_sites(&origin, "[content]\nsize = \"300KiB\"\n");
    let of_a = bearer(&weir.token("admin", &["a.test"]));
    let all = bearer(&weir.token("admin", &[]));
    let lay = |url: &str, token: &str, bytes: usize| {
        word(&ask(weir.admin(), &format!("PUT /v1/content?url={url}"), token, &pattern(1, bytes)))
    };
    assert_eq!(lay("a.test/1", &of_a, 60_000), (201, String::new()));
    assert_eq!(lay("a.test/2", &of_a, 60_000), (507, "content-full".to_owned()));
    assert_eq!(lay("a.test/2", &of_a, 200_000), (413, "too-large".to_owned()));
    assert_eq!(lay("a.test/2", &all, 60_000), (201, String::new()), "who has all may");
    assert_eq!(lay("b.test/1", &all, 100_000), (201, String::new()));
    assert_eq!(lay("b.test/2", &all, 100_000), (507, "content-full".to_owned()));
    assert_eq!(lay("b.test/2", &all, 400_000), (413, "too-large".to_owned()));
    assert_eq!(list(&weir, &[])["use"]["objects"], 3, "what was refused left nothing");
    // Without a length, it is found out on the way.
    let mut client = Client::connect(weir.admin());
    client.send(format!(
        "PUT /v1/content?url=b.test/2 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n{all}\r\n"
    ));
    let block = pattern(1, 50_000);
    for _ in 0..4 {
        client.send([b"c350\r\n", &block[..], b"\r\n"].concat());
    }
    client.send("0\r\n\r\n");
    assert_eq!(word(&client.recv().unwrap()), (507, "content-full".to_owned()));
    assert_eq!(get(&weir, "b.test", "/2").status(), 404);
    let unfinished = std::fs::read_dir(weir.state().join("content")).unwrap().count();
    assert_eq!(unfinished, 3);
}

#[test]
fn urls_and_types_that_are_none_are_refused_with_what_to_write() {
    let origin = Origin::start();
    let weir = of_three_sites(&origin, "");
    let long = format!("a.test/{}", "x".repeat(9000));
    for (url, more, expect) in [
        ("", &[][..], "write it with its host"),
        ("/x", &[], "write it with its host"),
        ("ftp://a.test/x", &[], "the scheme is http or https"),
        ("a.test/x#y", &[], "leave it out"),
        ("a.test/\u{1b}[2J", &[], "percent-encoded"),
        ("a.test/ x", &[], "percent-encoded"),
        ("a b/x", &[], "is not a host"),
        (&long, &[], "URL is too long"),
        ("a.test/x", &["--type", "html"], "is no media type"),
        ("a.test/x", &["--type", "text/html\r\nX: y"], "is no media type"),
        ("a.test/x", &["--type", "a/b; \u{e9}"], "is no media type"),
    ] {
        let refused = put(&weir, url, "x", more);
        assert!(refused.code == Some(1) && refused.stderr.contains(expect), "{url}: {refused:?}");
    }
    // What is read alike is one URL.
    lay(&weir, "HTTPS://A.test:443/./x%41", "one");
    lay(&weir, "a.test/x%41", "two");
    let all = list(&weir, &["--site", "a.test"]);
    assert_eq!(all["content"].as_array().unwrap().len(), 1, "{all}");
    assert_eq!(get(&weir, "a.test", "/x%41").text(), "two");
    assert_eq!(list(&weir, &["--prefix", "a.test/y"])["content"], Value::Array(Vec::new()));
}

#[test]
fn a_site_that_loses_its_host_shows_its_content_to_no_other() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("of the origin"));
    let weir = of_three_sites(&origin, "");
    lay(&weir, "www.a.test/x", "of a");
    assert_eq!(get(&weir, "www.a.test", "/x").text(), "of a");
    let moved = "[[site]]\nhosts = [\"a.test\"]\nupstream = \"main\"\n\
                 [[site]]\nhosts = [\"b.test\", \"www.a.test\"]\nupstream = \"main\"\n";
    weir.rewrite_config(&server(&[&origin]).more(moved).text());
    assert_eq!(weir.reload().code, Some(0));
    assert_eq!(get(&weir, "www.a.test", "/x").text(), "of the origin");
    let listed = weir.command(&["content", "list"]);
    assert!(listed.stdout.contains("not shown"), "{listed:?}");
    weir.rewrite_config(&server(&[&origin]).more(SITES).text());
    assert_eq!(weir.reload().code, Some(0));
    assert_eq!(get(&weir, "www.a.test", "/x").text(), "of a");
}

/// Content of a site that had the host before gives its token no way to lay more there, and none to hinder
/// the site that has the host now.
#[test]
fn a_host_that_has_moved_is_laid_and_reset_by_its_new_site() {
    let origin = Origin::start();
    let weir = of_three_sites(&origin, "");
    let (of_a, of_b) = (bearer(&weir.token("admin", &["a.test"])), bearer(&weir.token("admin", &["b.test"])));
    let api = |line: &str, fields: &str, content: &str| ask(weir.admin(), line, fields, content.as_bytes());
    for path in ["x", "y", "z"] {
        assert_eq!(api(&format!("PUT /v1/content?url=www.a.test/{path}"), &of_a, "of a").status(), 201);
    }
    let moved = "[[site]]\nhosts = [\"a.test\"]\nupstream = \"main\"\n\
                 [[site]]\nhosts = [\"b.test\", \"www.a.test\"]\nupstream = \"main\"\n";
    weir.rewrite_config(&server(&[&origin]).more(moved).text());
    assert_eq!(weir.reload().code, Some(0));
    let again = api("PUT /v1/content?url=www.a.test/x", &of_a, "still of a");
    assert_eq!(word(&again), (403, "other-site".to_owned()));
    assert_eq!(get(&weir, "www.a.test", "/x").status(), 404);
    assert_eq!(api("PUT /v1/content?url=www.a.test/x", &of_b, "of b").status(), 200);
    assert_eq!(get(&weir, "www.a.test", "/x").text(), "of b");
    // What is b's by now is not a's to reset; what is still a's both may.
    let reset = api("DELETE /v1/content?url=www.a.test/x", &of_a, "");
    assert_eq!(word(&reset), (403, "other-site".to_owned()));
    assert_eq!(api("DELETE /v1/content?url=www.a.test/y", &of_a, "").status(), 200);
    assert_eq!(api("DELETE /v1/content?url=www.a.test/z", &of_b, "").status(), 200);
    let listed = list(&weir, &[]);
    assert_eq!(listed["content"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["content"][0]["site"], "b.test");
}

/// The check at the beginning is not enough: a reload may come between.
#[test]
fn a_host_that_moves_while_its_content_comes_takes_none() {
    let origin = Origin::start();
    let weir = of_three_sites(&origin, "");
    let token = bearer(&weir.token("admin", &["a.test"]));
    let mut client = Client::connect(weir.admin());
    let head = "PUT /v1/content?url=www.a.test/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n";
    client.send(format!("{head}{token}\r\nof").into_bytes());
    let files = || std::fs::read_dir(weir.state().join("content")).map_or(0, Iterator::count);
    weir_testkit::until("it has begun", || files() == 1);
    let moved = "[[site]]\nhosts = [\"a.test\"]\nupstream = \"main\"\n\
                 [[site]]\nhosts = [\"b.test\", \"www.a.test\"]\nupstream = \"main\"\n";
    weir.rewrite_config(&server(&[&origin]).more(moved).text());
    assert_eq!(weir.reload().code, Some(0));
    client.send(b" a");
    let refused = client.recv().unwrap();
    assert_eq!(word(&refused), (422, "unfit".to_owned()), "{}", refused.text());
    assert_eq!(get(&weir, "www.a.test", "/x").status(), 404);
    assert_eq!(list(&weir, &[])["content"], Value::Array(Vec::new()));
    weir_testkit::until("nothing is left of it", || files() == 0);
}

#[test]
fn the_addresses_of_the_monkey_cache_work_with_a_token() {
    let origin = Origin::start();
    let weir = of_three_sites(&origin, "");
    let admin = bearer(&weir.token("admin", &[]));
    let of_b = bearer(&weir.token("admin", &["b.test"]));
    let api = |line: &str, fields: &str, content: &str| ask(weir.admin(), line, fields, content.as_bytes());
    assert_eq!(word(&api("POST /cache/add/first/file", "", "hello")), (401, "no-token".to_owned()));
    let form = format!("{admin}Content-Type: application/x-www-form-urlencoded\r\n");
    assert_eq!(word(&api("POST /cache/add/first/file", &form, "hello")).0, 422, "of several sites");
    let added = api("POST /cache/add/first/file.txt?site=www.a.test", &form, "hello");
    assert_eq!((added.status(), added.text().as_str()), (200, "Cache resource added sucessfully!\n"));
    let answer = get(&weir, "www.a.test", "/first/file.txt");
    assert_eq!(answer.text(), "hello");
    assert_eq!(answer.header("content-type").as_deref(), Some("text/plain; charset=utf-8"));
    assert_eq!(api("POST /cache/add/own", &of_b, "of b").status(), 200, "its only site");
    assert_eq!(api("POST /cache/add/?site=b.test", &admin, "start").status(), 200, "its start page");
    assert_eq!(get(&weir, "b.test", "/").text(), "start");
    assert_eq!(api("POST /cache/reset/?site=b.test", &admin, "").status(), 200);
    assert_eq!(get(&weir, "b.test", "/").status(), 404);
    let stats: Value = serde_json::from_slice(&api("GET /cache/stats", &admin, "").body).unwrap();
    assert_eq!(stats["files"][0]["uri"], "b.test/own");
    assert_eq!((&stats["files"][1]["size"], stats["files"].as_array().unwrap().len()), (&Value::from(5), 2));
    assert!(stats["memory"]["pipe_mem_used"].is_number() && stats["requests"]["served_per_sec"].is_number());
    let page: Value = serde_json::from_slice(&api("GET /cache/stats?limit=1", &admin, "").body).unwrap();
    assert_eq!(page["next"], "b.test/own");
    let by_get = api("GET /cache/reset/first/file.txt?site=www.a.test", &admin, "");
    assert_eq!(
        (word(&by_get), by_get.header("allow")),
        ((405, "method".to_owned()), Some("POST".to_owned()))
    );
    assert!(by_get.text().contains("GET changes nothing here"), "{}", by_get.text());
    assert_eq!(get(&weir, "www.a.test", "/first/file.txt").text(), "hello");
    let reset = api("POST /cache/reset/first/file.txt?site=www.a.test", &admin, "");
    assert_eq!((reset.status(), reset.text().as_str()), (200, "Cache Reset Successfully!\n"));
    assert_eq!(get(&weir, "www.a.test", "/first/file.txt").status(), 404);
    let again = api("POST /cache/reset/first/file.txt?site=www.a.test", &admin, "");
    assert_eq!(again.status(), 200);
    let socket = Address::Unix(weir.state().join("control.sock"));
    assert_eq!(ask(socket, "POST /cache/add/x?site=b.test&ttl=1h", "", b"y").status(), 200);
}
