//! A token that is limited to sites: whatever it asks for, only its sites are seen and purged.

use serde_json::{Value, json};
use weir_testkit::{Client, Origin, Resource, Response, Weir, until};

use super::access::{Ask, JSON, answer, history};
use crate::server::server;

const SITES: &str = "[[site]]\nhosts = [\"a.test\", \"www.a.test\"]\nupstream = \"main\"\n\
                     [[site]]\nhosts = [\"b.test\"]\nupstream = \"main\"\n\
                     [[site]]\nhosts = [\"*.w.test\"]\nupstream = \"main\"\n";
/// Where `/x` is held. A letter of a row's `goes` stands for one of them.
const HOSTS: [(char, &str); 5] =
    [('a', "a.test"), ('A', "www.a.test"), ('b', "b.test"), ('w', "x.w.test"), ('o', "other.test")];

fn held() -> (Origin, Weir) {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello").header("Surrogate-Key", "t"));
    let weir = server(&[&origin]).more(SITES).start();
    fill(&mut weir.client());
    (origin, weir)
}

fn fill(client: &mut Client) {
    for (_, host) in HOSTS {
        client.get(host, "/x", &[]);
    }
}

/// What is gone; it is held again afterwards.
fn gone(client: &mut Client) -> String {
    HOSTS
        .iter()
        .filter(|(_, host)| !client.get(host, "/x", &[]).is_hit())
        .map(|(letter, _)| *letter)
        .collect()
}

/// An order by a token: of `a.test`, of `a.test` and `b.test`, of `*.w.test`; and what goes, or `None` where
/// it is refused.
const ORDERS: &[(&str, &str, Option<&str>)] = &[
    ("a", r#"{"scope":"all"}"#, None),
    ("a", r#"{"scopes":["all"],"soft":true}"#, None),
    ("a", r#"{"scope":{"url":"http://a.test/x"}}"#, Some("a")),
    ("a", r#"{"scope":{"url":"WWW.A.test/x"}}"#, Some("A")),
    ("a", r#"{"scope":{"url":"http://b.test/x"}}"#, None),
    ("a", r#"{"scope":{"url":"http://x.w.test/x"}}"#, None),
    ("a", r#"{"scope":{"url":"http://other.test/x"}}"#, None),
    ("a", r#"{"scope":{"url":"http://a.test@b.test/x"}}"#, None),
    ("a", r#"{"scope":{"url":"http://b.test\\@a.test/x"}}"#, None),
    ("a", r#"{"scope":{"url":"http://b.test#a.test/x"}}"#, None),
    ("a", r#"{"scope":{"url":"/x"}}"#, None),
    ("a", r#"{"scope":{"prefix":"http://a.test"}}"#, Some("a")),
    ("a", r#"{"scope":{"prefix":"a.test/../../b.test/"}}"#, Some("")),
    ("a", r#"{"scope":{"prefix":"a.tes"}}"#, None),
    ("a", r#"{"scope":{"prefix":"http://"}}"#, None),
    ("a", r#"{"scope":{"prefix":""}}"#, None),
    ("a", r#"{"scope":{"site":"a.test"}}"#, Some("aA")),
    ("a", r#"{"scope":{"site":"www.a.test"}}"#, Some("aA")),
    ("a", r#"{"scope":{"site":"b.test"}}"#, None),
    ("a", r#"{"scope":{"site":"*"}}"#, None),
    ("a", r#"{"scope":{"site":"*.w.test"}}"#, None),
    ("a", r#"{"scope":{"site":"nowhere"}}"#, None),
    ("a", r#"{"scope":{"site":""}}"#, None),
    ("a", r#"{"scope":{"tags":["t"]}}"#, Some("aA")),
    ("a", r#"{"scope":{"tags-of":{"site":"www.a.test","tags":["t"]}}}"#, Some("aA")),
    ("a", r#"{"scope":{"tags-of":{"site":"b.test","tags":["t"]}}}"#, None),
    ("a", r#"{"scope":{"tags-of":{"site":"*","tags":["t"]}}}"#, None),
    ("a", r#"{"scopes":[{"url":"a.test/x"},{"url":"www.a.test/x"}]}"#, Some("aA")),
    ("a", r#"{"scopes":[{"url":"a.test/x"},{"url":"b.test/x"}]}"#, None),
    ("a", r#"{"scope":{"url":"a.test/x"},"scopes":[{"site":"b.test"}]}"#, None),
    ("a", r#"{"scope":{"site":"b.test"},"scopes":[{"url":"a.test/x"}]}"#, None),
    ("ab", r#"{"scope":{"tags":["t"]}}"#, Some("aAb")),
    ("ab", r#"{"scopes":[{"url":"a.test/x"},{"url":"b.test/x"}]}"#, Some("ab")),
    ("ab", r#"{"scopes":[{"url":"a.test/x"},{"url":"x.w.test/x"}]}"#, None),
    ("ab", r#"{"scope":"all"}"#, None),
    ("w", r#"{"scope":{"url":"x.w.test/x"}}"#, Some("w")),
    ("w", r#"{"scope":{"url":"w.test/x"}}"#, None),
    ("w", r#"{"scope":{"prefix":"x.w.test"}}"#, Some("w")),
    ("w", r#"{"scope":{"prefix":"w.test"}}"#, None),
    ("w", r#"{"scope":{"site":"*.w.test"}}"#, Some("w")),
    ("w", r#"{"scope":{"site":"*"}}"#, None),
    ("w", r#"{"scope":{"tags":["t"]}}"#, Some("w")),
];

/// The answer to a dry run; once it is accepted, its job's when that has ended.
fn counted(weir: &Weir, order: &str, token: &str) -> Response {
    let fields = format!("{JSON}Authorization: Bearer {token}\r\n");
    let begun = answer(weir.admin(), Ask("POST", "/v1/purge/dry-run", order), &fields);
    let Some(job) = begun.header("Location").filter(|_| begun.status() == 202) else { return begun };
    until("the dry run has ended", || !weir.admin_get_with(&job, token).text().contains("\"running\""));
    weir.admin_get_with(&job, token)
}

#[test]
fn each_purge_and_its_dry_run_stay_within_the_sites_of_the_token() {
    let (_origin, weir) = held();
    let mut client = weir.client();
    let tokens = [
        ("a", weir.token("purge", &["www.a.test"])),
        ("ab", weir.token("purge", &["a.test", "b.test"])),
        ("w", weir.token("purge", &["*.w.test"])),
    ];
    for (name, order, goes) in ORDERS {
        let token = &tokens.iter().find(|(of, _)| of == name).unwrap().1;
        let fields = format!("{JSON}Authorization: Bearer {token}\r\n");
        let counted = counted(&weir, order, token);
        let purged = answer(weir.admin(), Ask("POST", "/v1/purge", order), &fields);
        let status = if goes.is_some() { 200 } else { 403 };
        assert_eq!(
            (counted.status(), purged.status()),
            (status, status),
            "{name} {order}: {}",
            purged.text()
        );
        for text in [counted.text(), purged.text()] {
            let is_named = ["b.test", "w.test", "\"*\""].iter().any(|of| text.contains(of));
            assert!(*name != "a" || goes.is_some() || !is_named, "{order}: {text}");
        }
        if let Some(goes) = goes {
            let counted: Value = serde_json::from_slice(&counted.body).unwrap();
            let counted = &counted["result"];
            assert_eq!(counted["objects"], goes.len(), "{name} {order}");
        }
        assert_eq!(gone(&mut client), goes.unwrap_or_default(), "{name} {order}");
    }
    let done = ORDERS.iter().filter(|(_, _, goes)| goes.is_some()).count();
    assert_eq!(history(&weir, &["--act", "purge", "--result", "done"]).len(), done);
}

#[test]
fn each_view_shows_the_sites_of_the_token() {
    let (_origin, weir) = held();
    let (view, all) = (weir.token("view", &["a.test"]), weir.token("view", &[]));
    for host in ["a.test", "b.test"] {
        assert_eq!(weir.command(&["purge", &format!("http://{host}/none")]).code, Some(0));
    }
    let other: Value =
        serde_json::from_str(&weir.admin_get_with("/v1/objects?limit=1&site=b.test", &all).text()).unwrap();
    assert_eq!(other["objects"][0]["site"], "b.test");
    let first: Value =
        serde_json::from_str(&weir.admin_get_with("/v1/objects?limit=1", &all).text()).unwrap();
    let after = first["next"].as_str().unwrap();
    for path in [
        "/v1/objects",
        "/v1/objects?tag=t",
        "/v1/objects?limit=1",
        &format!("/v1/objects?after={after}"),
        &format!("/v1/objects?tag=t&limit=1&after={after}"),
        "/v1/sites",
        "/v1/sites?days=1&live=1",
        "/v1/sites?format=csv",
        "/v1/history",
        "/v1/history?act=purge",
    ] {
        let seen = weir.admin_get_with(path, &view);
        assert_eq!(seen.status(), 200, "{path}: {}", seen.text());
        let others = ["b.test", "w.test", "other.test"];
        assert!(others.iter().all(|other| !seen.text().contains(other)), "{path}: {}", seen.text());
    }
    for path in [
        "/v1/objects?site=b.test",
        "/v1/objects?site=nowhere",
        "/v1/objects?prefix=b.test/",
        "/v1/objects?site=a.test&prefix=http://x.w.test/",
        "/v1/objects?prefix=",
        "/v1/sites?site=*",
        "/v1/history?site=b.test",
        "/v1/status",
        "/v1/volumes",
        "/v1/certificates",
    ] {
        assert_eq!(weir.admin_get_with(path, &view).status(), 403, "{path}");
    }
    for (url, host, word) in [
        ("http://a.test/x", None, ""),
        ("http://b.test/x", Some("a.test"), ""),
        ("http://b.test/x", None, "other-site"),
        ("http://a.test/x", Some("b.test"), "other-site"),
        ("http://nowhere.test/x", None, "other-site"),
        ("http://a.test@b.test/x", None, "other-site"),
        ("nonsense", None, "other-site"),
    ] {
        let headers: Vec<_> = host.iter().map(|host| ("Host", host)).collect();
        let question = json!({ "method": "GET", "url": url, "headers": headers }).to_string();
        let said = answer(
            weir.admin(),
            Ask("POST", "/v1/explain", &question),
            &format!("{JSON}Authorization: Bearer {view}\r\n"),
        );
        let said: Value = serde_json::from_slice(&said.body).unwrap();
        assert_eq!(said["error"].as_str().unwrap_or_default(), word, "{url} {host:?}");
        assert!(!word.is_empty() || said["site"] == "a.test", "{url} {host:?}: {said}");
    }
}

#[test]
fn the_commands_with_its_token_stay_within_its_sites() {
    let (_origin, weir) = held();
    let mut client = weir.client();
    let file = weir.folder().join("token");
    std::fs::write(&file, weir.token("purge", &["a.test"])).unwrap();
    let (url, file) = (format!("http://{}", weir.admin()), file.display().to_string());
    for (args, goes) in [
        (&["--tag", "t"][..], Some("aA")),
        (&["--tag", "t", "--site", "a.test"], Some("aA")),
        (&["--site", "www.a.test"], Some("aA")),
        (&["http://a.test/x"], Some("a")),
        (&["--prefix", "a.test/"], Some("a")),
        (&["--tag", "t", "--site", "b.test"], None),
        (&["--site", "b.test"], None),
        (&["--all"], None),
        (&["http://a.test/x", "http://b.test/x"], None),
        (&["--prefix", "b.test/"], None),
    ] {
        let purged = weir.command(&[&["purge", "--url", &url, "--token-file", &file], args].concat());
        assert_eq!(purged.code, Some(i32::from(goes.is_none())), "{args:?}: {purged:?}");
        assert_eq!(gone(&mut client), goes.unwrap_or_default(), "{args:?}");
    }
}
