//! Sizes as people write them, and which size an object has.

use serde::de::{Deserialize, Deserializer, Error};

use crate::seeded::mix;

/// The largest object of a scenario's own origin.
const BYTES_MAX: u64 = 1 << 40;
/// A rough shape of what a CDN delivers: many small objects, most bytes in few large ones. Sizes, and how
/// many of a thousand objects have them; within a row sizes are spread between a half and the whole.
const CDN: [(u64, u64); 7] = [
    (2_000, 300),
    (12_000, 280),
    (60_000, 220),
    (400_000, 130),
    (2_000_000, 50),
    (20_000_000, 19),
    (100_000_000, 1),
];

/// A number of bytes: `1500`, `"10 KB"`, `"64 KiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes(pub(crate) u64);

/// The sizes of a part's objects. An object's size follows from its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// All the same.
    One(u64),
    /// Each equally often.
    Among(Vec<u64>),
    /// All magnitudes between these equally often.
    Between(u64, u64),
    /// The sizes of a CDN.
    Cdn,
}

impl Bytes {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(at);
        let unit: f64 = match unit.trim() {
            "" | "B" => 1.0,
            "KB" | "kB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "KiB" => 1024.0,
            "MiB" => 1_048_576.0,
            "GiB" => 1_073_741_824.0,
            _ => return Err(format!("`{text}` is no size; write e.g. 1500, \"10 KB\" or \"64 KiB\"")),
        };
        let number: f64 =
            number.parse().map_err(|_| format!("`{text}` is no size; write e.g. \"10 KB\" or \"64 KiB\""))?;
        let bytes = number * unit;
        if !(0.0..=BYTES_MAX as f64).contains(&bytes) {
            return Err(format!("`{text}` is too large; a body has 1 TiB at most"));
        }
        Ok(Self(bytes as u64))
    }
}

impl Sizes {
    /// The size of the object whose path has this hash.
    pub(crate) fn of(&self, hash: u64) -> u64 {
        match self {
            Self::One(bytes) => *bytes,
            Self::Among(all) => all[(hash % all.len() as u64) as usize],
            Self::Between(low, high) => {
                let (low, high) = ((*low).max(1) as f64, (*high).max(1) as f64);
                (low * (high / low).powf(share(hash))).round() as u64
            }
            Self::Cdn => cdn(hash),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text == "cdn" {
            return Ok(Self::Cdn);
        }
        match text.split_once("..") {
            None => Ok(Self::One(Bytes::parse(text)?.0)),
            Some((low, high)) => {
                let (low, high) = (Bytes::parse(low.trim())?.0, Bytes::parse(high.trim())?.0);
                match low <= high {
                    true => Ok(Self::Between(low, high)),
                    false => Err(format!("`{text}` ends before it begins; write the smaller size first")),
                }
            }
        }
    }
}

/// A number from 0 to 1.
pub(crate) fn share(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}

fn cdn(hash: u64) -> u64 {
    let mut at = hash % 1000;
    for (bytes, weight) in CDN {
        if at < weight {
            return bytes / 2 + (share(mix(hash)) * (bytes / 2) as f64) as u64;
        }
        at -= weight;
    }
    CDN[0].0
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Text(String),
    List(Vec<Bytes>),
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Written::deserialize(from)? {
            Written::Number(bytes) => Ok(Self(bytes)),
            Written::Text(text) => Self::parse(&text).map_err(D::Error::custom),
            Written::List(_) => Err(D::Error::custom("one size is expected here, not a list")),
        }
    }
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Written::deserialize(from)? {
            Written::Number(bytes) => Ok(Self::One(bytes)),
            Written::Text(text) => Self::parse(&text).map_err(D::Error::custom),
            Written::List(all) if all.is_empty() => Err(D::Error::custom("a list of sizes has at least one")),
            Written::List(all) => Ok(Self::Among(all.into_iter().map(|bytes| bytes.0).collect())),
        }
    }
}
