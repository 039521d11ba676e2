//! Reads dates of fields as a recipient should (RFC 9110 §5.6.7): all three forms, with names and zone in any
//! case (RFC 9111 §4.2). Prints them in the one form that senders use. It must not read a clock.

use http::HeaderValue;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The names of the days. The name may be wrong for the date; the date counts.
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
/// The length of this form without the day's name: `, 06 Nov 1994 08:49:37 GMT`.
const FIXDATE_REST_BYTES: usize = 26;
/// The length of this form without the day's name: `, 06-Nov-94 08:49:37 GMT`.
const RFC850_REST_BYTES: usize = 24;
/// The longest date: `Wednesday` with the longest rest.
const DATE_BYTES_MAX: usize = 9 + FIXDATE_REST_BYTES;
/// A year of two digits that would lie further ahead than this lies in the past (RFC 9110 §5.6.7).
const AHEAD_MAX: Duration = Duration::from_secs(50 * 31_556_952);

/// The first moment that this form cannot say, whose years have four digits: in seconds since 1970.
const YEAR_10000_S: u64 = 253_402_300_800;

/// Prints a date (RFC 9110 §5.6.7); `None` where it lies before 1970 or after the year 9999. A field with it
/// is then left out: a clock that is wrong, or a file of the far future, is no error of a request.
pub fn http_date(at: SystemTime) -> Option<String> {
    let since = at.duration_since(UNIX_EPOCH).ok()?;
    (since.as_secs() < YEAR_10000_S).then(|| httpdate::fmt_http_date(at))
}

/// Reads a date; `None` if the value is not one. `near` is about now and decides the century of a year of two
/// digits.
///
/// `UTC` counts as `GMT`. A date in another zone is not read (RFC 9111 §4.2).
pub(crate) fn date_of(value: &HeaderValue, near: SystemTime) -> Option<SystemTime> {
    let text = value.to_str().ok()?.trim();
    if text.len() > DATE_BYTES_MAX {
        return None;
    }
    // The form that senders must write needs no rewriting.
    if text.len() == FIXDATE_REST_BYTES + 3
        && let Ok(date) = httpdate::parse_http_date(text)
    {
        return Some(date);
    }
    let text = cased(text);
    match text.strip_suffix("23:59:60 GMT") {
        Some(day) => Some(read(&format!("{day}23:59:59 GMT"), near)? + Duration::from_secs(1)),
        None => read(&text, near),
    }
}

/// The text with its names in the case of the grammar: `Sun`, `Nov`, `GMT`.
fn cased(text: &str) -> String {
    let mut is_within = false;
    let mut cased: String = text
        .chars()
        .map(|letter| {
            let cased = if is_within { letter.to_ascii_lowercase() } else { letter.to_ascii_uppercase() };
            is_within = letter.is_ascii_alphabetic();
            cased
        })
        .collect();
    if cased.ends_with(" Gmt") || cased.ends_with(" Utc") {
        cased.truncate(cased.len() - 4);
        cased.push_str(" GMT");
    }
    cased
}

/// Reads a date in any form. Its names are in the case of the grammar.
fn read(text: &str, near: SystemTime) -> Option<SystemTime> {
    let (name, rest) = text.split_at(text.find(|letter: char| !letter.is_ascii_alphabetic())?);
    if DAYS.iter().any(|day| &day[..3] == name) {
        return on(name, rest).or_else(|| on_any_day(rest));
    }
    let is_rfc850 = DAYS.contains(&name) && rest.len() == RFC850_REST_BYTES && rest.matches('-').count() == 2;
    let (day, month, year, time) = (rest.get(2..4)?, rest.get(5..8)?, rest.get(9..11)?, rest.get(12..)?);
    if !is_rfc850 || rest.get(4..5) != Some("-") || rest.get(8..9) != Some("-") {
        return None;
    }
    let centuries = || [21, 20, 19].map(|century| format!(", {day} {month} {century}{year} {time}"));
    let is_near = |date: &SystemTime| near.checked_add(AHEAD_MAX).is_none_or(|latest| *date <= latest);
    // Of two possible centuries, the one in which the day has that name.
    let named = centuries().iter().find_map(|rest| on(&name[..3], rest).filter(is_near));
    named.or_else(|| centuries().iter().find_map(|rest| on_any_day(rest).filter(is_near)))
}

fn on(day: &str, rest: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(&format!("{day}{rest}")).ok()
}

fn on_any_day(rest: &str) -> Option<SystemTime> {
    DAYS.iter().find_map(|day| on(&day[..3], rest))
}

#[cfg(test)]
mod tests;
