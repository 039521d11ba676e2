//! How Weir fetches ranges that it does not hold.

use crate::value::Size;
use serde::Deserialize;

/// How Weir fetches ranges that it does not hold.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Range {
    /// The unit in which Weir fetches a range: from the 64 KiB in which the range begins to the end of the
    /// chunk in which it ends. A multiple of 64 KiB. For a range shorter than 64 KiB that does not continue
    /// what is held, Weir fetches only the 64 KiB that it touches. Default: 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Size>,
    /// What Weir fetches beyond what the client asks for. Default: `touched`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<RangeFill>,
    /// What Weir does with a 206 that does not say which version it is of (no strong `ETag`). Default:
    /// `pass`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_validator: Option<WithoutValidator>,
    /// How far ahead of a reader Weir asks for what is missing. Default: 8 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Size>,
    /// How many origin requests one response may have under way for what it is missing. Default: 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 64)))]
    pub parallel: Option<u8>,
}

/// What Weir does with a 206 that does not say which version it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WithoutValidator {
    /// Ranges of such objects go past the cache.
    Pass,
    /// Weir keeps it as it came, up to 1 MiB, and answers with it the ranges that lie in it. It never joins
    /// it with another. It asks the origin for exactly what the client asks for.
    Separate,
}

/// What Weir fetches beyond what the client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RangeFill {
    /// Only the chunks that the client asks for.
    Touched,
    /// The rest of the object as well, in the background.
    Whole,
}
