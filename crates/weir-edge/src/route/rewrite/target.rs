//! A target for the origin, and a path and query in keys, as values. Pure.

use weir_policy::value::{Part, Value};
use weir_policy::{Beginning, has_dot_segment};

/// A rewritten path would have a segment `.` or `..`: no rule says where that leads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DotSegment;

/// Whose requests are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Those of all clients.
    All,
    /// Those of all clients where maps choose, else those with the same fields and from the same client as
    /// this one.
    Alike,
}

/// A path and query in keys, or how it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPath {
    pub(crate) text: Beginning,
    /// Whether it is also that of what was not asked for.
    pub(crate) is_wider: bool,
}

impl KeyPath {
    pub(in crate::route) fn exact(text: Beginning) -> KeyPath {
        KeyPath { text, is_wider: false }
    }
}

/// A rendered target with the query of the request, where the rule does not say it itself.
///
/// # Errors
/// It has a dot segment.
pub(in crate::route) fn finish(
    to: &Value,
    target: Vec<u8>,
    query: Option<&str>,
) -> Result<String, DotSegment> {
    // Invariant: what is rendered for a path consists of visible ASCII.
    let mut target = String::from_utf8(target).map_err(|_| DotSegment)?;
    match query {
        _ if has_query(to) => target.truncate(trimmed(&target).len()),
        Some(query) => {
            target.push('?');
            target.push_str(query);
        }
        None => {}
    }
    let path = target.split('?').next().unwrap_or_default();
    if has_dot_segment(path) { Err(DotSegment) } else { Ok(target) }
}

/// A target without what a rule has put before an empty query.
pub(in crate::route) fn trimmed(target: &str) -> &str {
    let Some(query) = target.find('?') else { return target };
    match target[query + 1..].trim_end_matches('&') {
        "" => &target[..query],
        left => &target[..query + 1 + left.len()],
    }
}

/// Whether a rule says the query itself.
pub(in crate::route) fn has_query(to: &Value) -> bool {
    to.parts().iter().any(|part| matches!(part, Part::Text(text) if text.contains('?')))
}
