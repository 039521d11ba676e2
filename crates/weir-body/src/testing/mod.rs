//! What tests of stages and their fuzz targets share: stages of every kind ([`stages`]), and the trial that
//! any stage must pass ([`trial`]).

#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod stages;
pub mod trial;

use bytes::Bytes;

use self::stages::Kind;
use self::trial::{Act, Ends, Given, LetGo, trial};

/// The most bytes of a body.
const BYTES_MAX: usize = 200_000;
/// From this length on a piece is a large one, each so much larger than the one before.
const LARGE: usize = 250;
const LARGE_BYTES: usize = 12_000;

/// Puts bodies through one stage or two, as the bytes say. A fuzz target.
pub fn staged(data: &[u8]) {
    let mut rest = data.iter().copied();
    let mut number = || usize::from(rest.next().unwrap_or_default());
    let kinds: Vec<Kind> = (0..=number() % 2).map(|_| Kind::ALL[number() % Kind::ALL.len()]).collect();
    let ends = if number() % 3 == 0 { Ends::Cut } else { Ends::Whole };
    let takes_back = if number() % 2 == 0 { LetGo::TakesBack } else { LetGo::TakesNothing };
    let acts = (0..=number() % 8).map(|_| match number() {
        at @ 0..=31 => Act::LetGo { unsent: at * 7 },
        at @ 32..=63 => Act::PollOnce { bytes_max: at },
        at => Act::Next { bytes_max: (at - 63) * (at - 63) },
    });
    let acts = acts.collect();
    let mut left = BYTES_MAX;
    let pieces = std::iter::from_fn(|| {
        let (length, first) = (usize::from(rest.next()?), rest.next().unwrap_or_default());
        let bytes = match length {
            0..LARGE => (0..length).map(|at| first.wrapping_add(at as u8)).collect(),
            LARGE.. => vec![first; (length - LARGE + 1) * LARGE_BYTES],
        };
        left -= bytes.len().min(left);
        (left > 0).then_some((length > 0).then(|| Bytes::from(bytes)))
    });
    trial(&kinds, Given { pieces: pieces.collect(), ends, takes_back, acts });
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_body_comes_out_of_stages_as_they_say() {
        let words: &[&[u8]] = &[b"\0", b"\0\0\0", b"\x01", b"\xff\x07", b"\xc9", b"\x20", b"\x40"];
        weir_testkit::fuzz("staged", words, super::staged);
    }
}
