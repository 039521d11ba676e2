//! The keys that sign questions and answers: HMAC-SHA-256. The first signs, all of them are accepted, so that
//! keys can be changed one side after the other.

use std::fmt;

use aws_lc_rs::hmac::{self, HMAC_SHA256, Key};

use super::MAC_BYTES;

/// The fewest bytes of a key.
pub const KEY_BYTES_MIN: usize = 32;
/// The most keys.
const KEYS_MAX: usize = 8;

/// The keys of a file; perhaps none.
#[derive(Clone, Default)]
pub struct Keys {
    keys: Vec<Key>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("count", &self.keys.len()).finish()
    }
}

/// Why a text has no keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// None is in it.
    #[error("it has no key")]
    Empty,
    /// A key is too short.
    #[error("the key in line {0} has less than {KEY_BYTES_MIN} bytes")]
    Short(usize),
    /// There are too many.
    #[error("it has more than {KEYS_MAX} keys")]
    Many,
}

impl Keys {
    /// The keys of a file: one a line, the bytes of the line without white space around them. Empty lines and
    /// those that begin with `#` are skipped.
    ///
    /// # Errors
    /// No key is in it, one is short, or there are too many.
    pub fn read(text: &[u8]) -> Result<Keys, KeysError> {
        let mut keys = Vec::new();
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            if line.len() < KEY_BYTES_MIN {
                return Err(KeysError::Short(at + 1));
            }
            keys.push(Key::new(HMAC_SHA256, line));
        }
        match keys.len() {
            0 => Err(KeysError::Empty),
            count if count > KEYS_MAX => Err(KeysError::Many),
            _ => Ok(Keys { keys }),
        }
    }

    /// These keys, in order; they were checked when they were read.
    pub fn of<K: AsRef<[u8]>>(keys: &[K]) -> Keys {
        Keys { keys: keys.iter().map(|key| Key::new(HMAC_SHA256, key.as_ref())).collect() }
    }

    /// Whether nothing is signed.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Bytes that a signature takes.
    pub(super) fn mac_bytes(&self) -> usize {
        if self.is_empty() { 0 } else { MAC_BYTES }
    }

    /// Signs all that stands in `out` from `from` on.
    pub(super) fn sign(&self, out: &mut Vec<u8>, from: usize) {
        if let Some(key) = self.keys.first() {
            let tag = hmac::sign(key, &out[from..]);
            out.extend_from_slice(tag.as_ref());
        }
    }

    /// What is signed without its signature; `None` where no key has signed it. Takes the same time for each
    /// wrong signature.
    pub(super) fn verified<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (body, mac) = bytes.split_last_chunk::<MAC_BYTES>()?;
        self.keys.iter().any(|key| hmac::verify(key, body, mac).is_ok()).then_some(body)
    }
}
