//! The field Range (RFC 9110 §14.1.2, §14.2). Ranges of bytes are answered. Other units, sets that cannot be
//! read, and sets that ask for more work than they are worth count as absent.

use crate::intervals::Interval;
use http::{HeaderMap, header};
use smallvec::SmallVec;

/// The most ranges of a set. A longer one is not answered.
const RANGES_MAX: usize = 32;
/// About what a part's delimiter and fields cost, in bytes. Ranges with fewer bytes between them are sent as
/// one (RFC 9110 §15.3.7.2).
const PART_BYTES: u64 = 80;
/// The most ranges of a set that may overlap others (RFC 9110 §14.2).
const OVERLAPPING_MAX: usize = 2;
/// The most ranges of a set that may be shorter than what a part costs and out of ascending order (RFC 9110
/// §14.2).
const SCATTERED_MAX: usize = 8;

/// What Range asks for of a body of known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The whole body: there is no Range, or none that is answered.
    All,
    /// These bytes: never empty, never beyond the end.
    Part(Interval),
    /// At least two parts, in the requested order. None is empty or lies beyond the end, and between any two
    /// lie more bytes than a part costs.
    Parts(Vec<Interval>),
    /// Only bytes beyond the end: 416.
    Nothing,
}

/// What the first range of a set asks for, if nothing is known of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// These bytes, never empty. The end is [`u64::MAX`] if the range is open.
    From(Interval),
    /// This many bytes before the end, never 0.
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

/// The first range of a set, for a body whose length is not known yet. `None` if Range is not answered, or if
/// the range counts from the end.
pub fn range_from_front(request: &HeaderMap) -> Option<Interval> {
    match wanted_cold(request)? {
        Asked::From(interval) => Some(interval),
        Asked::Suffix(_) => None,
    }
}

/// What the first range of a set asks for, for a body of which nothing is known yet. `None` if Range is not
/// answered. Skips a range of which no body could have a byte (RFC 9110 §14.1.2).
pub fn wanted_cold(request: &HeaderMap) -> Option<Asked> {
    let specs = specs(request)?;
    // A set that is too much for the longest possible body counts as absent.
    if of_length(&specs, u64::MAX) == Wanted::All {
        return None;
    }
    specs.iter().find(|spec| spec.within(u64::MAX).is_some()).map(|spec| spec.0)
}

/// The number of byte ranges in Range; `None` if it is not answered.
pub(crate) fn ranges_of_bytes(request: &HeaderMap) -> Option<usize> {
    specs(request).map(|specs| specs.len())
}

/// The set of ranges in Range; `None` if its unit is not bytes, or if it has too many members.
fn specs(request: &HeaderMap) -> Option<Specs> {
    let mut lines = request.get_all(header::RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let (unit, set) = line.to_str().ok()?.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let mut specs = Specs::new();
    // A list may have empty members, which mean nothing (RFC 9110 §5.6.1.2).
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

/// Whether a set looks like that of a broken client or an attacker (RFC 9110 §14.2).
fn is_excessive(parts: &[Interval]) -> bool {
    let overlaps = |(at, part): &(usize, &Interval)| {
        parts.iter().enumerate().any(|(other, of)| other != *at && part.intersection(*of).is_some())
    };
    let is_small = |part: &&Interval| part.length() < PART_BYTES;
    parts.iter().enumerate().filter(overlaps).count() > OVERLAPPING_MAX
        || (!parts.is_sorted() && parts.iter().filter(is_small).count() > SCATTERED_MAX)
}

/// Joins parts that overlap, touch, or lie closer together than a part costs. The joined part takes the place
/// of the first.
fn join_near(parts: &mut Vec<Interval>) {
    let mut at = 0;
    while let Some(part) = parts.get(at).copied() {
        match parts[at + 1..].iter().position(|other| distance(part, *other) < PART_BYTES) {
            // The longer part may be near others: look again.
            Some(behind) => {
                let other = parts.remove(at + 1 + behind);
                parts[at] = Interval::new(part.start.min(other.start), part.end.max(other.end));
            }
            None => at += 1,
        }
    }
}

/// The bytes between two parts; 0 if they overlap.
fn distance(a: Interval, b: Interval) -> u64 {
    a.start.max(b.start).saturating_sub(a.end.min(b.end))
}

/// The bytes of the parts with what each costs.
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

    /// The bytes of it in a body of `length` bytes; `None` if there are none.
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

/// Digits as a position. A number that is too large lies beyond every end.
fn position(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
