//! Metrics of origins from real daemons: whose a value is, how old, and why one is missing.

use serde_json::Value;
use weir_testkit::{Setup, Weir, until};

use super::daemons::{Exporter, Gmond, is_there};
use crate::origins::changes::{named, origins};
use crate::server::{server, setup};

/// What `weir origins --metrics` says.
pub(super) fn metrics(weir: &Weir) -> Value {
    serde_json::from_str(&origins(weir, &["--metrics", "--json"])).unwrap()
}

/// The entry of a metric of the origin of this number.
pub(super) fn entry(weir: &Weir, origin: usize, name: &str) -> Option<Value> {
    let all = metrics(weir);
    let values = all["origins"][origin]["values"].as_array().unwrap().clone();
    values.into_iter().find(|value| value["name"] == name)
}

/// Its value, where it counts.
pub(super) fn fresh(weir: &Weir, origin: usize, name: &str) -> Option<f64> {
    entry(weir, origin, name).filter(|value| value["stale"].is_null())?["value"].as_f64()
}

/// Why an origin lacks a metric, or all (``).
pub(super) fn why(weir: &Weir, origin: usize, name: &str) -> Option<String> {
    let all = metrics(weir);
    let missing = all["origins"][origin]["missing"].as_array().unwrap().clone();
    let found = missing.into_iter().find(|one| one["name"].as_str().unwrap_or_default() == name)?;
    Some(found["why"].as_str().unwrap().to_owned())
}

/// A Weir before origins `a` and `b` with this source.
pub(super) fn with_source(setup: Setup, source: &str) -> Weir {
    let (a, b) = (named("a"), named("b"));
    let origins = format!("{{ url = \"{}\", id = \"a\" }}, {{ url = \"{}\", id = \"b\" }}", a.url(), b.url());
    let upstream = server(&[]).origins(&origins).upstream("metrics = [\"src\"]");
    let weir = upstream.top(&format!("[metrics.src]\n{source}")).start_in(setup);
    // They answer until the end of all tests.
    std::mem::forget((a, b));
    weir
}

#[test]
fn gmond_tells_of_other_hosts_falls_silent_and_returns() {
    if !is_there("gmond") || !is_there("gmetric") {
        return;
    }
    let setup = setup();
    let mut gmond = Gmond::start(setup.folder());
    let source = format!(
        "ganglia = [\"127.0.0.1:1\", \"127.0.0.1:{}\"]\nevery = \"200ms\"\nstale_after = \"5s\"\n\
         hosts = {{ \"10.9.9.2\" = \"b\" }}\nvalues = {{ half = \"cpu / 2\" }}",
        gmond.port
    );
    gmond.says("10.9.9.1:a", ("cpu", 0.75), 0);
    gmond.says("10.9.9.2:other", ("cpu_idle", 20.0), 0);
    gmond.says("10.9.9.3:nobody", ("cpu", 0.1), 0);
    let weir = with_source(setup, &source);
    // By its name, and by the table.
    until("a has its value", || fresh(&weir, 0, "cpu") == Some(0.75));
    until("b has its value", || fresh(&weir, 1, "cpu").is_some_and(|cpu| (cpu - 0.8).abs() < 1e-9));
    assert_eq!(fresh(&weir, 0, "half"), Some(0.375));
    assert_eq!(fresh(&weir, 1, "cpu_idle"), Some(20.0), "any other name works as it is");
    assert!(why(&weir, 0, "load").unwrap().contains("no series load_one"));
    // What ends by itself ends.
    gmond.says("10.9.9.1:a", ("queue", 3.0), 2);
    until("a has a queue", || fresh(&weir, 0, "queue") == Some(3.0));
    until("it has ended", || fresh(&weir, 0, "queue").is_none());
    // Its values age with `TN`, though it is read all the time.
    gmond.says("10.9.9.1:a", ("cpu", 0.5), 0);
    until("the new value is there", || fresh(&weir, 0, "cpu") == Some(0.5));
    until("it is stale", || entry(&weir, 0, "cpu").unwrap()["stale"] == true);
    assert!(weir.metric("weir_metrics_reads_total{source=\"src\",result=\"succeeded\"}").unwrap() > 3.0);
    gmond.kill();
    until("it fails", || why(&weir, 0, "").is_some_and(|why| why.contains("cannot connect")));
    assert!(origins(&weir, &["--metrics"]).contains("stale: it counts as missing"));
    gmond.begin();
    until("it knows nothing", || why(&weir, 0, "").is_some_and(|why| why.contains("no host")));
    gmond.says("10.9.9.1:a", ("cpu", 0.25), 0);
    until("it is back", || fresh(&weir, 0, "cpu") == Some(0.25));
    assert_eq!(weir.get("/").status(), 200);
}

#[test]
fn the_node_exporter_tells_of_its_host_and_of_each_origin() {
    if !is_there("prometheus-node-exporter") {
        return;
    }
    let setup = setup();
    let mut exporter = Exporter::start(setup.folder());
    exporter.says("group_cpu", "group", &[("a", 0.9), ("b", 0.2)]);
    let source = format!(
        "url = \"http://{{host}}:{}/metrics\"\nevery = \"200ms\"\ntimeout = \"2s\"\nvalues = {{ group = \
         'group_cpu{{group=\"{{id}}\"}}', none = 'group_cpu{{group=\"c\"}}' }}",
        exporter.port
    );
    let weir = with_source(setup, &source);
    until("each has its own", || {
        (fresh(&weir, 0, "group"), fresh(&weir, 1, "group")) == (Some(0.9), Some(0.2))
    });
    until("rates are there", || fresh(&weir, 0, "cpu").is_some());
    for share in ["cpu", "io_wait", "memory"] {
        until("it is a share", || fresh(&weir, 1, share).is_some_and(|share| (0.0..=1.0).contains(&share)));
    }
    let more = ["load", "network", "context_switches", "node_load5"];
    until("all of them are there at a time", || more.iter().all(|name| fresh(&weir, 0, name).is_some()));
    assert_eq!(why(&weir, 0, "none").unwrap(), "no series group_cpu{group=\"c\"}");
    exporter.says("group_cpu", "group", &[("a", 0.1), ("b", 0.2)]);
    until("it follows", || fresh(&weir, 0, "group") == Some(0.1));
    exporter.kill();
    until("it fails", || why(&weir, 1, "").is_some_and(|why| why.contains("the source fails")));
    until("values grow stale", || fresh(&weir, 0, "cpu").is_none());
    assert_eq!(weir.get("/").status(), 200);
}
