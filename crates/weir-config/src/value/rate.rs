//! Rates in bytes a second, as a configuration writes them and as a client asks for them in a query. Must not
//! accept bits.

use super::{NameGlob, Size, text_value};
use std::{fmt, str::FromStr};

/// Bytes a second: a size, with or without `/s` behind it; never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRate(pub u64);

text_value!(
    ByteRate,
    "weir-rate",
    "a number of bytes a second with its unit: `500kB/s`, `2MiB/s`; `/s` may be left out"
);

/// The longest value of a query parameter that Weir reads, in bytes.
const ASKED_BYTES_MAX: usize = 32;

impl ByteRate {
    /// The rate that a client asks for by a query parameter: bytes a second without a unit, or with one of
    /// `k`, `M`, `G` (thousands, in either case) or of a size. `None` for what is none, and for 0.
    pub fn asked(value: &str) -> Option<ByteRate> {
        let value = value.strip_suffix("/s").unwrap_or(value);
        if value.len() > ASKED_BYTES_MAX || !value.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        let unit = value.trim_start_matches(|c: char| c.is_ascii_digit());
        let size = match unit.to_ascii_lowercase().as_str() {
            "" | "k" | "m" | "g" => format!("{value}B").parse::<Size>(),
            _ => value.parse(),
        };
        size.ok().filter(|size| size.0 > 0).map(|size| ByteRate(size.0))
    }
}

impl FromStr for ByteRate {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteRate, String> {
        let size = text.trim();
        let size = size.strip_suffix("/s").unwrap_or(size).trim_end();
        let lower = size.to_ascii_lowercase();
        if lower.contains("bit") || lower.ends_with("bps") {
            return Err(format!(
                "`{text}` is in bits: write bytes a second, an eighth of it, such as `500kB/s`"
            ));
        }
        match size.parse::<Size>()? {
            Size(0) => Err("a rate of 0 would never end: leave the key out to send at full speed".into()),
            Size(bytes) => Ok(ByteRate(bytes)),
        }
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/s", Size(self.0))
    }
}

/// The name of a query parameter, taken literally.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ParameterName(pub String);

text_value!(ParameterName, "weir-parameter-name", "the name of a query parameter, without patterns: `rate`");

impl FromStr for ParameterName {
    type Err = String;

    fn from_str(text: &str) -> Result<ParameterName, String> {
        if text.contains(['*', '#']) {
            return Err("this is the name of one query parameter: neither `*` nor `#` can stand in it".into());
        }
        text.parse::<NameGlob>().map(|name| ParameterName(name.0))
    }
}

impl fmt::Display for ParameterName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
