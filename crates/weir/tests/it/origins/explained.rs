//! `weir explain` names the origin that a request would get, and why not each other one.

use weir_testkit::Weir;

use super::changes::{named, origins};
use crate::server::server;

/// What `weir explain` says of these arguments.
fn explained(weir: &Weir, args: &[&str]) -> String {
    let output = weir.command(&[&["explain"], args].concat());
    assert_eq!(output.code, Some(0), "{args:?}: {output:?}");
    output.stdout
}

/// The origin that a client would get, by what is said.
fn picked(weir: &Weir, client: &str) -> String {
    let said = explained(weir, &["http://x/", "--method", "POST", "--client", client]);
    let line = said.lines().find(|line| line.trim_start().starts_with("picked")).unwrap_or_default();
    line.split_whitespace().nth(1).unwrap_or_default().to_owned()
}

#[test]
fn the_origin_that_is_named_is_the_one_that_is_asked() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let weir =
        server(&[&a, &b, &c]).upstream("pick = \"client_address\"").top("trusted_proxies = []\n").start();
    // What is fetched for all has no client.
    let said = explained(&weir, &["http://x/", "--client", "127.0.0.1"]);
    assert!(said.contains("client_address: fallback"), "{said}");
    let urls = [a.url(), b.url(), c.url()];
    let of_client = picked(&weir, "127.0.0.1");
    let at = urls.iter().position(|url| *url == of_client).unwrap();
    let mut client = weir.client();
    client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    let asked = client.recv().unwrap().text();
    assert_eq!(asked, ["a", "b", "c"][at]);
    let all: Vec<String> = (1..60).map(|last| picked(&weir, &format!("192.0.{last}.7"))).collect();
    assert!(urls.iter().all(|url| all.contains(url)), "{all:?}");
    // A drained one is none, and it is said why.
    origins(&weir, &["drain", "main", &of_client]);
    assert_ne!(picked(&weir, "127.0.0.1"), of_client);
    let said = explained(&weir, &["http://x/", "--method", "POST", "--client", "127.0.0.1"]);
    assert!(said.contains(&format!("not {of_client}: draining")), "{said}");
    for origin in [&a, &b, &c] {
        origins(&weir, &["maint", "main", &origin.url()]);
    }
    let said = explained(&weir, &["http://x/", "--client", "127.0.0.1"]);
    assert!(said.contains("none: no origin takes requests"), "{said}");
}
