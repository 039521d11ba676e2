//! Something between Weir and the CA: it answers in its place, or loses the answer. And what a rate limit and
//! an outage say is obeyed.

use std::sync::{Arc, Mutex};

use weir_acme::{AuthoritySettings, Proof, Settings};
use weir_disk::testing::CrashDisk;
use weir_testkit::{Between, Gate, Pebble, Verdict, until};

use crate::bench::{Bench, settings};

const HOST: &str = "www.example.com";

fn through(between: &Between, pebble: &Pebble) -> Settings {
    let roots = Some(between.roots().to_owned());
    let authorities = vec![AuthoritySettings { roots, ..AuthoritySettings::at(&between.directory()) }];
    Settings { authorities, ..settings(pebble, &[HOST]) }
}

fn problem(status: &str, fields: &str, kind: &str) -> String {
    let body = format!(r#"{{"type": "urn:ietf:params:acme:error:{kind}", "detail": "not now"}}"#);
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n{body}")
}

#[test]
fn a_rate_limit_is_waited_for_as_long_as_it_says() {
    let bench = Bench::new("acme-limited");
    let Some(pebble) = bench.pebble() else { return };
    let between = Between::start(&pebble);
    between.judge(|line| match line.starts_with("POST /order-plz") {
        true => Verdict::Answer(problem("429 Too Many Requests", "Retry-After: 7200\r\n", "rateLimited")),
        false => Verdict::Pass,
    });
    let acme = bench.acme(through(&between, &pebble));
    until("it is limited", || !bench.failures().is_empty());
    let failed = bench.shown.failed.lock().unwrap()[0].clone();
    assert!(failed.what.contains("rateLimited: not now"), "{failed:?}");
    let left = failed.again_at - bench.clock().now();
    assert!((7000..=7200).contains(&left), "{left}");
    between.judge(|_| Verdict::Pass);
    bench.advance(7201);
    acme.look();
    bench.until_issued(1);
    acme.stop();
}

#[test]
fn an_outage_that_says_how_long_is_waited_for() {
    let bench = Bench::new("acme-unavailable");
    let Some(pebble) = bench.pebble() else { return };
    let between = Between::start(&pebble);
    between.judge(|_| Verdict::Answer(problem("503 Busy", "Retry-After: 900\r\n", "serverInternal")));
    let acme = bench.acme(through(&between, &pebble));
    until("it is down", || !bench.failures().is_empty());
    let failed = bench.shown.failed.lock().unwrap()[0].clone();
    assert!(failed.what.contains("answers 503"), "{failed:?}");
    let left = failed.again_at - bench.clock().now();
    assert!((800..=900).contains(&left), "{left}");
    between.judge(|_| Verdict::Pass);
    bench.advance(901);
    acme.look();
    bench.until_issued(1);
    acme.stop();
}

#[test]
fn what_a_ca_may_look_at_stays_until_the_order_ends() {
    let bench = Bench::new("acme-stays");
    let Some(pebble) = bench.pebble() else { return };
    let (between, told, gate) = (Between::start(&pebble), Gate::new(), Gate::new());
    let (tells, holds) = (told.clone(), gate.clone());
    between.judge(move |line| match line.starts_with("POST /chalZ/") {
        true => {
            tells.open();
            Verdict::Hold(holds.clone())
        }
        false => Verdict::Pass,
    });
    let wanted = through(&between, &pebble);
    let acme = bench.acme(wanted.clone());
    told.pass();
    // The process is replaced while the CA is about to look.
    acme.stop();
    let kept = weir_acme::kept(bench.disk(), &wanted, &bench.clock()).proofs;
    let [Proof::Http { host, proof }] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!((host.as_str(), vec![proof.token.clone()]), (HOST, bench.answered()));
    gate.open();
    until("the CA has looked", || pebble.log().contains("set VALID by completed challenge"));
    let acme = bench.acme(wanted.clone());
    bench.until_issued(1);
    acme.stop();
    assert!(bench.answered().is_empty());
    assert!(weir_acme::kept(bench.disk(), &wanted, &bench.clock()).proofs.is_empty());
    assert_eq!(pebble.log().matches("POST /order-plz").count(), 1);
}

#[test]
fn an_answer_that_is_lost_costs_no_order_but_that_of_the_order_itself() {
    let bench = Bench::new("acme-lost");
    let Some(pebble) = bench.pebble() else { return };
    let between = Between::start(&pebble);
    let orders = || pebble.log().matches("POST /order-plz").count();
    let mut lost = 0;
    for at in 1.. {
        let (seen, fell) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(None)));
        let (counted, noted) = (seen.clone(), fell.clone());
        between.judge(move |line| {
            *counted.lock().unwrap() += 1;
            if *counted.lock().unwrap() != at {
                return Verdict::Pass;
            }
            *noted.lock().unwrap() = Some(line.to_owned());
            Verdict::Lose
        });
        let before = (orders(), bench.issued());
        let disk = Arc::new(CrashDisk::new(at));
        let acme =
            weir_acme::Acme::start(disk, through(&between, &pebble), bench.clock(), bench.shown.clone())
                .unwrap();
        until("it has a certificate", || {
            bench.advance(15);
            acme.look();
            std::thread::sleep(std::time::Duration::from_millis(20));
            bench.issued() > before.1
        });
        acme.stop();
        let Some(line) = fell.lock().unwrap().clone() else { break };
        let wanted = if line.contains("order-plz") { 2 } else { 1 };
        assert_eq!(orders() - before.0, wanted, "{line} was lost");
        lost += 1;
    }
    assert!(lost >= 8, "{lost}");
}
