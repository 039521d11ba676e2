//! `pick` of an upstream and of a route: where requests go, and what metrics and logs say of it.

use std::collections::BTreeSet;

use weir_testkit::{Client, Gate, Origin, Weir, until};

use super::changes::named;
use crate::server::{Server, server};

/// What goes past the cache.
const PASS: &str = "bypass = { paths = [\"/pass/**\"] }";

/// A Weir in front of these origins with this pick.
fn with_pick(origins: &[Origin; 3], pick: &str) -> Server {
    server(&origins.each_ref()).upstream(&format!("pick = {pick}")).site(PASS)
}

fn three() -> [Origin; 3] {
    ["a", "b", "c"].map(named)
}

/// How often an origin was picked by this pick for this reason.
fn picked(weir: &Weir, pick: &str, reason: &str) -> usize {
    let labels = format!("pick=\"{pick}\",reason=\"{reason}\"");
    let text = weir.admin_get("/metrics").text();
    let lines = text.lines().filter(|line| line.starts_with("weir_origin_picks_total{"));
    let counts = lines.filter(|line| line.contains(&labels));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}

/// Who answers a request with these fields.
fn answer(weir: &Weir, target: &str, fields: &[(&str, &str)]) -> String {
    let response = weir.get_with(target, fields);
    assert_eq!(response.status(), 200, "{target}");
    response.text()
}

/// Who answers twelve requests for several paths, each once.
fn answers(weir: &Weir) -> BTreeSet<String> {
    (0..12).map(|number| answer(weir, &format!("/pass/{number}"), &[])).collect()
}

#[test]
fn each_pick_spreads_requests_in_its_own_way() {
    for (pick, reason, most) in [
        ("round_robin", "turn", 3),
        ("random", "chance", 3),
        ("least_requests", "turn", 3),
        ("two_choices", "least", 3),
        ("latency", "least", 3),
        ("by_requests", "least", 3),
        ("by_traffic", "least", 3),
        ("by_busyness", "least", 3),
        // A proxy that names no client.
        ("client_address", "fallback", 3),
        ("first", "first", 1),
    ] {
        let origins = three();
        let weir = with_pick(&origins, &format!("\"{pick}\"")).start();
        let names = answers(&weir);
        let least = usize::from(
            most == 3 && !matches!(pick, "random" | "two_choices" | "latency" | "client_address"),
        ) * 2
            + 1;
        assert!((least..=most).contains(&names.len()), "{pick}: {names:?}");
        assert!(picked(&weir, pick, reason) > 0, "{pick}");
        let total = weir.metric("weir_origin_picks_total");
        assert_eq!(total, Some(12.0), "{pick}: each request is picked for once");
    }
}

#[test]
fn a_busy_origin_gets_no_more_while_others_are_idle() {
    for pick in ["least_requests", "by_busyness"] {
        let origins = three();
        let gate = Gate::new();
        for origin in &origins {
            let inner = gate.clone();
            origin.on("/pass/slow", move |exchange| {
                inner.pass();
                exchange.reply(200, &[], "slow");
            });
        }
        let weir = with_pick(&origins, &format!("\"{pick}\"")).start();
        let mut slow: Vec<Client> = (0..2).map(|_| weir.client()).collect();
        slow.iter_mut().for_each(|client| {
            client.send_get("x", "/pass/slow", &[]);
        });
        let busy = |origin: &Origin| origin.count("/pass/slow");
        until("two are asked", || origins.iter().map(busy).sum::<usize>() == 2);
        assert!(origins.iter().all(|origin| busy(origin) < 2), "{pick}: the second one goes elsewhere");
        assert_eq!(answers(&weir).len(), 1, "{pick}: the third one is idle");
        gate.open();
        slow.iter_mut().for_each(|client| assert_eq!(client.recv().unwrap().status(), 200));
    }
}

#[test]
fn a_hash_keeps_what_is_alike_together() {
    let origins = three();
    let weir = with_pick(&origins, "{ hash = { of = \"cookie:sid\" } }").start();
    let home = |number: usize| answer(&weir, "/pass/x", &[("Cookie", &format!("a=b; sid={number}"))]);
    let homes: Vec<String> = (0..30).map(home).collect();
    assert_eq!(homes.iter().collect::<BTreeSet<_>>().len(), 3, "{homes:?}");
    assert_eq!((0..30).map(home).collect::<Vec<_>>(), homes);
    assert_eq!(picked(&weir, "hash", "hash"), 60);
    // A request that has none goes anywhere.
    answer(&weir, "/pass/x", &[("Cookie", "sid=")]);
    assert_eq!(picked(&weir, "hash", "fallback"), 1);
    // Another Weir agrees.
    let other = with_pick(&origins, "{ hash = { of = \"cookie:sid\" } }").start();
    let there = |number: usize| answer(&other, "/pass/x", &[("Cookie", &format!("sid={number}"))]);
    assert_eq!((0..30).map(there).collect::<Vec<_>>(), homes);
}

#[test]
fn a_client_stays_at_its_origin() {
    let origins = three();
    let weir = with_pick(&origins, "\"client_address\"").start();
    let home = |number: usize| answer(&weir, "/pass/x", &[("X-Forwarded-For", &format!("192.0.{number}.7"))]);
    let homes: Vec<String> = (0..30).map(home).collect();
    assert_eq!(homes.iter().collect::<BTreeSet<_>>().len(), 3, "{homes:?}");
    assert_eq!((0..30).map(home).collect::<Vec<_>>(), homes);
}

#[test]
fn what_all_clients_get_depends_on_none() {
    for pick in
        ["\"client_address\"", "{ hash = { of = \"cookie:sid\" } }", "{ hash = { of = \"header:X-User\" } }"]
    {
        let origins = three();
        let weir = with_pick(&origins, pick).start();
        let fields = [("X-Forwarded-For", "192.0.2.7"), ("Cookie", "sid=1"), ("X-User", "u")];
        for number in 0..24 {
            answer(&weir, &format!("/{number}"), &fields);
        }
        let word = if pick.contains("hash") { "hash" } else { "client_address" };
        assert_eq!((picked(&weir, word, "hash"), picked(&weir, word, "fallback")), (0, 24), "{pick}");
    }
    // What the key has decides for all.
    let origins = three();
    let weir = with_pick(&origins, "{ hash = { of = \"path\" } }").start();
    let home = |number: usize| answer(&weir, &format!("/{number}"), &[]);
    let homes: Vec<String> = (0..24).map(home).collect();
    assert_eq!((0..24).map(home).collect::<Vec<_>>(), homes);
    assert_eq!(picked(&weir, "hash", "hash"), 48);
}

#[test]
fn a_route_has_a_pick_of_its_own() {
    let origins = three();
    let route = "[[site.route]]\nprefix = \"/pass/own/\"\npick = { hash = { of = \"query:user\" } }";
    let weir = with_pick(&origins, "\"first\"").site(route).start();
    assert_eq!(answers(&weir).into_iter().collect::<String>(), "a");
    let home = |number: usize| answer(&weir, &format!("/pass/own/{number}?user={}", number % 10), &[]);
    let homes: Vec<String> = (0..10).map(home).collect();
    assert_eq!((10..20).map(home).collect::<Vec<_>>(), homes);
    assert!(homes.iter().collect::<BTreeSet<_>>().len() > 1, "{homes:?}");
    assert_eq!((picked(&weir, "first", "first"), picked(&weir, "hash", "hash")), (12, 20));
}

#[test]
fn a_reload_that_changes_the_pick_keeps_connections() {
    let origins = three();
    let weir = with_pick(&origins, "\"round_robin\"").start();
    assert_eq!(answers(&weir).len(), 3);
    let opened = || weir.metric("weir_origin_connections_opened_total");
    let before = opened();
    weir.rewrite_config(&with_pick(&origins, "\"first\"").text());
    assert_eq!(weir.reload().code, Some(0));
    assert_eq!(answers(&weir).into_iter().collect::<String>(), "a");
    weir.rewrite_config(&with_pick(&origins, "\"least_requests\"").text());
    assert_eq!(weir.reload().code, Some(0));
    assert_eq!(answers(&weir).len(), 3);
    assert_eq!(opened(), before);
}

#[test]
fn both_logs_name_the_pick() {
    let origins = three();
    let logs =
        "[log]\naccess = \"json\"\npath = \"{folder}/access.log\"\nupstream = \"{folder}/upstream.log\"";
    let weir = with_pick(&origins, "{ hash = { of = \"uri\" } }").more(logs).start();
    answer(&weir, "/pass/x", &[]);
    answer(&weir, "/x", &[]);
    for (log, lines) in [("access.log", 1), ("upstream.log", 2)] {
        let text = || std::fs::read_to_string(weir.folder().join(log)).unwrap_or_default();
        until(log, || text().matches("\"pick\":\"hash\"").count() >= lines);
    }
}
