//! Precompressed siblings: which content codings there are, and which of them a client takes (RFC 9110
//! §12.5.3). Pure.

use http::{HeaderMap, header};

/// A content coding of a sibling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Brotli (RFC 7932): `.br`.
    Br,
    /// Zstandard (RFC 8878): `.zst`.
    Zstd,
    /// Gzip (RFC 1952): `.gz`.
    Gzip,
}

impl Coding {
    /// All, the best first: of several that a client takes alike the first is sent.
    pub const ALL: [Coding; 3] = [Coding::Br, Coding::Zstd, Coding::Gzip];

    /// What the names of such siblings end with.
    pub fn ending(self) -> &'static str {
        match self {
            Coding::Br => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }

    /// The name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Br => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    fn place(self) -> usize {
        match self {
            Coding::Br => 0,
            Coding::Zstd => 1,
            Coding::Gzip => 2,
        }
    }
}

/// Which codings a client takes, each with its weight in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    weights: [u16; 3],
    identity: u16,
}

impl Accepted {
    /// What the fields of a request say. Without the field, no coding is taken: a client that can take one
    /// says so.
    pub fn read(headers: &HeaderMap) -> Accepted {
        let (mut said, mut any, mut identity) = ([None; 3], None, None);
        let lines = headers.get_all(header::ACCEPT_ENCODING).iter();
        for member in lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')) {
            let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default();
            let weight = parts.find_map(weight).unwrap_or(1000);
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            match Coding::ALL.iter().find(|coding| is(coding.name())) {
                Some(coding) => said[coding.place()] = Some(weight),
                None if is("x-gzip") => said[Coding::Gzip.place()] = Some(weight),
                None if is("identity") => identity = Some(weight),
                None if name == b"*" => any = Some(weight),
                None => {}
            }
        }
        let weights = said.map(|weight| weight.or(any).unwrap_or(0));
        // Without a word about it the plain form is taken where nothing else is (RFC 9110 §12.5.3).
        Accepted { weights, identity: identity.unwrap_or(0) }
    }

    /// The coding that is sent, of those that there are; none for the plain form.
    pub fn choose(&self, there: impl Fn(Coding) -> bool) -> Option<Coding> {
        let weight = |coding: Coding| self.weights[coding.place()];
        let there = Coding::ALL.into_iter().filter(|coding| weight(*coding) > 0 && there(*coding));
        // Of equal ones the first counts.
        let best = there.reduce(|best, next| if weight(next) > weight(best) { next } else { best })?;
        (weight(best) >= self.identity).then_some(best)
    }
}

/// The weight in a parameter, in thousandths; 0 where it cannot be read.
fn weight(parameter: &[u8]) -> Option<u16> {
    let (name, value) = parameter.split_at(parameter.iter().position(|byte| *byte == b'=')?);
    if !name.trim_ascii().eq_ignore_ascii_case(b"q") {
        return None;
    }
    let value = std::str::from_utf8(value[1..].trim_ascii()).ok().and_then(|text| text.parse::<f32>().ok());
    Some(value.filter(|weight| (0.0..=1.0).contains(weight)).map_or(0, |weight| (weight * 1000.0) as u16))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};

    use super::{Accepted, Coding};

    #[test]
    fn the_client_chooses_and_of_equal_ones_the_best_is_sent() {
        let check = |field: Option<&'static str>, there: &[Coding], expect: Option<Coding>| {
            let mut headers = HeaderMap::new();
            if let Some(field) = field {
                headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(field));
            }
            let chosen = Accepted::read(&headers).choose(|coding| there.contains(&coding));
            assert_eq!(chosen, expect, "{field:?} {there:?}");
        };
        let all = Coding::ALL;
        check(None, &all, None);
        check(Some(""), &all, None);
        check(Some("gzip, deflate, br, zstd"), &all, Some(Coding::Br));
        check(Some("gzip, deflate, br, zstd"), &[Coding::Gzip, Coding::Zstd], Some(Coding::Zstd));
        check(Some("gzip;q=1, br;q=0.5"), &all, Some(Coding::Gzip));
        check(Some("br;q=0, *"), &all, Some(Coding::Zstd));
        check(Some("*;q=0"), &all, None);
        check(Some("x-GZIP"), &all, Some(Coding::Gzip));
        check(Some("gzip;q=0"), &all, None);
        check(Some("gzip;q=nonsense"), &all, None);
        check(Some("gzip;q=0.5, identity"), &all, None);
        check(Some("gzip;q=0.5, identity;q=0.1"), &all, Some(Coding::Gzip));
        check(Some("gzip"), &[], None);
    }
}
