//! All that was decided about one request: `weir log --full`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};
use weir_observe::steers;
use weir_testkit::{Fault, Gate, H2Client, Origin, Resource, Weir, until};

use super::going::Log;
use crate::server::{server, setup};

const HOST: &str = "a.test";

/// Both versions without TLS, in front of an origin.
fn of_both_versions(origin: &Origin) -> Weir {
    setup().run_config(&format!(
        "[admin]\nlisten = \"{{admin}}\"\n\
         [[listen]]\naddress = \"{{listen}}\"\nprotocols = [\"h2\", \"http/1.1\"]\n\
         [upstream.main]\norigins = [\"{}\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n",
        origin.url()
    ))
}

/// The records with this target, once there are so many.
fn records(log: &mut Log, target: &str, count: usize) -> Vec<Value> {
    let lines = log.lines(&format!("\"target\":\"{target}\""), count);
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The words of the steps of a record, in their order.
fn words(record: &Value) -> Vec<&str> {
    record["steps"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect()
}

/// The first step of this word.
fn step<'r>(record: &'r Value, word: &str) -> &'r Value {
    let steps = record["steps"].as_array().unwrap();
    steps.iter().find(|step| step["step"] == word).unwrap_or_else(|| panic!("no {word} in {record:#}"))
}

/// The attempts at origins.
fn attempts(record: &Value) -> Vec<&Value> {
    record["steps"].as_array().unwrap().iter().filter(|step| step["step"] == "attempt").collect()
}

/// What a step says besides its time.
#[track_caller]
fn says(record: &Value, word: &str, expect: &Value) {
    let step = step(record, word);
    for (name, value) in expect.as_object().unwrap() {
        assert_eq!(&step[name], value, "{name} of {word} in {record:#}");
    }
}

/// That times do not go back.
fn is_in_order(record: &Value) -> bool {
    let at: Vec<f64> =
        record["steps"].as_array().unwrap().iter().map(|step| step["at_ms"].as_f64().unwrap()).collect();
    at.is_sorted() && at.last().is_some_and(|last| *last <= record["total_ms"].as_f64().unwrap() + 1e-9)
}

#[test]
fn each_decision_is_told_with_its_time() {
    let origin = Origin::start();
    origin.put("/fill", Resource::fresh("hello"));
    origin.put("/no-cache", Resource::new("x").etag("\"1\"").header("Cache-Control", "no-cache"));
    origin.put("/private", Resource::new("x").header("Cache-Control", "private"));
    origin.put("/long", Resource::fresh(vec![b'x'; 3 << 20]).etag("\"1\"").ranges());
    let weir = of_both_versions(&origin);
    let mut log = Log::start(&weir, HOST, &["--full", "--json"]);
    let mut plain = Log::start(&weir, HOST, &["--json"]);
    let mut client = weir.client();
    for target in ["/fill", "/fill", "/no-cache", "/no-cache", "/private"] {
        assert_eq!(client.get(HOST, target, &[]).status(), 200);
    }
    client.send("POST /private HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(client.recv().unwrap().status(), 200);
    assert_eq!(client.get(HOST, "/long", &[("Range", "bytes=5-9")]).status(), 206);

    let fill = records(&mut log, "/fill", 2);
    let (miss, hit) = (&fill[0], &fill[1]);
    let expect =
        ["not-found", "decided", "led", "attempt", "answered", "stored", "ready", "first-byte", "sent"];
    assert_eq!(words(miss), expect, "{miss:#}");
    assert_eq!((&miss["key"], &miss["traced"]), (&json!("http://a.test/fill"), &json!(true)));
    says(miss, "decided", &json!({ "verdict": "fetch", "why": "uri-miss" }));
    let url = origin.url();
    let attempt = json!({ "origin": url, "purpose": "fill", "attempt": 1, "status": 200 });
    says(miss, "attempt", &attempt);
    says(miss, "answered", &json!({ "head": "new" }));
    says(miss, "stored", &json!({ "ttl_source": "max-age" }));
    says(miss, "sent", &json!({ "body_bytes": 5 }));
    assert_eq!(words(hit), ["found", "decided", "ready", "first-byte", "sent"], "{hit:#}");
    let found = json!({ "status": 200, "extent": "whole", "place": "memory", "ttl_source": "max-age" });
    says(hit, "found", &found);
    says(hit, "decided", &json!({ "verdict": "serve" }));

    let unchanged = &records(&mut log, "/no-cache", 2)[1];
    says(unchanged, "decided", &json!({ "verdict": "revalidate" }));
    says(unchanged, "attempt", &json!({ "purpose": "revalidation", "status": 304 }));
    says(unchanged, "answered", &json!({ "head": "unchanged" }));
    let private = records(&mut log, "/private", 2);
    says(&private[0], "answered", &json!({ "head": "declined" }));
    says(&private[0], "not-stored", &json!({ "why": "private" }));
    says(&private[1], "passed", &json!({ "why": "method" }));
    says(&private[1], "attempt", &json!({ "purpose": "pass", "status": 200 }));
    assert!(private[1]["key"].is_null(), "{:#}", private[1]);
    let range = &records(&mut log, "/long", 1)[0];
    says(range, "attempt", &json!({ "purpose": "range", "status": 206 }));
    says(range, "ready", &json!({ "status": 206 }));
    let mut all = vec![miss, hit, unchanged, range];
    all.extend(&private);
    assert!(all.into_iter().all(is_in_order));
    // Another reader gets its lines as they are in the log.
    let line = &records(&mut plain, "/fill", 1)[0];
    assert!(line["steps"].is_null() && line["key"].is_null() && line["status"] == 200, "{line:#}");

    // The same over HTTP/2.
    let mut client = H2Client::connect(weir.addr());
    assert_eq!(client.get(HOST, "/fill", &[]).status(), 200);
    let hit = &records(&mut log, "/fill", 3)[2];
    assert_eq!(hit["version"], "HTTP/2.0");
    assert_eq!(words(hit), ["found", "decided", "ready", "first-byte", "sent"], "{hit:#}");
}

#[test]
fn joined_requests_name_the_attempt_of_their_lead() {
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.put("/joined", Resource::fresh("x").head_gate(&gate));
    let weir = server(&[&origin]).start();
    let mut log = Log::start(&weir, HOST, &["--full", "--json"]);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(weir.client().get(HOST, "/joined", &[]).status(), 200));
        }
        origin.await_count("/joined", 1);
        until("the others join", || weir.metric("weir_requests_collapsed_total") == Some(2.0));
        gate.open();
    });
    let all = records(&mut log, "/joined", 3);
    let how = |word: &str| all.iter().filter(|record| words(record).contains(&word)).count();
    assert_eq!((how("led"), how("joined"), how("attempt")), (1, 2, 3), "{all:#?}");
    let ids: Vec<&Value> = all.iter().map(|record| &step(record, "attempt")["asked"]).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn further_attempts_and_cut_responses_are_told() {
    let (origin, tries) = (Origin::start(), AtomicUsize::new(0));
    let answered = Resource::fresh("x");
    origin.on("/retry", move |exchange| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => exchange.close(),
        _ => answered.answer(exchange),
    });
    let cut = Resource::new(vec![b'x'; 100_000]).header("Cache-Control", "no-store");
    origin.put("/cut", cut.fault(Fault::Truncate(50_000)));
    origin.put("/cut-fill", Resource::fresh(vec![b'x'; 100_000]).fault(Fault::Truncate(50_000)));
    let gate = Gate::new();
    origin.put("/left", Resource::fresh("x").head_gate(&gate));
    let closed = format!("http://127.0.0.1:{}", weir_testkit::free_port());
    let origins = format!("\"{closed}\", \"{}\"", origin.url());
    let weir = server(&[]).origins(&origins).upstream("pick = \"first\"").start();
    let mut log = Log::start(&weir, HOST, &["--full", "--json"]);
    assert_eq!(weir.client().get(HOST, "/retry", &[]).status(), 200);
    let mut client = weir.client();
    client.send_get(HOST, "/cut", &[]);
    assert!(client.recv().is_err());
    let mut client = weir.client();
    client.send_get(HOST, "/cut-fill", &[]);
    assert!(client.recv().is_err());
    let mut client = weir.client();
    client.send_get(HOST, "/left", &[]);
    origin.await_count("/left", 1);
    client.reset();
    let left = &records(&mut log, "/left", 1)[0];
    gate.open();
    assert_eq!(words(left).last(), Some(&"client-gone"), "{left:#}");
    assert_eq!(attempts(left).last().unwrap()["completion"], "under-way", "{left:#}");

    let retried = &records(&mut log, "/retry", 1)[0];
    let attempts = attempts(retried);
    let last = attempts.last().unwrap();
    assert!(attempts.len() > 1 && last["attempt"].as_u64() == Some(attempts.len() as u64), "{retried:#}");
    assert_eq!((&last["status"], &last["origin"]), (&json!(200), &json!(origin.url())), "{retried:#}");
    assert!(last["retry"].is_string() && attempts[0]["completion"] == "failed", "{retried:#}");
    let cut = &records(&mut log, "/cut", 1)[0];
    assert_eq!(words(cut).last(), Some(&"cut"), "{cut:#}");
    says(cut, "cut", &json!({ "why": "incomplete" }));
    says(cut, "not-stored", &json!({ "why": "no-store" }));
    // What broke off is not said to be stored.
    let cut = &records(&mut log, "/cut-fill", 1)[0];
    assert!(cut["completion"] == "cut" && cut["stored_s"].is_null(), "{cut:#}");
    assert!(!words(cut).contains(&"stored"), "{cut:#}");
}

#[test]
fn people_get_an_indented_block_and_conditions_hold() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.reply(200, &[("Cache-Control", "max-age=60")], "hello");
    });
    let weir = server(&[&origin]).start();
    let mut log = Log::start(&weir, HOST, &["--full", "-q", "url ~ ^/ready or outcome == miss"]);
    let mut client = weir.client();
    for target in ["/seen", "/seen", "/last"] {
        client.get(HOST, target, &[]);
    }
    client.send(
        [&b"GET /evil/%1b\xe2\x80\xae HTTP/1.1\r\nHost: a.test\r\nX-Request-Id: \x9b2J\r\n\r\n"[..]].concat(),
    );
    let _ = client.recv();
    log.line("GET a.test/last");
    let lines = log.seen().to_vec();
    let first = lines.iter().position(|line| line.contains("GET a.test/seen")).unwrap();
    let block: Vec<&String> = lines[first + 1..].iter().take_while(|line| line.starts_with("    ")).collect();
    let text = block.iter().map(|line| line.as_str()).collect::<Vec<_>>().join("\n");
    for part in
        ["key  http://a.test/seen", "ms  nothing is held", "ms  leads a fill", "stored for 60 s (max-age)"]
    {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert!(text.contains("ms  asks http://") && text.contains(": fill, "), "{text}");
    assert_eq!(lines.iter().filter(|line| line.contains("GET a.test/seen")).count(), 1);
    assert!(!lines.iter().any(|line| line.contains(steers)));
}
