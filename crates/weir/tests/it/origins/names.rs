//! Every address of a name is an origin: they come and go as DNS says, and DNS that fails or lies takes
//! nothing away.

use std::net::SocketAddr;

use weir_testkit::{Dns, Mood, Origin, Record, Weir, until};

use super::changes::{Load, answers, origins, shown};
use crate::server::server;

/// Origins on one port of several addresses of this machine, each of which answers its own number.
pub(crate) fn on_one_port(count: u8) -> Vec<Origin> {
    let bound = |first: &Origin| {
        let port = first.addr().port();
        (2..=count).map(|number| SocketAddr::from(([127, 0, 0, number], port))).collect::<Vec<_>>()
    };
    let (first, others) = (0..100)
        .find_map(|_| {
            let first = Origin::start();
            let others = bound(&first);
            // Each is free still when it is listened on, as other tests use 127.0.0.1 alone.
            others.iter().all(|at| std::net::TcpListener::bind(at).is_ok()).then_some((first, others))
        })
        .unwrap();
    let mut all = vec![first];
    all.extend(others.iter().map(|at| Origin::listen(&at.to_string())));
    for (number, origin) in all.iter().enumerate() {
        let name = (number + 1).to_string();
        origin.otherwise(move |exchange| {
            exchange.body();
            exchange.reply(200, &[("Cache-Control", "no-store")], &name);
        });
    }
    all
}

pub(crate) fn addresses(all: &[Origin]) -> Vec<SocketAddr> {
    all.iter().map(Origin::addr).collect()
}

/// A Weir before `http://app.test` at the port of these origins, which asks this name server.
pub(super) fn before(dns: &Dns, all: &[Origin]) -> Weir {
    let lines = format!(
        "resolve = \"each\"\nnameservers = [\"{}\"]\ndns_refresh = \"1s\"\nconnect = \"1s\"",
        dns.address()
    );
    let url = format!("\"http://app.test:{}\"", all[0].addr().port());
    server(&[]).origins(&url).upstream(&lines).start()
}

pub(super) fn name(origin: &Origin) -> String {
    format!("http://app.test@{}", origin.addr())
}

pub(super) fn await_answers(weir: &Weir, expect: &str) {
    until(expect, || answers(weir, expect.len()) == expect);
}

/// Waits until these and no others answer, whatever else is asked meanwhile.
pub(super) fn await_those(weir: &Weir, expect: &str) {
    let distinct = || {
        let mut all: Vec<char> = answers(weir, 24).chars().collect();
        all.dedup();
        all.into_iter().collect::<String>()
    };
    until(expect, || distinct() == expect);
}

#[test]
fn every_address_is_an_origin_and_comes_and_goes_as_dns_says() {
    let (dns, all) = (Dns::start(), on_one_port(4));
    dns.addresses("app.test", 0, &addresses(&all[..2]));
    let weir = before(&dns, &all);
    await_answers(&weir, "11112222");
    let load = Load::start(&weir, 2);
    dns.addresses("app.test", 0, &addresses(&all[..3]));
    await_those(&weir, "123");
    // One is not named any more: it is drained, then it leaves.
    dns.addresses("app.test", 0, &addresses(&all[1..]));
    await_those(&weir, "234");
    until("it has left", || shown(&weir, &name(&all[0])).is_null());
    // An operator changes one address of the name alone.
    origins(&weir, &["drain", "main", &name(&all[1])]);
    await_those(&weir, "34");
    origins(&weir, &["ready", "main", &name(&all[1])]);
    load.end();
    let asked = all[1].requests("/").pop().unwrap();
    assert_eq!(asked.header("host").as_deref(), Some("x"), "the client's, as with one origin");
}

#[test]
fn dns_that_fails_or_lies_takes_no_address_away() {
    let (dns, all) = (Dns::start(), on_one_port(2));
    dns.addresses("app.test", 0, &addresses(&all));
    let weir = before(&dns, &all);
    await_answers(&weir, "1122");
    let load = Load::start(&weir, 2);
    for mood in [Mood::NoName, Mood::Empty, Mood::Failing, Mood::Silent, Mood::Garbage] {
        dns.mood(mood);
        let asked = dns.asked();
        until("it is asked again", || dns.asked() >= asked + 4);
        let states = [&all[0], &all[1]].map(|origin| shown(&weir, &name(origin))["state"].clone());
        assert_eq!(states, ["ready", "ready"], "{mood:?}");
    }
    weir.await_stderr("cannot look up the addresses of the origin's name");
    // A name that is its own alias, for ever.
    dns.mood(Mood::Honest);
    dns.put("app.test", 0, &[Record::Alias("app.test".to_owned())]);
    let asked = dns.asked();
    until("it is asked again", || dns.asked() >= asked + 4);
    assert_eq!(shown(&weir, &name(&all[1]))["state"], "ready");
    await_those(&weir, "12");
    load.end();
    dns.addresses("app.test", 0, &addresses(&all[..1]));
    await_answers(&weir, "1111");
}

#[test]
fn thousands_of_addresses_are_bounded_and_come_over_tcp() {
    let (dns, all) = (Dns::start(), on_one_port(1));
    let many = (0..2000u16).map(|number| {
        let [high, low] = number.to_be_bytes();
        Record::Address(SocketAddr::from(([127, 1, high, low], 1)).ip())
    });
    dns.put("app.test", 0, &many.collect::<Vec<_>>());
    let weir = before(&dns, &all);
    let count = || {
        let listed: serde_json::Value = serde_json::from_str(&origins(&weir, &["--json"])).unwrap();
        listed[0]["origins"].as_array().unwrap().len()
    };
    until("a thousand are used", || count() == 1000);
    weir.await_stderr("too many addresses");
    assert!(dns.asked_over_tcp() > 0);
}

#[test]
fn a_service_has_the_ports_weights_and_priorities_of_its_records() {
    let (dns, all) =
        (Dns::start(), [super::changes::named("a"), super::changes::named("b"), super::changes::named("c")]);
    let to = |priority, weight, origin: &Origin| {
        Record::Service(priority, weight, origin.addr().port(), "host.test".to_owned())
    };
    dns.put("host.test", 0, &[Record::Address(all[0].addr().ip())]);
    dns.put("_http._tcp.app.test", 0, &[to(1, 3, &all[0]), to(1, 1, &all[1]), to(2, 1, &all[2])]);
    let lines = format!("resolve = \"each\"\nnameservers = [\"{}\"]\ndns_refresh = \"1s\"", dns.address());
    let weir = server(&[]).origins("\"http://_http._tcp.app.test\"").upstream(&lines).start();
    await_answers(&weir, "aaaaaabb");
    dns.put("_http._tcp.app.test", 0, &[to(2, 1, &all[2])]);
    await_answers(&weir, "cccc");
}
