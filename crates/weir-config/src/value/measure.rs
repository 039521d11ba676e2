//! Durations and sizes with their units: `60s`, `1h30m`, `256MiB`. Must not accept a number without a unit,
//! save `0`.

use super::text_value;
use crate::nearest::nearest;
use std::{fmt, str::FromStr, time};

/// A span of time: digits and a unit (`ms`, `s`, `m`, `h`, `d`), several in a row are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub time::Duration);

text_value!(Duration, "weir-duration", "a time with its unit: `500ms`, `60s`, `5m`, `1h30m`, `7d`");

/// The longest duration that is accepted: ten years, so that no sum of a few of them overflows.
const DURATION_MS_MAX: u64 = 10 * 366 * 86_400_000;

const TIME_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Duration {
    /// A duration of whole seconds.
    pub const fn seconds(seconds: u64) -> Duration {
        Duration(time::Duration::from_secs(seconds))
    }
}

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Duration, String> {
        let mut rest = text.trim();
        if rest == "0" {
            return Ok(Duration(time::Duration::ZERO));
        }
        let mut total_ms = 0u64;
        if rest.is_empty() {
            return Err("empty duration: write a number with a unit, such as `60s`".into());
        }
        while !rest.is_empty() {
            let (number, unit, after) = number_and_unit(rest);
            let number = number.parse::<u64>().map_err(|_| duration_help(text))?;
            if unit.is_empty() {
                return Err(format!("duration without a unit: did you mean `{}s`?", text.trim()));
            }
            let scale = TIME_UNITS.iter().find(|(name, _)| *name == unit);
            let Some((_, scale)) = scale else {
                return Err(unknown_unit("time", unit, &TIME_UNITS));
            };
            total_ms = number
                .checked_mul(*scale)
                .and_then(|ms| total_ms.checked_add(ms))
                .filter(|ms| *ms <= DURATION_MS_MAX)
                .ok_or("duration of more than ten years")?;
            rest = after;
        }
        Ok(Duration(time::Duration::from_millis(total_ms)))
    }
}

fn duration_help(text: &str) -> String {
    format!("`{text}` is not a duration: write a whole number with a unit, such as `60s`, `5m` or `1h30m`")
}

impl fmt::Display for Duration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left_ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if left_ms == 0 {
            return out.write_str("0s");
        }
        for (unit, scale) in TIME_UNITS {
            if left_ms >= scale {
                write!(out, "{}{unit}", left_ms / scale)?;
                left_ms %= scale;
            }
        }
        Ok(())
    }
}

/// A number of bytes: digits and a unit, binary (`KiB`, `MiB`, `GiB`, `TiB`) or decimal (`kB`, `MB`, `GB`,
/// `TB`), or `B`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

text_value!(Size, "weir-size", "a number of bytes with its unit: `512B`, `64KiB`, `256MiB`, `10GiB`, `1GB`");

const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let text = text.trim();
        if text == "0" {
            return Ok(Size(0));
        }
        let (number, unit, after) = number_and_unit(text);
        let number = number.parse::<u64>().ok().filter(|_| after.is_empty()).ok_or_else(|| {
            format!("`{text}` is not a size: write a whole number with a unit, such as `64KiB` or `256MiB`")
        })?;
        if unit.is_empty() {
            return Err(format!("size without a unit: did you mean `{text}B` or `{text}MiB`?"));
        }
        let found = SIZE_UNITS.iter().find(|(name, _)| *name == unit).or_else(|| {
            let lower = unit.to_ascii_lowercase();
            SIZE_UNITS.iter().find(|(name, _)| name.to_ascii_lowercase() == lower)
        });
        let Some((_, scale)) = found else {
            return Err(unknown_unit("size", unit, &SIZE_UNITS));
        };
        number.checked_mul(*scale).map(Size).ok_or_else(|| format!("`{text}` is more than 16 EiB"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = SIZE_UNITS.iter().find(|(_, scale)| self.0 >= *scale && self.0.is_multiple_of(*scale));
        match whole {
            Some((unit, scale)) => write!(out, "{}{unit}", self.0 / scale),
            None => out.write_str("0B"),
        }
    }
}

fn unknown_unit(of: &str, unit: &str, legal: &[(&str, u64)]) -> String {
    let names = || legal.iter().map(|(name, _)| *name);
    // `minutes`, `sec`, `Kib`, `G`: the unit that they begin with.
    let begun = names().find(|name| {
        let (name, unit) = (name.to_ascii_lowercase(), unit.to_ascii_lowercase());
        name.len() == 1 && unit.starts_with(&name) || name.starts_with(&unit)
    });
    match begun.or_else(|| nearest(unit, names())) {
        Some(near) => format!("unknown unit of {of} `{unit}`: did you mean `{near}`?"),
        None => {
            let names: Vec<String> = names().map(|name| format!("`{name}`")).collect();
            format!("unknown unit of {of} `{unit}`: use one of {}", names.join(", "))
        }
    }
}

/// Splits `12ms5` into `12`, `ms`, `5`.
fn number_and_unit(text: &str) -> (&str, &str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    let rest = if rest.starts_with(' ') && digits > 0 { rest.trim_start() } else { rest };
    let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, after) = rest.split_at(unit);
    (number, unit.trim_end(), after)
}
