//! Metrics of origins between the configuration, the collector, the edge and the API.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_config::{Loaded, nearest};
use weir_control::{
    MetricsOrder, MetricsPushed, MetricsShown, MissingShown, OriginMetrics, OriginRefusal, SourceShown,
    ValueShown,
};
use weir_edge::Edge;
use weir_metrics::{Collector, Source, SourceStatus};
use weir_upstream::{Gauged, PUSHED, Reading, Upstream, name_of};

/// Starts the thread that reads the sources of a configuration.
pub(crate) fn start(loaded: &Loaded, edge: &Edge) -> anyhow::Result<Collector> {
    let collector = Collector::start().context("cannot start the thread of metrics")?;
    configure(&collector, loaded, edge);
    Ok(collector)
}

/// Reads the sources of a configuration from now on, for the upstreams in force.
pub(crate) fn configure(collector: &Collector, loaded: &Loaded, edge: &Edge) {
    configure_for(collector, loaded, edge.running_upstreams());
}

/// The same for these upstreams.
pub(crate) fn configure_for(collector: &Collector, loaded: &Loaded, upstreams: Vec<Arc<Upstream>>) {
    let sources = loaded.config.metrics.iter().map(|(name, metrics)| Source::of(name, metrics));
    collector.configure(sources.collect(), upstreams);
}

/// The sources now.
pub(crate) fn sources(collector: &Collector) -> Vec<SourceShown> {
    collector.status().iter().map(source).collect()
}

fn source(status: &SourceStatus) -> SourceShown {
    SourceShown {
        source: status.name.to_string(),
        kind: status.kind.to_owned(),
        succeeded: status.succeeded,
        failed: status.failed,
        ago_s: status.ago.map(seconds),
        error: status.error.clone(),
    }
}

/// A time as it is shown: with milliseconds.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

/// The metrics of all origins.
pub(crate) fn shown(collector: &Collector, edge: &Edge) -> MetricsShown {
    let (all, now) = (collector.status(), now());
    let upstreams = edge.running_upstreams();
    let of_upstream = |upstream: &Arc<Upstream>| {
        let sources: Vec<&SourceStatus> =
            all.iter().filter(|status| upstream.sources().contains(&status.name)).collect();
        let of = |gauged: Gauged| of_origin(upstream.name(), &gauged, (&sources, now));
        upstream.gauges().into_iter().map(of).collect::<Vec<_>>()
    };
    let origins = upstreams.iter().flat_map(of_upstream).collect();
    MetricsShown { sources: all.iter().map(source).collect(), origins }
}

/// The clock of the gauges is tokio's, which nobody pauses in the program.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn of_origin(upstream: &str, gauged: &Gauged, (sources, now): (&[&SourceStatus], Instant)) -> OriginMetrics {
    let values: Vec<ValueShown> = gauged.gauges.all(now).iter().map(value).collect();
    let key = (upstream.to_owned(), gauged.origin.clone());
    let mut missing = Vec::new();
    for status in sources {
        let source = status.name.to_string();
        let is_heard = values.iter().any(|value| value.source == source);
        let said = status.missing.get(&key).into_iter().flatten();
        missing.extend(said.map(|one| MissingShown {
            source: source.clone(),
            name: one.name.clone(),
            why: one.why.clone(),
        }));
        if !is_heard && !status.missing.contains_key(&key) {
            let why = match status.kind {
                "orca" => "no response has reported a load yet",
                _ => "it was not read yet",
            };
            missing.push(MissingShown { source, name: None, why: why.to_owned() });
        }
    }
    OriginMetrics { upstream: upstream.to_owned(), origin: gauged.origin.to_string(), values, missing }
}

fn value(reading: &Reading) -> ValueShown {
    ValueShown {
        name: reading.name.to_string(),
        value: reading.value,
        source: reading.source.to_string(),
        age_s: seconds(reading.age),
        left_s: reading.left.map(seconds),
        stale: !reading.is_fresh,
    }
}

/// Gives an origin what was pushed.
pub(crate) fn push(edge: &Edge, order: &MetricsOrder) -> Result<MetricsPushed, OriginRefusal> {
    let upstreams = edge.running_upstreams();
    let is_wanted =
        |upstream: &&Arc<Upstream>| order.upstream.as_ref().is_none_or(|wanted| upstream.name() == *wanted);
    let (named, name, now) = (order.origin.as_str(), name_of(&order.origin), now());
    let is_meant = |gauged: &Gauged| *gauged.origin == *name || gauged.id.as_deref() == Some(named);
    let mut pushed = MetricsPushed::default();
    let mut known = Vec::new();
    for upstream in upstreams.iter().filter(is_wanted) {
        for gauged in upstream.gauges() {
            if is_meant(&gauged) {
                give(&gauged, order, now)?;
                pushed.origin = gauged.origin.to_string();
                pushed.upstreams.push(upstream.name().to_owned());
            }
            known.push(gauged.origin.to_string());
        }
    }
    if pushed.upstreams.is_empty() {
        let message = match &order.upstream {
            Some(upstream) if known.is_empty() => format!("no upstream is named {upstream}"),
            Some(upstream) => format!("the upstream {upstream} has no origin {named}"),
            None => format!("no upstream has an origin {named}"),
        };
        let near = nearest(named, known.iter().map(String::as_str));
        let help = near
            .map_or("see `weir origins` for their names".to_owned(), |near| format!("did you mean {near}?"));
        return Err(OriginRefusal::Unknown { message, help });
    }
    Ok(pushed)
}

fn give(gauged: &Gauged, order: &MetricsOrder, now: Instant) -> Result<(), OriginRefusal> {
    let lifetime = order.for_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let good_until = lifetime.and_then(|lifetime| now.checked_add(lifetime));
    let source: Arc<str> = PUSHED.into();
    for (name, value) in &order.values {
        match value {
            Some(value) => {
                let set = gauged.gauges.set(name, &source, *value, (now, good_until));
                set.map_err(|error| OriginRefusal::Contradiction(error.to_string()))?;
            }
            None => drop(gauged.gauges.forget(PUSHED, Some(name))),
        }
    }
    Ok(())
}
