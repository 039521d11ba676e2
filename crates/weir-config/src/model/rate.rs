//! `rate`: how fast the bodies of responses go out.

use crate::value::{ByteRate, ParameterName, RateLimit, Size};
use serde::Deserialize;

/// How fast the body of each response goes out: a limit alone, or several bounds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum RateRule {
    /// `limit` alone.
    Limit(RateLimit),
    /// Several bounds.
    Table(Rate),
}

impl RateRule {
    /// As a table.
    pub(crate) fn table(&self) -> Rate {
        match self {
            RateRule::Limit(limit) => Rate { limit: Some(limit.clone()), ..Rate::default() },
            RateRule::Table(rate) => rate.clone(),
        }
    }
}

/// How fast the body of each response goes out. It holds for 200 and 206 to GET, from the cache or the
/// origin, each response by itself. Where several bounds are given, the lowest counts.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Rate {
    /// The most bytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<RateLimit>,
    /// How many bytes may go out before `limit`, or the rate that the client asked for, holds back. After a
    /// pause of the client as many may go out at once again. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Size>,
    /// The query parameter whose value is the rate that a client asks for, in place of `limit`: `rate` for
    /// `?rate=300k`. The value is bytes a second without a unit, with `k`, `M` or `G`, or with a unit of a
    /// size; Weir ignores any other value. The parameter is not part of the key and is not sent to the
    /// origin, unless `key.query.keep` names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<ParameterName>,
    /// The highest rate that a client gets by asking. Default: `limit`; without either, the client gets what
    /// it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_max: Option<ByteRate>,
    /// The speed of an MP4 from the cache as a multiple of its own mean bit rate, after its first 60 s: 1.2,
    /// for example. It holds for `video/mp4`, `audio/mp4` and `video/quicktime`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub media: Option<f64>,
}
