//! Accept-Encoding in normal form (RFC 9110 §12.5.3): the known codings that a client accepts, in its order
//! of preference. Also decides which clients a coded response answers. Unknown codings are left out, and
//! origins do not get them either.

use http::{HeaderMap, HeaderValue, header};

const NAMES: [&str; 4] = ["gzip", "br", "zstd", "deflate"];
const DEFLATE: usize = 3;
/// The weights of the ranks in a normal form, best first.
const WEIGHTS: [&str; 5] = ["", ";q=0.8", ";q=0.6", ";q=0.4", ";q=0.2"];

/// The ranks of the codings: 0 is refused, 1 preferred, 2 less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Codings {
    ranks: [u8; 4],
    identity: Identity,
}

/// Whether a client accepts a body without a coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    /// Accepted, as it is by default.
    Taken,
    /// Refused.
    Refused,
}

/// How a response is coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Coding {
    /// Not at all.
    #[default]
    Identity,
    /// In a known one, by its position in [`NAMES`].
    Known(usize),
    /// In an unknown one, or in several.
    Other,
}

impl Coding {
    /// The coding of a response with these fields.
    pub(super) fn read(response: &HeaderMap) -> Coding {
        let members = response.get_all(header::CONTENT_ENCODING).iter();
        let members =
            members.flat_map(|line| line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii));
        let mut codings = members.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity"));
        match (codings.next(), codings.next()) {
            (None, _) => Coding::Identity,
            (Some(name), None) => place(name).map_or(Coding::Other, Coding::Known),
            (Some(_), Some(_)) => Coding::Other,
        }
    }
}

/// The position of a known coding.
fn place(name: &[u8]) -> Option<usize> {
    let plain = name.strip_prefix(b"x-").filter(|rest| rest.eq_ignore_ascii_case(b"gzip")).unwrap_or(name);
    NAMES.iter().position(|known| plain.eq_ignore_ascii_case(known.as_bytes()))
}

impl Codings {
    /// A client that accepts only this coding.
    pub(super) fn only(coding: Coding) -> Codings {
        let mut ranks = [0; 4];
        if let Coding::Known(place) = coding {
            ranks[place] = 1;
        }
        let identity = if coding == Coding::Other { Identity::Refused } else { Identity::Taken };
        Codings { ranks, identity }
    }

    /// Whether an origin that sent `coding` to a client with these codings would send the same to a client
    /// with `others`. It would if both are the same. It would if `others` accept the coding, the client chose
    /// it among all that they accept, and they prefer it no less, since a choice does not depend on what it
    /// does not fall on. And it would if the origin codes so without being asked, as long as they accept it.
    pub(super) fn stand_for(self, coding: Coding, others: Codings) -> bool {
        self == others
            || match coding {
                Coding::Identity => others.identity == Identity::Taken && others.are_among(self),
                Coding::Known(place) if others.ranks[place] == 0 => false,
                Coding::Known(place) if self.ranks[place] == 0 => true,
                Coding::Known(place) => {
                    let is_chosen_from_all =
                        self.identity == Identity::Taken || others.identity == Identity::Refused;
                    is_chosen_from_all && others.are_among(self) && others.like_as_well(place, self)
                }
                Coding::Other => false,
            }
    }

    /// Whether `others` accept all codings that these accept.
    fn are_among(self, others: Codings) -> bool {
        self.ranks.iter().zip(others.ranks).all(|(own, other)| *own == 0 || other > 0)
    }

    /// Whether these prefer the coding at `place` as much as `others` do, beside each coding that is accepted
    /// here.
    fn like_as_well(self, place: usize, others: Codings) -> bool {
        let among = |ranks: [u8; 4], beside: usize| ranks[beside].cmp(&ranks[place]);
        let taken = (0..NAMES.len()).filter(|beside| self.ranks[*beside] > 0);
        taken.into_iter().all(|beside| among(self.ranks, beside) >= among(others.ranks, beside))
    }

    /// Reads the field. An absent or empty one asks for no coding.
    pub(super) fn read(request: &HeaderMap) -> Codings {
        let mut lines = request.get_all(header::ACCEPT_ENCODING).iter();
        let known = match (lines.next().map(HeaderValue::as_bytes), lines.next()) {
            (None, _) => Some([0, 0, 0, 0]),
            (Some(b"gzip, deflate, br, zstd"), None) => Some([1, 1, 1, 0]),
            (Some(b"gzip, deflate, br"), None) => Some([1, 1, 0, 0]),
            (Some(b"gzip, deflate" | b"gzip"), None) => Some([1, 0, 0, 0]),
            _ => None,
        };
        match known {
            Some(ranks) => Codings { ranks, identity: Identity::Taken },
            None => {
                Codings::of_lines(request.get_all(header::ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes))
            }
        }
    }

    /// Reads a field value.
    pub(super) fn of_value(value: Option<&[u8]>) -> Codings {
        Codings::of_lines(value.into_iter())
    }

    fn of_lines<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Codings {
        let mut weights: [Option<u16>; 4] = [None; 4];
        let mut identity = None;
        let mut others = None;
        for line in lines {
            for member in line.split(|byte| *byte == b',') {
                let (name, weight) = weighted(member);
                if name == b"*" {
                    others = Some(weight);
                } else if name.eq_ignore_ascii_case(b"identity") {
                    identity = Some(weight);
                } else if let Some(at) = place(name) {
                    weights[at] = Some(weight);
                }
            }
        }
        let mut taken = weights.map(|weight| weight.or(others).unwrap_or(0));
        // A client that accepts another coding as gladly gets that one, since deflate is read in two ways.
        if taken[..DEFLATE].iter().any(|weight| *weight >= taken[DEFLATE]) {
            taken[DEFLATE] = 0;
        }
        let is_refused = identity.or(others) == Some(0);
        Codings {
            ranks: ranks(taken),
            identity: if is_refused { Identity::Refused } else { Identity::Taken },
        }
    }

    /// The field in normal form.
    pub(super) fn value(self) -> Option<HeaderValue> {
        if self.identity == Identity::Taken {
            match self.ranks {
                [0, 0, 0, 0] => return None,
                [1, 0, 0, 0] => return Some(HeaderValue::from_static("gzip")),
                [1, 1, 0, 0] => return Some(HeaderValue::from_static("gzip, br")),
                [1, 1, 1, 0] => return Some(HeaderValue::from_static("gzip, br, zstd")),
                _ => {}
            }
        }
        let mut text = String::new();
        for (name, rank) in NAMES.iter().zip(self.ranks).filter(|(_, rank)| *rank > 0) {
            text.push_str(name);
            text.push_str(WEIGHTS[usize::from(rank) - 1]);
            text.push_str(", ");
        }
        if self.identity == Identity::Refused {
            text.push_str("identity;q=0, ");
        }
        text.truncate(text.len().saturating_sub(2));
        HeaderValue::from_str(&text).ok()
    }
}

/// Turns weights into ranks: equal weights have the same rank, and zero has none.
fn ranks(weights: [u16; 4]) -> [u8; 4] {
    let mut ranks = [0; 4];
    for (rank, weight) in ranks.iter_mut().zip(weights).filter(|(_, weight)| *weight > 0) {
        let mut better = [0_u16; 4];
        let mut count = 0;
        for other in weights {
            if other > weight && !better[..count].contains(&other) {
                better[count] = other;
                count += 1;
            }
        }
        *rank = count as u8 + 1;
    }
    ranks
}

/// A list member and its weight in thousandths. A weight that cannot be read counts as zero.
pub(super) fn weighted(member: &[u8]) -> (&[u8], u16) {
    let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
    (name, weight.map_or(1000, thousandths))
}

/// qvalue (RFC 9110 §12.4.2): `0`, `0.5`, `1.000`.
fn thousandths(qvalue: &[u8]) -> u16 {
    let (whole, rest) = match qvalue {
        [b'0', rest @ ..] => (0, rest),
        [b'1', rest @ ..] => (1000, rest),
        _ => return 0,
    };
    let digits = match rest {
        [] => return whole,
        [b'.', digits @ ..] if digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit) => digits,
        _ => return 0,
    };
    let mut value = 0;
    for place in 0..3 {
        value = value * 10 + digits.get(place).map_or(0, |digit| u16::from(digit - b'0'));
    }
    (whole + value).min(1000)
}
