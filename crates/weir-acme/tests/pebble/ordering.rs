//! A certificate by each way of proving, for names and addresses.

use weir_acme::{Challenge, Step, Unorderable};

use crate::bench::{Bench, row, settings};

#[test]
fn a_certificate_comes_by_http_01_and_outlives_the_process() {
    let bench = Bench::new("acme-http");
    let Some(pebble) = bench.pebble() else { return };
    let wanted = settings(&pebble, &["www.example.com", "*.example.com"]);
    let acme = bench.acme(wanted.clone());
    bench.until_issued(1);
    let row_of = row(&acme, "www.example.com");
    assert!(matches!(row_of.step, Step::Renews(_)), "{row_of:?}");
    assert_eq!(row_of.issued_by.as_deref(), Some(pebble.directory().as_str()));
    assert_eq!(row(&acme, "*.example.com").step, Step::NeedsFile(Unorderable::Wildcard));
    acme.stop();
    let kept = weir_acme::kept(bench.disk(), &wanted, &bench.clock()).certificates;
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].key_pem, bench.shown.issued.lock().unwrap()[0].key_pem);
    // A new process asks for nothing.
    let requests = pebble.log().matches("POST").count();
    let acme = bench.acme(wanted);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(matches!(row(&acme, "www.example.com").step, Step::Renews(_)));
    acme.stop();
    assert_eq!(bench.issued(), 1);
    assert!(pebble.log().matches("new-order").count() <= requests);
}

#[test]
fn a_certificate_comes_by_tls_alpn_01() {
    let bench = Bench::new("acme-alpn");
    let Some(pebble) = bench.pebble() else { return };
    let mut wanted = settings(&pebble, &["www.example.com", "127.0.0.1"]);
    wanted.challenges = vec![Challenge::TlsAlpn01];
    let acme = bench.acme(wanted);
    bench.until_issued(2);
    acme.stop();
    assert_eq!(bench.failures(), [] as [&str; 0]);
}

#[test]
fn an_address_is_a_name() {
    let bench = Bench::new("acme-address");
    let Some(pebble) = bench.pebble() else { return };
    let acme = bench.acme(settings(&pebble, &["127.0.0.1"]));
    bench.until_issued(1);
    acme.stop();
    assert_eq!(bench.failures(), [] as [&str; 0]);
}
