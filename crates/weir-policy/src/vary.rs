//! Variants: which requests a stored response answers (RFC 9111 §4.1). Values are compared in a normal form
//! where that keeps their meaning: Accept-Encoding, Accept-Language, blanks around commas, several lines as
//! one. A response with a Content-Encoding varies on Accept-Encoding even if it does not say so.

mod encoding;
mod language;
mod members;

use crate::vary::encoding::{Coded, Codings};
use crate::vary::language::{is_normal, normal, prefers};
use crate::vary::members::{Members, normal_form};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use smallvec::SmallVec;

/// The most fields that a response may vary on. With more, no other request can be known to want the same.
const FIELDS_MAX: usize = 32;

/// The fields that a response varies on, with their values in the request that it was made for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// One entry for each field, sorted by name.
    pub selecting: SmallVec<[Selecting; 2]>,
    /// Content-Language, if the response varies on Accept-Language and names one language.
    pub language: Option<HeaderValue>,
    /// How the response is coded.
    coded: Coded,
}

impl Variant {
    /// The variant as it was stored, of a response with these fields. A coded response that was stored
    /// without a Vary on Accept-Encoding is for clients that accept its coding, and says so from now on.
    pub fn from_parts(
        mut selecting: SmallVec<[Selecting; 2]>,
        language: Option<HeaderValue>,
        response: &mut HeaderMap,
    ) -> Variant {
        let coded = Coded::read(response);
        if let Err(place) = place_of_codings(&selecting)
            && coded != Coded::Identity
        {
            selecting.insert(place, Selecting::of_codings(Codings::only(coded)));
            vary_on_codings(response);
        }
        Variant { selecting, language, coded }
    }

    /// The variant of a response to a request with these fields. `None` if no other request can be known to
    /// want the same: Vary has `*` or cannot be read, or it has Cookie and the request has cookies.
    pub fn of(request: &HeaderMap, response: &HeaderMap) -> Option<Variant> {
        match Varies::read(request, response, &[]) {
            Varies::On(variant) if variant.varies_on_cookies() && request.contains_key(header::COOKIE) => {
                None
            }
            Varies::On(variant) => Some(variant),
            Varies::Any => None,
        }
    }

    /// Whether this variant answers every request that `older`, of the same key, answers. It then takes the
    /// place of `older`.
    pub fn covers(&self, older: &Variant) -> bool {
        if self.selecting == older.selecting && self.language == older.language {
            return true;
        }
        self.coded == older.coded
            && self.language == older.language
            && self.selecting.len() == older.selecting.len()
            && self.selecting.iter().zip(&older.selecting).all(|(own, other)| {
                own.name == other.name
                    && match (own.codings, other.codings) {
                        (Some(own), Some(other)) => own.stand_for(self.coded, other),
                        _ => own.value == other.value,
                    }
            })
    }

    /// Makes it vary on Accept-Encoding as the request has it, as others under its key do. Adds that to the
    /// Vary of `response`.
    pub(crate) fn vary_on_codings(&mut self, request: &HeaderMap, response: &mut HeaderMap) {
        if let Err(place) = place_of_codings(&self.selecting) {
            self.selecting.insert(place, Selecting::read(header::ACCEPT_ENCODING, request));
            vary_on_codings(response);
        }
    }

    /// Whether it varies on Cookie. Then it answers requests that have the very same field.
    pub(crate) fn varies_on_cookies(&self) -> bool {
        self.selecting.iter().any(|field| field.name == header::COOKIE)
    }

    /// Whether it varies on Accept-Encoding.
    pub fn varies_on_codings(&self) -> bool {
        place_of_codings(&self.selecting).is_ok()
    }
}

/// The position of Accept-Encoding among fields sorted by name, or the one where it would stand.
fn place_of_codings(selecting: &[Selecting]) -> Result<usize, usize> {
    selecting.binary_search_by(|field| field.name.as_str().cmp(header::ACCEPT_ENCODING.as_str()))
}

/// Adds Accept-Encoding to the Vary of a response, unless it has it.
pub(crate) fn vary_on_codings(response: &mut HeaderMap) {
    let members = |line: &HeaderValue| {
        let mut members = line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        members.any(|member| member.eq_ignore_ascii_case(header::ACCEPT_ENCODING.as_str().as_bytes()))
    };
    if !response.get_all(header::VARY).iter().any(members) {
        response.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}

/// One field that a response varies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selecting {
    /// The field.
    pub name: HeaderName,
    /// Its value in the request, in normal form; `None` if it was absent.
    pub value: Option<Box<[u8]>>,
    codings: Option<Codings>,
}

impl Selecting {
    /// The value of the field `name` in `request`.
    pub fn read(name: HeaderName, request: &HeaderMap) -> Selecting {
        if name == header::ACCEPT_ENCODING {
            return Selecting::of_codings(Codings::read(request));
        }
        let value = request.contains_key(&name).then(|| match name == header::ACCEPT_LANGUAGE {
            true => normal(request),
            false => normal_form(request.get_all(&name).iter()),
        });
        Selecting { name, value, codings: None }
    }

    /// The field as it was stored: `value` is a normal form from [`Selecting::read`].
    pub fn from_parts(name: HeaderName, value: Option<Box<[u8]>>) -> Selecting {
        let codings = (name == header::ACCEPT_ENCODING).then(|| Codings::of_value(value.as_deref()));
        Selecting { name, value, codings }
    }

    fn of_codings(codings: Codings) -> Selecting {
        let value = codings.value().map(|value| value.as_bytes().into());
        Selecting { name: header::ACCEPT_ENCODING, value, codings: Some(codings) }
    }

    fn matches(&self, coded: Coded, request: &HeaderMap) -> bool {
        if let Some(codings) = self.codings {
            return codings.stand_for(coded, Codings::read(request));
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

/// What Vary means for storing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Varies {
    /// These fields. If there are none, the response is the same for all requests.
    On(Variant),
    /// Something that no request shows (`*`, or a Vary that cannot be read).
    Any,
}

impl Varies {
    /// Reads Vary of a response made for `request`, without the fields of `ignored`.
    pub(crate) fn read(request: &HeaderMap, response: &HeaderMap, ignored: &[HeaderName]) -> Varies {
        let mut names: SmallVec<[HeaderName; 4]> = SmallVec::new();
        for line in response.get_all(header::VARY) {
            for member in line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                if member.is_empty() {
                    continue;
                }
                // `*` is a token character, so it would count as a field name.
                match HeaderName::from_bytes(member) {
                    Ok(name) if member != b"*" && names.len() < FIELDS_MAX => names.push(name),
                    _ => return Varies::Any,
                }
            }
        }
        names.retain(|name| !ignored.contains(name));
        let coded = Coded::read(response);
        if coded != Coded::Identity {
            names.push(header::ACCEPT_ENCODING);
        }
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        let language = names.contains(&header::ACCEPT_LANGUAGE).then(|| single_language(response)).flatten();
        let selecting = names.into_iter().map(|name| Selecting::read(name, request)).collect();
        Varies::On(Variant { selecting, language, coded })
    }
}

/// Whether a response of this variant answers a request with these fields. It does if the request has the
/// fields that it was made for, or fields for which the origin would have sent the same
/// ([`Codings::stand_for`], and the preferred language).
pub fn matches(variant: &Variant, request: &HeaderMap) -> bool {
    variant.selecting.iter().all(|field| {
        field.matches(variant.coded, request)
            || (field.name == header::ACCEPT_LANGUAGE
                && variant.language.as_ref().is_some_and(|language| prefers(request, language.as_bytes())))
    })
}

/// The Accept-Encoding to send to the origin: the normal form of `request`'s. `None`: send no such field.
/// [`matches`] treats requests with the same normal form alike.
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
