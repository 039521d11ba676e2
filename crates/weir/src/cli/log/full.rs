//! All that was decided about one request, as an indented block for people: a line for each step, with its
//! time since the request's head had been read.

use serde_json::Value;

use super::lines::{Plain, milliseconds};
use crate::print::size;

/// The lines below that of the request.
pub(super) fn block(object: &Value) -> String {
    let request = Plain(object);
    let mut lines = Vec::new();
    for (name, shown) in [("key", "key"), ("route", "route"), ("request_id", "id"), ("kept", "kept as")] {
        lines.extend(request.has(name).map(|text| format!("{shown:>10}  {text}")));
        if name == "key" {
            lines.extend(texts(&object["key_fields"]).map(|field| format!("{:>10}  {field}", "")));
        }
    }
    if object["traced"] == false {
        let why = "steps were not noted: nobody read the log with --full then";
        lines.push(format!("{:>10}  {why}", ""));
    }
    let steps = object["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    lines.extend(steps.iter().map(line));
    if let Some(count) = request.number("steps_left_out") {
        lines.push(format!("{:>10}  {count} more steps are left out", ""));
    }
    lines.into_iter().map(|line| format!("    {line}\n")).collect()
}

/// The texts of a list.
fn texts(list: &Value) -> impl Iterator<Item = String> {
    let all = list.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|value| Plain(&serde_json::json!({ "text": value })).text("text"))
}

fn line(step: &Value) -> String {
    let at = step["at_ms"].as_f64().map(signed).unwrap_or_default();
    format!("{at:>10}  {}", said(&Plain(step)))
}

fn signed(ms: f64) -> String {
    if ms < 0.0 { format!("-{}", milliseconds(-ms)) } else { milliseconds(ms) }
}

/// A step in words.
fn said(step: &Plain<'_>) -> String {
    let because = |text: &str| match step.has("why") {
        Some(why) => format!("{text}: {why}"),
        None => text.to_owned(),
    };
    match step.text("step").as_str() {
        "found" => found(step),
        "not-found" if step.0["other_variants"] == true => "nothing is held but other variants".to_owned(),
        "not-found" => "nothing is held".to_owned(),
        "decided" => because(match step.text("verdict").as_str() {
            "serve" => "serves it",
            "complete" => "serves it once the missing bytes are sure",
            "revalidate" => "asks whether it is still good",
            "fetch" => "fetches it",
            _ => "may not ask an origin",
        }),
        "passed" => because("goes past the cache"),
        "fields-lost" => format!("asks without the client's {}", step.or_dash("fields")),
        "refreshing" => "validates it in the background".to_owned(),
        "led" if step.0["alone"] == true => "leads a fill for itself alone".to_owned(),
        "led" => "leads a fill".to_owned(),
        "joined" => "joins another's fill".to_owned(),
        "answered" => answered(step),
        "missing" => format!("missing bytes: {}", step.text("bytes")),
        "attempt" => attempt(step),
        "stored" => {
            let place = step.has("volume").map(|volume| format!(", on {volume}")).unwrap_or_default();
            format!(
                "stored for {} s ({}){place}",
                step.number("ttl_s").unwrap_or(0),
                step.or_dash("ttl_source")
            )
        }
        "not-stored" => because("not stored"),
        "ready" => format!("answers {}", step.number("status").unwrap_or(0)),
        "first-byte" => "first byte sent".to_owned(),
        "sent" => format!("sent, {}", bytes(step)),
        "cut" => format!("{}, after {}", because("cut before its end"), bytes(step)),
        "client-gone" => format!("{}, after {}", because("the client left"), bytes(step)),
        other => other.to_owned(),
    }
}

fn bytes(step: &Plain<'_>) -> String {
    size(step.0["body_bytes"].as_u64().unwrap_or_default())
}

fn found(step: &Plain<'_>) -> String {
    let place = match step.has("volume") {
        Some(volume) => format!("on {volume}"),
        None => "in memory".to_owned(),
    };
    let left_s = step.number("ttl_left_s").unwrap_or_default();
    let fresh = match left_s {
        ..0 => format!("stale for {} s", -left_s),
        _ => format!("{left_s} s left"),
    };
    format!(
        "found {} {place}, {}, {} s old, {fresh} ({})",
        step.number("status").unwrap_or_default(),
        step.or_dash("extent"),
        step.number("age_s").unwrap_or_default(),
        step.or_dash("ttl_source"),
    )
}

/// What the head of a fill means.
fn answered(step: &Plain<'_>) -> String {
    let head = step.text("head");
    let meaning = match head.as_str() {
        "new" => "the fill brings a new version",
        "unchanged" => "what is stored is still good",
        "part" => "the fill brings a part",
        "declined" => "the fill brings what is not stored",
        "shared" => "the fill brings an error for all that wait",
        "failed" => "the fill brings no response",
        "withdrawn" => "the fill was given up",
        "late" => "the fill brings nothing in time",
        "held" => "another request has brought it in the meantime",
        other => other,
    };
    meaning.to_owned()
}

fn attempt(step: &Plain<'_>) -> String {
    let mut said = format!("asks {}", step.or_dash("origin"));
    said.extend(step.has("address").map(|address| format!(" at {address}")));
    let mut more = vec![step.text("purpose")];
    if let Some(attempt) = step.number("attempt").filter(|attempt| *attempt > 1) {
        more.push(format!("attempt {attempt} after {}", step.or_dash("retry")));
    }
    more.extend(step.has("pick").map(|pick| format!("pick {pick}")));
    if let Some(connection) = step.has("connection") {
        let took = step.took("connect_ms").map(|took| format!(" in {took}"));
        more.push(format!("{connection} connection{}", took.unwrap_or_default()));
    }
    if let Some(status) = step.number("status") {
        let after = step.took("first_byte_ms").map(|took| format!(" after {took}"));
        more.push(format!("{status}{}", after.unwrap_or_default()));
    }
    let total = step.took("total_ms").map(|took| format!(" after {took}")).unwrap_or_default();
    more.push(match step.text("completion").as_str() {
        "under-way" => "still under way".to_owned(),
        completion => {
            let error = step.has("error").map(|error| format!(" {error}")).unwrap_or_default();
            format!("{completion}{error}{total}")
        }
    });
    format!("{said}: {}", more.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_a_block() {
        let object = json!({
            "key": "http://a.test/x", "key_fields": ["lang: de"], "route": "otherwise", "request_id": "77",
            "traced": true, "steps_left_out": 2,
            "steps": [
                { "at_ms": -3.0, "step": "attempt", "origin": "one", "address": "[::1]:1", "purpose": "fill",
                  "attempt": 1, "connection": "new", "connect_ms": 0.4, "completion": "failed",
                  "error": "connect-refused", "total_ms": 0.5 },
                { "at_ms": 0.04, "step": "found", "status": 200, "age_s": 70, "ttl_left_s": -10,
                  "ttl_source": "max-age", "extent": "whole", "place": "volume", "volume": "ssd" },
                { "at_ms": 0.05, "step": "decided", "verdict": "revalidate", "why": "stale" },
                { "at_ms": 0.06, "step": "led" },
                { "at_ms": 0.1, "step": "attempt", "origin": "two", "purpose": "revalidation", "attempt": 2,
                  "retry": "connect-refused", "connection": "reused", "status": 200, "first_byte_ms": 4.0,
                  "completion": "under-way" },
                { "at_ms": 5.0, "step": "answered", "head": "new" },
                { "at_ms": 5.1, "step": "stored", "ttl_s": 60, "ttl_source": "max-age" },
                { "at_ms": 5.2, "step": "ready", "status": 200 },
                { "at_ms": 5.3, "step": "first-byte" },
                { "at_ms": 20.0, "step": "cut", "why": "reset", "body_bytes": 2048 },
            ],
        });
        let expect = "           key  http://a.test/x
                lang: de
         route  otherwise
            id  77
       -3.0 ms  asks one at [::1]:1: fill, new connection in 0.40 ms, failed connect-refused after 0.50 ms
       0.04 ms  found 200 on ssd, whole, 70 s old, stale for 10 s (max-age)
       0.05 ms  asks whether it is still good: stale
       0.06 ms  leads a fill
       0.10 ms  asks two: revalidation, attempt 2 after connect-refused, reused connection, 200 after \
                      4.0 ms, still under way
        5.0 ms  the fill brings a new version
        5.1 ms  stored for 60 s (max-age)
        5.2 ms  answers 200
        5.3 ms  first byte sent
         20 ms  cut before its end: reset, after 2.0 KiB
                2 more steps are left out\n";
        assert_eq!(block(&object), expect);
    }

    #[test]
    fn of_the_past_there_may_be_no_steps() {
        let object = json!({ "kept": "failed", "traced": false, "steps": [
            { "at_ms": 9.0, "step": "sent", "body_bytes": 0 },
        ] });
        let expect = "       kept as  failed
                steps were not noted: nobody read the log with --full then
        9.0 ms  sent, 0 B\n";
        assert_eq!(block(&object), expect);
    }

    #[test]
    fn what_strangers_wrote_does_nothing_to_a_terminal() {
        let evil = "\u{1b}[2J\u{202e}\r\n\u{9b}31m";
        let names = ["found", "decided", "passed", "attempt", "stored", "not-stored", "cut", evil];
        let steps: Vec<Value> = names
            .iter()
            .map(|name| {
                json!({
                    "at_ms": 1.0, "step": name, "why": evil, "volume": evil, "extent": evil, "verdict": evil,
                    "ttl_source": evil, "origin": evil, "address": evil, "pick": evil, "retry": evil,
                    "attempt": 2, "connection": evil, "completion": evil, "error": evil, "purpose": evil,
                })
            })
            .collect();
        let object = json!({ "key": evil, "key_fields": [evil], "route": evil, "request_id": evil,
            "kept": evil, "steps": steps });
        let said = block(&object);
        assert!(!said.contains(|c: char| weir_observe::steers(c) && c != '\n'), "{said:?}");
        assert_eq!(said.lines().count(), 5 + names.len());
    }
}
