//! Requests as they end, a line each: those that fit a condition, for people and for programs.

use serde_json::Value;
use weir_observe::steers;
use weir_testkit::{Origin, Weir};

use super::going::Log;
use crate::server::server;

const SITES: &str = "[[site]]\nhosts = [\"shop\", \"a.test\"]\nupstream = \"main\"\n\
                     [[site]]\nhosts = [\"b.test\"]\nupstream = \"main\"\n";

/// An origin that fails below `/bad`.
fn started() -> (Origin, Weir) {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let status = if exchange.request.path().starts_with("/bad") { 503 } else { 200 };
        exchange.reply(status, &[("Cache-Control", "max-age=60")], "hello");
    });
    let weir = server(&[&origin]).more(SITES).start();
    (origin, weir)
}

#[test]
fn those_that_fit_are_printed() {
    let (_origin, weir) = started();
    let condition =
        "url ~ ^/ready or status >= 500 and site == shop and total < 1m and url ~ \"^/bad/(x|y)\"";
    let mut lines = Log::start(&weir, "a.test", &["-q", condition]);
    let mut json = Log::start(&weir, "a.test", &["--json", "--query", "outcome == hit or url ~ ^/ready"]);
    let mut client = weir.client();
    for (host, target) in [
        ("a.test", "/bad/x"),
        ("b.test", "/bad/y"),
        ("a.test", "/bad/none"),
        ("a.test", "/good"),
        ("a.test", "/good"),
        ("a.test", "/bad/y/last"),
    ] {
        client.get(host, target, &[]);
    }
    let first = lines.line("/bad/x");
    for part in
        ["127.0.0.1  GET a.test/bad/x ", "  503  miss ", "uri-miss, stored 60 s (max-age), by http://"]
    {
        assert!(first.contains(part), "no {part:?} in {first}");
    }
    lines.line("a.test/bad/y/last");
    assert!(!lines.has("b.test") && !lines.has("none") && !lines.has("/good"));
    let hit: Value = serde_json::from_str(&json.line("/good")).unwrap();
    assert_eq!((&hit["outcome"], &hit["site"]), (&Value::from("hit"), &Value::from("shop")), "{hit}");
    assert!(!json.has("/bad"));
}

#[test]
fn attempts_alone_are_printed() {
    let (_origin, weir) = started();
    let mut lines = Log::start(
        &weir,
        "a.test",
        &["--origin", "-q", "purpose == fill and status in (200, 5xx) and site in (a.test, b.test)"],
    );
    let mut same = Log::start(&weir, "a.test", &["--upstream", "--json", "--site", "shop"]);
    weir.client().get("b.test", "/of/b", &[]);
    weir.client().get("a.test", "/of/a", &[]);
    let line = lines.line("a.test/of/a");
    assert!(line.contains("  200  fill ") && line.contains(" connection"), "{line}");
    assert!(lines.has("b.test/of/b"));
    let asked: Value = serde_json::from_str(&same.line("/of/a")).unwrap();
    assert_eq!((&asked["purpose"], &asked["attempt"]), (&Value::from("fill"), &Value::from(1)), "{asked}");
    assert!(!same.has("/of/b"));
}

#[test]
fn mistakes_are_told_with_the_nearest_name() {
    let (_origin, weir) = started();
    for (args, expect) in [
        (
            &["-q", "statsu >= 500"][..],
            "statsu is no name of this log; did you mean status?\n  statsu >= 500\n  ^",
        ),
        (&["-q", "outcome == hitt"], "outcome is never hitt; did you mean hit?"),
        (&["-q", "first_byte > 5"], "write its unit, as 200ms, 1.5s or 2m"),
        (&["--origin", "-q", "outcome == hit"], "outcome is no name of this log"),
        (&["--site", "none"], "no site is named none; there are: "),
        (&["-q", "site in (shop, b.test, none)"], "no site is named none; there are: "),
        (&["-q", " "], "the condition is empty: write one"),
    ] {
        let said = weir.command(&[&["log"][..], args].concat());
        assert!(said.code == Some(1) && said.stderr.contains(expect), "{args:?}: {}", said.stderr);
    }
}

#[test]
fn what_clients_write_does_nothing_to_a_terminal() {
    let (_origin, weir) = started();
    let mut lines = Log::start(&weir, "a.test", &[]);
    let mut json = Log::start(&weir, "a.test", &["--json"]);
    let mut client = weir.client();
    let head = b"GET /evil/%1b%5b2J%e2%80%ae HTTP/1.1\r\nHost: a.test\r\n";
    client.send([&head[..], b"User-Agent: \xe2\x80\xae\x9b2J\xff\r\nReferer: \xc2\x9b31m\r\n\r\n"].concat());
    client.recv().unwrap();
    for log in [&mut lines, &mut json] {
        let line = log.line("/evil/");
        assert!(!line.contains(steers), "{line:?}");
    }
}
