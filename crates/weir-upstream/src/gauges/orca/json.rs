//! The JSON form of a report. Pure.

use serde_json::Value;

use super::Report;

/// Reads a report; `None` where it is none. Names are those of the fields or their JSON forms
/// (`cpuUtilization`).
pub(super) fn report(text: &[u8]) -> Option<Report> {
    let value: Value = serde_json::from_slice(text).ok()?;
    let mut report = Report::default();
    for (key, value) in value.as_object()? {
        let field = snake(key);
        match value {
            Value::Object(map) if matches!(&*field, "named_metrics" | "utilization" | "request_cost") => {
                for (name, value) in map {
                    report.add(&format!("named_metrics.{name}"), number(value)?);
                }
            }
            // The one before `rps_fractional`, a whole number.
            _ if field == "rps" => {}
            value => {
                if let Some(value) = number(value) {
                    report.add(&field, value);
                }
            }
        }
    }
    Some(report)
}

/// A number, which may stand in quotes.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn snake(key: &str) -> String {
    let mut field = String::with_capacity(key.len() + 2);
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            field.push('_');
        }
        field.push(letter.to_ascii_lowercase());
    }
    field
}
