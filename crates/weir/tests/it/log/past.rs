//! What failed, was cut or was slow is there also when nobody read the log: `weir log --past`.

use std::thread;
use std::time::Duration;

use serde_json::Value;
use weir_observe::steers;
use weir_testkit::{Fault, Gate, Origin, Resource, Weir, until};

use super::going::Log;
use crate::server::server;

const SITES: &str = "[[site]]\nhosts = [\"shop\", \"a.test\"]\nupstream = \"main\"\n\
                     [[site]]\nhosts = [\"b.test\"]\nupstream = \"main\"\n";

/// An origin with a path for each kind.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.put("/bad", Resource::new("x").status(503).header("Cache-Control", "no-store"));
    origin.put("/good", Resource::fresh("x"));
    let cut = Resource::new(vec![b'x'; 100_000]).header("Cache-Control", "no-store");
    origin.put("/cut", cut.fault(Fault::Truncate(50_000)));
    origin.on("/slow", |exchange| {
        thread::sleep(Duration::from_millis(60));
        exchange.reply(200, &[("Cache-Control", "no-store")], "x");
    });
    origin
}

/// What is kept, as `--json` prints it, once there are so many.
fn kept(weir: &Weir, args: &[&str], count: usize) -> Vec<Value> {
    let mut found = Vec::new();
    until(&format!("{count} of the past with {args:?}"), || {
        let said = weir.command(&[&["log", "--past", "--json"][..], args].concat());
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        found = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        found.len() >= count
    });
    assert_eq!(found.len(), count, "{found:#?}");
    found
}

#[test]
fn what_went_wrong_is_kept_although_nobody_listened() {
    let (origin, gate) = (origin(), Gate::new());
    origin.put("/left", Resource::fresh("x").head_gate(&gate));
    let mut weir = server(&[&origin]).more(SITES).start();
    let condition = "url in (/bad, /cut, /slow, /left, /good)";
    for (host, target) in
        [("a.test", "/good"), ("a.test", "/bad"), ("b.test", "/cut"), ("a.test", "/slow"), ("b.test", "/bad")]
    {
        let mut client = weir.client();
        client.send_get(host, target, &[]);
        assert_eq!(client.recv().is_err(), target == "/cut");
    }
    let mut client = weir.client();
    client.send_get("a.test", "/left", &[]);
    origin.await_count("/left", 1);
    client.reset();
    // A hit is none of it, and is not slow.
    weir.client().get("a.test", "/good", &[]);
    let all = kept(&weir, &["-q", &format!("{condition} and outcome != hit and url != /good")], 5);
    gate.open();
    let kinds: Vec<(&str, &str)> =
        all.iter().map(|line| (line["target"].as_str().unwrap(), line["kept"].as_str().unwrap())).collect();
    let expect = [
        ("/bad", "failed"),
        ("/cut", "cut"),
        ("/slow", "slow"),
        ("/bad", "failed"),
        ("/left", "client-gone"),
    ];
    assert_eq!(kinds, expect);
    assert!(all[2]["first_byte_ms"].as_f64().unwrap() >= 60.0, "{:#}", all[2]);
    assert!(all.iter().all(|line| line["steps"].is_null() && line["request_id"].is_string()));

    kept(&weir, &["-q", "status >= 500"], 2);
    kept(&weir, &["--site", "b.test", "-q", "completion == cut"], 1);
    kept(&weir, &["--site", "a.test", "-q", "completion == cut"], 0);
    let full = kept(&weir, &["--full", "-q", "url == /cut"], 1);
    assert_eq!((&full[0]["traced"], &full[0]["steps"][1]["step"]), (&false.into(), &"cut".into()));
    let block = weir.command(&["log", "--past", "--full", "-q", "url == /slow"]);
    for part in
        ["  GET a.test/slow  200  pass ", "    kept as  slow\n", "steps were not noted", "first byte sent"]
    {
        assert!(block.stdout.contains(part), "no {part:?} in {}", block.stdout);
    }
    assert!(block.stderr.contains("1 request of the past since 20"), "{}", block.stderr);

    // A token of a site sees its own.
    let token = weir.token("view", &["b.test"]);
    let own = weir.admin_get_with("/v1/log/past?q=status%20%3E%3D%20500", &token);
    let own: Value = serde_json::from_slice(&own.body).unwrap();
    let sites: Vec<&Value> = own["requests"].as_array().unwrap().iter().map(|line| &line["site"]).collect();
    assert_eq!(sites, [&Value::from("b.test")], "{own:#}");
    assert_eq!(weir.admin_get_with("/v1/log/past?site=shop", &token).status(), 403);

    // A new process begins again, and says since when.
    let since = own["since"].clone();
    let upgrade = weir.upgrade(&[]);
    assert_eq!(upgrade.code, Some(0), "{}", upgrade.stderr);
    let now = weir.admin_get_with("/v1/log/past", &weir.token("view", &[]));
    let now: Value = serde_json::from_slice(&now.body).unwrap();
    assert!(now["requests"].as_array().unwrap().is_empty(), "{now:#}");
    assert!(now["since"].as_str() >= since.as_str() && now["pid"] != own["pid"], "{now:#}");
}

#[test]
fn steps_that_a_reader_wanted_are_kept_as_well() {
    let origin = origin();
    let weir = server(&[&origin]).start();
    let log = Log::start(&weir, "a.test", &["--full", "-q", "url ~ ^/ready"]);
    weir.client().get("a.test", "/bad", &[]);
    let full = kept(&weir, &["--full", "-q", "url == /bad"], 1);
    drop(log);
    let words: Vec<&str> =
        full[0]["steps"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert!(full[0]["traced"] == true && words.contains(&"attempt") && words.contains(&"led"), "{full:#?}");
    assert_eq!(full[0]["key"], "http://a.test/bad");
}

#[test]
fn mistakes_are_told_and_strangers_do_nothing_to_a_terminal() {
    let origin = origin();
    origin.otherwise(|exchange| {
        exchange.reply(500, &[], "x");
    });
    let weir = server(&[&origin]).start();
    for (args, code, expect) in [
        (&["--past", "--origin"][..], 2, "cannot be used with"),
        (&["--past", "-q", "statsu >= 500"], 1, "did you mean status?"),
        (&["--past", "--site", "none"], 1, "no site is named none"),
    ] {
        let said = weir.command(&[&["log"][..], args].concat());
        assert!(said.code == Some(code) && said.stderr.contains(expect), "{args:?}: {}", said.stderr);
    }
    let mut client = weir.client();
    let head = b"GET /evil/%1b HTTP/1.1\r\nHost: a.test\r\n";
    client.send([&head[..], b"User-Agent: \xe2\x80\xae\x9b2J\xff\r\nReferer: \xc2\x9b31m\r\n\r\n"].concat());
    client.recv().unwrap();
    kept(&weir, &["-q", "url ~ ^/evil"], 1);
    for form in [&["log", "--past"][..], &["log", "--past", "--json"], &["log", "--past", "--full"]] {
        let said = weir.command(form).stdout;
        assert!(said.contains("/evil/") && !said.contains(|c: char| steers(c) && c != '\n'), "{said:?}");
    }
}
