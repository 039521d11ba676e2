//! Names whose addresses change without end, that DNS does not know or is silent about, and addresses where
//! no origin can be: what the others of the upstream have is never less for that.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::Value;
use weir_testkit::{Dns, Mood, Origin, Record, until};

use super::changes::{answers, named, origins, shown};
use super::names::{addresses, on_one_port};
use crate::server::{Server, server};

fn before(dns: &Dns, urls: &[String], lines: &str) -> Server {
    let urls: Vec<String> = urls.iter().map(|url| format!("\"{url}\"")).collect();
    let dns = format!("resolve = \"each\"\nnameservers = [\"{}\"]\n{lines}", dns.address());
    server(&[]).origins(&urls.join(", ")).upstream(&dns)
}

fn of_name(name: &str, at: &Origin) -> String {
    format!("http://{name}:{}", at.addr().port())
}

#[test]
fn a_name_with_other_addresses_each_time_is_bounded() {
    let dns = Dns::start();
    let address = |round: u8, number: u16| {
        let [high, low] = number.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(127, 100 + round, high, low))
    };
    let put = |round: u8| {
        let all: Vec<Record> = (1..=1000).map(|number| Record::Address(address(round, number))).collect();
        dns.put("app.test", 0, &all);
    };
    put(0);
    let url = "http://app.test:9".to_owned();
    let weir = before(&dns, &[url], "dns_refresh = \"600s\"\nconnect = \"2s\"").start();
    let of = |round: u8| format!("http://app.test@{}:9", address(round, 1));
    let metrics = |round: u8| weir.admin_get("/metrics").text().matches(&of(round)).count();
    until("the first ones are there", || metrics(0) > 0);
    for round in 1..6 {
        put(round);
        until("others are there", || metrics(round) > 0);
        let listed: Value = serde_json::from_str(&origins(&weir, &["--json"])).unwrap();
        assert!(listed[0]["origins"].as_array().unwrap().len() <= 2000, "{round}");
    }
    assert_eq!(shown(&weir, &of(4))["state"], "draining");
    assert!(shown(&weir, &of(3)).is_null(), "the oldest leave at once");
    assert_eq!(metrics(3), 0, "and are in no metric");
    let said = weir.stderr().matches("addresses of the origin's name have changed").count();
    assert!(said <= 3, "{said} lines of the log");
}

#[test]
fn a_name_that_dns_does_not_know_takes_no_share() {
    let (dns, all) = (Dns::start(), on_one_port(1));
    let other = named("other");
    dns.mood(Mood::NoName);
    dns.addresses("app.test", 0, &addresses(&all));
    let url = of_name("app.test", &all[0]);
    let lines = "dns_refresh = \"1s\"\nconnect = \"2s\"";
    let both = before(&dns, &[url.clone(), other.url()], lines).start();
    let alone = before(&dns, std::slice::from_ref(&url), lines).start();
    until("it is known to be missing", || {
        shown(&both, &url)["reason"].as_str().is_some_and(|why| why.contains("its name was not found yet: "))
    });
    assert_eq!(
        (shown(&both, &url)["state"].as_str(), &shown(&both, &url)["share"]),
        (Some("down"), &0.0.into())
    );
    assert_eq!(answers(&both, 8), "other".repeat(8));
    let metric = format!("weir_origin_failures_total{{upstream=\"main\",origin=\"{url}\"}}");
    assert_eq!(both.metric(&metric), Some(0.0), "nothing was sent there");
    // Where there is nothing else it is tried.
    assert_eq!(alone.get("/").status(), 502);
    assert!(alone.metric(&metric).is_some_and(|failures| failures > 0.0));
    dns.mood(Mood::Honest);
    until("it takes its share", || answers(&both, 4) == "11otherother");
    until("it answers alone", || alone.get("/").status() == 200);
}

#[test]
fn a_name_that_dns_is_silent_about_delays_no_other() {
    let (dns, all) = (Dns::start(), on_one_port(2));
    dns.silence("silent.test");
    dns.addresses("app.test", 0, &addresses(&all[..1]));
    // A lookup in vain lasts longer than this test waits.
    let urls = [of_name("silent.test", &all[0]), of_name("app.test", &all[0])];
    let weir = before(&dns, &urls, "dns_refresh = \"1s\"\nconnect = \"600s\"").start();
    // Before that no origin is known, and one is as good as the other.
    until("the other name is known", || origins(&weir, &[]).contains("ready"));
    assert_eq!(answers(&weir, 4), "1111");
    dns.addresses("app.test", 0, &addresses(&all[1..]));
    until("the next one does", || answers(&weir, 4) == "2222");
    assert_eq!(shown(&weir, &urls[0])["reason"], "its name was not looked up yet");
}

#[test]
fn addresses_where_no_origin_can_be_are_left_out() {
    let (dns, all) = (Dns::start(), on_one_port(1));
    let unfit = ["0.0.0.0", "224.0.0.1", "255.255.255.255"].map(|ip| Record::Address(ip.parse().unwrap()));
    let fit = Record::Address(all[0].addr().ip());
    dns.put("app.test", u32::MAX, &[&unfit[..], &[fit]].concat());
    let url = of_name("app.test", &all[0]);
    let weir = before(&dns, &[url], "dns_refresh = \"1s\"\nconnect = \"2s\"").start();
    until("the other one answers", || answers(&weir, 4) == "1111");
    let listed: Value = serde_json::from_str(&origins(&weir, &["--json"])).unwrap();
    assert_eq!(listed[0]["origins"].as_array().unwrap().len(), 1);
    weir.await_stderr("addresses at which no origin can be");
    // No answer is good for 68 years: the name is looked up again.
    let asked = dns.asked();
    until("it is asked again", || dns.asked() > asked);
}
