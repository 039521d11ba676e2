//! Recorded logs: lines of the common and the combined log format, of Weir's own JSON log, and JSON lines
//! with `time` (seconds), `path` and `bytes`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;

/// The most requests of a log.
const ROWS_MAX: usize = 5_000_000;
/// A longer line is passed over.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// What is shown of a line that is passed over.
const SHOWN_CHARS: usize = 120;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A recorded GET.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// Seconds since the first.
    pub(crate) at_s: f64,
    pub(crate) path: String,
    /// The length of the body, where the log knows it.
    pub(crate) bytes: Option<u64>,
}

/// What of a log is played.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) rows: Vec<Row>,
    /// Lines that are no GET, or have no form that is known.
    pub(crate) passed_over: u64,
    /// The first of them.
    pub(crate) first_passed_over: Option<String>,
}

/// Reads a log. Lines that are no GET are passed over.
///
/// # Errors
/// In words: the file cannot be read, or has no request.
pub(crate) fn read(path: &Path) -> Result<Log, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let (mut rows, mut passed_over, mut first_passed_over) = (Vec::new(), 0, None);
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]);
        match row(&text).filter(|_| line.len() <= LINE_BYTES_MAX) {
            Some(row) => rows.push(row),
            None if line.is_empty() => {}
            None => {
                passed_over += 1;
                first_passed_over.get_or_insert_with(|| text.chars().take(SHOWN_CHARS).collect());
            }
        }
        if rows.len() >= ROWS_MAX {
            break;
        }
    }
    if rows.is_empty() {
        return Err("no line is a GET of the common or combined log format, or JSON with `time` and `path`"
            .to_owned());
    }
    rows.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
    let first_s = rows[0].at_s;
    rows.iter_mut().for_each(|row| row.at_s -= first_s);
    Ok(Log { rows, passed_over, first_passed_over })
}

pub(crate) fn row(line: &str) -> Option<Row> {
    let row = if line.starts_with('{') { json(line)? } else { common(line)? };
    let plain = row.path.starts_with('/') && row.path.bytes().all(|b| (0x21..0x7f).contains(&b));
    plain.then_some(row)
}

fn json(line: &str) -> Option<Row> {
    let said: Value = serde_json::from_str(line).ok()?;
    let method = said.get("method").and_then(Value::as_str).unwrap_or("GET");
    let time = said.get("time").or(said.get("t"))?;
    let at_s = time.as_f64().or_else(|| rfc3339(time.as_str()?))?;
    let path = said.get("path").or(said.get("target")).and_then(Value::as_str)?.to_owned();
    let bytes = said.get("bytes").or(said.get("body_bytes")).and_then(Value::as_u64);
    (method == "GET").then_some(Row { at_s, path, bytes })
}

/// `host ident user [10/Oct/2000:13:55:36 -0700] "GET /path HTTP/1.1" 200 2326 …`
fn common(line: &str) -> Option<Row> {
    let (_, rest) = line.split_once('[')?;
    let (time, rest) = rest.split_once(']')?;
    let (_, rest) = rest.split_once('"')?;
    let (request, rest) = rest.split_once('"')?;
    let path = request.strip_prefix("GET ")?.split(' ').next()?.to_owned();
    let mut words = rest.split_ascii_whitespace();
    let status = words.next()?;
    // Of other statuses the length is not the object's.
    let bytes = words.next().and_then(|word| word.parse().ok()).filter(|_| status == "200");
    Some(Row { at_s: common_time(time)?, path, bytes })
}

fn common_time(text: &str) -> Option<f64> {
    let (date, rest) = text.split_once(':')?;
    let mut parts = date.split('/');
    let day: i64 = parts.next()?.parse().ok()?;
    let month = MONTHS.iter().position(|month| Some(*month) == date.split('/').nth(1))? as i64 + 1;
    let year: i64 = parts.nth(1)?.parse().ok()?;
    let (clock, zone) = rest.split_once(' ').unwrap_or((rest, "+0000"));
    Some(days(year, month, day) as f64 * 86_400.0 + seconds(clock)? - zone_s(zone)?)
}

/// `2026-10-01T07:00:00.123Z`
fn rfc3339(text: &str) -> Option<f64> {
    let (date, rest) = text.split_once('T')?;
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let at = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let zone = rest[at..].trim_start_matches('Z').replace(':', "");
    let zone_s = if zone.is_empty() { 0.0 } else { zone_s(&zone)? };
    Some(days(year, month, day) as f64 * 86_400.0 + seconds(&rest[..at])? - zone_s)
}

fn seconds(clock: &str) -> Option<f64> {
    let mut parts = clock.split(':').map(|part| part.parse::<f64>().ok());
    Some(parts.next()?? * 3600.0 + parts.next()?? * 60.0 + parts.next()??)
}

/// `+0200`
fn zone_s(text: &str) -> Option<f64> {
    let number: f64 = text.get(1..)?.parse().ok()?;
    let seconds = (number / 100.0).floor() * 3600.0 + number % 100.0 * 60.0;
    Some(if text.starts_with('-') { -seconds } else { seconds })
}

/// Days since 1970-01-01 (Howard Hinnant: "chrono-compatible low-level date algorithms", days_from_civil).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}
