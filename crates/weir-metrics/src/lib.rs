//! Metrics of origins, read in the background: what gmond and gmetad send, and pages in Prometheus' text.
//!
//! It reads a source (`read`), finds the host of each origin (`hosts`), computes what is wanted (`evaluate`,
//! `known`), and puts it into the origin's gauges. No request waits for it. It must not decide anything about
//! an origin, nor hold more of a source than its bounds say.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod apply;
mod clock;
mod collect;
mod evaluate;
mod exposition;
mod ganglia;
mod hosts;
mod known;
mod read;
mod samples;
mod source;
mod status;

pub use collect::Collector;
pub use source::{Place, Source};
pub use status::{MissingValue, SourceStatus};

/// What fuzz targets call.
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing {
    pub use crate::evaluate::fuzzing::expression;
    pub use crate::exposition::fuzzing::exposition;
    pub use crate::ganglia::fuzzing::ganglia;
}
