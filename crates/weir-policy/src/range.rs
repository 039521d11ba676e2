//! The field Range (RFC 9110 §14.1.2, §14.2): one range of bytes is answered; several, other units and what cannot
//! be read are as if it were not there.

use crate::intervals::Interval;
use http::{HeaderMap, header};

/// What Range asks for of a body of known length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it: no Range, or none that is answered.
    All,
    /// These bytes: never none, never beyond the end.
    Part(Interval),
    /// Bytes beyond the end: 416.
    Nothing,
}

/// Reads Range for a body of `length` bytes.
pub(crate) fn wanted(request: &HeaderMap, length: u64) -> Wanted {
    let mut lines = request.get_all(header::RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return Wanted::All;
    };
    let Some((unit, set)) = line.to_str().ok().and_then(|line| line.split_once('=')) else {
        return Wanted::All;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Wanted::All;
    }
    // Empty members of a list are allowed and say nothing (RFC 9110 §5.6.1.2).
    let mut specs = set.split(',').map(str::trim).filter(|spec| !spec.is_empty());
    let (Some(spec), None) = (specs.next(), specs.next()) else {
        return Wanted::All;
    };
    one(spec, length).unwrap_or(Wanted::All)
}

/// Where a single range begins and ends, for a body whose length is not known yet; `None` where Range is not
/// answered, or counts from the end.
pub fn range_from_front(request: &HeaderMap) -> Option<Interval> {
    let longest = u64::MAX;
    let suffix = |line: &str| line.split_once('=').is_some_and(|(_, set)| set.trim().starts_with('-'));
    match wanted(request, longest) {
        Wanted::Part(_) if request.get(header::RANGE)?.to_str().is_ok_and(suffix) => None,
        Wanted::Part(part) => Some(part),
        Wanted::All | Wanted::Nothing => None,
    }
}

/// `first-`, `first-last` or `-suffix`; `None` where it is none of these.
fn one(spec: &str, length: u64) -> Option<Wanted> {
    let (first, last) = spec.split_once('-')?;
    if first.is_empty() {
        let suffix = position(last)?;
        if suffix == 0 || length == 0 {
            return Some(Wanted::Nothing);
        }
        return Some(Wanted::Part(Interval::new(length.saturating_sub(suffix), length)));
    }
    let first = position(first)?;
    let last = if last.is_empty() { u64::MAX } else { position(last)? };
    if last < first {
        return None;
    }
    if first >= length {
        return Some(Wanted::Nothing);
    }
    Some(Wanted::Part(Interval::new(first, last.saturating_add(1).min(length))))
}

/// Digits as a position; too many of them lie beyond every end.
fn position(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
