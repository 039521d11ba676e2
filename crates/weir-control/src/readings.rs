//! Metrics of origins as the API shows and takes them. It must not know where they are kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_config::value::check_metric_name;

/// The longest lifetime of what is pushed, in seconds: a year.
const LIFETIME_S_MAX: f64 = 366.0 * 86_400.0;
/// The most values that are pushed at once.
const VALUES_MAX: usize = 512;

/// Metrics of an origin that are pushed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MetricsOrder {
    /// The origin: its URL, the name of one address of it, or its name in session ids.
    pub origin: String,
    /// The upstream's name. Without it, the origin in all upstreams that have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The values by name. `null` takes a pushed value back.
    pub values: BTreeMap<String, Option<f64>>,
    /// How long they count, in seconds. Without it, until they are pushed again, taken back, or the process
    /// ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_s: Option<f64>,
}

impl MetricsOrder {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.values.is_empty() || self.values.len() > VALUES_MAX {
            return Err(format!("push 1 to {VALUES_MAX} values at once"));
        }
        for (name, value) in &self.values {
            check_metric_name(name)?;
            if value.is_some_and(|value| !value.is_finite()) {
                return Err(format!("the value of `{name}` is not finite"));
            }
        }
        match self.for_s {
            Some(for_s) if !(for_s > 0.0 && for_s <= LIFETIME_S_MAX) => {
                Err("a lifetime is more than 0 seconds, and at most a year".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Where metrics were pushed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MetricsPushed {
    /// The upstreams whose origin has them now.
    pub upstreams: Vec<String>,
    /// The origin's name.
    pub origin: String,
}

/// The metrics of all origins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MetricsShown {
    /// The sources of the configuration.
    pub sources: Vec<SourceShown>,
    /// The origins, by upstream.
    pub origins: Vec<OriginMetrics>,
}

/// A source of metrics now; counts are since it was configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SourceShown {
    /// Its name.
    pub source: String,
    /// `ganglia`, `prometheus` or `orca`.
    pub kind: String,
    /// Reads that succeeded.
    pub succeeded: u64,
    /// Reads that failed.
    pub failed: u64,
    /// How long ago the last one succeeded; absent where none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ago_s: Option<f64>,
    /// Why the last one failed; absent where it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The metrics of an origin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OriginMetrics {
    /// The upstream's name.
    pub upstream: String,
    /// The origin's name.
    pub origin: String,
    /// Its values, by name; of one name in the order in which they count.
    pub values: Vec<ValueShown>,
    /// What sources do not say of it.
    pub missing: Vec<MissingShown>,
}

/// A value of an origin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ValueShown {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Who has said it: a source, `push` or `agent`.
    pub source: String,
    /// How long ago it was measured.
    pub age_s: f64,
    /// For how long it counts still; absent where it always does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_s: Option<f64>,
    /// Whether it is too old to count.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

/// What a source does not say of an origin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MissingShown {
    /// The source.
    pub source: String,
    /// The value's name; absent where it says nothing at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Why.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_that_make_no_sense_are_refused() {
        let order = |name: &str, value: Option<f64>, for_s: Option<f64>| MetricsOrder {
            origin: "http://a".to_owned(),
            upstream: None,
            values: BTreeMap::from([(name.to_owned(), value)]),
            for_s,
        };
        assert_eq!(order("cpu", Some(0.5), Some(0.1)).check(), Ok(()));
        assert_eq!(order("cpu", None, None).check(), Ok(()));
        assert!(order("c p", Some(0.5), None).check().unwrap_err().contains("is no name"));
        assert!(order("cpu", Some(f64::NAN), None).check().unwrap_err().contains("not finite"));
        for lifetime in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(order("cpu", Some(0.5), Some(lifetime)).check().is_err(), "{lifetime}");
        }
        let none = MetricsOrder { values: BTreeMap::new(), ..order("a", None, None) };
        assert!(none.check().is_err());
    }
}
