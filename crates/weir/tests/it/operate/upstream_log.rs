//! The log of requests to origins: a line for each, and the access log that names them.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use weir_testkit::{Authority, Exchange, Fault, Gate, Origin, Resource, Setup, Weir, until};

use crate::server::{server, setup};

const LOGS: &str = "[log]\naccess = \"json\"\npath = \"{folder}/access.log\"\n\
                    upstream = \"{folder}/upstream.log\"\n";
/// A body that is fetched in several chunks.
const LONG: usize = 6 << 20;

/// The lines of a log, of which the last may be half written.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{line}: {why}")))
        .collect()
}

/// The requests to origins, without the connections of the start.
fn asked(weir: &Weir) -> Vec<Value> {
    let all = lines(&weir.folder().join("upstream.log"));
    all.into_iter().filter(|line| line["purpose"] != "probe").collect()
}

/// The requests to origins for a target, once there are `n`.
fn asked_for(weir: &Weir, target: &str, n: usize) -> Vec<Value> {
    let found =
        || -> Vec<Value> { asked(weir).into_iter().filter(|line| line["target"] == target).collect() };
    until(&format!("{n} lines for {target}"), || found().len() >= n);
    let found = found();
    assert_eq!(found.len(), n, "{found:#?}");
    found
}

/// The clients' requests for a target, once there are `n`.
fn records_of(weir: &Weir, target: &str, n: usize) -> Vec<Value> {
    let path = weir.folder().join("access.log");
    let found =
        || -> Vec<Value> { lines(&path).into_iter().filter(|line| line["target"] == target).collect() };
    until(&format!("{n} records of {target}"), || found().len() >= n);
    found()
}

/// Answers what is not stored.
fn uncached(exchange: &mut Exchange<'_>) {
    exchange.reply(200, &[("Cache-Control", "no-store")], "x");
}

fn typed(resource: Resource) -> Resource {
    resource.header("Content-Type", "text/plain; charset=utf-8")
}

/// An origin whose paths are asked for in all ways there are.
fn origin() -> Origin {
    let origin = Origin::start();
    let fresh = |body: &str| typed(Resource::fresh(body));
    origin.put("/fill", fresh("hello"));
    origin.put("/long", typed(Resource::fresh(vec![b'x'; LONG])).etag("\"1\"").ranges());
    origin.put("/revalidated", typed(Resource::new("x")).etag("\"1\"").header("Cache-Control", "no-cache"));
    let swr = "max-age=3600, stale-while-revalidate=600";
    origin.put("/background", typed(Resource::new("x")).header("Cache-Control", swr).header("Age", "3600"));
    origin.put("/pass", typed(Resource::new("x").header("Cache-Control", "private")));
    origin.put("/error", typed(Resource::new("x").status(500)));
    let cut = typed(Resource::fresh(vec![b'x'; 200_000])).etag("\"1\"").ranges();
    let (whole, tries) = (cut.clone(), AtomicUsize::new(0));
    let cut = cut.fault(Fault::Truncate(100_000));
    origin.on("/cut", move |exchange| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => cut.answer(exchange),
        _ => whole.answer(exchange),
    });
    let (answered, tries) = (fresh("x"), AtomicUsize::new(0));
    origin.on("/retry", move |exchange| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => exchange.close(),
        _ => answered.answer(exchange),
    });
    origin
}

/// Asks for each path of [`origin`] as its name says.
fn ask_for_all(weir: &Weir, origin: &Origin) {
    let gate = Gate::new();
    origin.put("/joined", typed(Resource::fresh("x")).head_gate(&gate));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(weir.get("/joined").status(), 200));
        }
        origin.await_count("/joined", 1);
        until("the others join", || weir.metric("weir_requests_collapsed_total") == Some(2.0));
        gate.open();
    });
    for path in
        ["/fill", "/fill", "/revalidated", "/revalidated", "/background", "/background", "/pass", "/error"]
    {
        weir.get(path);
    }
    assert_eq!(weir.get_with("/long", &[("Range", "bytes=0-9")]).status(), 206);
    assert_eq!(weir.get("/long").body.len(), LONG);
    assert_eq!(weir.get("/cut").body.len(), 200_000);
    assert_eq!(weir.get("/retry").status(), 200);
    let mut client = weir.client();
    client.send("POST /pass HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(client.recv().unwrap().status(), 200);
    client.send("HEAD /fill2 HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(client.recv_head().unwrap().status(), 404);
}

/// The fields that each line has, and those of the response where there was one.
fn check_fields(line: &Value, origin: &Origin) {
    for field in ["time", "end", "purpose", "asked", "request_id", "method", "host", "target", "origin_host"]
    {
        assert!(line[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {line:#}");
    }
    let addr = origin.addr().to_string();
    assert_eq!(line["address"], addr.as_str(), "{line:#}");
    assert_eq!(line["origin"], origin.url().as_str(), "{line:#}");
    assert_eq!(line["upstream"], "main", "{line:#}");
    assert!(line["end"].as_str() >= line["time"].as_str(), "{line:#}");
    assert!(line["sent_bytes"].as_u64() > Some(0), "{line:#}");
    assert!(matches!(line["connection"].as_str(), Some("new" | "reused")), "{line:#}");
    assert_eq!(line["connection"] == "new", line["connect_ms"].is_number(), "{line:#}");
    assert_eq!(line["status"].is_number(), line["first_byte_ms"].is_number(), "{line:#}");
}

#[test]
fn each_request_to_an_origin_is_one_line_that_both_logs_name() {
    let origin = origin();
    let volume = "[cache]\nadmission = \"always\"\n\
                  [[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"512MiB\"\n";
    let weir = server(&[&origin]).more(LOGS).more(volume).site("range.chunk = \"1MiB\"\n").start();
    ask_for_all(&weir, &origin);
    until("each request has a line", || asked(&weir).len() >= origin.total());
    let asked = asked(&weir);
    assert_eq!(asked.len(), origin.total(), "{asked:#?}");
    for line in &asked {
        check_fields(line, &origin);
        assert!(origin.count(line["target"].as_str().unwrap()) > 0, "{line:#}");
    }
    for (target, expect) in [
        ("/fill", vec!["fill"]),
        ("/joined", vec!["fill"]),
        ("/revalidated", vec!["fill", "revalidation"]),
        ("/background", vec!["fill", "background"]),
        ("/pass", vec!["fill", "pass"]),
        ("/error", vec!["fill"]),
        ("/cut", vec!["fill", "rest"]),
        ("/retry", vec!["fill", "fill"]),
        ("/fill2", vec!["pass"]),
    ] {
        let of = asked_for(&weir, target, expect.len());
        let mut purposes: Vec<&str> = of.iter().filter_map(|line| line["purpose"].as_str()).collect();
        purposes.sort_by_key(|purpose| expect.iter().position(|expected| expected == purpose));
        assert_eq!(purposes, expect, "{of:#?}");
    }
    for target in ["/fill", "/joined"] {
        let line = &asked_for(&weir, target, 1)[0];
        assert_eq!((&line["method"], &line["host"]), (&"GET".into(), &"localhost".into()), "{line:#}");
        assert_eq!(line["status"], 200, "{line:#}");
        assert_eq!(line["content_type"], "text/plain; charset=utf-8", "{line:#}");
        assert_eq!(line["key"], format!("http://localhost{target}"), "{line:#}");
        assert!(line["volume"].as_str().is_some_and(|volume| volume.ends_with("volume")), "{line:#}");
        assert_eq!(line["completion"], "whole", "{line:#}");
    }
    let retried = asked_for(&weir, "/retry", 2);
    assert_eq!(retried[0]["asked"], retried[1]["asked"], "{retried:#?}");
    let attempts: Vec<_> =
        retried.iter().map(|line| (&line["attempt"], &line["retry"], &line["error"])).collect();
    assert_eq!(attempts[0], (&1.into(), &Value::Null, &"closed-early".into()), "{retried:#?}");
    assert_eq!(attempts[1], (&2.into(), &"closed-early".into(), &Value::Null), "{retried:#?}");
    let long = asked.iter().filter(|line| line["target"] == "/long").collect::<Vec<_>>();
    assert_eq!((&long[0]["purpose"], &long[0]["status"]), (&"range".into(), &206.into()), "{long:#?}");
    assert!(long.len() > 1 && long[1..].iter().all(|line| line["purpose"] == "gap"), "{long:#?}");
    assert!(long.iter().all(|line| line["range"].is_string() && line["key"].is_string()), "{long:#?}");
    let cut = asked_for(&weir, "/cut", 2);
    assert_eq!((&cut[0]["completion"], &cut[0]["error"]), (&"cut".into(), &"incomplete".into()), "{cut:#?}");
    let passed = asked_for(&weir, "/pass", 2);
    assert!(passed.iter().all(|line| line["key"].is_null() && line["volume"].is_null()), "{passed:#?}");
    check_ties(&weir, &asked);
}

/// Each request to an origin names the client's request, whose record names it; and the other way round.
fn check_ties(weir: &Weir, asked: &[Value]) {
    let path = weir.folder().join("access.log");
    let is_named = |line: &Value, record: &Value| {
        record["asked"].as_array().is_some_and(|asked| asked.contains(&line["asked"]))
    };
    until("each has a record", || {
        let records = lines(&path);
        asked.iter().all(|line| records.iter().any(|record| record["request_id"] == line["request_id"]))
    });
    let records = lines(&path);
    for line in asked {
        let record = records.iter().find(|record| record["request_id"] == line["request_id"]).unwrap();
        assert!(is_named(line, record), "{line:#} {record:#}");
    }
    for record in &records {
        let named = record["asked"].as_array().cloned().unwrap_or_default();
        for id in &named {
            assert!(asked.iter().any(|line| line["asked"] == *id), "{id}: {record:#}");
        }
        assert_eq!(named.is_empty(), record["outcome"] == "hit", "{record:#}");
    }
    // Those that joined a fill name the request of the one that led it.
    let joined = records_of(weir, "/joined", 3);
    assert!(joined.iter().all(|record| record["asked"] == joined[0]["asked"]), "{joined:#?}");
    assert_eq!(joined.iter().filter(|record| record["collapsed"] == true).count(), 2, "{joined:#?}");
}

#[test]
fn origins_that_cannot_be_reached_are_said_as_what_they_are() {
    let origin = Origin::start();
    let authority = Authority::new();
    let https = Origin::https(&authority, &["localhost"]);
    https.put("/", Resource::fresh("x"));
    origin.put("/malformed", Resource::new("x"));
    origin.raw("/malformed", "HTTP/1.1 nonsense\r\n\r\n");
    let closed = weir_testkit::free_port();
    for (target, origins, error, is_tried) in [
        ("/", "http://no-such-host.invalid:80".to_owned(), "dns-", false),
        ("/", format!("http://127.0.0.1:{closed}"), "connection-refused", false),
        ("/", https.url(), "certificate", false),
        ("/malformed", origin.url(), "", true),
    ] {
        let weir = server(&[]).origins(&format!("\"{origins}\"")).more(LOGS).start();
        assert_eq!(weir.get(target).status() / 100, 5);
        let line = asked_for(&weir, target, 1).remove(0);
        let said = line["error"].as_str().unwrap_or_default();
        assert!(said.starts_with(error) && !said.is_empty(), "{origins}: {line:#}");
        assert_eq!(line["completion"], "failed", "{line:#}");
        assert!(line["status"].is_null() && line["key"].is_null(), "{line:#}");
        assert_eq!(line["sent_bytes"].as_u64() > Some(0), is_tried, "{line:#}");
        if error == "connection-refused" {
            assert_eq!(line["address"], format!("127.0.0.1:{closed}"), "{line:#}");
        }
        let record = records_of(&weir, target, 1).remove(0);
        assert_eq!(record["asked"], Value::from(vec![line["asked"].clone()]), "{record:#}");
        // The connection of the start is said to be no request.
        let all = || lines(&weir.folder().join("upstream.log"));
        until("the probe", || all().iter().any(|line| line["purpose"] == "probe"));
        let probe = all().into_iter().find(|line| line["purpose"] == "probe").unwrap();
        assert!(probe["method"].is_null() && probe["target"].is_null(), "{probe:#}");
        assert_eq!(probe["completion"] == "failed", !is_tried, "{probe:#}");
    }
}

#[test]
fn an_upgrade_to_another_protocol_is_one_line_with_its_bytes() {
    let origin = Origin::start();
    origin.on("/socket", |exchange| {
        exchange
            .send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello");
        exchange.close();
    });
    let weir = server(&[&origin]).more(LOGS).start();
    let mut client = weir.client();
    client.send("GET /socket HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    assert_eq!(client.recv_head_only().map(|head| head.status), Ok(101));
    drop(client);
    let line = asked_for(&weir, "/socket", 1).remove(0);
    let seen = ["purpose", "status", "completion"].map(|name| line[name].clone());
    assert_eq!(seen, [Value::from("pass"), Value::from(101), Value::from("whole")], "{line:#}");
    assert!(line["received_bytes"].as_u64() >= Some(72), "{line:#}");
}

#[test]
fn without_the_log_records_name_no_requests_to_origins() {
    let origin = origin();
    let log = "[log]\naccess = \"json\"\npath = \"{folder}/access.log\"";
    let weir = server(&[&origin]).more(log).start();
    weir.get("/fill");
    let record = records_of(&weir, "/fill", 1).remove(0);
    assert!(record["asked"].is_null() && record["request_id"].is_string(), "{record:#}");
}

#[test]
fn a_log_that_cannot_be_opened_stops_the_start_and_a_reload() {
    let origin = origin();
    let bad = "[log]\nupstream = \"{folder}/missing/upstream.log\"";
    let text = server(&[&origin]).more(bad).text();
    let said = setup().try_run_config(&text).map(|_| ()).unwrap_err();
    assert!(said.contains("cannot open the upstream log") && said.contains("missing/upstream.log"), "{said}");
    let weir = server(&[&origin]).start();
    weir.rewrite_config(&text);
    let reload = weir.reload();
    assert_ne!(reload.code, Some(0));
    assert!(reload.stderr.contains("cannot open the upstream log"), "{}", reload.stderr);
    // A reload also begins and ends the log.
    weir.rewrite_config(&server(&[&origin]).more(LOGS).text());
    assert_eq!(weir.reload().code, Some(0));
    weir.get("/fill");
    asked_for(&weir, "/fill", 1);
}

#[test]
fn usr1_opens_both_logs_again_and_an_upgrade_goes_on_with_them() {
    let origin = origin();
    origin.otherwise(uncached);
    let mut weir = server(&[&origin]).more(LOGS).start();
    let logs = ["access.log", "upstream.log"].map(|name| weir.folder().join(name));
    let holds = |path: &Path, target: &str| lines(path).iter().any(|line| line["target"] == target);
    let both_hold = |target: &str| {
        until(&format!("both have {target}"), || logs.iter().all(|path| holds(path, target)));
    };
    weir.get("/one");
    both_hold("/one");
    for path in &logs {
        std::fs::rename(path, path.with_extension("old")).unwrap();
    }
    weir.signal("USR1");
    until("both are opened again", || logs.iter().all(|path| path.exists()));
    weir.get("/two");
    both_hold("/two");
    assert!(logs.iter().all(|path| !holds(path, "/one")));
    let upgrade = weir.upgrade(&[]);
    assert_eq!(upgrade.code, Some(0), "{}", upgrade.stderr);
    weir.get("/three");
    both_hold("/three");
    assert_eq!(origin.total(), asked(&weir).len() + 1);
}

#[test]
fn both_logs_are_rotated_by_size() {
    let origin = Origin::start();
    origin.otherwise(uncached);
    let weir = server(&[&origin]).more(&format!("{LOGS}max_size = \"64KiB\"\n")).start();
    let logs = ["access.log", "upstream.log"].map(|name| weir.folder().join(name));
    let rotated = logs.clone().map(|path| path.with_extension("log.1"));
    let mut client = weir.client();
    let mut sent = 0;
    while sent < 2_000 && !rotated.iter().all(|path| path.exists()) {
        for _ in 0..20 {
            client.get("localhost", &format!("/{sent}"), &[]);
            sent += 1;
        }
    }
    for (path, rotated) in logs.iter().zip(&rotated) {
        until(&format!("{path:?} has all"), || lines(path).len() + lines(rotated).len() >= sent);
        assert!(std::fs::metadata(rotated).unwrap().len() <= 64 << 10, "{rotated:?}");
    }
}

#[test]
fn a_stuck_log_delays_no_request_and_its_lost_lines_are_counted() {
    let origin = Origin::start();
    origin.otherwise(uncached);
    let setup: Setup = setup();
    let pipe = setup.folder().join("upstream.log");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // It is open, so that Weir can open it, and nobody reads it.
    let _reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let mut weir = server(&[&origin]).more(LOGS).start_in(setup);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = weir.client();
                for _ in 0..4_500 {
                    assert_eq!(client.get("localhost", "/x", &[]).status(), 200);
                }
            });
        }
    });
    let lost = || weir.metric("weir_upstream_log_lines_dropped_total").unwrap_or_default();
    until("lost lines are counted", || lost() > 0.0);
    assert_eq!(weir.metric("weir_log_lines_dropped_total"), Some(0.0), "the access log goes on");
    weir.signal("TERM");
    assert!(weir.wait(Duration::from_secs(60)).is_some(), "it ends all the same");
}
