//! Numbers with units, as conditions say them. Durations become microseconds.

use super::names::Kind;
use super::tree::Span;

/// The units of durations, in microseconds.
const TIMES: [(&str, f64); 7] =
    [("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6), ("h", 3600e6), ("d", 86_400e6)];
/// The units of sizes, in bytes.
const SIZES: [(&str, f64); 9] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];

/// Whether the name that a number is compared with says its unit, as `first_byte_ms` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    WithUnit,
    Without,
}

/// Reads a number of a kind.
///
/// # Errors
/// What to write instead.
pub(super) fn read(text: &str, kind: Kind, named: Named) -> Result<Span, String> {
    match kind {
        Kind::Status => status(text),
        Kind::Count => match text.parse() {
            Ok(number) => Ok(Span { first: number, last: number }),
            Err(_) => Err("write a whole number".to_owned()),
        },
        Kind::Milliseconds => measured(text, &TIMES, (named, 1e3), "200ms, 1.5s or 2m"),
        Kind::Seconds => measured(text, &TIMES, (named, 1e6), "90s, 10m or 1h"),
        Kind::Bytes => measured(text, &SIZES, (named, 1.0), "800B, 64KiB or 1MB"),
        Kind::Text | Kind::Word(_) | Kind::Flag => Err("write a text".to_owned()),
    }
}

fn status(text: &str) -> Result<Span, String> {
    let class = text.strip_suffix("xx").and_then(|class| class.parse::<i64>().ok());
    match (class, text.parse()) {
        (Some(class @ 1..=5), _) => Ok(Span { first: class * 100, last: class * 100 + 99 }),
        (_, Ok(status @ 0..=999)) => Ok(Span { first: status, last: status }),
        _ => Err("write a status, as 503 or 5xx".to_owned()),
    }
}

/// A number with one of these units; without one, where the name has it or the number is zero.
fn measured(
    text: &str,
    units: &[(&str, f64)],
    (named, own): (Named, f64),
    examples: &str,
) -> Result<Span, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| format!("write a number with its unit, as {examples}"))?;
    let factor = match units.iter().find(|(known, _)| *known == unit) {
        Some((_, factor)) => *factor,
        None if unit.is_empty() && (named == Named::WithUnit || number == 0.0) => own,
        None if unit.is_empty() => return Err(format!("write its unit, as {examples}")),
        None => {
            let known: Vec<&str> = units.iter().map(|(known, _)| *known).collect();
            return Err(format!("{unit} is no unit here; there are {}", known.join(", ")));
        }
    };
    // What is too large stays at the largest number.
    let value = (number * factor).round() as i64;
    Ok(Span { first: value, last: value })
}
