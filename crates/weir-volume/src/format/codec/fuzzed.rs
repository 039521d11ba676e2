//! Promises of the head's reader that hold for any bytes: no panic; what was read and is written again reads
//! the same; nothing becomes younger.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use weir_policy::{Now, freshness};
use xxhash_rust::xxh3::xxh3_64;

use super::{SUM_BYTES, decode, encode};

/// Reads any bytes as a stored head, as they are and with a correct checksum.
pub fn head(data: &[u8]) {
    let now = moment();
    check(Bytes::copy_from_slice(data), now);
    let mut sound = data[..data.len().saturating_sub(SUM_BYTES)].to_vec();
    let sum = xxh3_64(&sound);
    sound.extend_from_slice(&sum.to_le_bytes());
    check(Bytes::from(sound), now);
}

fn check(bytes: Bytes, now: Now) {
    let Ok(stored) = decode(&bytes, now) else { return };
    let written = Bytes::from(encode(&stored, now));
    let again = decode(&written, now);
    assert_eq!(again.as_ref().map(|again| &again.headers), Ok(&stored.headers));
    let Ok(again) = again else { return };
    assert_eq!((again.status, &again.variant), (stored.status, &stored.variant));
    assert_eq!(again.validators, stored.validators);
    let later = Now { mono: now.mono + Duration::from_secs(1), wall: now.wall + Duration::from_secs(1) };
    let (before, after) = (freshness(&stored, now), freshness(&again, later));
    assert!(after.left() <= before.left(), "what was written down has got younger");
}

#[allow(clippy::disallowed_methods, reason = "any moment will do")]
fn moment() -> Now {
    Now { mono: Instant::now(), wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) }
}
