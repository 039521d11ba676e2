//! Numbers of the ledger in JSON: strings of decimal digits. They have up to 20 digits, and a reader that
//! treats every number as floating-point, as JavaScript does, would round those beyond 2^53 (RFC 8259 §6).

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's `with` passes a reference")]
pub(crate) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}
