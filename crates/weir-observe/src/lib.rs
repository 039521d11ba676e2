//! What Weir shows of its work: a record of each finished request, counters for each worker, the access log,
//! the log of requests to origins, events.
//!
//! The data plane hands values in and never asks anything back. Nothing here waits: a counter is a plain
//! store to a cell that only one worker writes. A record goes into a bounded queue, and is counted as dropped
//! when the queue is full. The threads `weir-log` and `weir-log-origin` format and write.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod asked;
mod condition;
mod counters;
mod counts;
mod events;
mod full;
mod history;
mod latency;
mod lines;
mod listener;
mod log;
mod observatory;
mod past;
mod popular;
pub mod reasons;
mod record;
mod site;
mod snapshot;
pub mod trace;

pub use asked::{Asked, AskedEnd, AskedId, AskedObject, Purpose};
pub use condition::{CONDITION_BYTES_MAX, Condition, ConditionError, LogOf, Unknown};
pub use counters::Counters;
pub use counts::{Count, Counts, Level, Row, SiteCount, SiteCounts, Sums};
pub use events::{Event, EventKind, EventSettings, EventTarget, Events, PurgeTold, States};
pub use history::{
    AUDIT_BYTES_MAX, AUDIT_FILES_MAX, AUDIT_PURGES, AUDIT_SITES, AUDITS, Act, Actor, Entry, History,
    HistoryState, MARK_PATIENCE, RECORD_PATIENCE, SILENT_DRIVE, Written,
};
pub use latency::{Latency, bounds_us};
pub use lines::{Colour, escaped, plain_json, steers};
pub use listener::{Listener, Told};
pub use log::{Detail, LogError, LogFormat, LogSettings, LogTarget, OpenLogs, ReadBy, TooManyReaders, Wish};
pub use observatory::{Observatory, Observer, text};
pub use past::{PastKind, PastList};
pub use popular::{LISTS_BYTES_MAX, Seen, TopBy, TopList, TopOrder, TopQuestion, TopRow, TopWindow, Traffic};
pub use record::{Completion, Description, Facts, Outcome, Record, Sharing, Storing, Tls};
pub use site::{SiteId, SiteName};
pub use snapshot::{SiteSnapshot, Snapshot};

#[cfg(test)]
mod tests;
