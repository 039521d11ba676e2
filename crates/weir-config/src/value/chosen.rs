//! Texts that a map chooses: a value whose only placeholder is a map. All that it can become is known when
//! the configuration is loaded. Must not know the maps.

use super::text::parse;
use super::{ByteRate, text_value};
use std::{fmt, str::FromStr};
use weir_policy::value::{Known, Scope, Style, Value, What};

/// A text that a map chooses: `{map.pool}`, `pool-{map.pool}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MapValue {
    value: Value,
    map: String,
}

/// What a map has said; the only thing known of a request.
struct Says<'a>(Option<&'a str>);

impl Known for Says<'_> {
    fn write(&self, _: &What, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(self.0.unwrap_or_default().as_bytes());
        self.0.is_some()
    }
}

impl MapValue {
    fn parse(text: &str) -> Result<MapValue, String> {
        let value = parse(text, Scope::Key)?;
        let all: Vec<&What> = value.placeholders().map(|placeholder| &placeholder.what).collect();
        let [What::Map(map)] = all.as_slice() else {
            return Err(format!("`{text}`: one map chooses here, and nothing else: `{{map.NAME}}`"));
        };
        let map = map.clone();
        Ok(MapValue { value, map })
    }

    /// The text with its placeholder.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The map's name.
    pub fn map(&self) -> &str {
        &self.map
    }

    /// What it is for a result of the map; `None` where the map says nothing.
    pub(crate) fn text(&self, result: Option<&str>) -> String {
        String::from_utf8_lossy(&self.value.render(&Says(result), Style::Plain)).into_owned()
    }
}

impl fmt::Display for MapValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.value)
    }
}

/// An upstream: its name, or a map that chooses one for each request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UpstreamRule {
    /// This one.
    Named(String),
    /// The one that a map says.
    Chosen(MapValue),
}

text_value!(
    UpstreamRule,
    "weir-upstream",
    "the name of an `[upstream.NAME]`, or a map that says one for each request: `{map.pool}`"
);

impl FromStr for UpstreamRule {
    type Err = String;

    fn from_str(text: &str) -> Result<UpstreamRule, String> {
        match text.contains(['{', '}']) {
            true => MapValue::parse(text).map(UpstreamRule::Chosen),
            false => Ok(UpstreamRule::Named(text.to_owned())),
        }
    }
}

impl fmt::Display for UpstreamRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamRule::Named(name) => out.write_str(name),
            UpstreamRule::Chosen(value) => write!(out, "{value}"),
        }
    }
}

/// The most bytes a second: a rate, or a map that says one for each request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RateLimit {
    /// This one.
    Fixed(ByteRate),
    /// The one that a map says; none where it says nothing.
    Chosen(MapValue),
}

text_value!(
    RateLimit,
    "weir-rate-limit",
    "a rate, as `500kB/s`, or a map that says one for each request: `{map.speed}`; where it says nothing, \
     nothing is held back"
);

impl FromStr for RateLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<RateLimit, String> {
        match text.contains(['{', '}']) {
            true => MapValue::parse(text).map(RateLimit::Chosen),
            false => text.parse().map(RateLimit::Fixed),
        }
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RateLimit::Fixed(rate) => write!(out, "{rate}"),
            RateLimit::Chosen(value) => write!(out, "{value}"),
        }
    }
}
