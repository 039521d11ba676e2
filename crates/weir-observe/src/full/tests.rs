//! Records in full as JSON.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::lines;
use crate::record::{Description, Outcome};
use crate::trace::{Extent, HeadWord, TriedEnd, Verdict};

fn made(facts: Facts, trace: Option<Trace>) -> Value {
    let description = Description { trace: trace.map(Box::new), ..Description::default() };
    let mut line = Vec::new();
    lines::json(&Full(&Record { facts, description }), &mut line);
    serde_json::from_slice(&line).unwrap()
}

fn facts() -> Facts {
    Facts {
        status: 200,
        outcome: Outcome::Miss,
        body_bytes: 7,
        first_byte: Some(Duration::from_micros(1500)),
        total: Duration::from_millis(4),
        ..Facts::default()
    }
}

fn found() -> Found {
    Found {
        status: 200,
        age_s: 70,
        ttl_left_s: -10,
        source: "max-age",
        extent: Extent::Part,
        place: Place::Volume(Arc::from("ssd")),
    }
}

fn tried() -> Tried {
    Tried {
        asked: 0xab,
        purpose: "fill",
        attempt: 2,
        retry: "connect-refused",
        origin: Arc::from("two"),
        pick: "hash/bound".to_owned(),
        address: "127.0.0.1:80".to_owned(),
        connection: "new",
        connect: Some(Duration::from_micros(300)),
        status: Some(200),
        first_byte: Some(Duration::from_micros(700)),
        received_bytes: 90,
        ended: Some(TriedEnd { total: Duration::from_millis(3), completion: "cut", error: "reset" }),
    }
}

/// A step among the lines of a record is written like this.
#[track_caller]
fn check(step: Step, expect: Value) {
    let key = "http://a.test/\nlang: de".to_owned();
    let steps = vec![Moment { at_us: -250, step }];
    let mut line = made(facts(), Some(Trace { key, steps, is_noted: true, left_out: 0 }));
    assert_eq!((&line["key"], &line["key_fields"]), (&json!("http://a.test/"), &json!(["lang: de"])));
    let mut step = line["steps"][0].take();
    assert_eq!(step.as_object_mut().unwrap().remove("at_ms"), Some(json!(-0.25)));
    assert_eq!(step, expect);
}

#[test]
fn each_step_is_an_object() {
    let in_memory = Found { place: Place::Memory, extent: Extent::Arriving, ..found() };
    let volume = Some(Arc::from("ssd"));
    check(
        Step::Found(found()),
        json!({ "step": "found", "status": 200, "age_s": 70, "ttl_left_s": -10, "ttl_source": "max-age",
            "extent": "part", "place": "volume", "volume": "ssd" }),
    );
    check(
        Step::Found(in_memory),
        json!({ "step": "found", "status": 200, "age_s": 70, "ttl_left_s": -10, "ttl_source": "max-age",
            "extent": "arriving", "place": "memory" }),
    );
    check(
        Step::Stored { ttl_s: 60, source: "max-age", volume },
        json!({ "step": "stored", "ttl_s": 60, "ttl_source": "max-age", "volume": "ssd" }),
    );
    for (step, expect) in [
        (Step::NotFound(Others::None), json!({ "step": "not-found" })),
        (Step::NotFound(Others::Variants), json!({ "step": "not-found", "other_variants": true })),
        (Step::Decided(Verdict::Serve, ""), json!({ "step": "decided", "verdict": "serve" })),
        (Step::Decided(Verdict::Fetch, "x"), json!({ "step": "decided", "verdict": "fetch", "why": "x" })),
        (Step::Passed("method"), json!({ "step": "passed", "why": "method" })),
        (Step::Refreshing, json!({ "step": "refreshing" })),
        (Step::Led(Company::Joinable), json!({ "step": "led" })),
        (Step::Led(Company::Alone), json!({ "step": "led", "alone": true })),
        (Step::Joined, json!({ "step": "joined" })),
        (Step::Answered(HeadWord::New), json!({ "step": "answered", "head": "new" })),
        (Step::Missing("coming"), json!({ "step": "missing", "bytes": "coming" })),
        (Step::NotStored("no-store"), json!({ "step": "not-stored", "why": "no-store" })),
        (Step::Ready(304), json!({ "step": "ready", "status": 304 })),
    ] {
        check(step, expect);
    }
}

#[test]
fn attempts_have_the_names_of_their_log() {
    check(
        Step::Tried(Box::new(tried())),
        json!({ "step": "attempt", "asked": "00000000000000ab", "purpose": "fill", "attempt": 2,
            "retry": "connect-refused", "origin": "two", "pick": "hash/bound", "address": "127.0.0.1:80",
            "connection": "new", "connect_ms": 0.3, "status": 200, "first_byte_ms": 0.7,
            "received_bytes": 90, "total_ms": 3.0, "completion": "cut", "error": "reset" }),
    );
    let under_way = Tried { ended: None, status: None, first_byte: None, connect: None, ..tried() };
    check(
        Step::Tried(Box::new(Tried { connection: "", retry: "", pick: String::new(), ..under_way })),
        json!({ "step": "attempt", "asked": "00000000000000ab", "purpose": "fill", "attempt": 2,
            "origin": "two", "address": "127.0.0.1:80", "received_bytes": 90, "completion": "under-way" }),
    );
}

#[test]
fn the_end_comes_from_the_numbers() {
    let steps = [100, 1400, 1600].map(|at_us| Moment { at_us, step: Step::Joined }).to_vec();
    let line = made(facts(), Some(Trace { steps, is_noted: true, left_out: 3, ..Trace::default() }));
    let said = |step: &Value| (step["at_ms"].as_f64().unwrap(), step["step"].as_str().unwrap().to_owned());
    let at: Vec<(f64, String)> = line["steps"].as_array().unwrap().iter().map(said).collect();
    let expect = [(0.1, "joined"), (1.4, "joined"), (1.5, "first-byte"), (1.6, "joined"), (4.0, "sent")];
    assert_eq!(at, expect.map(|(at, word)| (at, word.to_owned())));
    assert_eq!((&line["steps_left_out"], &line["traced"]), (&json!(3), &json!(true)));
    let gone = Facts { completion: Completion::ClientGone, detail: "client-gone", ..facts() };
    let line = made(Facts { first_byte: None, ..gone }, None);
    let expect = json!([{ "at_ms": 4.0, "step": "client-gone", "body_bytes": 7, "why": "client-gone" }]);
    assert_eq!((&line["steps"], &line["traced"]), (&expect, &json!(false)));
    let line = made(Facts { completion: Completion::Cut, detail: "reset", ..facts() }, None);
    assert_eq!((&line["steps"][1]["step"], &line["steps"][1]["why"]), (&json!("cut"), &json!("reset")));
}

#[test]
fn what_strangers_wrote_is_escaped() {
    let trace = Trace { key: "http://a.test/\u{1b}[2J\u{202e}".to_owned(), ..Trace::default() };
    let description = Description { trace: Some(Box::new(trace)), ..Description::default() };
    let mut line = Vec::new();
    lines::json(&Full(&Record { facts: facts(), description }), &mut line);
    let line = String::from_utf8(line).unwrap();
    assert!(!line.trim_end().contains(lines::steers), "{line:?}");
}
