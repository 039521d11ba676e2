//! Accept-Encoding in normal form (RFC 9110 §12.5.3): which known codings a client takes, and in which order it
//! likes them. Codings that nobody knows are left out: what is sent to the origin leaves them out, too.

use http::{HeaderMap, HeaderValue, header};

const NAMES: [&str; 4] = ["gzip", "br", "zstd", "deflate"];
const DEFLATE: usize = 3;
/// Weights for the ranks of a normal form, best first.
const WEIGHTS: [&str; 5] = ["", ";q=0.8", ";q=0.6", ";q=0.4", ";q=0.2"];

/// Ranks of the codings: 0 is not taken, 1 liked best, 2 less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Codings {
    ranks: [u8; 4],
    identity: Identity,
}

/// What a client says of a body without a coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    /// Taken, as it is by default.
    Taken,
    /// Not taken.
    Refused,
}

impl Codings {
    /// Reads the field; one that is absent or empty asks for no coding.
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
                let name = name
                    .strip_prefix(b"x-")
                    .filter(|rest| rest.eq_ignore_ascii_case(b"gzip"))
                    .unwrap_or(name);
                if name == b"*" {
                    others = Some(weight);
                } else if name.eq_ignore_ascii_case(b"identity") {
                    identity = Some(weight);
                } else if let Some(at) =
                    NAMES.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()))
                {
                    weights[at] = Some(weight);
                }
            }
        }
        let mut taken = weights.map(|weight| weight.or(others).unwrap_or(0));
        // Whoever takes another coding as gladly gets that one: deflate is read in two ways.
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

/// Weights to ranks: equal weights have one rank, zero has none.
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

/// A list member and its weight in thousandths; a weight that cannot be read is zero.
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
