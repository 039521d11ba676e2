//! The tags of a response: names that its origin gives it, by which it is purged together with others. It
//! knows no ledger.
//!
//! Eight fields are read, each as its inventor defines it: `Surrogate-Key` (Fastly; separated by spaces),
//! `Cache-Tag` (Cloudflare), `Edge-Cache-Tag` (Akamai), `X-Cache-Tags` (FOSHttpCache) and `X-Magento-Tags`
//! (all separated by commas), `xkey` (Varnish), `Cache-Tags` (Drupal, API Platform) and `Purge-Cache-Tags`
//! (Drupal; these three by either). Tags are compared byte by byte. A tag is stored as a hash of 64 bits. Two
//! tags with the same hash are purged together, which costs a fetch and serves nothing wrong.

use http::{HeaderMap, HeaderName};
use xxhash_rust::xxh3::xxh3_64;

/// The most tags of a response that are stored. Every purge by tag removes a response with more tags.
pub const TAGS_MAX: usize = 4096;
/// The longest tag in bytes. A longer one is not stored, since no purge can name it.
pub const TAG_BYTES_MAX: usize = 1024;

/// The fields in which origins name tags, with their separators.
const FIELDS: [(HeaderName, &[u8]); 8] = [
    (HeaderName::from_static("surrogate-key"), b" \t"),
    (HeaderName::from_static("cache-tag"), b","),
    (HeaderName::from_static("edge-cache-tag"), b","),
    (HeaderName::from_static("x-cache-tags"), b","),
    (HeaderName::from_static("x-magento-tags"), b","),
    (HeaderName::from_static("xkey"), b" \t,"),
    (HeaderName::from_static("cache-tags"), b" \t,"),
    (HeaderName::from_static("purge-cache-tags"), b" \t,"),
];

/// The fields of tags that only caches read, and that have kilobytes: clients do not get them.
const HIDDEN: [HeaderName; 5] = [
    HeaderName::from_static("x-cache-tags"),
    HeaderName::from_static("x-magento-tags"),
    HeaderName::from_static("xkey"),
    HeaderName::from_static("cache-tags"),
    HeaderName::from_static("purge-cache-tags"),
];

/// Removes the fields of tags that clients do not get. True where there was one.
pub fn hide(headers: &mut HeaderMap) -> bool {
    let had = HIDDEN.iter().filter(|name| headers.remove(*name).is_some()).count();
    had > 0
}

/// Whether there is a field of tags that clients do not get.
pub fn has_hidden(headers: &HeaderMap) -> bool {
    HIDDEN.iter().any(|name| headers.contains_key(name))
}

/// The tags of a response, as sorted hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    hashes: Box<[u64]>,
    extent: Extent,
}

/// Whether all tags are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Extent {
    #[default]
    All,
    /// There were more than [`TAGS_MAX`].
    Some,
}

impl Tags {
    /// Reads the tags of a response's fields. Allocates nothing if there are none.
    pub fn read(headers: &HeaderMap) -> Tags {
        let mut hashes: Vec<u64> = Vec::new();
        let mut extent = Extent::All;
        for tag in of(headers) {
            if hashes.len() >= 2 * TAGS_MAX {
                shrink(&mut hashes);
                if hashes.len() > TAGS_MAX {
                    extent = Extent::Some;
                    break;
                }
            }
            hashes.push(tag_hash(tag));
        }
        shrink(&mut hashes);
        if hashes.len() > TAGS_MAX {
            hashes.truncate(TAGS_MAX);
            extent = Extent::Some;
        }
        Tags { hashes: hashes.into_boxed_slice(), extent }
    }

    /// Tags of which only the hashes are known, as [`Tags::hashes`] gave them; whether they are all.
    pub fn of_hashes(mut hashes: Vec<u64>, is_complete: bool) -> Tags {
        shrink(&mut hashes);
        let extent = if is_complete { Extent::All } else { Extent::Some };
        Tags { hashes: hashes.into_boxed_slice(), extent }
    }

    /// The hashes in order, each once.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Whether these are all tags. If not, the response has others as well.
    pub fn is_complete(&self) -> bool {
        self.extent == Extent::All
    }
}

fn shrink(hashes: &mut Vec<u64>) {
    hashes.sort_unstable();
    hashes.dedup();
}

/// The tags in a response's fields as they were sent. Leaves out those that are longer than
/// [`TAG_BYTES_MAX`].
pub fn of(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    FIELDS
        .into_iter()
        .flat_map(|(name, marks)| headers.get_all(name).into_iter().map(move |line| (line, marks)))
        .flat_map(|(line, marks)| {
            let members = line.as_bytes().split(|byte| marks.contains(byte)).map(<[u8]>::trim_ascii);
            members.filter(|tag| !tag.is_empty() && tag.len() <= TAG_BYTES_MAX)
        })
}

/// The hash of a tag: xxh3-64 of its bytes.
pub fn tag_hash(tag: &[u8]) -> u64 {
    xxh3_64(tag)
}

#[cfg(test)]
mod tests;
