//! What one site's purges leave to others, and who learns that more went than was named: the ledger has room
//! for so many marks of each site.

use serde_json::{Value, json};
use weir_testkit::{Client, Origin, Resource, Response, Weir};

use crate::server::setup;

const KEPT: usize = 20;
/// More than the ledger keeps lengths of prefixes of one site.
const LENGTHS: usize = 200;

/// Two sites and one of many hosts, with clients on this machine that may purge. Each of the first two holds
/// [`KEPT`] objects. With a volume, marks are kept for some seconds.
fn holding() -> (Origin, Weir) {
    let origin = Origin::start();
    for at in 0..KEPT {
        origin.put(&format!("/keep/{at}"), Resource::fresh("body"));
    }
    let site = |host: &str| {
        format!(
            "[[site]]\nhosts = [\"{host}\"]\nupstream = \"main\"\npurge = {{ allow = [\"127.0.0.0/8\"] }}\n"
        )
    };
    let weir = setup().run_config(&format!(
        "trusted_proxies = []\n[admin]\nlisten = \"{{admin}}\"\n[[listen]]\naddress = \"{{listen}}\"\n\
         [cache]\nadmission = \"always\"\n[[cache.volume]]\npath = \"{{folder}}/volume\"\nsize = \"256MiB\"\n\
         [upstream.main]\norigins = [\"{}\"]\n{}",
        origin.url(),
        ["s0.test", "s1.test", "*.wide.test"].map(site).concat()
    ));
    for host in ["s0.test", "s1.test"] {
        hits(&weir, host);
        assert_eq!(hits(&weir, host), KEPT);
    }
    (origin, weir)
}

fn hits(weir: &Weir, host: &str) -> usize {
    let mut client = weir.client();
    (0..KEPT).filter(|at| client.get(host, &format!("/keep/{at}"), &[]).is_hit()).count()
}

/// A purge by the API.
fn order(weir: &Weir, token: &str, scopes: &[Value]) -> Value {
    let body = json!({ "scopes": scopes }).to_string();
    let mut client = Client::connect(weir.admin());
    client.send(format!(
        "POST /v1/purge HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let said: Response = client.recv().unwrap();
    assert_eq!(said.status(), 200, "{}", said.text());
    serde_json::from_str(&said.text()).unwrap()
}

fn newest(weir: &Weir) -> Value {
    let shown: Value = serde_json::from_str(&weir.command(&["history", "--json"]).stdout).unwrap();
    shown["entries"].as_array().unwrap().iter().rfind(|entry| entry["act"] == "purge").unwrap().clone()
}

#[test]
fn prefixes_of_one_site_make_no_purge_of_another_wider() {
    let (_origin, weir) = holding();
    let tokens = ["s0.test", "s1.test"].map(|site| weir.token("purge", &[site]));
    let long = |length: usize| "p".repeat(length);
    let scopes: Vec<Value> =
        (1..=LENGTHS).map(|at| json!({ "prefix": format!("http://s0.test/{}", long(at)) })).collect();
    let said = order(&weir, &tokens[0], &scopes);
    assert_eq!((&said["wider"], said.get("held")), (&json!(["s0.test"]), None), "{said}");
    let entry = newest(&weir);
    assert!(entry["why"].as_str().unwrap().contains("no room for so many marks"), "{entry}");
    assert_eq!(hits(&weir, "s0.test"), 0, "as was said");
    let said = order(&weir, &tokens[1], &[json!({ "prefix": format!("http://s1.test/zzz/{}", long(400)) })]);
    assert_eq!(said.get("wider"), None, "{said}");
    let entry = newest(&weir);
    assert!(entry.get("why").is_none_or(|why| why == ""), "{entry}");
    assert_eq!(hits(&weir, "s1.test"), KEPT);
    // What fits is not wider.
    let said = order(&weir, &tokens[1], &[json!({ "prefix": "http://s1.test/k" })]);
    assert_eq!((said.get("wider"), hits(&weir, "s1.test")), (None, 0));
}

#[test]
fn the_command_says_that_the_whole_site_went() {
    let (_origin, weir) = holding();
    let prefixes: Vec<String> = (1..=LENGTHS).map(|at| format!("s0.test/{}", "p".repeat(at))).collect();
    let mut args = vec!["purge"];
    prefixes.iter().for_each(|prefix| args.extend(["--prefix", prefix]));
    let said = weir.command(&args);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.contains("no room for so many marks, so that all went of s0.test"), "{said:?}");
    assert_eq!((hits(&weir, "s0.test"), hits(&weir, "s1.test")), (0, KEPT));
}

#[test]
fn a_client_is_told_and_takes_its_own_site_alone() {
    let (_origin, weir) = holding();
    // Labels have at most 63 bytes.
    let labels =
        |at: usize| [vec!["a".repeat(50); at / 50], vec!["b".repeat(at % 50 + 1)]].concat().join(".");
    let hosts: Vec<String> = (0..LENGTHS / 2).map(|at| format!("{}.wide.test", labels(at))).collect();
    let mut client = weir.client();
    client.send(format!(
        "BAN / HTTP/1.1\r\nHost: b.wide.test\r\nX-Url: ^/dir/.*\r\nX-Host: ^({})$\r\n\r\n",
        hosts.join("|")
    ));
    let said = client.recv().unwrap();
    assert_eq!(
        (said.status(), said.header("cache-purge-result").as_deref()),
        (200, Some("all")),
        "{}",
        said.text()
    );
    assert_eq!(weir.metric("weir_purges_widened_total"), Some(1.0));
    assert!(newest(&weir)["why"].as_str().unwrap().contains("no room for so many marks"));
    assert_eq!((hits(&weir, "s0.test"), hits(&weir, "s1.test")), (KEPT, KEPT));
    client.send("BAN /zzz HTTP/1.1\r\nHost: s1.test\r\n\r\n");
    let said = client.recv().unwrap();
    assert!(said.header("cache-purge-result").unwrap().starts_with("wildcard"), "{}", said.text());
    assert_eq!(hits(&weir, "s1.test"), KEPT);
}
