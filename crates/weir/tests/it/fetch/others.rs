//! What one client's requests without an answer do to other clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_testkit::{Client, Exchange, Gate, Origin, Resource, Weir, until};

use crate::server::{before, server};

const CLEAN: usize = 50;
/// A field that makes the origin drop a request, as some firewalls in front of applications do.
const ODD: (&str, &str) = ("X-Odd", "<script>");

fn is_odd(exchange: &Exchange<'_>) -> bool {
    exchange.request.header(ODD.0).is_some()
}

fn client(weir: &Weir, target: &str, headers: &[(&str, &str)]) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", target, headers);
    client
}

fn await_running(weir: &Weir, n: usize) {
    until(&format!("{n} requests under way"), || {
        weir.metric("weir_requests_running").is_some_and(|now| now >= n as f64)
    });
}

/// Clean requests wait for the fill of another client's odd request. Returns what they get.
fn wait_for_an_odd_one(weir: &Weir, origin: &Origin, gate: &Gate) -> Vec<u16> {
    let mut odd = client(weir, "/x", &[ODD]);
    origin.await_count("/x", 1);
    let mut clean: Vec<Client> = (0..CLEAN).map(|_| client(weir, "/x", &[])).collect();
    await_running(weir, CLEAN + 1);
    gate.open();
    assert!(odd.recv().unwrap().status() >= 500);
    clean.iter_mut().map(|client| client.recv().unwrap().status()).collect()
}

#[test]
fn one_clients_failure_is_not_given_to_waiting_requests() {
    type Fail = fn(&mut Exchange<'_>);
    let failures: [(&str, Fail); 4] = [
        ("closes", |exchange| exchange.close()),
        ("resets", |exchange| exchange.reset()),
        ("is malformed", |exchange| {
            exchange.send("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n");
        }),
        ("says 500", |exchange| {
            exchange.reply(500, &[], "odd");
        }),
    ];
    for (name, fail) in failures {
        let (origin, gate) = (Origin::start(), Gate::new());
        let inner = gate.clone();
        origin.on("/x", move |exchange| {
            if is_odd(exchange) {
                inner.pass();
                return fail(exchange);
            }
            exchange.reply(200, &[("Cache-Control", "max-age=60")], "clean");
        });
        let weir = before(&origin);
        let statuses = wait_for_an_odd_one(&weir, &origin, &gate);
        assert!(statuses.iter().all(|status| *status == 200), "{name}: {statuses:?}");
        let asked = origin.requests("/x").iter().filter(|request| request.header(ODD.0).is_none()).count();
        assert!(asked <= 3, "{name}: one leads again, and the others join it; {asked} asked");
    }
}

#[test]
fn one_clients_failures_are_not_remembered_for_no_cache_responses() {
    let origin = Origin::start();
    origin.on("/x", |exchange| match is_odd(exchange) {
        true => exchange.close(),
        false => drop(exchange.reply(200, &[("Cache-Control", "no-cache"), ("ETag", "\"1\"")], "clean")),
    });
    let weir = before(&origin);
    for round in 0..20 {
        assert_eq!(client(&weir, "/x", &[ODD]).recv().unwrap().status(), 502);
        assert_eq!(weir.get("/x").status(), 200, "round {round}");
    }
}

#[test]
fn one_clients_failures_do_not_make_others_stale() {
    let origin = Origin::start();
    let has_changed = Arc::new(AtomicBool::new(false));
    let inner = has_changed.clone();
    origin.on("/odd", |exchange| exchange.close());
    origin.on("/page", move |exchange| {
        let body = if inner.load(Ordering::Relaxed) { "new" } else { "old" };
        exchange.reply(200, &[("Cache-Control", "max-age=1, stale-if-error=600")], body);
    });
    let weir = before(&origin);
    assert_eq!(weir.get("/page").text(), "old");
    has_changed.store(true, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(2100));
    for _ in 0..5 {
        assert_eq!(weir.get("/odd").status(), 502);
    }
    assert_eq!(weir.get("/page").text(), "new");
}

/// The other side: an origin that answers nobody gets a bounded number of requests, and all clients learn of
/// it soon.
#[test]
fn an_origin_that_answers_nobody_is_asked_a_few_times() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let inner = gate.clone();
    origin.on("/x", move |exchange| {
        inner.pass();
        exchange.close();
    });
    let weir = server(&[&origin]).upstream("eject = { failures = 0 }").start();
    let mut clients: Vec<Client> = (0..CLEAN)
        .map(|number| client(&weir, "/x", &[("X-Forwarded-For", &format!("2001:db8:{number:x}::1"))]))
        .collect();
    await_running(&weir, CLEAN);
    gate.open();
    let begun = Instant::now();
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.recv().unwrap().status()).collect();
    assert!(statuses.iter().all(|status| *status == 502), "{statuses:?}");
    assert!(origin.count("/x") <= 6, "asked {} times", origin.count("/x"));
    assert!(begun.elapsed() < Duration::from_secs(10));
    origin.put("/x", Resource::fresh("back"));
    until("it is asked again", || weir.get("/x").status() == 200);
}

/// How many requests without the odd field have reached the origin.
fn asked_clean(origin: &Origin) -> usize {
    origin.requests("/x").iter().filter(|request| request.header(ODD.0).is_none()).count()
}

#[test]
fn waiting_requests_behind_a_hung_one_lead_again_once() {
    for cache_control in ["max-age=60", "no-cache"] {
        let (origin, gate) = (Origin::start(), Gate::new());
        let inner = gate.clone();
        origin.on("/x", move |exchange| {
            if is_odd(exchange) {
                inner.pass();
            }
            exchange.reply(200, &[("Cache-Control", cache_control), ("ETag", "\"1\"")], "clean");
        });
        let weir = server(&[&origin]).upstream("first_byte = \"60s\"").start();
        let mut odd = client(&weir, "/x", &[ODD]);
        origin.await_count("/x", 1);
        let mut clean: Vec<Client> = (0..CLEAN).map(|_| client(&weir, "/x", &[])).collect();
        let answers: Vec<_> = clean.iter_mut().map(|client| client.recv().unwrap()).collect();
        assert!(answers.iter().all(|answer| answer.text() == "clean"), "{cache_control}");
        if cache_control != "no-cache" {
            let asked = asked_clean(&origin);
            assert!(asked <= 2, "one leads again, and the others join it; {asked} asked");
            assert!(weir.get("/x").is_hit(), "what it brings is stored");
        }
        // While the first one still hangs, no client waits for it any more.
        let begun = Instant::now();
        for _ in 0..3 {
            assert_eq!(weir.get("/x").text(), "clean");
        }
        assert!(begun.elapsed() < Duration::from_secs(9), "each would wait five seconds");
        gate.open();
        assert_eq!(odd.recv().unwrap().text(), "clean", "it is its own lead's");
    }
}

#[test]
fn an_origin_that_hangs_for_all_is_asked_a_bounded_number_of_times() {
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.put("/x", Resource::fresh("late").head_gate(&gate));
    let weir = server(&[&origin]).upstream("first_byte = \"60s\"").start();
    let begun = Instant::now();
    let mut clients: Vec<Client> = (0..10).map(|_| client(&weir, "/x", &[])).collect();
    await_running(&weir, 10);
    origin.await_count("/x", 2);
    std::thread::sleep(Duration::from_millis(1000));
    // One leads again every five seconds, and the others join it.
    let asked = origin.count("/x");
    let most = 1 + begun.elapsed().as_secs() as usize / 5;
    assert!(asked <= most, "asked {asked} times, and {most} leads fit");
    gate.open();
    assert!(clients.iter_mut().all(|client| client.recv().unwrap().text() == "late"));
}

#[test]
fn one_clients_requests_do_not_have_origins_left_out() {
    let origins = [Origin::start(), Origin::start()];
    for origin in &origins {
        origin.on("/x", |exchange| match is_odd(exchange) {
            true => exchange.close(),
            false => drop(exchange.reply(200, &[("Cache-Control", "no-store")], "clean")),
        });
    }
    let weir = server(&[&origins[0], &origins[1]]).upstream("eject = { failures = 2 }").start();
    let odd = |address: &str, number: u32| {
        let named = [ODD, ("X-Forwarded-For", address)];
        assert_eq!(client(&weir, &format!("/x?{number}"), &named).recv().unwrap().status(), 502);
    };
    (0..12).for_each(|number| odd("192.0.2.1", number));
    let ejections = || weir.metric("weir_origin_ejections_total");
    assert_eq!(ejections(), Some(0.0));
    odd("192.0.2.2", 12);
    odd("192.0.2.3", 13);
    assert_eq!(ejections(), Some(2.0));
}

#[test]
fn a_client_that_just_hung_does_not_lead_others_again() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let inner = gate.clone();
    origin.on("/x", move |exchange| {
        if is_odd(exchange) {
            inner.pass();
        }
        exchange.reply(200, &[("Cache-Control", "no-cache"), ("ETag", "\"1\"")], "clean");
    });
    let weir = server(&[&origin]).upstream("first_byte = \"60s\"").start();
    let odd = [("X-Forwarded-For", "192.0.2.1"), ODD];
    let clean = [("X-Forwarded-For", "192.0.2.2")];
    let first = client(&weir, "/x", &odd);
    origin.await_count("/x", 1);
    // It waits for the fill, and then no longer.
    assert_eq!(client(&weir, "/x", &clean).recv().unwrap().text(), "clean");
    drop(first);
    let _second = client(&weir, "/x", &odd);
    until("it hangs again", || {
        origin.requests("/x").iter().filter(|r| r.header(ODD.0).is_some()).count() == 2
    });
    for _ in 0..3 {
        let answer = client(&weir, "/x", &clean).recv().unwrap();
        assert_eq!(answer.text(), "clean");
        assert!(!answer.cache_status().contains("collapsed"), "{}", answer.cache_status());
    }
    gate.open();
}

#[test]
fn a_response_that_is_stored_for_nobody_is_waited_for_by_its_own_request_alone() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let inner = gate.clone();
    origin.on("/x", move |exchange| {
        if exchange.request.header("X-Slow").is_some() {
            inner.pass();
        }
        exchange.reply(200, &[("Cache-Control", "no-store")], "own");
    });
    let weir = before(&origin);
    assert_eq!(weir.get("/x").status(), 200, "now it is known");
    let mut slow: Vec<Client> = (0..4).map(|_| client(&weir, "/x", &[("X-Slow", "1")])).collect();
    origin.await_count("/x", 5);
    let mut others: Vec<Client> = (0..CLEAN).map(|_| client(&weir, "/x", &[])).collect();
    for other in &mut others {
        assert_eq!(other.recv().unwrap().status(), 200, "while the origin holds the slow ones back");
    }
    gate.open();
    assert!(slow.iter_mut().all(|client| client.recv().unwrap().status() == 200));
    assert_eq!(origin.count("/x"), 5 + CLEAN);
    assert_eq!(weir.metric("weir_fills_total"), Some(1.0), "the first one alone");
}

#[test]
fn a_fill_whose_lead_leaves_goes_on_for_who_joined() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let inner = gate.clone();
    origin.on("/x", move |exchange| {
        inner.pass();
        exchange.reply(200, &[("Cache-Control", "max-age=60")], "for all");
    });
    let weir = before(&origin);
    let lead = client(&weir, "/x", &[]);
    origin.await_count("/x", 1);
    let mut joined: Vec<Client> = (0..CLEAN).map(|_| client(&weir, "/x", &[])).collect();
    await_running(&weir, CLEAN + 1);
    drop(lead);
    until("the lead has left", || {
        weir.metric("weir_requests_running").is_some_and(|now| now <= CLEAN as f64)
    });
    gate.open();
    assert!(joined.iter_mut().all(|client| client.recv().unwrap().text() == "for all"));
    assert_eq!(origin.count("/x"), 1);
}
