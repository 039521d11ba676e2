//! Weir's own cookie: the origin of a session, sealed (AES-256-GCM-SIV, RFC 8452), so that clients can
//! neither read nor write it. It must not know what a request is.
//!
//! ```text
//! byte 0     the version, 1
//! 1 to 8     the origin's number      ┐ sealed
//! 9 to 13    seconds since 1970       ┘
//! 14 to 29   the tag
//! ```
//! The upstream's name is sealed along, so that a cookie is of use with one upstream only. The text form is
//! base64url without padding (RFC 4648 §5), 40 characters. Equal content has equal text: the nonce is
//! constant, which the SIV mode allows, and all that two equal cookies tell is that they are equal.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::OriginId;

/// The bytes of a cookie before they are text.
pub const SEALED_BYTES: usize = 30;
const TEXT_BYTES: usize = 40;
const VERSION: u8 = 1;
const CONTENT_BYTES: usize = 13;
/// How far the clock of another Weir may be ahead.
const AHEAD_MAX: Duration = Duration::from_secs(300);

/// What seals cookies.
#[derive(Clone)]
pub struct Key {
    key: std::sync::Arc<LessSafeKey>,
    /// Tells it from others.
    mark: [u8; 32],
}

impl Key {
    /// Of a line of a key file.
    pub fn of(secret: &[u8]) -> Option<Key> {
        let of = |purpose: &[u8]| digest(&SHA256, &[purpose, b"\0", secret].concat());
        let key = UnboundKey::new(&AES_256_GCM_SIV, of(b"weir origin cookie").as_ref()).ok()?;
        let mut mark = [0; 32];
        mark.copy_from_slice(of(b"weir origin cookie: which key").as_ref());
        Some(Key { key: std::sync::Arc::new(LessSafeKey::new(key)), mark })
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.mark == other.mark
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The text of a cookie that names an origin from now on.
pub(super) fn seal(key: &Key, upstream: &str, origin: OriginId, now: SystemTime) -> Option<String> {
    let seconds = now.duration_since(UNIX_EPOCH).ok()?.as_secs().to_be_bytes();
    let mut bytes = Vec::with_capacity(SEALED_BYTES);
    bytes.extend_from_slice(&origin.0.to_be_bytes());
    bytes.extend_from_slice(&seconds[3..]);
    key.key.seal_in_place_append_tag(nonce(), Aad::from(beside(upstream)), &mut bytes).ok()?;
    bytes.insert(0, VERSION);
    Some(URL_SAFE_NO_PAD.encode(&bytes))
}

/// Whether a text is as long as a cookie of ours.
pub(super) fn may_open(text: &[u8]) -> bool {
    text.len() == TEXT_BYTES
}

/// The origin that a cookie names, and when it was made. `None` where no key has sealed it for this upstream.
pub(super) fn open(keys: &[Key], upstream: &str, text: &[u8]) -> Option<(OriginId, u64)> {
    if !may_open(text) {
        return None;
    }
    let mut bytes = [0; SEALED_BYTES];
    let decoded = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
    let [VERSION, sealed @ ..] = &bytes else { return None };
    if decoded != SEALED_BYTES {
        return None;
    }
    keys.iter().find_map(|key| {
        let mut sealed = *sealed;
        let content = key.key.open_in_place(nonce(), Aad::from(beside(upstream)), &mut sealed).ok()?;
        let (origin, seconds) = content.first_chunk::<CONTENT_BYTES>()?.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        Some((OriginId(number(origin)), number(seconds)))
    })
}

/// How old a cookie is; `None` if it was made in the future.
pub(super) fn age(issued_s: u64, now: SystemTime) -> Option<Duration> {
    let now = now.duration_since(UNIX_EPOCH).ok()?;
    let issued = Duration::from_secs(issued_s);
    if issued > now + AHEAD_MAX { None } else { Some(now.saturating_sub(issued)) }
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn beside(upstream: &str) -> Vec<u8> {
    [b"weir origin\0".as_slice(), upstream.as_bytes()].concat()
}
