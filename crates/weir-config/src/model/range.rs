//! How ranges of objects are fetched that are not held.

use crate::value::Size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How ranges of objects are fetched that are not held.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Range {
    /// A range is fetched from the 64 KiB in which it begins to the end of the chunk in which it ends: a multiple of 64 KiB. Of one
    /// shorter than 64 KiB that goes on with nothing that is held, only the 64 KiB that it touches. Default: 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Size>,
    /// What is fetched beside what is asked for. Default: `touched`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<RangeFill>,
    /// What is done with a part that does not say which version it is of (no strong `ETag`). Default: `pass`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_validator: Option<WithoutValidator>,
    /// How far ahead of a reader what is missing is asked for. Default: 8 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Size>,
    /// How many origin requests a response has under way for what it is missing. Default: 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub parallel: Option<u8>,
}

/// What is done with a part that does not say which version it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WithoutValidator {
    /// Ranges of such objects pass by the cache.
    Pass,
    /// It is kept as it came, up to 1 MiB, and answers the ranges that lie in it. It is never put together with another. The
    /// origin is asked for just what the client asks for.
    Separate,
}

/// What is fetched beside what is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RangeFill {
    /// Only the chunks that are asked for.
    Touched,
    /// The rest of the object as well, in the background.
    Whole,
}
