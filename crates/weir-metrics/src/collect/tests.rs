//! The thread: rounds, failover, pages of origins, and what a reload keeps.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};

use weir_config::model::Metrics;
use weir_upstream::{Gauge, OriginAddress, OriginSettings, UpstreamSettings};

use super::*;

/// A server that says what `say` says to each connection, and counts them.
fn server(say: impl Fn(u64) -> String + Send + 'static) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, count) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let counted = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let said = say(counted.fetch_add(1, Ordering::SeqCst));
            if said.starts_with("HTTP") {
                let _ = stream.read(&mut [0; 4096]);
            }
            let _ = stream.write_all(said.as_bytes());
        }
    });
    (at, count)
}

fn page(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn document(hosts: &[(&str, &str)]) -> String {
    let of =
        |(name, metrics): &(&str, &str)| format!("<HOST NAME=\"{name}\" IP=\"9.9.9.9\">{metrics}</HOST>");
    format!("<GANGLIA_XML>{}</GANGLIA_XML>", hosts.iter().map(of).collect::<String>())
}

fn upstream(ids: &[&str]) -> Arc<Upstream> {
    let origin = |id: &&str| {
        let address: OriginAddress = format!("http://127.0.0.1:{}", 1 + id.len()).parse().unwrap();
        OriginSettings { node: Some((*id).to_owned()), ..OriginSettings::new(address) }
    };
    let single = UpstreamSettings::single("u", "http://127.0.0.1:1".parse().unwrap());
    let origins = ids.iter().map(origin).collect();
    Upstream::new(UpstreamSettings { origins, sources: vec!["s".into()], ..single }).unwrap()
}

fn source(metrics: Metrics) -> Source {
    let every = weir_config::value::Duration(Duration::from_millis(100));
    Source::of("s", &Metrics { every, ..metrics })
}

fn value(upstream: &Upstream, origin: usize, name: &str) -> Gauge {
    upstream.gauges()[origin].gauges.get(name, clock::now())
}

/// Waits until it is so.
fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it never was");
}

#[test]
fn the_next_gmond_is_read_where_one_fails() {
    let metric = "<METRIC NAME=\"cpu_idle\" VAL=\"25\" TN=\"0\"/><METRIC NAME=\"own\" VAL=\"7\" TN=\"0\"/>";
    let (broken, _) = server(|_| "<GANGLIA_XML><HOST".to_owned());
    let (fine, reads) = server(move |_| document(&[("a", metric), ("other", metric)]));
    let gmonds = [broken, fine].map(|at| at.to_string().parse().unwrap());
    let (collector, upstream) = (Collector::start().unwrap(), upstream(&["a", "bb"]));
    let metrics = Metrics { ganglia: gmonds.to_vec(), ..Metrics::default() };
    collector.configure(vec![source(metrics.clone())], vec![upstream.clone()]);
    until(|| reads.load(Ordering::SeqCst) > 2);
    assert_eq!(value(&upstream, 0, "cpu"), Gauge::Fresh(0.75));
    assert_eq!(value(&upstream, 0, "own"), Gauge::Fresh(7.0));
    assert_eq!(value(&upstream, 1, "cpu"), Gauge::Missing);
    let status = collector.status().remove(0);
    assert_eq!((status.kind, status.failed, status.error), ("ganglia", 1, None));
    let missing = &status.missing[&("u".to_owned(), upstream.gauges()[1].origin.clone())];
    assert_eq!(missing[0].why, "no host of the document is this origin");
    // A reload that changes nothing of it keeps it.
    collector.configure(vec![source(metrics)], vec![upstream.clone()]);
    assert!(collector.status()[0].succeeded >= status.succeeded);
    collector.configure(Vec::new(), vec![upstream]);
    assert!(collector.status().is_empty());
}

#[test]
fn each_page_is_read_once_for_its_origins() {
    let (at, reads) =
        server(|read| page(&format!("g{{o=\"a\"}} 1\ng{{o=\"bb\"}} 3\nc {}\n", read * read * 1000)));
    let url = format!("http://127.0.0.1:{}/metrics", at.port()).parse().unwrap();
    let values = [("cpu", "g{o=\"{id}\"}"), ("r", "rate(c)"), ("none", "g{o=\"z\"}")];
    let values = values.map(|(name, text)| (name.to_owned(), text.parse().unwrap())).into();
    let metrics = Metrics { url: Some(url), values, ..Metrics::default() };
    let (collector, upstream) = (Collector::start().unwrap(), upstream(&["a", "bb"]));
    collector.configure(vec![source(metrics)], vec![upstream.clone()]);
    until(|| matches!(value(&upstream, 1, "r"), Gauge::Fresh(rate) if rate > 0.0));
    assert_eq!([0, 1].map(|at| value(&upstream, at, "cpu")), [Gauge::Fresh(1.0), Gauge::Fresh(3.0)]);
    assert_eq!(value(&upstream, 0, "g"), Gauge::Fresh(2.0));
    let status = collector.status().remove(0);
    assert!(status.succeeded <= reads.load(Ordering::SeqCst));
    let missing = &status.missing[&("u".to_owned(), upstream.gauges()[0].origin.clone())];
    assert!(missing.iter().any(|one| one.name.as_deref() == Some("none") && one.why.contains("no series")));
    assert!(missing.iter().any(|one| one.name.as_deref() == Some("io_wait")));
}

#[test]
fn values_grow_stale_while_a_source_fails() {
    let (at, reads) = server(|read| match read {
        0 => page("load 1\n"),
        1..=9 => page("<html>no\n"),
        _ => page("load 2\n"),
    });
    let url = format!("http://{at}/").parse().unwrap();
    let (collector, upstream) = (Collector::start().unwrap(), upstream(&["a"]));
    collector
        .configure(vec![source(Metrics { url: Some(url), ..Metrics::default() })], vec![upstream.clone()]);
    until(|| value(&upstream, 0, "load") == Gauge::Fresh(1.0));
    until(|| value(&upstream, 0, "load") == Gauge::Stale(1.0));
    assert!(reads.load(Ordering::SeqCst) > 1);
    let error = collector.status()[0].error.clone().unwrap();
    assert!(error.ends_with("/: line 1: a series begins with its name"), "{error}");
    until(|| value(&upstream, 0, "load") == Gauge::Fresh(2.0));
    until(|| collector.status()[0].error.is_none());
}

#[test]
fn sources_that_hold_on_are_given_up() {
    // It accepts, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let gmond = at.to_string().parse().unwrap();
    let timeout = weir_config::value::Duration(Duration::from_millis(50));
    let (collector, upstream) = (Collector::start().unwrap(), upstream(&["a"]));
    let metrics = Metrics { ganglia: vec![gmond], timeout, ..Metrics::default() };
    collector.configure(vec![source(metrics)], vec![upstream.clone()]);
    until(|| collector.status()[0].failed > 1);
    let error = collector.status()[0].error.clone().unwrap();
    assert_eq!(error, format!("{at}: no whole document within 50 ms"));
}

#[test]
fn what_a_gmond_holds_back_is_not_old() {
    let metric = |name: &str, tn: u32| {
        format!("<METRIC NAME=\"{name}\" VAL=\"1\" TN=\"{tn}\" TMAX=\"90\" DMAX=\"0\"/>")
    };
    let (at, _) = server(move |_| document(&[("a", &[metric("held", 60), metric("lost", 95)].concat())]));
    let gmond = || Metrics { ganglia: vec![at.to_string().parse().unwrap()], ..Metrics::default() };
    let (collector, upstream) = (Collector::start().unwrap(), upstream(&["a"]));
    collector.configure(vec![source(gmond())], vec![upstream.clone()]);
    until(|| value(&upstream, 0, "held") == Gauge::Fresh(1.0));
    assert_eq!(value(&upstream, 0, "lost"), Gauge::Stale(1.0));
    // Unless the configuration says how old a value may be.
    let stale_after = Some(weir_config::value::Duration(Duration::from_secs(5)));
    collector.configure(vec![source(Metrics { stale_after, ..gmond() })], vec![upstream.clone()]);
    until(|| value(&upstream, 0, "held") == Gauge::Stale(1.0));
}

#[test]
fn a_page_that_drips_is_given_up_and_a_redirect_is_not_followed() {
    let (moved, _) = server(|_| {
        "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 7\r\n\r\nload 1\n".to_owned()
    });
    // Its head is there at once; of its body a byte comes now and then, and no end.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let drips = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                while stream.write_all(b"#").is_ok() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
        }
    });
    let timeout = weir_config::value::Duration(Duration::from_millis(80));
    let error = |at: SocketAddr| {
        let url = Some(format!("http://{at}/m").parse().unwrap());
        let (collector, upstream) = (Collector::start().unwrap(), upstream(&["a"]));
        let metrics = Metrics { url, timeout, ..Metrics::default() };
        collector.configure(vec![source(metrics)], vec![upstream.clone()]);
        until(|| collector.status()[0].failed > 1);
        assert_eq!(value(&upstream, 0, "load"), Gauge::Missing);
        let status = collector.status().remove(0);
        assert_eq!(status.succeeded, 0);
        status.error.unwrap()
    };
    assert_eq!(error(drips), format!("http://{drips}/m: no whole page within 80 ms"));
    assert_eq!(error(moved), format!("http://{moved}/m: a redirect (status 302), which is not followed"));
}
