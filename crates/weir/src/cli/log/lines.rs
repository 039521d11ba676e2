//! An object of a log as a line for people: time, client, what was asked for, how it was answered, why.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::print::{plain, size};

/// The longest URL of a line, in characters.
const URL_COLUMNS_MAX: usize = 120;
/// The widest columns of URLs and addresses.
const URL_COLUMNS_WIDE: usize = 60;
const WHO_COLUMNS_MAX: usize = 39;

/// The lines of one command: columns that widen as longer words come.
#[derive(Debug)]
pub(super) struct Columns {
    zone: TimeZone,
    clock: Clock,
    is_coloured: bool,
    who: usize,
    url: usize,
    answered: usize,
}

/// How times are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    /// The time of day.
    Hours,
    /// With the day.
    Days,
}

/// What a line says of a request.
struct Said {
    /// Who asked, or was asked.
    who: String,
    /// How it was answered.
    answered: String,
    bytes: Option<u64>,
    /// Why.
    why: Vec<String>,
}

/// An object whose texts do nothing to a terminal.
pub(super) struct Plain<'v>(pub(super) &'v Value);

impl Plain<'_> {
    pub(super) fn text(&self, name: &str) -> String {
        plain(self.0[name].as_str().unwrap_or_default()).replace('\n', "\\n")
    }

    pub(super) fn has(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    pub(super) fn or_dash(&self, name: &str) -> String {
        self.has(name).unwrap_or_else(|| "-".to_owned())
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.0[name].as_i64()
    }

    pub(super) fn took(&self, name: &str) -> Option<String> {
        self.0[name].as_f64().map(milliseconds)
    }
}

impl Columns {
    /// Columns of lines that have not been printed yet.
    pub(super) fn new(clock: Clock) -> Columns {
        let (zone, is_coloured) = (TimeZone::system(), super::is_coloured());
        Columns { zone, clock, is_coloured, who: 0, url: 0, answered: 4 }
    }

    /// A request of a client.
    pub(super) fn request(&mut self, object: &Value) -> String {
        let object = Plain(object);
        let outcome = object.text("outcome");
        let mut why: Vec<String> = Vec::new();
        if let Some(left_s) = object.number("ttl_left_s").filter(|_| object.0["stored_s"].is_null()) {
            why.push(if left_s < 0 {
                format!("stale for {} s", -left_s)
            } else {
                format!("{left_s} s left")
            });
        }
        why.extend(object.has("detail"));
        if let Some(stored_s) = object.number("stored_s") {
            why.push(format!("stored {stored_s} s ({})", object.text("ttl_source")));
        }
        why.extend(object.has("not_stored").map(|word| format!("not stored: {word}")));
        if object.0["collapsed"] == true {
            why.push("joined another's fill".to_owned());
        }
        why.extend(object.has("origin").map(|origin| format!("by {origin}")));
        match object.text("completion").as_str() {
            "whole" => {}
            "cut" => why.push("cut before its end".to_owned()),
            _ => why.push("the client left".to_owned()),
        }
        let bytes = object.0["body_bytes"].as_u64();
        self.line(&object, &Said { who: object.or_dash("client"), answered: outcome, bytes, why })
    }

    /// A request to an origin.
    pub(super) fn attempt(&mut self, object: &Value) -> String {
        let object = Plain(object);
        let mut why = Vec::new();
        if let Some(attempt) = object.number("attempt").filter(|attempt| *attempt > 1) {
            why.push(format!("attempt {attempt} after {}", object.or_dash("retry")));
        }
        why.extend(object.has("pick").map(|pick| format!("pick {pick}")));
        if let Some(connection) = object.has("connection") {
            let took = object.took("connect_ms").map(|took| format!(" in {took}"));
            why.push(format!("{connection} connection{}", took.unwrap_or_default()));
        }
        let completion = object.text("completion");
        if completion != "whole" {
            why.push(format!("{completion} {}", object.text("error")).trim_end().to_owned());
        }
        why.extend(object.has("volume").map(|volume| format!("to {volume}")));
        let who = format!("{} {}", object.or_dash("origin"), object.text("address"));
        let bytes = object.0["received_bytes"].as_u64();
        self.line(&object, &Said { who, answered: object.text("purpose"), bytes, why })
    }

    fn line(&mut self, object: &Plain<'_>, said: &Said) -> String {
        let url = shortened(object);
        self.who = self.who.max(said.who.chars().count()).min(WHO_COLUMNS_MAX);
        self.url = self.url.max(url.chars().count()).min(URL_COLUMNS_WIDE);
        self.answered = self.answered.max(said.answered.len());
        let status = object.number("status").filter(|status| *status > 0);
        let line = format!(
            "{}  {:<who$}  {url:<wide$}  {:>3}  {}  {:>10}  {:>7}  {}",
            self.time(&object.text("time")),
            said.who,
            status.map_or_else(|| "-".to_owned(), |status| status.to_string()),
            self.coloured(&said.answered, status),
            said.bytes.map(size).unwrap_or_default(),
            object.took("total_ms").unwrap_or_default(),
            said.why.join(", "),
            who = self.who,
            wide = self.url,
        );
        line.trim_end().to_owned()
    }

    /// The time where the command runs.
    fn time(&self, time: &str) -> String {
        let parsed = time.parse::<Timestamp>().ok();
        let form = match self.clock {
            Clock::Hours => "%H:%M:%S%.3f",
            Clock::Days => "%m-%d %H:%M:%S%.3f",
        };
        let zoned = parsed.map(|time| time.to_zoned(self.zone.clone()).strftime(form).to_string());
        zoned.unwrap_or_else(|| "-".to_owned())
    }

    fn coloured(&self, word: &str, status: Option<i64>) -> String {
        let padded = format!("{word:<width$}", width = self.answered);
        if !self.is_coloured {
            return padded;
        }
        let code = match word {
            _ if status.is_none_or(|status| status >= 500) => "31",
            "hit" | "stale" | "revalidated" => "32",
            "miss" => "33",
            "refused" => "31",
            _ => "36",
        };
        format!("\u{1b}[{code}m{padded}\u{1b}[0m")
    }
}

/// Method, host and target, not too long.
fn shortened(object: &Plain<'_>) -> String {
    let url = format!("{} {}{}", object.or_dash("method"), object.text("host"), object.or_dash("target"));
    match url.chars().count() > URL_COLUMNS_MAX {
        true => url.chars().take(URL_COLUMNS_MAX - 1).chain(['…']).collect(),
        false => url,
    }
}

/// `0.06 ms`, `8.4 ms`, `84 ms`, `12.3 s`.
pub(super) fn milliseconds(ms: f64) -> String {
    match ms {
        ..0.995 => format!("{ms:.2} ms"),
        ..9.95 => format!("{ms:.1} ms"),
        ..9_999.5 => format!("{ms:.0} ms"),
        _ => format!("{:.1} s", ms / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn columns() -> Columns {
        let (zone, clock) = (TimeZone::UTC, Clock::Hours);
        Columns { zone, clock, is_coloured: false, who: 0, url: 0, answered: 0 }
    }

    #[test]
    fn requests_are_lines() {
        let hit = json!({
            "time": "2026-11-20T12:00:01.123Z", "client": "192.0.2.7", "method": "GET", "host": "a.test",
            "target": "/x", "status": 200, "outcome": "hit", "ttl_left_s": 40, "body_bytes": 2048,
            "total_ms": 0.061, "completion": "whole",
        });
        let line = "12:00:01.123  192.0.2.7  GET a.test/x  200  hit     2.0 KiB  0.06 ms  40 s left";
        assert_eq!(columns().request(&hit), line);
        let failed = json!({
            "time": "2026-11-20T12:00:01.123Z", "method": "GET", "host": "a.test", "target": "/x",
            "status": 502, "outcome": "miss", "detail": "connect-refused", "origin": "one",
            "not_stored": "server-error", "collapsed": true, "body_bytes": 0, "total_ms": 12_345.0,
            "completion": "cut",
        });
        let line = "12:00:01.123  -  GET a.test/x  502  miss         0 B   12.3 s  connect-refused, \
                    not stored: server-error, joined another's fill, by one, cut before its end";
        assert_eq!(columns().request(&failed), line);
    }

    #[test]
    fn requests_to_origins_are_lines() {
        let asked = json!({
            "time": "2026-11-20T12:00:01.123Z", "purpose": "fill", "attempt": 2, "retry": "connect-refused",
            "method": "GET", "host": "a.test", "target": "/x", "origin": "two", "address": "127.0.0.1:80",
            "pick": "hash/bound", "connection": "new", "connect_ms": 1.5, "status": 200,
            "received_bytes": 10, "total_ms": 3.0, "completion": "whole", "volume": "ssd",
        });
        let line = "12:00:01.123  two 127.0.0.1:80  GET a.test/x  200  fill        10 B   3.0 ms  attempt 2 \
                    after connect-refused, pick hash/bound, new connection in 1.5 ms, to ssd";
        assert_eq!(columns().attempt(&asked), line);
    }

    #[test]
    fn what_strangers_wrote_does_nothing_to_a_terminal() {
        let evil = "\u{1b}[2J\u{202e}\r\n\u{9b}31m";
        let object = json!({
            "client": evil, "method": evil, "host": evil, "target": evil, "origin": evil, "detail": evil,
            "address": evil, "retry": evil, "attempt": 2, "error": evil, "time": evil, "outcome": evil,
        });
        for line in [columns().request(&object), columns().attempt(&object)] {
            assert!(!line.contains(|c: char| weir_observe::steers(c)), "{line:?}");
        }
    }

    #[test]
    fn long_urls_end_in_dots() {
        let line = columns().request(&json!({ "target": "/".repeat(500) }));
        assert!(line.contains("//…  ") && line.chars().count() < 200, "{line}");
    }
}
