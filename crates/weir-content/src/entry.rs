//! What is known of one piece of content, beside its bytes. It never changes.

use std::sync::Arc;
use std::time::SystemTime;

/// Hexadecimal digits of a file's name.
pub const FILE_NAME_DIGITS: usize = 16;

/// A piece of content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number, which no other has. Of two for one URL, the larger counts.
    pub number: u64,
    /// The URL, as the caller names it.
    pub url: Arc<str>,
    /// The site that it was laid for.
    pub site: Arc<str>,
    /// Its media type.
    pub content_type: Arc<str>,
    /// Its length in bytes.
    pub body_bytes: u64,
    /// XXH3-128 of its bytes.
    pub digest: u128,
    /// When it was laid, in whole milliseconds.
    pub laid: SystemTime,
    /// When it ends by itself, in whole milliseconds; none: it stays until it is removed.
    pub ends: Option<SystemTime>,
}

impl Entry {
    /// The name of its file in the folder.
    pub fn file_name(&self) -> String {
        file_name(self.number)
    }

    /// Whether it has ended by itself.
    pub fn is_over(&self, wall: SystemTime) -> bool {
        self.ends.is_some_and(|ends| ends <= wall)
    }

    /// Its entity tag (RFC 9110 §8.8.3), strong: the same bytes have the same one on every machine.
    pub fn tag(&self) -> String {
        format!("\"{:032x}\"", self.digest)
    }
}

pub(crate) fn file_name(number: u64) -> String {
    format!("{number:016x}")
}

/// The number of a file's name; none where it is not such a name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let is_lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_name = name.len() == FILE_NAME_DIGITS && name.bytes().all(is_lower_hex);
    is_name.then(|| u64::from_str_radix(name, 16).ok()).flatten()
}
