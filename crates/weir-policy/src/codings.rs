//! The content codings that a client takes, each with its weight (Accept-Encoding, RFC 9110 §12.5.3). The
//! field is read here alone: what is stored varies by it (`vary`), and files have siblings in codings.

use http::{HeaderMap, HeaderValue, header};

/// A content coding that Weir knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Gzip (RFC 1952).
    Gzip,
    /// Brotli (RFC 7932).
    Br,
    /// Zstandard (RFC 8878).
    Zstd,
    /// `deflate`, which is read in two ways.
    Deflate,
}

impl Coding {
    /// All, in the order of their places.
    pub(crate) const ALL: [Coding; 4] = [Coding::Gzip, Coding::Br, Coding::Zstd, Coding::Deflate];

    /// The name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Br => "br",
            Coding::Zstd => "zstd",
            Coding::Deflate => "deflate",
        }
    }

    /// The coding of that name, in any case; gzip has two (RFC 9110 §8.4.1.3).
    pub(crate) fn named(name: &[u8]) -> Option<Coding> {
        let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name };
        Coding::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }

    /// Its position in [`Coding::ALL`].
    pub(crate) fn place(self) -> usize {
        self as usize
    }
}

/// What a client says of codings: weights in thousandths, 0 for what it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    said: [Option<u16>; 4],
    identity: Option<u16>,
    others: Option<u16>,
}

impl Accepted {
    /// What the fields of a request say. Without the field no coding is taken: a client that can take one
    /// says so.
    pub fn read(request: &HeaderMap) -> Accepted {
        Accepted::of_lines(request.get_all(header::ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes))
    }

    /// What these values of the field say. Of what is said twice the last one counts.
    pub(crate) fn of_lines<'l>(lines: impl Iterator<Item = &'l [u8]>) -> Accepted {
        let mut accepted = Accepted { said: [None; 4], identity: None, others: None };
        for member in lines.flat_map(|line| line.split(|byte| *byte == b',')) {
            let (name, weight) = weighted(member);
            if name == b"*" {
                accepted.others = Some(weight);
            } else if name.eq_ignore_ascii_case(b"identity") {
                accepted.identity = Some(weight);
            } else if let Some(coding) = Coding::named(name) {
                accepted.said[coding.place()] = Some(weight);
            }
        }
        accepted
    }

    /// The weight of a coding.
    pub(crate) fn weight(&self, coding: Coding) -> u16 {
        self.said[coding.place()].or(self.others).unwrap_or(0)
    }

    /// Whether a body without a coding is refused.
    pub(crate) fn refuses_identity(&self) -> bool {
        self.identity.or(self.others) == Some(0)
    }

    /// The coding that is sent, of those `there`, the best first; none for the plain form. That is sent where
    /// the client likes it better, and where it takes nothing else, whatever it says of it.
    pub fn choose(&self, there: impl IntoIterator<Item = Coding>) -> Option<Coding> {
        let taken = there.into_iter().filter(|coding| self.weight(*coding) > 0);
        // Of equal ones the first counts.
        let better = |best, next| if self.weight(next) > self.weight(best) { next } else { best };
        taken.reduce(better).filter(|best| self.weight(*best) >= self.identity.unwrap_or(0))
    }
}

/// A list member and its weight in thousandths. A weight that cannot be read counts as zero.
pub(crate) fn weighted(member: &[u8]) -> (&[u8], u16) {
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

#[cfg(test)]
mod tests;
