//! Preconditions of a request, evaluated on a stored response (RFC 9110 §13).

use crate::date::date_of;
use crate::stored::{ETag, Stored};
use http::{HeaderMap, HeaderName, StatusCode, header};
use std::time::SystemTime;

/// The result of the preconditions, in the order of RFC 9110 §13.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// They hold. If-Range is still to be evaluated.
    Hold,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// Evaluates the preconditions on the stored response. They count only where the answer would be a success
/// (RFC 9110 §13.2.1). A field that cannot be read counts as absent.
pub(crate) fn evaluate(request: &HeaderMap, stored: &Stored) -> Outcome {
    if !stored.status.is_success() {
        return Outcome::Hold;
    }
    if request.contains_key(header::IF_MATCH) {
        if !any_tag(request, &header::IF_MATCH, stored, ETag::matches_strongly) {
            return Outcome::Failed;
        }
    } else if let Some(since) = date_in(request, &header::IF_UNMODIFIED_SINCE, stored)
        && stored.validators.last_modified.is_some_and(|modified| modified > since)
    {
        return Outcome::Failed;
    }
    if request.contains_key(header::IF_NONE_MATCH) {
        if any_tag(request, &header::IF_NONE_MATCH, stored, ETag::matches_weakly) {
            return Outcome::NotModified;
        }
    } else if stored.status == StatusCode::OK
        && let Some(since) = date_in(request, &header::IF_MODIFIED_SINCE, stored)
        && last_changed(stored) <= since
    {
        return Outcome::NotModified;
    }
    Outcome::Hold
}

/// Whether If-Range lets the range be sent (RFC 9110 §13.1.5): it is absent, or names the stored response
/// exactly, by a strong validator.
pub(crate) fn range_stands(request: &HeaderMap, stored: &Stored) -> bool {
    let mut lines = request.get_all(header::IF_RANGE).iter();
    let Some(line) = lines.next() else { return true };
    if lines.next().is_some() {
        return false;
    }
    if let Some(since) = date_of(line, stored.facts.received_wall) {
        return stored.validators.is_last_modified_strong() && stored.validators.last_modified == Some(since);
    }
    match (&stored.validators.etag, ETag::read(line)) {
        (Some(held), Some(said)) => held.matches_strongly(said.value().as_bytes()),
        _ => false,
    }
}

/// When the stored response last changed, as far as is known: Last-Modified, else Date, else its arrival (RFC
/// 9111 §4.3.2).
fn last_changed(stored: &Stored) -> SystemTime {
    let validators = &stored.validators;
    validators.last_modified.or(validators.date).unwrap_or(stored.facts.received_wall)
}

fn date_in(request: &HeaderMap, name: &HeaderName, stored: &Stored) -> Option<SystemTime> {
    let mut lines = request.get_all(name).iter();
    let line = lines.next()?;
    lines.next().is_none().then(|| date_of(line, stored.facts.received_wall)).flatten()
}

/// Whether a listed entity tag, or `*`, matches the stored response.
fn any_tag(
    request: &HeaderMap,
    name: &HeaderName,
    stored: &Stored,
    is_same: fn(&ETag, &[u8]) -> bool,
) -> bool {
    request.get_all(name).iter().any(|line| {
        let line = line.as_bytes().trim_ascii();
        if line == b"*" {
            return true;
        }
        stored.validators.etag.as_ref().is_some_and(|held| tags(line).any(|tag| is_same(held, tag)))
    })
}

/// The members of a list of entity tags. A comma inside the quotes belongs to the tag. A member that is no
/// entity tag is returned as it is and matches only itself.
fn tags(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = line;
    std::iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            let mut quoted = false;
            let end = rest.iter().position(|byte| {
                quoted ^= *byte == b'"';
                *byte == b',' && !quoted
            });
            let (tag, after) = match end {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &rest[rest.len()..]),
            };
            rest = after;
            if !tag.trim_ascii().is_empty() {
                return Some(tag.trim_ascii());
            }
        }
    })
}

impl ETag {
    /// Weak comparison with a tag as it stands in a field (RFC 9110 §8.8.3.2).
    pub(crate) fn matches_weakly(&self, other: &[u8]) -> bool {
        opaque(self.value().as_bytes().trim_ascii()) == opaque(other)
    }

    /// Strong comparison: the same, and neither of them weak.
    pub(crate) fn matches_strongly(&self, other: &[u8]) -> bool {
        !self.is_weak() && !other.starts_with(b"W/") && self.value().as_bytes().trim_ascii() == other
    }
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests;
