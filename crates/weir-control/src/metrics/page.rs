//! The guide's page of metrics, printed from the tables by the test that keeps it current.

use std::fmt::Write;

use prometheus_client::metrics::MetricType;

use super::family::{Family, Seen};
use super::table;
use super::written::Written;

const HEAD: &str = "# Metrics

`/metrics` on the admin listener answers in the text format of Prometheus, or as OpenMetrics where the scraper
names that in `Accept`. Each worker counts by itself, and a scrape adds the workers up. Counters start at 0
with the process. A metric without a series yet is left out. This page is printed from the program's own
tables (`weir-observe/src/counts.rs`, `weir-control/src/metrics`).

A *reason* or *detail* is one of the [page of reasons](reasons.md). An *outcome* is one of the
[glossary](glossary.md).
";

/// All of it.
pub(super) fn markdown() -> String {
    let mut page = String::from(HEAD);
    for (title, families) in table::sections(&Seen::default(), &Written::default()) {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {title}\n\n| metric | labels | meaning |\n|---|---|---|\n");
        families.iter().for_each(|family| page += &row(family));
    }
    page
}

fn row(family: &Family<'_>) -> String {
    let (suffix, kind) = match family.kind() {
        MetricType::Counter => ("_total", ""),
        MetricType::Histogram => ("", "Histogram: "),
        _ => ("", ""),
    };
    let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
    format!("| `{}{suffix}` | {} | {kind}{} |\n", family.name, labels.join(", "), family.help)
}
