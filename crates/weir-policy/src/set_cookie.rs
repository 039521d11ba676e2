//! What the cookies of a response say to browsers beside their name and value: `Secure`, `HttpOnly`,
//! `SameSite` and `Partitioned` (RFC 6265 §5.2, §4.1.2), as a route has them. It must not interpret a value.
//!
//! A line is read as browsers read it: the cookie ends at the first `;`, whatever stands in it, and a name of
//! an attribute counts in any case and with any value. So an attribute that is taken out is out for every
//! browser, and one that is added stands once.

use crate::glob;
use http::{HeaderMap, HeaderValue, header};
use smallvec::SmallVec;

/// An attribute that a route adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// `Secure`.
    Secure,
    /// `HttpOnly`.
    HttpOnly,
    /// `SameSite=Strict`.
    SameSiteStrict,
    /// `SameSite=Lax`.
    SameSiteLax,
    /// `SameSite=None`.
    SameSiteNone,
    /// `Partitioned`.
    Partitioned,
}

impl Flag {
    /// As it is written.
    fn text(self) -> &'static str {
        match self {
            Flag::Secure => "Secure",
            Flag::HttpOnly => "HttpOnly",
            Flag::SameSiteStrict => "SameSite=Strict",
            Flag::SameSiteLax => "SameSite=Lax",
            Flag::SameSiteNone => "SameSite=None",
            Flag::Partitioned => "Partitioned",
        }
    }

    /// Its name alone.
    pub fn name(self) -> &'static str {
        self.text().split('=').next().unwrap_or_default()
    }
}

/// What becomes of the attributes of some cookies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlagRule {
    /// The names of the cookies, where `*` stands for any run of characters.
    pub cookies: Vec<String>,
    /// Attributes that they have from now on, in place of others of that name.
    pub add: Vec<Flag>,
    /// Names of attributes that they no longer have.
    pub remove: Vec<&'static str>,
}

impl FlagRule {
    fn fits(&self, line: &HeaderValue) -> bool {
        let name = name_set(line);
        self.cookies.iter().any(|pattern| glob::fits(pattern, name))
    }

    /// The line as clients get it; none where it stays as it is.
    fn apply(&self, line: &HeaderValue) -> Option<HeaderValue> {
        let mut parts = line.as_bytes().split(|byte| *byte == b';');
        let mut out = parts.next().unwrap_or_default().to_vec();
        let attributes: SmallVec<[&[u8]; 8]> = parts.filter(|part| !part.trim_ascii().is_empty()).collect();
        let is_of = |attribute: &[u8], name: &str| name_of(attribute).eq_ignore_ascii_case(name.as_bytes());
        let is_same = |flag: &Flag| {
            let mut of_name = attributes.iter().filter(|attribute| is_of(attribute, flag.name()));
            let found = of_name.next().is_some_and(|found| spelled_alike(found, flag.text()));
            found && of_name.next().is_none()
        };
        let is_removed = |attribute: &&[u8]| self.remove.iter().any(|name| is_of(attribute, name));
        if self.add.iter().all(is_same) && !attributes.iter().any(is_removed) {
            return None;
        }
        let is_replaced = |attribute: &&[u8]| self.add.iter().any(|flag| is_of(attribute, flag.name()));
        for attribute in
            attributes.iter().filter(|attribute| !is_removed(attribute) && !is_replaced(attribute))
        {
            out.push(b';');
            out.extend_from_slice(attribute);
        }
        for flag in &self.add {
            out.extend_from_slice(b"; ");
            out.extend_from_slice(flag.text().as_bytes());
        }
        // Invariant: these bytes came out of a field's value, or are ours.
        HeaderValue::from_bytes(out.trim_ascii_end()).ok()
    }
}

/// Changes the attributes of a response's cookies: each by the first rule that has its name.
pub fn set_flags(rules: &[FlagRule], headers: &mut HeaderMap) {
    if rules.is_empty() || !headers.contains_key(header::SET_COOKIE) {
        return;
    }
    if let header::Entry::Occupied(mut lines) = headers.entry(header::SET_COOKIE) {
        for line in lines.iter_mut() {
            let rule = rules.iter().find(|rule| rule.fits(line));
            if let Some(changed) = rule.and_then(|rule| rule.apply(line)) {
                *line = changed;
            }
        }
    }
}

/// Whether every name that `pattern` has is one that `other` has as well.
pub fn is_within(pattern: &str, other: &str) -> bool {
    // A star of the pattern can only be matched by a star of the other one, so whatever it stands for fits.
    glob::fits(other, pattern.as_bytes())
}

/// The name of the cookie that a Set-Cookie line sets.
pub(crate) fn name_set(line: &HeaderValue) -> &[u8] {
    let name = line.as_bytes().split(|byte| matches!(byte, b'=' | b';')).next().unwrap_or_default();
    name.trim_ascii()
}

/// The name of an attribute.
fn name_of(attribute: &[u8]) -> &[u8] {
    attribute.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii()
}

/// Whether an attribute says the same, but for case and blanks.
fn spelled_alike(attribute: &[u8], text: &str) -> bool {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let given = attribute.iter().position(|byte| *byte == b'=').map_or(&[][..], |at| &attribute[at + 1..]);
    name_of(attribute).eq_ignore_ascii_case(name.as_bytes())
        && given.trim_ascii().eq_ignore_ascii_case(value.as_bytes())
}

#[cfg(test)]
mod tests;
