//! Texts of peers, as scripts see them. What is not UTF-8 is replaced.

use rhai::{Dynamic, ImmutableString};

/// A text that a peer has sent.
pub(super) fn text(bytes: &[u8]) -> ImmutableString {
    String::from_utf8_lossy(bytes).as_ref().into()
}

/// A text that may be missing.
pub(super) fn optional(bytes: Option<&[u8]>) -> Dynamic {
    bytes.map_or(Dynamic::UNIT, |bytes| text(bytes).into())
}
