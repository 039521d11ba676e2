//! `[map.NAME]`: what a request's text becomes by a table of rules.

use crate::value::MapOf;
use serde::Deserialize;
use weir_policy::value::Value;

/// What a text of the request becomes: `{map.NAME}` in fields, keys, redirects and the log.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// The text that the rules look at, with [placeholders](#placeholders): `{header.User-Agent}`.
    pub of: MapOf,
    /// The rules, each `[pattern, result]`. A pattern is the whole text, or an expression behind `~`, or
    /// behind `~*` where letters may be small or large. Where `of` is `{client.address}`, it is an address or
    /// a network. Whole texts come before expressions, and of those the first that fits counts.
    pub rules: Vec<Vec<String>>,
    /// What it becomes where no rule fits. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

impl Map {
    /// A map in place of one with mistakes, so that what names it is right.
    pub(crate) fn with_mistakes() -> Map {
        Map { of: MapOf(Value::default()), rules: Vec::new(), default: Some(String::new()) }
    }

    /// Whether it stands in place of one with mistakes, so that it is not known what it gives.
    pub(crate) fn has_mistakes(&self) -> bool {
        self.of.0.parts().is_empty()
    }
}
