//! Active checks: an origin goes and comes back without a client, and what a check takes for a failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::Value;
use weir_testkit::{Authority, Origin, Resource, Setup, Weir, free_port, until};

use super::shown::{origin, upstreams};
use crate::server::{server, setup};

/// Two checks in a row that a busy machine makes late are rare with these.
const TIMES: &str = "every = \"1s\"\ntimeout = \"1s\"\nrise = 2\nfall = 2\n";
const HEAD: &str = "[admin]\nlisten = \"{admin}\"\n[[listen]]\naddress = \"{listen}\"\n";
/// For origins that answer, also where the machine is busy.
const PATIENT: &str = "every = \"5s\"\ntimeout = \"5s\"\nrise = 1\nfall = 1\n";

fn stands(weir: &Weir, number: usize, standing: &str) -> bool {
    origin(weir, number)["standing"] == standing
}

/// An origin whose `/up` answers this status, and all else its name.
fn named(name: &'static str, status: &Arc<AtomicU16>) -> Origin {
    let origin = Origin::start();
    let status = status.clone();
    origin.on("/up", move |exchange| {
        exchange.reply(status.load(Ordering::SeqCst), &[], "state");
    });
    origin.otherwise(move |exchange| {
        exchange.reply(200, &[("Cache-Control", "no-store")], name);
    });
    origin
}

/// What this many requests are answered with, without repetitions.
fn answers(weir: &Weir, count: usize) -> Vec<String> {
    let mut seen: Vec<String> = (0..count).map(|_| weir.get("/x").text()).collect();
    seen.sort();
    seen.dedup();
    seen
}

#[test]
fn an_origin_goes_and_comes_back_without_a_client() {
    let (well, sick) = (Arc::new(AtomicU16::new(200)), Arc::new(AtomicU16::new(200)));
    let (one, other) = (named("one", &well), named("other", &sick));
    let logs = "[log]\nupstream = \"{folder}/upstream.log\"\n[events]\nfile = \"{folder}/events.json\"\n";
    let check = format!("[upstream.main.check]\npath = \"/up\"\n{TIMES}{logs}");
    let weir = server(&[&one, &other]).more(&check).start();
    until("both are checked", || {
        (0..2).all(|number| origin(&weir, number)["check"]["passed"].as_u64() > Some(1))
    });
    assert_eq!(answers(&weir, 8), ["one", "other"]);
    sick.store(503, Ordering::SeqCst);
    until("one is down", || stands(&weir, 1, "down"));
    assert_eq!(origin(&weir, 1)["why"], "status 503");
    assert_eq!(answers(&weir, 8), ["one"]);
    let name = other.url();
    let lines = |file: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(weir.folder().join(file)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let told = |state: &str| lines("events.json").into_iter().find(|event| event["state"] == state);
    until("an event tells it", || told("down").is_some());
    let event = told("down").unwrap();
    assert_eq!((&event["origin"], &event["was"]), (&name.as_str().into(), &"up".into()), "{event}");
    assert_eq!(event["reason"], "status 503", "{event}");
    sick.store(200, Ordering::SeqCst);
    until("it is back", || stands(&weir, 1, "ready"));
    until("an event tells that", || told("up").is_some_and(|event| event["was"] == "down"));
    assert_eq!(answers(&weir, 8), ["one", "other"]);
    let checks = |result: &str| {
        let labels = format!("{{upstream=\"main\",origin=\"{name}\",result=\"{result}\"}}");
        weir.metric(&format!("weir_origin_checks_total{labels}")).unwrap()
    };
    assert!(checks("failed") >= 2.0 && checks("passed") >= 2.0);
    let labels = format!("{{upstream=\"main\",origin=\"{name}\"}}");
    let timed = weir.metric(&format!("weir_origin_check_duration_seconds_count{labels}")).unwrap();
    assert!(timed >= 4.0, "{timed}");
    until("a failed check is in the log", || {
        let of_check = |line: &Value| line["purpose"] == "check" && line["target"] == "/up";
        lines("upstream.log").iter().any(|line| of_check(line) && line["status"] == 503)
    });
    assert_eq!(origin(&weir, 0)["connections_open"].as_u64(), Some(1), "checks use none of the pool");
}

#[test]
fn what_a_check_takes_for_a_failure() {
    let fine = Origin::start();
    fine.put("/up", Resource::new("all is ok"));
    let with = |path: &str, bytes: Vec<u8>| {
        let origin = Origin::start();
        origin.raw(path, bytes);
        origin
    };
    let lacks = with("/up", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell".to_vec());
    let status = with("/up", b"HTTP/1.1 302 Found\r\nContent-Length: 2\r\n\r\nok".to_vec());
    let broken = with("/up", b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\nok".to_vec());
    let no_http = with("/up", b"220 mail.example ESMTP ok\r\n\r\n".to_vec());
    let endless = Origin::start();
    endless.otherwise(|exchange| {
        exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = format!("1000\r\n{}\r\n", "o".repeat(0x1000));
        while exchange.send(&chunk) {}
    });
    let check = format!("[upstream.main.check]\npath = \"/up\"\nbody = \"ok\"\nstatus = \"200\"\n{PATIENT}");
    let all = [&fine, &lacks, &status, &broken, &no_http, &endless];
    let weir = server(&all).more(&check).start();
    let expected = [
        "",
        "the body lacks the expected text",
        "status 302",
        "incomplete",
        "",
        "a body of more than 256 KiB",
    ];
    for (number, why) in expected.iter().enumerate().skip(1) {
        until(&format!("origin {number} is down"), || stands(&weir, number, "down"));
        let seen = origin(&weir, number)["why"].as_str().unwrap().to_owned();
        assert!(seen == *why || why.is_empty() && !seen.is_empty(), "{number}: {seen}");
    }
    assert!(stands(&weir, 0, "ready"));
}

#[test]
fn unix_sockets_and_tls_are_checked_as_requests_use_them() {
    let authority = Authority::new();
    let strangers = Authority::new();
    let setup = setup();
    let socket = Origin::unix(&setup.folder().join("origin.sock"));
    let secure = Origin::https(&authority, &["127.0.0.1"]);
    let strange = Origin::https(&strangers, &["127.0.0.1"]);
    for origin in [&socket, &secure, &strange] {
        origin.put("/up", Resource::new("ok"));
    }
    setup.file("ca.pem", authority.pem());
    let tls = "tls = { ca_file = \"{folder}/ca.pem\" }";
    let upstream = |name: &str, origin: &Origin, check: &str| {
        format!("[upstream.{name}]\norigins = [\"{}\"]\n{tls}\ncheck = {check}\n", origin.url())
    };
    let once = "{ path = \"/up\", every = \"60s\", timeout = \"5s\" }";
    let text = [
        upstream("a", &socket, once),
        upstream("b", &secure, once),
        upstream("c", &secure, "\"tcp\""),
        upstream("d", &strange, "\"tcp\""),
        format!("[upstream.e]\norigins = [\"http://127.0.0.1:{}\"]\ncheck = \"tcp\"\n", free_port()),
        format!("{HEAD}[[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n"),
    ];
    let weir = Setup::run_config(setup, &text.concat());
    let checked = |at: usize| upstreams(&weir)[at]["origins"][0].clone();
    for at in 0..3 {
        until("it has passed", || checked(at)["check"]["passed"].as_u64() >= Some(1));
        assert_eq!(checked(at)["standing"], "ready");
    }
    for (at, why) in [(3, "certificate"), (4, "connection-refused")] {
        until("it is down", || checked(at)["standing"] == "down");
        assert_eq!(checked(at)["why"], why);
    }
    assert_eq!(secure.count("/up"), 1, "a check by connecting sends nothing");
}

#[test]
fn one_that_a_reload_adds_gets_nothing_before_its_first_success() {
    let (well, sick) = (Arc::new(AtomicU16::new(200)), Arc::new(AtomicU16::new(500)));
    let (one, other) = (named("one", &well), named("other", &sick));
    let config = |origins: &[&Origin]| {
        let urls: Vec<String> = origins.iter().map(|origin| format!("\"{}\"", origin.url())).collect();
        let site = format!("{HEAD}[[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n");
        format!(
            "[upstream.main]\norigins = [{}]\n[upstream.main.check]\npath = \"/up\"\n{TIMES}{site}",
            urls.join(", ")
        )
    };
    let weir = setup().run_config(&config(&[&one]));
    until("the first is checked", || origin(&weir, 0)["check"]["passed"].as_u64() > Some(1));
    let checked = origin(&weir, 0)["check"]["passed"].as_u64().unwrap();
    weir.rewrite_config(&config(&[&one, &other]));
    assert_eq!(weir.reload().code, Some(0));
    assert!(origin(&weir, 0)["check"]["passed"].as_u64().unwrap() >= checked, "what was known stays");
    assert!(stands(&weir, 1, "down"));
    until("the second has failed", || origin(&weir, 1)["check"]["failed"].as_u64() > Some(1));
    assert_eq!(answers(&weir, 8), ["one"]);
    assert_eq!(other.count("/x"), 0);
    sick.store(204, Ordering::SeqCst);
    until("the second is up", || stands(&weir, 1, "ready"));
    assert_eq!(answers(&weir, 8), ["one", "other"]);
}

#[test]
fn where_all_are_down_one_is_still_tried() {
    let sick = Arc::new(AtomicU16::new(500));
    let only = named("only", &sick);
    let weir = server(&[&only]).more(&format!("[upstream.main.check]\npath = \"/up\"\n{TIMES}")).start();
    until("it is down", || stands(&weir, 0, "down"));
    assert_eq!(answers(&weir, 2), ["only"]);
    weir.await_stderr("no origin of the upstream is up");
}
