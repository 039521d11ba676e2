//! What HAProxy makes of the same lines: a table of its reactions, one line after another, which the scenario
//! `checks::haproxy` of the crate `weir` compares with a real HAProxy.

use crate::health::agent::line::{Reading, read};
use crate::health::agent::said::Said;
use crate::health::standing::Order;

/// Lines of which HAProxy makes something else, and what Weir does.
const DIFFERENCES: [(&str, &str); 2] = [
    ("maxconn:0\\n", "Weir goes back to the configured `connections`, HAProxy to none at all"),
    ("maxconn:-5\\n", "HAProxy takes it for 4294967291"),
];

/// The columns of HAProxy: the server's status, weight (of 100) and limit of connections (of 50).
fn shown(said: Said) -> String {
    let status = match (said.order, said.is_down) {
        (Order::Maintenance, _) => "MAINT",
        (_, true) => "DOWN (agent)",
        (Order::Drain, false) => "DRAIN (agent)",
        (Order::Ready, false) => "no check",
    };
    // HAProxy has no weight above 256, Weir none above 1,000.
    format!("{status} | {} | {}", said.percent.min(256), said.connections.unwrap_or(50))
}

#[test]
fn weir_reacts_as_haproxy_does() {
    let mut said = Said::default();
    let mut compared = 0;
    for row in include_str!("../haproxy.txt").lines().filter(|row| !row.starts_with('#')) {
        let (line, theirs) = row.split_once(" => ").unwrap();
        let bytes = line.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t").replace("\\0", "\0");
        if let Reading::Line(words) = read(bytes.as_bytes(), true) {
            said = said.after(&words);
        }
        let differs = DIFFERENCES.iter().find(|(known, _)| *known == line);
        assert_eq!(shown(said) == theirs, differs.is_none(), "{line}: {} and {theirs}", shown(said));
        compared += 1;
    }
    assert!(compared > 40);
}
