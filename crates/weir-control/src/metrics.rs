//! `/metrics`: the merged snapshot and the inventory as OpenMetrics text, made anew for each scrape.
//!
//! Units are seconds and bytes; names are the glossary's words. Each label has a bounded set of values: outcomes, static
//! words, and what the configuration names.

mod below;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use weir_observe::{Latency, Outcome, SiteSnapshot, Snapshot, bounds_us};

use crate::control::Control;
use crate::plane::{Inventory, OriginState, Phase};
use crate::sites::Holding;

/// The content type of the text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a Weir as text.
pub(crate) fn text(control: &Arc<Control>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(control.clone())));
    let mut out = String::with_capacity(32 << 10);
    prometheus_client::encoding::text::encode(&mut out, &registry)?;
    Ok(out)
}

struct Scrape(Arc<Control>);

impl fmt::Debug for Scrape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let snapshot = self.0.snapshot();
        let mut out = Out(encoder);
        process(&mut out, &self.0)?;
        requests(&mut out, &snapshot)?;
        sites(&mut out, &snapshot)?;
        held(&mut out, &self.0.held())?;
        transfers(&mut out, &snapshot)?;
        words(&mut out, &snapshot)?;
        let inventory = self.0.inventory();
        holdings(&mut out, &inventory)?;
        origins(&mut out, &inventory)
    }
}

/// Label names and values of one series.
type Labels<'a> = Vec<(&'a str, &'a str)>;

struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        ConstCounter::new(value).encode(self.0.encode_descriptor(name, help, None, MetricType::Counter)?)
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        ConstGauge::new(value).encode(self.0.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }

    fn counters<'v>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'v>, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in series {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn gauges<'v>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'v>, f64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn histograms<'v, 'l>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'l>, &'v Latency)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, latency) in series {
            histogram(latency, family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn histogram(latency: &Latency, mut out: MetricEncoder) -> fmt::Result {
    let mut below_last = 0;
    let mut buckets: Vec<(f64, u64)> = bounds_us()
        .zip(latency.cumulative())
        .map(|(bound_us, below)| {
            let count = below - below_last;
            below_last = below;
            (bound_us as f64 / 1e6, count)
        })
        .collect();
    let count = latency.count();
    buckets.push((f64::INFINITY, count - below_last));
    out.encode_histogram::<NoLabelSet>(latency.sum_us as f64 / 1e6, count, &buckets, None)
}

fn process(out: &mut Out, control: &Control) -> fmt::Result {
    let (done, refused, started_s) = control.history();
    let ready = if control.phase() == Phase::Serving { 1.0 } else { 0.0 };
    out.gauges(
        "weir_build_info",
        "the version that runs",
        [(vec![("version", env!("CARGO_PKG_VERSION"))], 1.0)],
    )?;
    out.gauge("weir_start_time_seconds", "when it was started, in seconds since the Unix epoch", started_s)?;
    out.gauge("weir_ready", "1 while requests are taken, 0 while draining", ready)?;
    out.counters(
        "weir_reloads",
        "reloads of the configuration",
        [(vec![("result", "done")], done), (vec![("result", "refused")], refused)],
    )
}

fn by_outcome<T: Copy>(values: &[T]) -> impl Iterator<Item = (Labels<'static>, T)> {
    Outcome::ALL.iter().zip(values).map(|(outcome, value)| (vec![("outcome", outcome.word())], *value))
}

fn requests(out: &mut Out, snapshot: &Snapshot) -> fmt::Result {
    out.counters("weir_requests", "finished requests by outcome", by_outcome(&snapshot.requests))?;
    let classes = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];
    out.counters(
        "weir_responses",
        "finished requests by the class of the status on the wire",
        classes.iter().zip(snapshot.statuses).map(|(class, count)| (vec![("status", *class)], count)),
    )?;
    out.gauge("weir_requests_running", "requests under way", snapshot.requests_running as f64)?;
    let cuts = [(vec![("by", "weir")], snapshot.cut), (vec![("by", "client")], snapshot.client_gone)];
    out.counters("weir_responses_unfinished", "responses that did not end whole, by who ended them", cuts)?;
    let first: Vec<&Latency> = snapshot.first_byte.iter().collect();
    out.histograms(
        "weir_first_byte_seconds",
        "from the request's head to the first byte of the response",
        by_outcome(&first),
    )?;
    let total: Vec<&Latency> = snapshot.total.iter().collect();
    out.histograms(
        "weir_request_seconds",
        "from the request's head to the end of the response",
        by_outcome(&total),
    )
}

fn sites(out: &mut Out, snapshot: &Snapshot) -> fmt::Result {
    let requests = snapshot.sites.iter().flat_map(|site| {
        let by_outcome = Outcome::ALL.iter().zip(site.requests).filter(|(_, count)| *count > 0);
        by_outcome.map(|(outcome, count)| (vec![("site", &*site.name), ("outcome", outcome.word())], count))
    });
    out.counters("weir_site_requests", "finished requests by site and outcome", requests)?;
    let bytes = snapshot.sites.iter().filter(|site| site.requests.iter().any(|count| *count > 0));
    type Count = fn(&SiteSnapshot) -> u64;
    let counts: [(&str, &str, Count); 3] = [
        ("weir_site_written_bytes", "bytes written to clients by site, heads and framing included", |site| {
            site.client_bytes
        }),
        ("weir_site_origin_requests", "requests written to origins by site, retries included", |site| {
            site.origin_requests
        }),
        ("weir_site_origin_bytes", "bytes read from origins by site, heads and framing included", |site| {
            site.origin_bytes
        }),
    ];
    for (name, help, count) in counts {
        let counted = snapshot.sites.iter().filter(|site| count(site) > 0);
        out.counters(name, help, counted.map(|site| (vec![("site", &*site.name)], count(site))))?;
    }
    out.counters(
        "weir_site_client_bytes",
        "body bytes sent to clients by site",
        bytes.map(|site| (vec![("site", &*site.name)], site.body_bytes)),
    )
}

fn held(out: &mut Out, held: &[(String, Holding)]) -> fmt::Result {
    let each = held.iter().flat_map(|(site, held)| {
        let tiers = [("memory", held.memory), ("volume", held.volume), ("both", held.total)];
        tiers.map(|(tier, stock)| (vec![("site", site.as_str()), ("tier", tier)], stock))
    });
    let each: Vec<_> = each.collect();
    let objects = each.iter().map(|(labels, stock)| (labels.clone(), stock.objects as f64));
    out.gauges(
        "weir_site_held_objects",
        "objects that are held of a site; purged ones on volumes until swept",
        objects,
    )?;
    let bytes = each.iter().map(|(labels, stock)| (labels.clone(), stock.bytes as f64));
    out.gauges(
        "weir_site_held_bytes",
        "bytes of bodies that are held of a site; purged ones on volumes until swept",
        bytes,
    )
}

fn transfers(out: &mut Out, snapshot: &Snapshot) -> fmt::Result {
    for (name, help, value) in [
        ("weir_client_bytes", "body bytes sent to clients", snapshot.client_bytes),
        ("weir_cached_bytes", "body bytes sent to clients that came from the cache", snapshot.cached_bytes),
        ("weir_origin_bytes", "body bytes received from origins", snapshot.origin_bytes),
        ("weir_origin_requests", "requests sent to origins", snapshot.origin_requests),
        ("weir_connections_accepted", "clients' connections accepted", snapshot.connections_accepted),
        ("weir_connections_refused", "clients' connections turned away", snapshot.connections_refused),
        (
            "weir_connections_displaced",
            "clients' idle connections closed so that others had their place",
            snapshot.connections_displaced,
        ),
        ("weir_tunnels_opened", "upgraded connections that became tunnels", snapshot.tunnels_opened),
        ("weir_stored", "responses that were stored", snapshot.stored),
        ("weir_fills", "origin transfers into the cache", snapshot.fills_begun),
        (
            "weir_fills_failed",
            "origin transfers into the cache that did not end whole",
            snapshot.fills_failed,
        ),
        ("weir_collapsed", "requests that joined another's fill", snapshot.collapsed),
        ("weir_retries", "requests to origins that were tried again", snapshot.retries),
        ("weir_panics", "requests and fills whose handling panicked", snapshot.panics),
        ("weir_log_lost", "log records that were lost", snapshot.log_lost),
        ("weir_events", "events that were told", snapshot.events),
        ("weir_events_lost", "events that were lost", snapshot.events_lost),
    ] {
        out.counter(name, help, value)?;
    }
    out.gauge("weir_connections_open", "clients' connections open now", snapshot.connections_open as f64)?;
    out.gauge("weir_tunnels_open", "tunnels open now", snapshot.tunnels_open as f64)?;
    out.gauge(
        "weir_fills_running",
        "origin transfers into the cache running now",
        snapshot.fills_running as f64,
    )
}

fn words(out: &mut Out, snapshot: &Snapshot) -> fmt::Result {
    for (name, help, counts) in [
        ("weir_not_stored", "responses that were not stored, by reason", &snapshot.not_stored),
        ("weir_request_details", "requests that were no hit, by reason", &snapshot.details),
        ("weir_errors", "errors, by word", &snapshot.errors),
    ] {
        out.counters(name, help, counts.iter().map(|(word, count)| (vec![("reason", *word)], *count)))?;
    }
    Ok(())
}

fn holdings(out: &mut Out, inventory: &Inventory) -> fmt::Result {
    let cache = &inventory.cache;
    for (name, help, value) in [
        ("weir_plan", "the number of the configuration in force", inventory.plan),
        ("weir_sites", "sites in the configuration in force", inventory.sites as u64),
        ("weir_routes", "routes in the configuration in force", inventory.routes as u64),
        ("weir_workers", "worker threads", inventory.workers as u64),
        ("weir_cache_objects", "objects in the cache", cache.objects),
        ("weir_cache_memory_bytes", "bytes of the cache's memory in use", cache.memory_bytes),
        ("weir_cache_memory_bytes_max", "the ceiling of the cache's memory", cache.memory_bytes_max),
        ("weir_ledger_number", "the number of the newest purge or invalidation", inventory.ledger.number),
        ("weir_ledger_durable", "all purges up to this number are on disk", inventory.ledger.durable),
        ("weir_ledger_marks", "purges and invalidations that are kept", inventory.ledger.marks),
    ] {
        out.gauge(name, help, value as f64)?;
    }
    let is_well = if inventory.ledger.failure.is_none() { 1.0 } else { 0.0 };
    out.gauge("weir_ledger_well", "1 while purges can be written", is_well)?;
    out.counter("weir_cache_evicted", "objects that made room for others", cache.evicted)?;
    let help = "objects that stayed in memory, not asked for often enough for the drives";
    out.counter("weir_cache_not_admitted", help, cache.not_admitted)?;
    let accounts = &inventory.accounts;
    let is_well = if accounts.failure.is_none() { 1.0 } else { 0.0 };
    out.gauge("weir_accounts_well", "1 while the accounts of sites can be written", is_well)?;
    out.counter("weir_accounts_write_errors", "writes of the accounts that failed", accounts.failed)?;
    let help = "files of the accounts of which not all can be read";
    out.gauge("weir_accounts_unsound_files", help, accounts.unsound as f64)?;
    out.counter("weir_accounts_written_bytes", "bytes written for the accounts", accounts.written_bytes)?;
    below::volumes(out, &inventory.volumes)
}

fn origins(out: &mut Out, inventory: &Inventory) -> fmt::Result {
    type Count = fn(&OriginState) -> u64;
    let counts: [(&str, &str, Count); 7] = [
        ("weir_origin_asked", "requests sent to the origin, retries included", |origin| origin.requests),
        ("weir_origin_failures", "requests that failed by the origin's fault", |origin| origin.failures),
        ("weir_origin_retries", "requests tried anew after failing at the origin", |origin| origin.retries),
        ("weir_origin_connects", "connections made to the origin", |origin| origin.connections_opened),
        ("weir_origin_reuses", "requests sent on a connection that had served before", |origin| {
            origin.connections_reused
        }),
        ("weir_origin_busy", "requests turned away because all connections were in use", |origin| {
            origin.busy
        }),
        ("weir_origin_ejections", "times that the origin was left out after failures", |origin| {
            origin.ejections
        }),
    ];
    for (name, help, value) in counts {
        out.counters(name, help, each_origin(inventory).map(|(labels, origin)| (labels, value(origin))))?;
    }
    type Level = fn(&OriginState) -> f64;
    let levels: [(&str, &str, Level); 5] = [
        ("weir_origin_available", "1 while the origin takes its share of requests", |origin| {
            if origin.available { 1.0 } else { 0.0 }
        }),
        ("weir_origin_connections_open", "connections open now", |origin| origin.connections_open as f64),
        ("weir_origin_connections_idle", "connections idle now", |origin| origin.connections_idle as f64),
        ("weir_origin_streams", "tunnels and event streams open now", |origin| origin.streams as f64),
        ("weir_origin_waiting", "requests waiting for a connection now", |origin| origin.queued as f64),
    ];
    for (name, help, value) in levels {
        out.gauges(name, help, each_origin(inventory).map(|(labels, origin)| (labels, value(origin))))?;
    }
    Ok(())
}

fn each_origin(inventory: &Inventory) -> impl Iterator<Item = (Labels<'_>, &OriginState)> {
    inventory.upstreams.iter().flat_map(|upstream| {
        upstream.origins.iter().map(|origin| {
            (vec![("upstream", upstream.name.as_str()), ("origin", origin.name.as_str())], origin)
        })
    })
}
