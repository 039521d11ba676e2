//! `rate`: how fast the bodies of responses go out.

use crate::value::{ByteRate, ParameterName, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How fast the body of each response goes out: those of 200 and 206 to GET that come from the cache or the
/// origin, each by itself. Where several of these bounds are given, all of them hold: the lowest rate counts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rate {
    /// The most bytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<ByteRate>,
    /// What may go out before `limit`, or the rate that was asked for, begins to hold back; after a pause of
    /// the client so much may go out at once again. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Size>,
    /// The query parameter whose value is the rate that a client asks for, in place of `limit`: `rate` for
    /// `?rate=300k`. Bytes a second without a unit, or with `k`, `M`, `G` or one of a size; what is no rate
    /// is ignored. The parameter is not in the key and is not sent to the origin, unless `key.query.keep`
    /// names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<ParameterName>,
    /// The most that a client gets by asking. Default: `limit`; without either it gets what it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_max: Option<ByteRate>,
    /// How many times faster than it is played an MP4 out of the cache goes out (by its own mean bit rate),
    /// after the first 60 s of what is played: 1.2, for example. For `video/mp4`, `audio/mp4` and
    /// `video/quicktime`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub media: Option<f64>,
}
