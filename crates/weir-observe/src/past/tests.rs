//! What is kept of the past, and what a flood pushes out.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::*;
use crate::condition::{Condition, LogOf};
use crate::record::{Description, Outcome};
use crate::site::SiteId;
use crate::trace::{Moment, Step, Trace};

/// A request of a client of a site, the `number`-th second of the test.
fn request(site: usize, client: &str, number: u64) -> Record {
    let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(number);
    let description = Description {
        wall,
        client: client.to_owned(),
        method: Some(Method::GET),
        target: format!("/{number}"),
        site: Arc::from(format!("site{site}")),
        ..Description::default()
    };
    let facts = Facts { site: SiteId::new(site), status: 200, outcome: Outcome::Miss, ..Facts::default() };
    Record { facts, description }
}

fn failed(site: usize, client: &str, number: u64) -> Record {
    let record = request(site, client, number);
    Record { facts: Facts { status: 502, ..record.facts }, ..record }
}

fn slow(site: usize, client: &str, (number, ms): (u64, u64)) -> Record {
    let record = request(site, client, number);
    let took = Duration::from_millis(ms);
    Record { facts: Facts { first_byte: Some(took), total: took, ..record.facts }, ..record }
}

fn past() -> Past {
    Past::new(SystemTime::UNIX_EPOCH)
}

fn listed(past: &Past, wish: &Wish) -> Vec<Value> {
    past.list(wish).lines.iter().map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// How many of what is kept are of a kind and a site.
fn count(past: &Past, kind: &str, site: &str) -> usize {
    let all = listed(past, &Wish::default());
    all.iter().filter(|line| line["kept"] == kind && line["site"] == site).count()
}

#[test]
fn the_last_of_each_kind_are_kept() {
    let past = past();
    for number in 0..1000 {
        past.keep(&failed(0, "192.0.2.1", number));
    }
    past.keep(&slow(0, "192.0.2.1", (1000, 20)));
    for (completion, number) in [(Completion::Cut, 1001), (Completion::ClientGone, 1002)] {
        let record = failed(0, "192.0.2.1", number);
        past.keep(&Record { facts: Facts { completion, ..record.facts }, ..record });
    }
    past.keep(&slow(0, "192.0.2.1", (1003, 9)));
    past.keep(&request(0, "192.0.2.1", 1004));
    let all = listed(&past, &Wish::default());
    assert_eq!(all.len(), 253);
    assert_eq!((&all[0]["target"], &all[249]["target"]), (&Value::from("/750"), &Value::from("/999")));
    let kinds: Vec<&str> = all[249..].iter().map(|line| line["kept"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["failed", "slow", "cut", "client-gone"]);
}

#[test]
fn a_flood_pushes_out_its_own() {
    let past = past();
    // A quiet site, and in the loud one a quiet client.
    for number in 0..20 {
        past.keep(&failed(1, "192.0.2.9", number));
        past.keep(&failed(0, "192.0.2.8", number));
        past.keep(&slow(1, "192.0.2.9", (number, 15)));
    }
    for number in 100..3000 {
        past.keep(&failed(0, "192.0.2.1", number));
        past.keep(&slow(0, "192.0.2.1", (number, 60_000)));
    }
    let failures = listed(&past, &Wish::default());
    let of = |client: &str| {
        failures.iter().filter(|line| line["client"] == client && line["kept"] == "failed").count()
    };
    assert_eq!((count(&past, "failed", "site1"), count(&past, "slow", "site1")), (20, 20));
    assert_eq!((of("192.0.2.8"), of("192.0.2.1")), (20, 210));
    // Addresses of one network of IPv6 are one client.
    for number in 3000..3500 {
        past.keep(&failed(0, &format!("2001:db8::{:x}", number % 1000), number));
    }
    assert_eq!(count(&past, "failed", "site1"), 20);
    let all = listed(&past, &Wish::default());
    let quiet = all.iter().filter(|line| line["client"] == "192.0.2.8").count();
    assert_eq!(quiet, 20);
}

#[test]
fn the_slowest_stay_for_an_hour() {
    let past = past();
    past.keep(&slow(0, "192.0.2.1", (0, 60_000)));
    for number in 1..1000 {
        past.keep(&slow(0, "192.0.2.1", (number, 10 + number % 7)));
    }
    let kept = |target: &str| {
        let all = listed(&past, &Wish::default());
        all.iter().any(|line| line["target"] == target)
    };
    assert!(kept("/0") && !kept("/7") && kept("/6"));
    past.keep(&slow(0, "192.0.2.1", (3700, 10)));
    assert!(!kept("/0") && kept("/3700"));
}

#[test]
fn it_is_asked_like_the_log() {
    let past = past();
    for site in 0..3 {
        past.keep(&failed(site, "192.0.2.1", site as u64));
    }
    let found = |wish: &Wish| {
        let all = listed(&past, wish);
        all.iter().map(|line| line["site"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let condition = Condition::read("status >= 500 and url ~ '[12]$'", LogOf::Clients).unwrap();
    let of_condition = Wish { condition: Some(condition), ..Wish::default() };
    assert_eq!(found(&of_condition), ["site1", "site2"]);
    let of_sites = Wish { sites: Some(vec!["site0".to_owned()]), ..Wish::default() };
    assert_eq!(found(&of_sites), ["site0"]);
    assert_eq!(found(&Wish { sites: Some(Vec::new()), ..Wish::default() }), [""; 0]);
}

#[test]
fn what_was_noted_of_a_request_is_kept_with_it() {
    let past = past();
    let record = failed(0, "192.0.2.1", 1);
    let steps = vec![Moment { at_us: 5, step: Step::Joined }];
    let trace = Trace { key: "http://a/".to_owned(), steps, is_noted: true, left_out: 0 };
    let description = Description { trace: Some(Box::new(trace)), ..record.description.clone() };
    past.keep(&Record { facts: record.facts, description });
    past.keep(&failed(0, "192.0.2.1", 2));
    let plain = listed(&past, &Wish::default());
    assert!(plain[0].get("steps").is_none() && plain[0].get("key").is_none());
    let full = listed(&past, &Wish { detail: Detail::Full, ..Wish::default() });
    assert_eq!((&full[0]["key"], &full[0]["traced"]), (&Value::from("http://a/"), &Value::from(true)));
    assert_eq!(full[0]["steps"][0]["step"], "joined");
    assert_eq!((&full[1]["traced"], &full[1]["steps"][0]["step"]), (&false.into(), &"sent".into()));
}

#[test]
fn texts_of_strangers_are_bounded() {
    let past = past();
    let record = failed(0, "192.0.2.1", 1);
    let long = "ö".repeat(50_000);
    let description = Description {
        target: long.clone(),
        referer: Some(long.clone()),
        user_agent: Some(long.clone()),
        host: long.clone(),
        request_id: long,
        line: Some(vec![0; 50_000]),
        ..record.description
    };
    past.keep(&Record { facts: record.facts, description });
    let lines = past.list(&Wish::default()).lines;
    assert!(lines[0].len() < 6000, "{}", lines[0].len());
    assert!(String::from_utf8_lossy(&lines[0]).contains("ö…\""));
}
