//! Cookies by name (RFC 6265 §4.2, §5.4): which of a request's cookies the cache and the origin see, and
//! which of a response's it sets. What a route takes out is gone before key, bypass and variant are made, and
//! the origin gets the same bytes that these were made from. It must not interpret a value.
//!
//! Origins read the field in different ways: some end a cookie at a comma, at a blank or at a quote, take `.`
//! for `_`, decode a name, or ignore its case. So what is left is written again, in one form
//! ([`CookieRule::apply`]), and what such an origin could read as a cookie that the rule takes out is taken
//! out.

use crate::glob;
use crate::path::octets;
use crate::rules::{KeyRules, PairTrigger};
use crate::vary::Variant;
use http::{HeaderMap, HeaderValue, header};
use smallvec::SmallVec;
use std::borrow::Cow;

/// Which cookies of a request are left: names, where `*` stands for any run of characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CookieRule {
    /// All, as they came.
    #[default]
    All,
    /// Only these.
    Keep(Vec<String>),
    /// All but these. Names are compared without case, and `.` like `_`.
    Drop(Vec<String>),
}

impl CookieRule {
    /// The Cookie field without what the rule takes out; `None` if the request has it in that form already.
    ///
    /// What is left becomes one field: its cookies sorted by name, those of one name in the order received.
    /// So the values of all names tell every byte of it, and two requests with one key cannot differ in it.
    pub fn apply(&self, headers: &HeaderMap) -> Option<LeftCookies> {
        if *self == CookieRule::All || !headers.contains_key(header::COOKIE) {
            return None;
        }
        let mut left: SmallVec<[(&[u8], &[u8]); 8]> = SmallVec::new();
        left.extend(
            pairs(headers).filter_map(|(name, value)| Some((name, value?))).filter(|pair| self.leaves(*pair)),
        );
        left.sort_by_key(|(name, _)| *name);
        let mut field = Vec::new();
        for (name, value) in &left {
            field.extend_from_slice(if field.is_empty() { b"" } else { b"; " });
            field.extend_from_slice(name);
            field.push(b'=');
            field.extend_from_slice(value);
        }
        // Invariant: these bytes came out of a field's value.
        let field = HeaderValue::from_bytes(&field).ok().filter(|field| !field.is_empty());
        let mut lines = headers.get_all(header::COOKIE).iter();
        let is_same = lines.next() == field.as_ref() && lines.next().is_none();
        (!is_same).then_some(LeftCookies(field))
    }

    /// Whether a cookie stays: its name may, and nothing in its value could be read as one that may not.
    fn leaves(&self, (name, value): (&[u8], &[u8])) -> bool {
        self.keeps(name) && names_inside(value).all(|name| self.keeps(name))
    }

    /// Whether cookies of this name are left. Names that origins may read as another are not: those that are
    /// no token (RFC 6265 §4.1.1), and those with `%`, which some decode.
    pub fn keeps(&self, name: &[u8]) -> bool {
        let fits = |pattern: &String| match self {
            CookieRule::Drop(_) => glob::fits(&folded(pattern.as_bytes()), folded(name).as_bytes()),
            CookieRule::All | CookieRule::Keep(_) => glob::fits(pattern, name),
        };
        match self {
            CookieRule::All => true,
            CookieRule::Keep(patterns) => is_plain(name) && patterns.iter().any(fits),
            CookieRule::Drop(patterns) => is_plain(name) && !patterns.iter().any(fits),
        }
    }

    /// Whether no cookie is left whose name fits `pattern`.
    pub fn never_keeps(&self, pattern: &str) -> bool {
        match self {
            CookieRule::All => false,
            CookieRule::Keep(patterns) => {
                !is_plain(pattern.as_bytes()) || !patterns.iter().any(|kept| glob::overlap(kept, pattern))
            }
            // A star of the pattern can only be matched by a star of the rule, so whatever it stands for
            // fits.
            CookieRule::Drop(_) => !self.keeps(pattern.as_bytes()),
        }
    }

    /// The names of a request's cookies that are taken out, each once, as received.
    pub fn dropped<'a>(&self, headers: &'a HeaderMap) -> Vec<&'a [u8]> {
        let mut names: Vec<&[u8]> = Vec::new();
        if *self == CookieRule::All {
            return names;
        }
        for (name, value) in pairs(headers) {
            if !value.is_some_and(|value| self.leaves((name, value))) && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// What a [`CookieRule`] leaves of the Cookie field; `None` if that is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftCookies(pub Option<HeaderValue>);

impl LeftCookies {
    /// Puts it in the place of all Cookie fields.
    pub fn put(self, headers: &mut HeaderMap) {
        match self.0 {
            Some(field) => drop(headers.insert(header::COOKIE, field)),
            None => drop(headers.remove(header::COOKIE)),
        }
    }
}

/// Whether a request has a cookie for which a condition holds, as an origin may read it: one that ends
/// cookies elsewhere, decodes names, ignores case or takes `.` for `_`.
pub(crate) fn hold(headers: &HeaderMap, triggers: &[PairTrigger]) -> bool {
    // With no value: whatever it is.
    let has = |name: &[u8], value: Option<&[u8]>| {
        let read = if is_plain(name) { Cow::Borrowed(name) } else { Cow::Owned(unquoted(name)) };
        triggers.iter().filter(|trigger| glob::fits_as(&trigger.name, &read, fold)).any(|trigger| {
            let pattern = trigger.value.as_ref().zip(value);
            pattern.is_none_or(|(pattern, value)| glob::fits(pattern, value.trim_ascii()))
        })
    };
    let holds = |(name, value): (&[u8], &[u8])| {
        has(name, Some(value)) || names_inside(value).any(|name| has(name, None))
    };
    !triggers.is_empty() && cookies(headers).any(holds)
}

/// A name that is no token: decoded once, without quotes and blanks.
fn unquoted(name: &[u8]) -> Vec<u8> {
    let decoded = octets(name).map(|(byte, _)| byte);
    decoded.filter(|byte| *byte != b'"' && !byte.is_ascii_whitespace()).collect()
}

/// Whether a request has a cookie that is not in the key, so that its response may be for one client alone.
/// What is no cookie counts as one.
pub fn has_unkeyed(headers: &HeaderMap, rules: &KeyRules) -> bool {
    pairs(headers).any(|(name, value)| value.is_none() || !is_keyed(name, rules))
}

/// Whether a request has cookies of which neither its key nor a stored response's Vary knows.
pub fn has_own_cookies(headers: &HeaderMap, variant: &Variant, rules: &KeyRules) -> bool {
    has_unkeyed(headers, rules) && !variant.varies_on_cookies()
}

/// Whether an origin may read the cookies in the key differently from the key. Then two requests with one key
/// could mean different things to it.
pub(crate) fn is_ambiguous(headers: &HeaderMap, rules: &KeyRules) -> bool {
    let mut lines = headers.get_all(header::COOKIE).iter();
    let Some(first) = lines.next().filter(|_| in_key(rules).next().is_some()) else { return false };
    // Some origins read one of several fields, or join them by commas.
    if lines.next().is_some() {
        return true;
    }
    let is_like_a_keyed =
        |name: &[u8]| !is_plain(name) || in_key(rules).any(|keyed| folded(keyed.as_bytes()) == folded(name));
    let has_blank_name = |pair: &[u8]| {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or_default();
        at > 0 && pair[at - 1].is_ascii_whitespace()
    };
    first.as_bytes().split(|byte| *byte == b';').any(has_blank_name)
        || pairs(headers).any(|(name, value)| match value {
            Some(value) => {
                (!in_key(rules).any(|keyed| keyed.as_bytes() == name) && is_like_a_keyed(name))
                    || !is_closed(value)
                    || names_inside(value).any(is_like_a_keyed)
            }
            None => is_like_a_keyed(name),
        })
}

/// The names of the cookies that a key is made of, as a whole, in a value or through a map.
pub(crate) fn in_key(rules: &KeyRules) -> impl Iterator<Item = &str> {
    rules.cookies.iter().chain(&rules.sources.cookies).map(String::as_str)
}

fn is_keyed(name: &[u8], rules: &KeyRules) -> bool {
    rules.cookies.iter().any(|keyed| keyed.as_bytes() == name)
}

/// Whether a value that some origins read as a quoted string ends before the next `;`.
fn is_closed(value: &[u8]) -> bool {
    !value.contains(&b'\\') && value.iter().filter(|byte| **byte == b'"').count() % 2 == 0
}

/// The names of a request's cookies that are not in the key, each once.
pub fn unkeyed<'a>(headers: &'a HeaderMap, rules: &KeyRules) -> Vec<&'a [u8]> {
    let mut names: Vec<&[u8]> = Vec::new();
    for (name, _) in pairs(headers) {
        if !is_keyed(name, rules) && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The cookies of a request, name and value. A piece without `=` has an empty value.
pub(crate) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    pairs(headers).map(|(name, value)| (name, value.unwrap_or_default()))
}

/// The pieces of all Cookie fields that are not blank: name, and value if there is a `=`.
fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    let lines = headers.get_all(header::COOKIE).iter();
    lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';')).filter_map(|pair| {
        let pair = pair.trim_ascii();
        if pair.is_empty() {
            return None;
        }
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        Some((pair[..at].trim_ascii_end(), pair.get(at + 1..)))
    })
}

/// The names of the cookies that some origins would find inside a value: they end a cookie at a comma, at a
/// blank or at the end of a quoted string.
fn names_inside(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    let is_end = |byte: &u8| matches!(byte, b',' | b'"') || byte.is_ascii_whitespace();
    value.split(is_end).skip(1).filter_map(|text| {
        let at = text.iter().position(|byte| *byte == b'=')?;
        Some(&text[..at])
    })
}

/// Whether all origins read a name alike, but for its case and for `.`.
fn is_plain(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| is_token(*byte) && *byte != b'%')
}

/// A byte of a token (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A name as the most tolerant origins compare it.
fn folded(name: &[u8]) -> String {
    name.iter().map(|byte| char::from(fold(*byte))).collect()
}

fn fold(byte: u8) -> u8 {
    if byte == b'.' { b'_' } else { byte.to_ascii_lowercase() }
}

#[cfg(test)]
mod tests;
