//! Accept-Language in normal form (RFC 9110 §12.5.4): lower case, no blanks, best weight first, equal weights
//! in alphabetical order.

use super::members::{Members, normal_form};
use crate::codings::weighted;
use http::{HeaderMap, header};
use smallvec::SmallVec;

/// The most languages that are sorted. A longer list is compared as it was sent.
const LANGUAGES_MAX: usize = 32;

/// The normal form of a request's Accept-Language.
pub(super) fn normal(request: &HeaderMap) -> Box<[u8]> {
    match Languages::read(request) {
        Some(languages) => languages.bytes().collect(),
        None => normal_form(request.get_all(header::ACCEPT_LANGUAGE).iter()),
    }
}

/// Whether `held` is the normal form of a request's Accept-Language. The number of members tells the two
/// kinds of normal form apart.
pub(super) fn is_normal(request: &HeaderMap, held: &[u8]) -> bool {
    let held = held.iter().copied();
    match Languages::read(request) {
        Some(languages) => languages.bytes().eq(held),
        None => Members::of(request.get_all(header::ACCEPT_LANGUAGE).iter()).eq(held),
    }
}

/// The languages that a request accepts, in normal order.
struct Languages<'a> {
    ranges: SmallVec<[(&'a [u8], u16); 8]>,
}

impl<'a> Languages<'a> {
    /// `None` if there are too many.
    fn read(request: &'a HeaderMap) -> Option<Languages<'a>> {
        let mut ranges: SmallVec<[(&[u8], u16); 8]> = SmallVec::new();
        for line in request.get_all(header::ACCEPT_LANGUAGE) {
            let members = line.as_bytes().split(|byte| *byte == b',').map(weighted);
            ranges.extend(members.filter(|(tag, _)| !tag.is_empty()).take(LANGUAGES_MAX + 1));
            if ranges.len() > LANGUAGES_MAX {
                return None;
            }
        }
        ranges.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| lower(a.0).cmp(lower(b.0))));
        ranges.dedup_by(|a, b| a.1 == b.1 && a.0.eq_ignore_ascii_case(b.0));
        Some(Languages { ranges })
    }

    /// `tag;weight` for each language, with weights in thousandths.
    fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.ranges.iter().flat_map(|(tag, weight)| {
            let digits = [1000, 100, 10, 1].map(|place| b'0' + (weight / place % 10) as u8);
            lower(tag).chain([b';']).chain(digits).chain([b','])
        })
    }
}

/// Whether the request prefers `language` to every other. Negotiation would then give a response in it,
/// whatever else the request accepts.
pub(super) fn prefers(request: &HeaderMap, language: &[u8]) -> bool {
    let Some(languages) = Languages::read(request) else { return false };
    match languages.ranges.as_slice() {
        [(best, weight), rest @ ..] => {
            *weight > 0
                && best.eq_ignore_ascii_case(language.trim_ascii())
                && rest.first().is_none_or(|(_, next)| next < weight)
        }
        [] => false,
    }
}

fn lower(tag: &[u8]) -> impl Iterator<Item = u8> + '_ {
    tag.iter().map(u8::to_ascii_lowercase)
}
