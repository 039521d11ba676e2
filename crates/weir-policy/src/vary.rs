//! Variants: which requests a stored response answers (RFC 9111 §4.1). Values are compared in a normal form where
//! that changes no meaning: Accept-Encoding, Accept-Language, blanks around commas, several lines as one.

mod encoding;
mod language;
mod members;

use crate::vary::encoding::Codings;
use crate::vary::language::{is_normal, normal, prefers};
use crate::vary::members::{Members, normal_form};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use smallvec::SmallVec;

/// Fields that a response may vary on; one that names more is like one that names none that can be known.
const FIELDS_MAX: usize = 32;

/// The fields that a response varies on, with what the request it was made for had in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// One entry a field, sorted by name, none twice.
    pub selecting: SmallVec<[Selecting; 2]>,
    /// Content-Language, where the response varies on Accept-Language and names one language.
    pub language: Option<HeaderValue>,
}

impl Variant {
    /// The variant that a response to a request with these fields is; `None` where no other request can be known to
    /// want the same (Vary `*`, Cookie, or what cannot be read).
    pub fn of(request: &HeaderMap, response: &HeaderMap) -> Option<Variant> {
        match Varies::read(request, response) {
            Varies::On(variant) => Some(variant),
            Varies::Any | Varies::Cookie => None,
        }
    }
}

/// One field that a response varies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selecting {
    /// The field.
    pub name: HeaderName,
    /// Its value in the request, in normal form; `None` where it was absent.
    pub value: Option<Box<[u8]>>,
    codings: Option<Codings>,
}

impl Selecting {
    /// What `request` has in the field `name`.
    pub fn read(name: HeaderName, request: &HeaderMap) -> Selecting {
        if name == header::ACCEPT_ENCODING {
            let codings = Codings::read(request);
            let value = codings.value();
            return Selecting {
                name,
                value: value.map(|value| value.as_bytes().into()),
                codings: Some(codings),
            };
        }
        let value = request.contains_key(&name).then(|| match name == header::ACCEPT_LANGUAGE {
            true => normal(request),
            false => normal_form(request.get_all(&name).iter()),
        });
        Selecting { name, value, codings: None }
    }

    /// The field as it was written down: `value` is a normal form that [`Selecting::read`] gave.
    pub fn from_parts(name: HeaderName, value: Option<Box<[u8]>>) -> Selecting {
        let codings = (name == header::ACCEPT_ENCODING).then(|| Codings::of_value(value.as_deref()));
        Selecting { name, value, codings }
    }

    fn matches(&self, request: &HeaderMap) -> bool {
        if let Some(codings) = self.codings {
            return codings == Codings::read(request);
        }
        let Some(held) = &self.value else {
            return !request.contains_key(&self.name);
        };
        if !request.contains_key(&self.name) {
            return false;
        }
        if self.name == header::ACCEPT_LANGUAGE {
            return is_normal(request, held);
        }
        Members::of(request.get_all(&self.name).iter()).eq(held.iter().copied())
    }
}

/// What Vary says of a response, as far as storing goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Varies {
    /// On these fields; none: the same for all.
    On(Variant),
    /// On things that no request shows (`*`, or a Vary that cannot be read).
    Any,
    /// On Cookie: a variant a visitor.
    Cookie,
}

impl Varies {
    /// Reads Vary of a response made for `request`.
    pub(crate) fn read(request: &HeaderMap, response: &HeaderMap) -> Varies {
        let mut names: SmallVec<[HeaderName; 4]> = SmallVec::new();
        for line in response.get_all(header::VARY) {
            for member in line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                if member.is_empty() {
                    continue;
                }
                // `*` is a token character, so that it would pass for a field name.
                match HeaderName::from_bytes(member) {
                    Ok(name) if member != b"*" && names.len() < FIELDS_MAX => names.push(name),
                    _ => return Varies::Any,
                }
            }
        }
        if names.contains(&header::COOKIE) {
            return Varies::Cookie;
        }
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        let language = names.contains(&header::ACCEPT_LANGUAGE).then(|| single_language(response)).flatten();
        let selecting = names.into_iter().map(|name| Selecting::read(name, request)).collect();
        Varies::On(Variant { selecting, language })
    }
}

/// Whether a response of this variant answers a request with these fields.
pub fn matches(variant: &Variant, request: &HeaderMap) -> bool {
    variant.selecting.iter().all(|field| {
        field.matches(request)
            || (field.name == header::ACCEPT_LANGUAGE
                && variant.language.as_ref().is_some_and(|language| prefers(request, language.as_bytes())))
    })
}

/// Accept-Encoding of `request` in the normal form to send to the origin; `None`: the field is left out. Requests
/// with the same normal form are the same to [`matches`].
pub fn accept_encoding(request: &HeaderMap) -> Option<HeaderValue> {
    Codings::read(request).value()
}

/// The language of a response that names exactly one.
fn single_language(response: &HeaderMap) -> Option<HeaderValue> {
    let mut lines = response.get_all(header::CONTENT_LANGUAGE).iter();
    let line = lines.next()?;
    (lines.next().is_none() && !line.as_bytes().contains(&b',')).then(|| line.clone())
}

#[cfg(test)]
mod tests;
