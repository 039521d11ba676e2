//! The field Range (RFC 9110 §14.1.2, §14.2): ranges of bytes are answered; other units, sets that cannot be
//! read and sets that ask for more work than they are worth are as if it were not there.

use crate::intervals::Interval;
use http::{HeaderMap, header};
use smallvec::SmallVec;

/// Ranges that a set may have; with more it is not answered.
const RANGES_MAX: usize = 32;
/// Bytes that a part's delimiter and fields cost, about: ranges with fewer between them are sent as one
/// (RFC 9110 §15.3.7.2).
const PART_BYTES: u64 = 80;
/// Ranges of a set that may overlap another of it (RFC 9110 §14.2).
const OVERLAPPING_MAX: usize = 2;
/// Ranges shorter than what a part costs that a set may have in another than ascending order (RFC 9110
/// §14.2).
const SCATTERED_MAX: usize = 8;

/// What Range asks for of a body of known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it: no Range, or none that is answered.
    All,
    /// These bytes: never none, never beyond the end.
    Part(Interval),
    /// Two parts at least, in the order in which they were asked for; each has a byte, none lies beyond the
    /// end, and between any two of them lie more bytes than a part costs.
    Parts(Vec<Interval>),
    /// Only bytes beyond the end: 416.
    Nothing,
}

/// What the first range of a set asks for, of a body that nothing is known of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// These bytes, never none; the end is [`u64::MAX`] where it is open.
    From(Interval),
    /// So many bytes before the end, never none.
    Suffix(u64),
}

/// One member of a set of ranges.
#[derive(Clone, Copy)]
struct Spec(Asked);

/// The members of a set; most have one.
type Specs = SmallVec<[Spec; 1]>;

/// Reads Range for a body of `length` bytes.
pub(crate) fn wanted(request: &HeaderMap, length: u64) -> Wanted {
    specs(request).map_or(Wanted::All, |specs| of_length(&specs, length))
}

/// Where the first range of a set begins and ends, for a body whose length is not known yet; `None` where
/// Range is not answered, or the range counts from the end.
pub fn range_from_front(request: &HeaderMap) -> Option<Interval> {
    match wanted_cold(request)? {
        Asked::From(interval) => Some(interval),
        Asked::Suffix(_) => None,
    }
}

/// What the first range of a set asks for, for a body of which nothing is known yet; `None` where Range is
/// not answered. A range of which no body could have a byte is passed over (RFC 9110 §14.1.2).
pub fn wanted_cold(request: &HeaderMap) -> Option<Asked> {
    let specs = specs(request)?;
    // A set that is too much of the longest body there could be is as if it were not there.
    if of_length(&specs, u64::MAX) == Wanted::All {
        return None;
    }
    specs.iter().find(|spec| spec.within(u64::MAX).is_some()).map(|spec| spec.0)
}

/// How many ranges of bytes Range has; `None` where it is not answered.
pub(crate) fn ranges_of_bytes(request: &HeaderMap) -> Option<usize> {
    specs(request).map(|specs| specs.len())
}

/// The set of ranges in Range; `None` where it is not one of bytes, or has too many members.
fn specs(request: &HeaderMap) -> Option<Specs> {
    let mut lines = request.get_all(header::RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let (unit, set) = line.to_str().ok()?.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let mut specs = Specs::new();
    // Empty members of a list are allowed and say nothing (RFC 9110 §5.6.1.2).
    for spec in set.split(',').map(str::trim).filter(|spec| !spec.is_empty()) {
        if specs.len() == RANGES_MAX {
            return None;
        }
        specs.push(Spec::read(spec)?);
    }
    (!specs.is_empty()).then_some(specs)
}

/// What a set asks for of a body of `length` bytes.
fn of_length(specs: &[Spec], length: u64) -> Wanted {
    if let [spec] = specs {
        return spec.within(length).map_or(Wanted::Nothing, Wanted::Part);
    }
    let mut parts: Vec<Interval> = specs.iter().filter_map(|spec| spec.within(length)).collect();
    if is_excessive(&parts) {
        return Wanted::All;
    }
    join_near(&mut parts);
    match parts[..] {
        [] => Wanted::Nothing,
        [part] => Wanted::Part(part),
        _ if cost(&parts) >= length => Wanted::All,
        _ => Wanted::Parts(parts),
    }
}

/// Whether a set looks like a broken client's, or an attacker's (RFC 9110 §14.2).
fn is_excessive(parts: &[Interval]) -> bool {
    let overlaps = |(at, part): &(usize, &Interval)| {
        parts.iter().enumerate().any(|(other, of)| other != *at && part.intersection(*of).is_some())
    };
    let is_small = |part: &&Interval| part.length() < PART_BYTES;
    parts.iter().enumerate().filter(overlaps).count() > OVERLAPPING_MAX
        || (!parts.is_sorted() && parts.iter().filter(is_small).count() > SCATTERED_MAX)
}

/// Makes one of parts that overlap, touch, or lie closer together than a part costs; it stands where the
/// first of them stood.
fn join_near(parts: &mut Vec<Interval>) {
    let mut at = 0;
    while let Some(part) = parts.get(at).copied() {
        match parts[at + 1..].iter().position(|other| distance(part, *other) < PART_BYTES) {
            // The longer part may be near to others: look again.
            Some(behind) => {
                let other = parts.remove(at + 1 + behind);
                parts[at] = Interval::new(part.start.min(other.start), part.end.max(other.end));
            }
            None => at += 1,
        }
    }
}

/// Bytes between two parts; none where they overlap.
fn distance(a: Interval, b: Interval) -> u64 {
    a.start.max(b.start).saturating_sub(a.end.min(b.end))
}

/// Bytes that the parts come to with what each costs.
fn cost(parts: &[Interval]) -> u64 {
    parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.length()).saturating_add(PART_BYTES))
}

impl Spec {
    /// `first-`, `first-last` or `-suffix`; `None` where it is none of these.
    fn read(text: &str) -> Option<Spec> {
        let (first, last) = text.split_once('-')?;
        if first.is_empty() {
            return Some(Spec(Asked::Suffix(position(last)?)));
        }
        let first = position(first)?;
        let last = if last.is_empty() { u64::MAX } else { position(last)? };
        (first <= last).then(|| Spec(Asked::From(Interval::new(first, last.saturating_add(1)))))
    }

    /// What there is of it in a body of `length` bytes; `None` where that is nothing.
    fn within(self, length: u64) -> Option<Interval> {
        match self.0 {
            Asked::From(interval) => interval.intersection(Interval::new(0, length)),
            Asked::Suffix(bytes) => {
                let part = Interval::new(length.saturating_sub(bytes), length);
                (!part.is_empty()).then_some(part)
            }
        }
    }
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
