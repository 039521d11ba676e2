//! Loads that origins report in their responses (ORCA, xds.data.orca.v3.OrcaLoadReport): the fields
//! `endpoint-load-metrics` (`TEXT`, `JSON` or `BIN` and the report) and `endpoint-load-metrics-bin` (as gRPC
//! sends it). They are removed from the response. A report that makes no sense changes nothing.

mod json;
mod message;

use std::time::Instant;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use http::{HeaderMap, HeaderName};

use crate::gauges::{Gauges, ReportSettings, Setting};

/// The field of all forms.
const REPORT: HeaderName = HeaderName::from_static("endpoint-load-metrics");
/// The field of the binary form, as gRPC has it.
const REPORT_BIN: HeaderName = HeaderName::from_static("endpoint-load-metrics-bin");
/// The longest report, in bytes.
const BYTES_MAX: usize = 16 * 1024;
/// The most values of a report.
const VALUES_MAX: usize = 64;
/// Both forms of base64 pad as they like.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The values of a report.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Report(Vec<(String, f64)>);

impl Report {
    /// A value by the name of its field.
    fn add(&mut self, field: &str, value: f64) {
        if self.0.len() < VALUES_MAX && value.is_finite() {
            self.0.push((name(field).to_owned(), value));
        }
    }
}

/// The name of a metric by that of its field: those of which Weir has names of its own, and named metrics
/// without the name of their map.
fn name(field: &str) -> &str {
    match field {
        "cpu_utilization" => "cpu",
        "mem_utilization" => "memory",
        "named_metrics" => "",
        _ => ["named_metrics.", "utilization.", "request_cost."]
            .iter()
            .find_map(|map| field.strip_prefix(map))
            .unwrap_or(field),
    }
}

/// A response has come: takes reports out of its fields, where they are taken.
pub(crate) fn hear(headers: &mut HeaderMap, gauges: &Gauges, now: Instant) {
    if let Some(settings) = &*gauges.reports() {
        take(headers, gauges, settings, now);
    }
}

/// Takes the reports out of a response's fields, and puts their values into the gauges of its origin.
fn take(headers: &mut HeaderMap, gauges: &Gauges, settings: &ReportSettings, now: Instant) {
    for field in [REPORT, REPORT_BIN] {
        let report = headers.get(&field).and_then(|value| match field == REPORT {
            true => read(value.as_bytes()),
            false => binary(value.as_bytes()),
        });
        if headers.remove(&field).is_none() {
            continue;
        }
        let good_until = now.checked_add(settings.stale_after);
        let values = report.unwrap_or_default().0;
        let all =
            values.iter().map(|(name, value)| Setting { name, value: *value, measured: now, good_until });
        gauges.hear_report(&settings.source, all, now);
    }
}

/// A report with its form before it.
fn read(value: &[u8]) -> Option<Report> {
    if value.len() > BYTES_MAX {
        return None;
    }
    let text = value.trim_ascii();
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    let (form, rest) = (&text[..end], text[end..].trim_ascii());
    match form.to_ascii_uppercase().as_slice() {
        b"TEXT" => text_of(rest),
        b"JSON" => json::report(rest),
        b"BIN" => binary(rest),
        _ => None,
    }
}

/// `cpu_utilization=0.3, named_metrics.queue=7`.
fn text_of(text: &[u8]) -> Option<Report> {
    let mut report = Report::default();
    for pair in std::str::from_utf8(text).ok()?.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (field, value) = pair.split_once('=')?;
        report.add(field.trim(), value.trim().parse().ok()?);
    }
    Some(report)
}

/// A message in base64.
fn binary(value: &[u8]) -> Option<Report> {
    if value.len() > BYTES_MAX {
        return None;
    }
    message::report(&BASE64.decode(value.trim_ascii()).ok()?)
}

/// Promises of the reader of reports, for fuzz targets.
#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzing {
    use super::{VALUES_MAX, binary, message, read};

    /// A report has a bounded number of values, all of them numbers.
    pub fn orca(bytes: &[u8]) {
        for report in [read(bytes), binary(bytes), message::report(bytes)].into_iter().flatten() {
            assert!(report.0.len() <= VALUES_MAX);
            assert!(report.0.iter().all(|(_, value)| value.is_finite()));
        }
    }
}

#[cfg(test)]
mod tests;
