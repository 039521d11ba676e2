//! `limits` of a site or route: what a client may ask there, where it differs from `[limits]`.

use crate::value::Size;
use serde::Deserialize;

/// What a client may ask of a site or route. A request beyond a limit gets the status in parentheses.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RouteLimits {
    /// The largest body of a request (413): more or less than that of `[limits]`. `"0"`: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Size>,
    /// The fewest bytes a second at which a request body may arrive (408): more or less than that of
    /// `[limits]`. `"0"`: as slowly as it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_rate: Option<Size>,
    /// The largest head of a request (431), without the fields of the connection alone. At most that of
    /// `[limits]`, as a head is read before its site is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Size>,
    /// The most fields in a request (431), without those of the connection alone. At most that of `[limits]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 10000)))]
    pub fields: Option<u32>,
}
