//! A CA that rejects nonces, refuses authorizations, forgets accounts or is down; many hosts; and an end at
//! every step.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_acme::{Acme, Settings, Step};
use weir_disk::testing::{CrashDisk, Fault};
use weir_testkit::until;

use crate::bench::{Bench, authority, row, settings};

#[test]
fn two_hundred_hosts_at_once_with_a_bad_one_among_them() {
    let bench = Bench::new("acme-many");
    let setup = bench.setup().block("bad.example.com").env("PEBBLE_WFE_NONCEREJECT", "15");
    let Some(pebble) = bench.start(setup.env("PEBBLE_AUTHZREUSE", "50")) else { return };
    let mut hosts: Vec<String> = (0..200).map(|at| format!("h{at}.example.com")).collect();
    hosts.push("bad.example.com".to_owned());
    let all: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let acme = bench.acme(settings(&pebble, &all));
    // A request that met three bad nonces in a row is made again after a minute.
    until("all but one have theirs", || {
        bench.advance(5);
        acme.look();
        std::thread::sleep(std::time::Duration::from_millis(50));
        bench.issued() >= 200
    });
    let bad = row(&acme, "bad.example.com");
    assert_eq!(bad.not_after, None);
    assert!(bad.last_error.unwrap().what.contains("rejectedIdentifier"));
    acme.stop();
    assert_eq!(bench.issued(), 200);
}

#[test]
fn a_host_that_does_not_lead_here_is_refused_with_the_reason_and_waits() {
    let bench = Bench::new("acme-refused");
    let Some(pebble) = bench.start(weir_testkit::PebbleSetup::new(1, bench.tls_port)) else { return };
    let acme = bench.acme(settings(&pebble, &["www.example.com"]));
    until("it is refused", || !bench.failures().is_empty());
    let why = bench.failures()[0].clone();
    assert!(why.starts_with("connection:"), "{why}");
    assert!(matches!(row(&acme, "www.example.com").step, Step::Waits(..)));
    acme.stop();
    // The back-off outlives the process.
    let orders = || pebble.log().matches("POST /order-plz").count();
    let before = orders();
    let acme = bench.acme(settings(&pebble, &["www.example.com"]));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(matches!(row(&acme, "www.example.com").step, Step::Waits(..)));
    acme.stop();
    assert_eq!(orders(), before);
}

#[test]
fn both_ways_take_turns_after_failures() {
    let bench = Bench::new("acme-turns");
    let Some(pebble) = bench.start(weir_testkit::PebbleSetup::new(1, bench.tls_port)) else { return };
    let mut wanted = settings(&pebble, &["www.example.com"]);
    wanted.challenges.push(weir_acme::Challenge::TlsAlpn01);
    let acme = bench.acme(wanted);
    until("it is refused", || !bench.failures().is_empty());
    bench.advance(3600);
    acme.look();
    bench.until_issued(1);
    acme.stop();
}

#[test]
fn a_ca_that_forgot_everything_gets_a_new_account() {
    let bench = Bench::new("acme-forgotten");
    let Some(mut pebble) = bench.pebble() else { return };
    let wanted = settings(&pebble, &["a.example.com"]);
    let acme = bench.acme(wanted.clone());
    bench.until_issued(1);
    pebble.restart();
    let wanted = Settings { hosts: vec!["a.example.com".to_owned(), "b.example.com".to_owned()], ..wanted };
    acme.configure(wanted);
    until("the other host has its certificate", || {
        bench.advance(60);
        acme.look();
        std::thread::sleep(std::time::Duration::from_millis(50));
        bench.issued() >= 2
    });
    acme.stop();
}

#[test]
fn a_ca_that_is_down_is_left_alone_and_another_is_asked() {
    let bench = Bench::new("acme-down");
    let Some(pebble) = bench.pebble() else { return };
    let dead = weir_testkit::PebbleSetup::new(1, 1).directory();
    let mut wanted = settings(&pebble, &["a.example.com", "b.example.com"]);
    wanted.authorities.insert(0, weir_acme::AuthoritySettings { directory: dead, ..authority(&pebble) });
    let acme = bench.acme(wanted);
    until("both have theirs", || {
        bench.advance(30);
        acme.look();
        std::thread::sleep(std::time::Duration::from_millis(20));
        bench.issued() >= 2
    });
    assert!(bench.failures().len() >= 3, "{:?}", bench.failures());
    assert!(bench.failures().iter().all(|why| why.contains("cannot connect")), "{:?}", bench.failures());
    assert_eq!(row(&acme, "a.example.com").issued_by.unwrap(), pebble.directory());
    acme.stop();
}

#[test]
fn files_are_closed_to_others() {
    let bench = Bench::new("acme-modes");
    let Some(pebble) = bench.pebble() else { return };
    let acme = bench.acme(settings(&pebble, &["www.example.com"]));
    bench.until_issued(1);
    acme.stop();
    let mut seen = 0;
    for folder in ["hosts", "ca"] {
        for file in std::fs::read_dir(bench.folder.path().join("acme").join(folder)).unwrap() {
            assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
            seen += 1;
        }
    }
    assert_eq!(seen, 4, "a CA's account and record, a host's record and certificate");
}

#[test]
fn an_end_at_every_write_costs_no_second_order() {
    let bench = Bench::new("acme-killed");
    let Some(pebble) = bench.pebble() else { return };
    let wanted = settings(&pebble, &["www.example.com"]);
    let orders = || pebble.log().matches("POST /order-plz").count();
    let mut ended = 0;
    for at in 1.. {
        let disk = CrashDisk::new(at);
        disk.spare_reads();
        disk.fail_at(at, Fault::PowerCut);
        let before = orders();
        let acme =
            Acme::start(Arc::new(disk.clone()), wanted.clone(), bench.clock(), bench.shown.clone()).unwrap();
        let issued = bench.issued();
        until("it came or the drive has ended", || disk.is_down() || bench.issued() > issued);
        let was_down = disk.is_down();
        acme.stop();
        disk.fail_no_more();
        disk.restart();
        // The next process goes on where the last one was.
        let kept = Arc::new(disk.process());
        let acme = Acme::start(kept, wanted.clone(), bench.clock(), bench.shown.clone()).unwrap();
        until("it has a certificate", || {
            bench.advance(61);
            acme.look();
            std::thread::sleep(std::time::Duration::from_millis(20));
            row(&acme, "www.example.com").not_after.is_some()
        });
        acme.stop();
        let made = orders() - before;
        // Only an order whose URL was never written is made again.
        assert!(made <= 2, "{made} orders after an end at operation {at}");
        if !was_down {
            break;
        }
        ended += 1;
    }
    assert!(ended > 10, "{ended}");
    assert!(bench.shown.proofs.load(Ordering::SeqCst) > 1);
}
