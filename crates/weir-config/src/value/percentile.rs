//! Percentiles: `p95`, `p99.9`. Must not accept one below the median.

use super::text_value;
use std::{fmt, str::FromStr};

/// A percentile, `p50` to `p99.9`, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percentile(pub u16);

text_value!(Percentile, "weir-percentile", "a percentile, `p50` to `p99.9`");

impl FromStr for Percentile {
    type Err = String;

    fn from_str(text: &str) -> Result<Percentile, String> {
        let text = text.trim();
        let number = text.strip_prefix('p');
        let Some(per_mille) = thousandths(number.unwrap_or_else(|| text.trim_end_matches('%'))) else {
            return Err(format!("`{text}` is not a percentile: write `p50` to `p99.9`"));
        };
        if !(500..=999).contains(&per_mille) {
            return Err(format!("`{text}` is out of bounds: use `p50` to `p99.9`"));
        }
        match number {
            Some(_) => Ok(Percentile(per_mille)),
            None => Err(format!("a percentile begins with `p`: did you mean `{}`?", Percentile(per_mille))),
        }
    }
}

/// Whole percents with at most one decimal.
fn thousandths(number: &str) -> Option<u16> {
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let is_number =
        |text: &str, most| (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole, 3) || !is_number(tenths, 1) {
        return None;
    }
    Some(whole.parse::<u16>().ok()? * 10 + tenths.parse::<u16>().ok()?)
}

impl fmt::Display for Percentile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "p{}", self.0 / 10)?;
        match self.0 % 10 {
            0 => Ok(()),
            tenths => write!(out, ".{tenths}"),
        }
    }
}
