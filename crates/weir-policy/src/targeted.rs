//! Cache directives for caches like this one: CDN-Cache-Control (RFC 9213) and Surrogate-Control (W3C Edge
//! Architecture). Each of them takes the place of Cache-Control and Expires if it is there and can be read.

use crate::control::{
    Argument, ControlField, DELTA_SECONDS_MAX, Directives, ResponseControl, delta_seconds, each_directive,
};
use crate::rules::{CacheRules, Surrogate};
use http::{HeaderMap, HeaderName, StatusCode};
use sfv::{BareItem, Dictionary, ListEntry, Parser};

/// The Surrogate-Capability that origins get: it names this surrogate, so that they can aim Surrogate-Control
/// at it.
pub const SURROGATE_CAPABILITY: &str = "weir=\"Surrogate/1.0\"";
const DEVICE: &[u8] = b"weir";

const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");
const SURROGATE_CONTROL: HeaderName = HeaderName::from_static("surrogate-control");

/// The directives that count for this cache in a response with this status: those of one field, without those
/// that the route ignores.
pub(crate) fn effective(headers: &HeaderMap, status: StatusCode, rules: &CacheRules) -> ResponseControl {
    let mut control = said(headers, rules);
    if !rules.ignore.is_empty() {
        control.ignore(rules.ignore.of(status));
    }
    control
}

/// What the origin says to this cache. All comes from one field.
pub(crate) fn said(headers: &HeaderMap, rules: &CacheRules) -> ResponseControl {
    if let Some(control) = cdn_cache_control(headers) {
        return ResponseControl { field: ControlField::Cdn, ..control };
    }
    if rules.surrogate == Surrogate::Honour
        && let Some(control) = surrogate_control(headers)
    {
        return ResponseControl { field: ControlField::Surrogate, ..control };
    }
    ResponseControl::read(headers)
}

/// CDN-Cache-Control; `None` if it is absent, empty or not a dictionary (RFC 9213 §2.1, §2.2).
fn cdn_cache_control(headers: &HeaderMap) -> Option<ResponseControl> {
    let joined = joined(headers, &CDN_CACHE_CONTROL)?;
    let dictionary: Dictionary = Parser::new(&joined).parse().ok()?;
    if dictionary.is_empty() {
        return None;
    }
    let mut control = ResponseControl::default();
    for (key, entry) in &dictionary {
        let name = key.as_str();
        let item = match entry {
            ListEntry::Item(item) => item,
            ListEntry::InnerList(_) if is_timed(name) => return None,
            ListEntry::InnerList(_) => continue,
        };
        let mut add = |argument: Option<&[u8]>| control.add(name.as_bytes(), argument.map(Argument));
        match &item.bare_item {
            BareItem::Integer(number) if is_timed(name) => {
                let seconds = i64::from(*number).min(i64::from(DELTA_SECONDS_MAX)).to_string();
                add(Some(seconds.as_bytes()));
            }
            _ if is_timed(name) => return None,
            BareItem::Boolean(true) => add(None),
            BareItem::String(names) => add(Some(names.as_str().as_bytes())),
            BareItem::Token(field) => add(Some(field.as_str().as_bytes())),
            _ => {}
        }
    }
    Some(control)
}

/// Whether a directive's value must be a number of seconds. With another type the field cannot be read.
fn is_timed(name: &str) -> bool {
    matches!(name, "max-age" | "s-maxage" | "stale-while-revalidate" | "stale-if-error")
}

/// Surrogate-Control; `None` if it says nothing to this surrogate. A directive aimed at this device counts
/// before one aimed at all. Directives aimed at other devices are ignored.
fn surrogate_control(headers: &HeaderMap) -> Option<ResponseControl> {
    let mut for_all = None;
    let mut for_us = None;
    for line in headers.get_all(&SURROGATE_CONTROL) {
        each_directive(line.as_bytes(), |name, argument| {
            let (name, argument, target) = aimed(name, argument);
            let control = match target {
                None => &mut for_all,
                Some(device) if device.eq_ignore_ascii_case(DEVICE) => &mut for_us,
                Some(_) => return,
            };
            add_surrogate(control, name, argument);
        });
    }
    for_us.or(for_all)
}

/// Splits `max-age=30;weir` and `no-store;weir` into name, argument and target device.
fn aimed<'a>(
    name: &'a [u8],
    argument: Option<Argument<'a>>,
) -> (&'a [u8], Option<Argument<'a>>, Option<&'a [u8]>) {
    let whole = argument.map_or(name, |argument| argument.0);
    let Some(at) = whole.iter().position(|byte| *byte == b';') else {
        return (name, argument, None);
    };
    let (said, target) = (whole[..at].trim_ascii_end(), whole[at + 1..].trim_ascii());
    match argument {
        None => (said, None, Some(target)),
        Some(_) => (name, Some(Argument(said)), Some(target)),
    }
}

/// `max-age=fresh[+stale]` and `no-store`. Other directives are for surrogates of other kinds.
fn add_surrogate(control: &mut Option<ResponseControl>, name: &[u8], argument: Option<Argument<'_>>) {
    if name.eq_ignore_ascii_case(b"no-store") {
        control.get_or_insert_default().set.insert(Directives::NO_STORE);
    } else if name.eq_ignore_ascii_case(b"max-age") {
        let control = control.get_or_insert_default();
        let digits = argument.map_or(&b""[..], |argument| argument.0);
        let (fresh, stale) = match digits.iter().position(|byte| *byte == b'+') {
            Some(at) => (&digits[..at], delta_seconds(&digits[at + 1..])),
            None => (digits, None),
        };
        control.add(b"max-age", Some(Argument(fresh)));
        control.while_revalidate_s = control.while_revalidate_s.or(stale);
    }
}

/// All lines of a field as one; `None` if there is none, or if one is not ASCII.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut lines = headers.get_all(name).iter();
    let mut joined = lines.next()?.to_str().ok()?.to_owned();
    for line in lines {
        joined.push_str(", ");
        joined.push_str(line.to_str().ok()?);
    }
    Some(joined)
}

#[cfg(test)]
mod tests;
