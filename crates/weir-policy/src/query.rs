//! Parameters of a query as origins read them: some end one at `;`, decode names, take `.` and blanks for
//! `_`, and end a name at `[`.

use std::borrow::Cow;

use crate::path::octets;
use crate::request::RequestView;
use crate::rules::{KeyRules, PairTrigger, QueryRule};

/// The parameters of a request, name and value.
fn parameters<'a>(request: &RequestView<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let query = request.path_and_query.split_once('?').map(|(_, query)| query).unwrap_or_default();
    query.split(['&', ';']).filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.as_bytes(), value.as_bytes())
    })
}

/// Whether a condition holds for a parameter, as received or as an origin reads it: a client must not evade
/// it by another spelling.
pub(crate) fn holds(request: &RequestView<'_>, triggers: &[PairTrigger]) -> bool {
    !triggers.is_empty()
        && parameters(request).any(|(name, value)| {
            let (plain_name, plain_value) = (unescaped(name), unescaped(value));
            let spellings = [(name, value), (&plain_name, &plain_value), (read(&plain_name), &plain_value)];
            triggers.iter().any(|trigger| spellings.iter().any(|spelling| trigger.fits(*spelling)))
        })
}

/// Whether an origin that gets the whole query may find a parameter in it that the key has otherwise, or has
/// not: where no query is in the key, but some parameters are.
pub(crate) fn is_ambiguous(request: &RequestView<'_>, rules: &KeyRules) -> bool {
    let is_keyed = |name: &[u8]| rules.sources.parameters.iter().any(|keyed| keyed.as_bytes() == name);
    if rules.sources.parameters.is_empty() || !matches!(rules.query, QueryRule::Unkeyed(_)) {
        return false;
    }
    let query = request.path_and_query.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let mut names = query.split('&').flat_map(|whole| {
        let mut pieces = whole.split(';').map(|piece| piece.split('=').next().unwrap_or_default().as_bytes());
        // The key ends a parameter at `&` alone.
        pieces
            .next()
            .map(|name| (name, whole.contains(';')))
            .into_iter()
            .chain(pieces.map(|name| (name, true)))
    });
    names.any(|(name, is_cut)| {
        let plain = unescaped(name);
        (is_cut || !is_keyed(name))
            && rules.sources.parameters.iter().any(|keyed| fold(read(&plain)).eq(fold(keyed.as_bytes())))
    })
}

/// A decoded name as PHP has it: up to `[`.
fn read(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == b'[').next().unwrap_or_default().trim_ascii_start()
}

/// What a name is compared by where spellings count as one.
fn fold(name: &[u8]) -> impl Iterator<Item = u8> {
    name.iter().map(|byte| if matches!(byte, b'.' | b' ') { b'_' } else { byte.to_ascii_lowercase() })
}

/// A name or value of a form, decoded once.
fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(octets(text).map(|(byte, written)| if written == b"+" { b' ' } else { byte }).collect())
}

#[cfg(test)]
mod tests;
