//! Documents of Ganglia: what is read, and what is refused with its place.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use weir_upstream::Gauged;

use super::fuzzing::{ganglia, now, of};
use super::*;
use crate::hosts::{Target, Wanted};

/// The beginning of what gmond 3.7.2 sends.
const HEAD: &str = "<?xml version=\"1.0\" encoding=\"ISO-8859-1\" standalone=\"yes\"?>\n\
    <!DOCTYPE GANGLIA_XML [\n   <!ELEMENT GANGLIA_XML (GRID|CLUSTER|HOST)*>\n      \
    <!ATTLIST GANGLIA_XML VERSION CDATA #REQUIRED>\n   <!ENTITY boom \"boom\">\n]>\n";

fn document(inner: &str) -> Vec<u8> {
    format!("{HEAD}<GANGLIA_XML VERSION=\"3.7.2\" SOURCE=\"gmond\">\n{inner}</GANGLIA_XML>\n").into_bytes()
}

fn host(name: &str, ip: &str, metrics: &str) -> String {
    format!("<HOST NAME=\"{name}\" IP=\"{ip}\" TN=\"3\" TMAX=\"20\" DMAX=\"86400\">\n{metrics}</HOST>\n")
}

fn metric(name: &str, value: &str, tn: &str, dmax: &str) -> String {
    format!(
        "<METRIC NAME=\"{name}\" VAL=\"{value}\" TYPE=\"float\" UNITS=\"%\" TN=\"{tn}\" TMAX=\"90\" \
         DMAX=\"{dmax}\" SLOPE=\"both\"><EXTRA_DATA><EXTRA_ELEMENT NAME=\"GROUP\" VAL=\"cpu\"/></EXTRA_DATA>\
         </METRIC>\n"
    )
}

#[test]
fn hosts_in_clusters_and_grids_are_found() {
    let metrics = [
        metric("cpu_idle", "12.5", "7", "0"),
        metric("os_name", "Linux", "7", "0"),
        metric("queue", " -3e2 ", "40", "60"),
        metric("gone", "1", "61", "60"),
        metric("odd", "nan", "x", ""),
    ];
    let one = host("w\u{e4}b &amp; co", "10.0.0.1", &metrics.concat());
    let inner = format!(
        "<GRID NAME=\"g\"><CLUSTER NAME=\"a\">{one}</CLUSTER><CLUSTER NAME=\"b\"><HOSTS UP=\"1\"/>{}\
         </CLUSTER>\
         </GRID>",
        host("web2", "10.0.0.2", &metric("load_one", "1", "0", "0"))
    );
    // As ISO-8859-1, in which each character is a byte.
    let bytes: Vec<u8> =
        String::from_utf8(document(&inner)).unwrap().chars().map(|c| c as u32 as u8).collect();
    let hosts = now(&bytes).unwrap();
    let names: Vec<_> = hosts.iter().map(|host| (host.name.as_str(), host.ip.as_str())).collect();
    assert_eq!(names, [("web2", "10.0.0.2"), ("w\u{e4}b & co", "10.0.0.1")]);
    let samples = &hosts[1].samples;
    assert_eq!(samples.names(), ["cpu_idle", "gone", "queue"]);
    let of = |name: &str| {
        let named = samples.get(name).unwrap();
        (named.mean(), named.times.age.as_secs(), named.times.ends_in.map(|ends| ends.as_secs()))
    };
    assert_eq!(of("cpu_idle"), (12.5, 7, None));
    assert_eq!(of("queue"), (-300.0, 40, Some(20)));
    assert_eq!(of("gone"), (1.0, 61, Some(0)));
}

#[test]
fn only_hosts_that_are_wanted_are_kept() {
    let many: String = (0..20_000).map(|at| host(&format!("h{at}"), "1.2.3.4", "")).collect();
    let document = document(&many);
    let origins = |name: &str, _: &str| if name == "h7" { vec![(0, 0)] } else { Vec::new() };
    assert_eq!(of(&document, (&origins, 1)).unwrap().len(), 1);
}

#[test]
fn of_hosts_that_could_be_an_origin_the_best_is_kept() {
    let target = |url: &str, id: Option<&str>| Target {
        upstream: "u".to_owned(),
        gauged: Gauged {
            origin: url.into(),
            id: id.map(str::to_owned),
            address: url.parse().unwrap(),
            at: None,
            ips: vec![IpAddr::from([127, 0, 0, 1])],
            gauges: Arc::default(),
        },
    };
    let targets = [target("http://127.0.0.1:91", None), target("http://127.0.0.1:92", Some("web2"))];
    let wanted = Wanted::new(&targets, &BTreeMap::new());
    let origins = |name: &str, ip: &str| wanted.origins(name, ip);
    let names = |hosts: &str| -> Vec<String> {
        let hosts = of(&document(hosts), (&origins, wanted.count())).unwrap();
        hosts.into_iter().map(|host| host.name).collect()
    };
    let many: String = (0..20_000).map(|at| host(&format!("h{at}"), "127.0.0.1", "")).collect();
    assert_eq!(names(&many), ["h0"]);
    let own = host("web2", "10.0.0.9", "");
    assert_eq!(names(&format!("{many}{own}")), ["h0", "web2"]);
    assert_eq!(names(&format!("{own}{many}{own}")), ["h0", "web2"]);
    assert_eq!(names(&host("web2", "127.0.0.1", "")), ["web2"]);
}

#[test]
fn the_metrics_of_a_document_are_bounded() {
    let metrics: String = (0..5000).map(|at| metric(&format!("m{at}"), "1", "0", "0")).collect();
    let long = metric(&"n".repeat(300), "1", "0", "0");
    let twice = [metric("load", "1", "0", "0"), metric("load", "3", "0", "0")].concat();
    let document = document(&host("a", "1.1.1.1", &[long, twice, metrics].concat()));
    let kept = |count| {
        let hosts = of(&document, (&|_: &str, _: &str| vec![(0, 0)], count)).unwrap();
        assert_eq!(hosts[0].samples.get("load").unwrap().series.len(), 1);
        (hosts[0].samples.names().len(), hosts[0].samples.get("load").unwrap().mean())
    };
    assert_eq!(kept(1), (NAMES_MAX, 1.0));
    assert_eq!(kept(1000), (METRICS_MAX / 1000, 1.0));
    assert_eq!(kept(1_000_000), (HOST_METRICS, 1.0));
}

#[test]
fn what_is_no_whole_document_counts_for_nothing() {
    let whole = document(&host("a", "1.1.1.1", &metric("cpu_idle", "1", "0", "0")));
    assert_eq!(now(&whole).unwrap().len(), 1);
    for end in 0..whole.len() - 1 {
        assert!(now(&whole[..end]).is_err(), "cut at {end}");
    }
    let text = |document: &[u8]| now(document).unwrap_err().to_string();
    assert_eq!(text(b""), "byte 0: the document ends in the middle");
    assert_eq!(text(b"<html></html>"), "this is `html`, not a document of Ganglia");
    assert!(text(b"HTTP/1.1 200 OK\r\n\r\n").contains("ends in the middle"));
    assert!(text(b"<GANGLIA_XML><A></B></GANGLIA_XML>").starts_with("byte "));
    let entity = document(&host("&boom;", "1.1.1.1", ""));
    assert!(text(&entity).contains("boom"), "{}", text(&entity));
    let long = document(&host(&"a".repeat(PIECE_BYTES_MAX), "1.1.1.1", ""));
    assert!(text(&long).contains("more than 256 KiB"), "{}", text(&long));
    assert!(text(&document(&"<A>".repeat(50))).contains("too deep"));
    // An entity that stands for much, where no attribute that is read has it, is never looked at.
    let laughs = format!(
        "<!DOCTYPE a [<!ENTITY a \"{}\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;\">]>\
         <GANGLIA_XML>&b;<HOST NAME=\"a\" IP=\"b\" TAGS=\"&b;\"/></GANGLIA_XML>",
        "ha".repeat(1000)
    );
    assert_eq!(now(laughs.as_bytes()).unwrap().len(), 1);
}

#[test]
fn a_document_that_never_ends_is_given_up() {
    let open = document("");
    let end = open.len() - "</GANGLIA_XML>\n".len();
    let mut huge = open[..end].to_vec();
    let more = host("a", "1.1.1.1", &metric("cpu_idle", "1", "0", "0"));
    while huge.len() < DOCUMENT_BYTES_MAX as usize + 100 {
        huge.extend_from_slice(more.as_bytes());
    }
    assert_eq!(now(&huge).unwrap_err(), DocumentError::Huge);
}

#[test]
fn the_fuzz_target_holds_for_its_seeds() {
    ganglia(&document(&host("a", "1.1.1.1", &metric("cpu_idle", "1", "0", "0"))));
    weir_testkit::fuzz(
        "ganglia",
        &[b"<HOST", b"/>", b"\"", b"&a;", b"<!DOCTYPE a [", b"]>", b"\xe4"],
        ganglia,
    );
    ganglia(b"<GANGLIA_XML/>");
    ganglia(b"<GANGLIA_XML></GANGLIA_XML>\xff");
}
