//! A metric with its series, and all that a scrape sees.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use smallvec::SmallVec;
use weir_observe::{Latency, Snapshot, bounds_us};

use crate::data_plane::{Held, Inventory};

/// All that a scrape sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) snapshot: Snapshot,
    pub(crate) inventory: Inventory,
    pub(crate) held: Held,
    /// Reloads that succeeded, and those that were refused.
    pub(crate) reloads: (u64, u64),
    /// Seconds since the Unix epoch.
    pub(crate) started_s: f64,
    pub(crate) is_serving: bool,
}

/// The values of a series' labels.
pub(super) type Labels<'a> = SmallVec<[&'a str; 4]>;

/// A metric with its series.
#[derive(Clone, Debug)]
pub(super) struct Family<'a> {
    /// Without `_total`.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) labels: &'static [&'static str],
    pub(super) series: Series<'a>,
}

/// Values, each with those of the labels.
#[derive(Clone, Debug)]
pub(super) enum Series<'a> {
    Counts(Vec<(Labels<'a>, u64)>),
    Levels(Vec<(Labels<'a>, f64)>),
    Histograms(Vec<(Labels<'a>, Buckets)>),
}

/// A histogram: how many values lie up to each bound, those below it included.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    pub(super) up_to: Vec<(f64, u64)>,
    pub(super) count: u64,
    pub(super) sum: f64,
}

impl Buckets {
    /// Durations in seconds.
    pub(super) fn of(latency: &Latency) -> Buckets {
        let up_to = bounds_us().zip(latency.cumulative()).map(|(us, below)| (us as f64 / 1e6, below));
        Buckets { up_to: up_to.collect(), count: latency.count(), sum: latency.sum_us as f64 / 1e6 }
    }

    fn encode(&self, mut out: MetricEncoder) -> fmt::Result {
        let mut below_last = 0;
        let all = self.up_to.iter().copied().chain([(f64::INFINITY, self.count)]);
        let buckets: Vec<(f64, u64)> = all
            .map(|(bound, below)| {
                let count = below - below_last;
                below_last = below;
                (bound, count)
            })
            .collect();
        out.encode_histogram::<NoLabelSet>(self.sum, self.count, &buckets, None)
    }
}

impl<'a> Family<'a> {
    pub(super) fn is_empty(&self) -> bool {
        match &self.series {
            Series::Counts(series) => series.is_empty(),
            Series::Levels(series) => series.is_empty(),
            Series::Histograms(series) => series.is_empty(),
        }
    }

    pub(super) fn kind(&self) -> MetricType {
        match self.series {
            Series::Counts(_) => MetricType::Counter,
            Series::Levels(_) => MetricType::Gauge,
            Series::Histograms(_) => MetricType::Histogram,
        }
    }

    /// Leaves out a family without a series.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
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
        let mut of = |values: &Labels<'a>, encode: &dyn Fn(MetricEncoder<'_>) -> fmt::Result| {
            let pairs: SmallVec<[(&str, &str); 4]> =
                self.labels.iter().copied().zip(values.iter().copied()).collect();
            encode(family.encode_family(&pairs.as_slice())?)
        };
        match &self.series {
            Series::Counts(series) => series
                .iter()
                .try_for_each(|(values, count)| of(values, &|out| ConstCounter::new(*count).encode(out))),
            Series::Levels(series) => series
                .iter()
                .try_for_each(|(values, level)| of(values, &|out| ConstGauge::new(*level).encode(out))),
            Series::Histograms(series) => {
                series.iter().try_for_each(|(values, buckets)| of(values, &|out| buckets.encode(out)))
            }
        }
    }
}
