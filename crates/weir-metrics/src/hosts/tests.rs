//! Which host is which origin.

use std::sync::Arc;

use super::*;

/// The best host of each origin, by numbers.
fn matched<'h>(wanted: &Wanted, hosts: impl Iterator<Item = (&'h str, &'h str)>) -> Vec<Option<usize>> {
    let mut best = Best::new();
    for (number, (name, ip)) in hosts.enumerate() {
        let origins = wanted.origins(name, ip);
        assert!(best.wants(&origins) || origins.iter().all(|(origin, _)| best.of(*origin).is_some()));
        best.add(&origins, number);
    }
    (0..wanted.count()).map(|origin| best.of(origin).copied()).collect()
}

fn target(url: &str, id: Option<&str>, ips: &[&str]) -> Target {
    Target {
        upstream: "u".to_owned(),
        gauged: Gauged {
            origin: url.into(),
            id: id.map(str::to_owned),
            address: url.parse().unwrap(),
            at: None,
            ips: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
            gauges: Arc::default(),
        },
    }
}

#[test]
fn an_origin_is_the_host_that_is_called_best() {
    let targets = [
        target("http://10.0.0.1:8080", Some("web1"), &["10.0.0.1"]),
        target("http://app.test:81", None, &["10.0.0.2"]),
        target("http://127.0.0.1:91", None, &["127.0.0.1"]),
        target("http://127.0.0.1:92", None, &["127.0.0.1"]),
        target("unix:/run/a.sock", Some("sock"), &[]),
    ];
    let table = BTreeMap::from([("Mon.example".to_owned(), "http://127.0.0.1:92".to_owned())]);
    let wanted = Wanted::new(&targets, &table);
    let hosts = [
        ("host1", "10.0.0.1"),
        ("WEB1", "10.9.9.9"),
        ("app.test.", "10.0.0.9"),
        ("other", "10.0.0.2"),
        ("local", "127.0.0.1"),
        ("mon.example", "10.0.0.77"),
        ("nobody", "10.0.0.66"),
        ("sock", "10.0.0.67"),
    ];
    assert_eq!(wanted.origins("nobody", "10.0.0.66"), []);
    assert_eq!(wanted.origins("x", "10.0.0.2").len(), 1);
    let found = matched(&wanted, hosts.into_iter());
    assert_eq!(found, [Some(1), Some(2), Some(4), Some(5), Some(7)]);
    // Without its host in the document the address is all that is left.
    let found = matched(&wanted, hosts[..1].iter().copied().chain([("127.0.0.1:91", "9.9.9.9")]));
    assert_eq!(found, [Some(0), None, Some(1), None, None]);
}

#[test]
fn a_host_of_the_table_is_no_other_origin() {
    let targets = [target("http://10.0.0.1:1", None, &[]), target("http://10.0.0.1:2", None, &[])];
    let table = BTreeMap::from([("10.0.0.1".to_owned(), "http://10.0.0.1:2".to_owned())]);
    let found = matched(&Wanted::new(&targets, &table), [("a", "10.0.0.1")].into_iter());
    assert_eq!(found, [None, Some(0)]);
}

#[test]
fn an_origin_has_parts() {
    let parts = |target: Target| ["host", "port", "id"].map(|name| target.part(name));
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(parts(target("https://a.test", Some("n"), &[])), [some("a.test"), some("443"), some("n")]);
    assert_eq!(parts(target("http://[::1]:8", None, &[])), [some("[::1]"), some("8"), None]);
    assert_eq!(parts(target("unix:/a", Some("n"), &[])), [None, None, some("n")]);
}
