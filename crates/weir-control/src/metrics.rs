//! `/metrics`: counters and states, as the Prometheus text format or as OpenMetrics, made for each scrape.
//!
//! Units are seconds and bytes; names are the glossary's words. Each label has a bounded set of values:
//! outcomes, reasons, and what the configuration names. Every family is a row of a table. What all workers
//! count is in `weir-observe`'s `counts`, everything else in the modules here; `table` joins them. The guide's page is printed
//! from the same rows.

mod certificates;
mod origins;
#[cfg(test)]
mod page;
mod requests;
mod row;
mod table;
mod volumes;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use weir_observe::{Latency, Snapshot, bounds_us};

use crate::control::Control;
use crate::data_plane::Inventory;
use crate::sites::Holding;

/// A form of the text, by what the scraper accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The text format of Prometheus, version 0.0.4: what `promtool check metrics` and most others read.
    Prometheus,
    /// OpenMetrics, for a scraper that names it.
    OpenMetrics,
}

impl Form {
    /// The form for an `Accept` field.
    pub(crate) fn for_accept(accept: &str) -> Form {
        if accept.contains("application/openmetrics-text") { Form::OpenMetrics } else { Form::Prometheus }
    }

    /// Its content type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// All that a scrape sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) snapshot: Snapshot,
    pub(crate) inventory: Inventory,
    pub(crate) held: Vec<(String, Holding)>,
    /// Reloads that succeeded, and those that were refused.
    pub(crate) reloads: (u64, u64),
    /// Seconds since the Unix epoch.
    pub(crate) started_s: f64,
    pub(crate) is_serving: bool,
}

/// A metric with its series.
#[derive(Clone, Debug)]
struct Family<'a> {
    /// Without `_total`.
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    series: Series<'a>,
}

/// Values, each with those of the labels.
#[derive(Clone, Debug)]
enum Series<'a> {
    Counts(Vec<(Vec<&'a str>, u64)>),
    Levels(Vec<(Vec<&'a str>, f64)>),
    Histograms(Vec<(Vec<&'a str>, &'a Latency)>),
}

/// All metrics of a Weir as text.
pub(crate) fn text(control: &Control, form: Form) -> Result<String, fmt::Error> {
    encode(control.seen(), form)
}

fn encode(seen: Seen, form: Form) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(seen)));
    let mut out = String::with_capacity(32 << 10);
    prometheus_client::encoding::text::encode(&mut out, &registry)?;
    Ok(match form {
        Form::OpenMetrics => out,
        Form::Prometheus => in_prometheus_form(&out),
    })
}

/// OpenMetrics names a counter without `_total` in its comments and ends with `# EOF`; the older format does
/// neither.
fn in_prometheus_form(text: &str) -> String {
    let is_counter = |name: &str| text.contains(&format!("# TYPE {name} counter\n"));
    let mut out = String::with_capacity(text.len() + 4096);
    for line in text.lines().filter(|line| *line != "# EOF") {
        let comment = line.strip_prefix("# ").and_then(|rest| {
            let mut words = rest.splitn(3, ' ');
            Some((words.next()?, words.next()?, words.next()?)).filter(|(_, name, _)| is_counter(name))
        });
        match comment {
            Some((what, name, rest)) => out.push_str(&format!("# {what} {name}_total {rest}")),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

struct Scrape(Seen);

impl fmt::Debug for Scrape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for (_, families) in table::sections(&self.0) {
            families.iter().try_for_each(|family| family.encode(&mut encoder))?;
        }
        Ok(())
    }
}

impl<'a> Family<'a> {
    fn is_empty(&self) -> bool {
        match &self.series {
            Series::Counts(series) => series.is_empty(),
            Series::Levels(series) => series.is_empty(),
            Series::Histograms(series) => series.is_empty(),
        }
    }

    fn kind(&self) -> MetricType {
        match self.series {
            Series::Counts(_) => MetricType::Counter,
            Series::Levels(_) => MetricType::Gauge,
            Series::Histograms(_) => MetricType::Histogram,
        }
    }

    /// Leaves out a family without a series.
    fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(self.name, self.help, None, self.kind())?;
        match (&self.series, self.labels) {
            // With an empty set of labels there would be braces.
            (Series::Counts(series), []) => return ConstCounter::new(series[0].1).encode(family),
            (Series::Levels(series), []) => return ConstGauge::new(series[0].1).encode(family),
            _ => {}
        }
        let labelled = |values: &[&'a str]| -> Vec<(&'a str, &'a str)> {
            self.labels.iter().copied().zip(values.iter().copied()).collect()
        };
        match &self.series {
            Series::Counts(series) => series.iter().try_for_each(|(values, count)| {
                ConstCounter::new(*count).encode(family.encode_family(&labelled(values))?)
            }),
            Series::Levels(series) => series.iter().try_for_each(|(values, level)| {
                ConstGauge::new(*level).encode(family.encode_family(&labelled(values))?)
            }),
            Series::Histograms(series) => series.iter().try_for_each(|(values, latency)| {
                histogram(latency, family.encode_family(&labelled(values))?)
            }),
        }
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

#[cfg(test)]
mod tests;
