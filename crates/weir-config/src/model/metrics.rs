//! `[metrics.NAME]`: where Weir learns how loaded origins are.

use crate::value::{Duration, Gmond, MetricExpression, MetricsUrl};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A source of metrics: values of origins that others measure, such as `cpu`. An upstream names its sources
/// in `metrics`. Weir reads them in the background, and no request waits for one. Each has exactly one of
/// `ganglia`, `url` and `orca`. What operators push needs no source.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// The gmonds or gmetads of Ganglia, with port 8649 where none is named. Where one cannot be read Weir
    /// reads the next. A value's age is Ganglia's `TN` and the time since the read; `DMAX` ends it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ganglia: Vec<Gmond>,
    /// A page in Prometheus' text, such as a node exporter's: `http://{host}:9100/metrics`. `{host}`,
    /// `{port}` and `{id}` are the origin's; without them one page is for all origins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<MetricsUrl>,
    /// Whether the origins report their load in their responses (ORCA): in the fields
    /// `endpoint-load-metrics` and `endpoint-load-metrics-bin`, which Weir removes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub orca: bool,
    /// The time between two reads.
    pub every: Duration,
    /// The longest that a read may take.
    pub timeout: Duration,
    /// The age from which a value counts as missing. Default: three times `every`; for Ganglia as much beyond
    /// `TMAX`, as gmond holds back what has hardly changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_after: Option<Duration>,
    /// Which origin a host of Ganglia is: its `NAME` or `IP`, and the origin's URL or `id`. Other hosts are
    /// found by the origin's `id`, its URL, its name, or its address.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, String>,
    /// Metrics by name, computed from those of the source with `+`, `-`, `*`, `/`, brackets, `rate` (of
    /// counters, a second), `sum`, `mean`, `max` and `min`: `1 - rate(node_cpu_seconds_total{mode="idle"})`.
    /// Labels are filtered with `=`, `!=`, `=~` and `!~`. Several series without an aggregate become their
    /// mean. `cpu`, `io_wait`, `memory`, `load`, `network`, `temperature` and `context_switches` are known
    /// for Ganglia and the node exporter; any other metric has its own name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schemars(extend("propertyNames" = { "format": "weir-metric-name" })))]
    pub values: BTreeMap<String, MetricExpression>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            ganglia: Vec::new(),
            url: None,
            orca: false,
            every: Duration::seconds(5),
            timeout: Duration::seconds(2),
            stale_after: None,
            hosts: BTreeMap::new(),
            values: BTreeMap::new(),
        }
    }
}

impl Metrics {
    /// The age from which a value counts as missing.
    pub fn stale_after(&self) -> std::time::Duration {
        self.stale_after.map_or(self.every.0.saturating_mul(3), |age| age.0)
    }
}
