//! Accept-Encoding in normal form (RFC 9110 §12.5.3): the known codings that a client accepts, in its order
//! of preference. Also decides which clients a coded response answers. Unknown codings are left out, and
//! origins do not get them either.

use http::{HeaderMap, HeaderValue, header};

use crate::codings::{Accepted, Coding};

const DEFLATE: usize = Coding::Deflate as usize;
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
pub(super) enum Coded {
    /// Not at all.
    #[default]
    Identity,
    /// In a known one.
    Known(Coding),
    /// In an unknown one, or in several.
    Other,
}

impl Coded {
    /// How a response with these fields is coded.
    pub(super) fn read(response: &HeaderMap) -> Coded {
        let members = response.get_all(header::CONTENT_ENCODING).iter();
        let members =
            members.flat_map(|line| line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii));
        let mut codings = members.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity"));
        match (codings.next(), codings.next()) {
            (None, _) => Coded::Identity,
            (Some(name), None) => Coding::named(name).map_or(Coded::Other, Coded::Known),
            (Some(_), Some(_)) => Coded::Other,
        }
    }
}

impl Codings {
    /// A client that accepts only this coding.
    pub(super) fn only(coded: Coded) -> Codings {
        let mut ranks = [0; 4];
        if let Coded::Known(coding) = coded {
            ranks[coding.place()] = 1;
        }
        let identity = if coded == Coded::Other { Identity::Refused } else { Identity::Taken };
        Codings { ranks, identity }
    }

    /// Whether an origin that sent what is `coded` so to a client with these codings would send the same to a
    /// client with `others`. It would if both are the same. It would if `others` accept the coding, the
    /// client chose it among all that they accept, and they prefer it no less, since a choice does not depend
    /// on what it does not fall on. And it would if the origin codes so without being asked, as long as they
    /// accept it.
    pub(super) fn stand_for(self, coded: Coded, others: Codings) -> bool {
        self == others
            || match coded {
                Coded::Identity => others.identity == Identity::Taken && others.are_among(self),
                Coded::Known(coding) if others.rank(coding) == 0 => false,
                Coded::Known(coding) if self.rank(coding) == 0 => true,
                Coded::Known(coding) => {
                    let is_chosen_from_all =
                        self.identity == Identity::Taken || others.identity == Identity::Refused;
                    is_chosen_from_all && others.are_among(self) && others.like_as_well(coding, self)
                }
                Coded::Other => false,
            }
    }

    fn rank(self, coding: Coding) -> u8 {
        self.ranks[coding.place()]
    }

    /// Whether `others` accept all codings that these accept.
    fn are_among(self, others: Codings) -> bool {
        self.ranks.iter().zip(others.ranks).all(|(own, other)| *own == 0 || other > 0)
    }

    /// Whether these prefer a coding as much as `others` do, beside each coding that is accepted here.
    fn like_as_well(self, coding: Coding, others: Codings) -> bool {
        let among = |all: Codings, beside: Coding| all.rank(beside).cmp(&all.rank(coding));
        let mut taken = Coding::ALL.into_iter().filter(|beside| self.rank(*beside) > 0);
        taken.all(|beside| among(self, beside) >= among(others, beside))
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
            None => Codings::of(&Accepted::read(request)),
        }
    }

    /// Reads a field value.
    pub(super) fn of_value(value: Option<&[u8]>) -> Codings {
        Codings::of(&Accepted::of_lines(value.into_iter()))
    }

    fn of(accepted: &Accepted) -> Codings {
        let mut taken = Coding::ALL.map(|coding| accepted.weight(coding));
        // A client that accepts another coding as gladly gets that one, since deflate is read in two ways.
        if taken[..DEFLATE].iter().any(|weight| *weight >= taken[DEFLATE]) {
            taken[DEFLATE] = 0;
        }
        Codings {
            ranks: ranks(taken),
            identity: if accepted.refuses_identity() { Identity::Refused } else { Identity::Taken },
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
        for (coding, rank) in Coding::ALL.iter().zip(self.ranks).filter(|(_, rank)| *rank > 0) {
            text.push_str(coding.name());
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
