//! Accept-Language in normal form (RFC 9110 §12.5.4): lower case, without blanks, best weight first, equal weights
//! in the order of the alphabet.

use super::encoding::weighted;
use http::{HeaderMap, header};
use smallvec::SmallVec;

/// The languages a request takes, in normal order.
pub(super) struct Languages<'a> {
    ranges: SmallVec<[(&'a [u8], u16); 8]>,
}

impl<'a> Languages<'a> {
    pub(super) fn read(request: &'a HeaderMap) -> Languages<'a> {
        let mut ranges: SmallVec<[(&[u8], u16); 8]> = SmallVec::new();
        for line in request.get_all(header::ACCEPT_LANGUAGE) {
            let members = line.as_bytes().split(|byte| *byte == b',').map(weighted);
            ranges.extend(members.filter(|(tag, _)| !tag.is_empty()));
        }
        ranges.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| lower(a.0).cmp(lower(b.0))));
        ranges.dedup_by(|a, b| a.1 == b.1 && a.0.eq_ignore_ascii_case(b.0));
        Languages { ranges }
    }

    /// `tag;weight` a language, weights in thousandths.
    fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.ranges.iter().flat_map(|(tag, weight)| {
            let digits = [1000, 100, 10, 1].map(|place| b'0' + (weight / place % 10) as u8);
            lower(tag).chain([b';']).chain(digits).chain([b','])
        })
    }

    pub(super) fn normal_form(&self) -> Box<[u8]> {
        self.bytes().collect()
    }

    pub(super) fn is_normal_form(&self, held: &[u8]) -> bool {
        self.bytes().eq(held.iter().copied())
    }
}

/// Whether `language` is what the request likes best, and nothing else as much: then a response in it is the one
/// that negotiation would give, whatever else the request takes.
pub(super) fn prefers(request: &HeaderMap, language: &[u8]) -> bool {
    match Languages::read(request).ranges.as_slice() {
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
