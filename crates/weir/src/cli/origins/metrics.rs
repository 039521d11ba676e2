//! `weir origins --metrics` and `weir origins push`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use http::Method;
use weir_config::value::Duration;
use weir_control::{MetricsOrder, MetricsPushed, MetricsShown, OriginMetrics, SourceShown, ValueShown};

use crate::cli::find::Find;

/// The path of metrics.
const METRICS: &str = "/v1/origins/metrics";

/// The command line of `weir origins push`.
#[derive(Debug, Args)]
pub(super) struct Push {
    /// The origin: its URL, the name of one address of it as listed, or its id.
    #[arg(value_name = "ORIGIN")]
    origin: String,
    /// Metrics and their values: `cpu=0.35`. `cpu=` takes a value back.
    #[arg(value_name = "NAME=VALUE", required = true)]
    values: Vec<Pair>,
    /// The upstream's name [default: all that have the origin].
    #[arg(long, value_name = "NAME")]
    upstream: Option<String>,
    /// How long the values count [default: until they are pushed again].
    #[arg(long = "for", value_name = "TIME")]
    lifetime: Option<Duration>,
    #[command(flatten)]
    find: Find,
}

/// `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq)]
struct Pair(String, Option<f64>);

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Pair, String> {
        let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, as cpu=0.35")?;
        let value = match value.trim() {
            "" => None,
            value => {
                let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
                Some(number.ok_or_else(|| format!("`{value}` is no number"))?)
            }
        };
        Ok(Pair(name.trim().to_owned(), value))
    }
}

impl Push {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let Push { origin, values, upstream, lifetime, find } = self;
        let values: BTreeMap<String, Option<f64>> =
            values.into_iter().map(|Pair(name, value)| (name, value)).collect();
        let for_s = lifetime.map(|lifetime| lifetime.0.as_secs_f64());
        let order = MetricsOrder { origin, upstream, values, for_s };
        let asked = find.ask(Method::POST, METRICS, serde_json::to_vec(&order)?)?;
        find.answer(&asked, |pushed: &MetricsPushed| {
            format!("{}  pushed, in {}\n", pushed.origin, pushed.upstreams.join(", "))
        })
    }
}

/// Shows the metrics of all origins.
pub(super) fn show(find: &Find) -> anyhow::Result<ExitCode> {
    let asked = find.ask(Method::GET, METRICS, Vec::new())?;
    find.answer(&asked, shown)
}

fn shown(all: &MetricsShown) -> String {
    let mut text = String::new();
    for source in &all.sources {
        text += &of_source(source);
    }
    for origin in &all.origins {
        text += &of_origin(origin);
    }
    if text.is_empty() { "there are no upstreams\n".to_owned() } else { text }
}

fn of_source(shown: &SourceShown) -> String {
    let SourceShown { source, kind, succeeded, failed, ago_s, error } = shown;
    let mut text = format!("source {source}  {kind}");
    if kind != "orca" {
        text += &match ago_s {
            Some(ago_s) => format!("  read {ago_s:.1} s ago"),
            None => "  never read".to_owned(),
        };
        text += &format!("  {succeeded} reads, {failed} failed");
    }
    if let Some(error) = error {
        text += &format!("  fails: {error}");
    }
    text + "\n"
}

fn of_origin(shown: &OriginMetrics) -> String {
    let mut text = format!("{}  {}\n", shown.upstream, shown.origin);
    if shown.values.is_empty() && shown.missing.is_empty() {
        text += "  no metrics\n";
    }
    let width = shown.values.iter().map(|value| value.name.len()).max().unwrap_or(0).min(40);
    text.extend(shown.values.iter().map(|value| of_value(value, width)));
    for missing in &shown.missing {
        let name = missing.name.as_deref().unwrap_or("all");
        text += &format!("  {name:<width$}  missing  {}: {}\n", missing.source, missing.why);
    }
    text
}

fn of_value(shown: &ValueShown, width: usize) -> String {
    let ValueShown { name, value, source, age_s, left_s, stale } = shown;
    let value = match value.abs() {
        0.001..1e6 => format!("{value:.3}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:e}"),
    };
    let mut text = format!("  {name:<width$}  {value}  {source}  {age_s:.1} s old");
    match (stale, left_s) {
        (true, _) => text += "  stale: it counts as missing",
        (false, Some(left_s)) => text += &format!("  good for {left_s:.1} s"),
        (false, None) => {}
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_control::MissingShown;

    #[test]
    fn values_are_shown_with_ages_and_reasons() {
        let value = |name: &str, value, stale| ValueShown {
            name: name.to_owned(),
            value,
            source: "g".to_owned(),
            age_s: 2.0,
            left_s: Some(13.0),
            stale,
        };
        let origin = OriginMetrics {
            upstream: "main".to_owned(),
            origin: "http://a:80".to_owned(),
            values: vec![value("cpu", 0.25, false), value("network", 1.5e9, true)],
            missing: vec![MissingShown { source: "g".to_owned(), name: None, why: "because".to_owned() }],
        };
        let source = SourceShown {
            source: "g".to_owned(),
            kind: "ganglia".to_owned(),
            succeeded: 3,
            failed: 1,
            ago_s: Some(2.0),
            error: Some("refused".to_owned()),
        };
        let text = shown(&MetricsShown { sources: vec![source], origins: vec![origin] });
        let expect = "source g  ganglia  read 2.0 s ago  3 reads, 1 failed  fails: refused\n\
            main  http://a:80\n  \
            cpu      0.250  g  2.0 s old  good for 13.0 s\n  \
            network  1.5e9  g  2.0 s old  stale: it counts as missing\n  \
            all      missing  g: because\n";
        assert_eq!(text, expect);
    }

    #[test]
    fn a_pair_is_a_name_and_a_number() {
        assert_eq!("cpu=0.5".parse(), Ok(Pair("cpu".to_owned(), Some(0.5))));
        assert_eq!("cpu=".parse(), Ok(Pair("cpu".to_owned(), None)));
        assert!("cpu".parse::<Pair>().is_err() && "cpu=x".parse::<Pair>().is_err());
        assert!("cpu=inf".parse::<Pair>().is_err());
    }
}
