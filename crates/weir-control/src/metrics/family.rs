//! A metric with its series, and all that a scrape sees.

use std::borrow::Cow;
use std::fmt::{self, Write};

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, LabelSetEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use smallvec::SmallVec;
use weir_observe::{Latency, Snapshot, bounds_us};

use super::form::Form;
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
pub(super) struct Family<'a> {
    /// Without `_total`.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) labels: &'static [&'static str],
    pub(super) series: Series<'a>,
}

/// Values, each with those of the labels.
pub(super) enum Series<'a> {
    Counts(Vec<(Labels<'a>, u64)>),
    Levels(Vec<(Labels<'a>, f64)>),
    Histograms(Vec<(Labels<'a>, Buckets)>),
    ManyCounts(Many<'a>),
    ManyLevels(Many<'a>),
}

/// Values of so many sites that they are not collected, but gone through as they are written.
pub(super) struct Many<'a>(Box<dyn Fn() -> Each<'a> + 'a>);

type Each<'a> = Box<dyn Iterator<Item = (SiteLabels<'a>, u64)> + 'a>;

impl<'a> Many<'a> {
    /// What `each` goes through, from the start each time.
    pub(super) fn new<I: Iterator<Item = (SiteLabels<'a>, u64)> + 'a>(each: impl Fn() -> I + 'a) -> Many<'a> {
        Many(Box::new(move || Box::new(each())))
    }

    fn each(&self) -> Each<'a> {
        self.0()
    }
}

/// The label of a site, and another one behind a comma or nothing, both as they stand in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct SiteLabels<'a>(pub(super) &'a str, pub(super) &'a str);

impl EncodeLabelSet for SiteLabels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        // The library copies what stands for a key as it is.
        let mut label = encoder.encode_label();
        let mut out = label.encode_label_key()?;
        out.write_str(self.0)?;
        if self.1.is_empty() { Ok(()) } else { out.write_str(self.1) }
    }
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
            Series::ManyCounts(many) | Series::ManyLevels(many) => many.each().next().is_none(),
        }
    }

    pub(super) fn kind(&self) -> MetricType {
        match self.series {
            Series::Counts(_) | Series::ManyCounts(_) => MetricType::Counter,
            Series::Levels(_) | Series::ManyLevels(_) => MetricType::Gauge,
            Series::Histograms(_) => MetricType::Histogram,
        }
    }

    /// Leaves out a family without a series. OpenMetrics names a counter without `_total` in its comments.
    /// The older format names it there as its series are named, and knows no suffix.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder, form: Form) -> fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        let is_older = form == Form::Prometheus;
        let name = match self.kind() {
            MetricType::Counter if is_older => Cow::Owned(format!("{}_total", self.name)),
            _ => Cow::Borrowed(self.name),
        };
        let mut family = encoder.encode_descriptor(&name, self.help, None, self.kind())?;
        let count = |count: u64, out: MetricEncoder<'_>| match is_older {
            true => ConstGauge::new(count).encode(out),
            false => ConstCounter::new(count).encode(out),
        };
        match (&self.series, self.labels) {
            // With an empty set of labels there would be braces.
            (Series::Counts(series), []) => return count(series[0].1, family),
            (Series::Levels(series), []) => return ConstGauge::new(series[0].1).encode(family),
            _ => {}
        }
        let mut of = |values: &Labels<'a>, encode: &dyn Fn(MetricEncoder<'_>) -> fmt::Result| {
            let pairs: SmallVec<[(&str, &str); 4]> =
                self.labels.iter().copied().zip(values.iter().copied()).collect();
            encode(family.encode_family(&pairs.as_slice())?)
        };
        match &self.series {
            Series::Counts(series) => {
                series.iter().try_for_each(|(values, value)| of(values, &|out| count(*value, out)))
            }
            Series::Levels(series) => series
                .iter()
                .try_for_each(|(values, level)| of(values, &|out| ConstGauge::new(*level).encode(out))),
            Series::Histograms(series) => {
                series.iter().try_for_each(|(values, buckets)| of(values, &|out| buckets.encode(out)))
            }
            Series::ManyCounts(many) => {
                many.each().try_for_each(|(labels, value)| count(value, family.encode_family(&labels)?))
            }
            Series::ManyLevels(many) => many.each().try_for_each(|(labels, level)| {
                ConstGauge::new(level).encode(family.encode_family(&labels)?)
            }),
        }
    }
}
