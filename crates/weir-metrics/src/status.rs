//! How a source is, for operators.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A value that is wanted and that an origin does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingValue {
    /// Its name; `None`: the source says nothing at all of the origin.
    pub name: Option<String>,
    /// Why.
    pub why: String,
}

/// A source at one moment.
#[derive(Clone, Debug)]
pub struct SourceStatus {
    /// Its name.
    pub name: Arc<str>,
    /// `ganglia`, `prometheus` or `orca`.
    pub kind: &'static str,
    /// Reads that were whole.
    pub succeeded: u64,
    /// Reads that failed.
    pub failed: u64,
    /// How long ago the last whole one was; `None` where none was.
    pub ago: Option<Duration>,
    /// Why the last read failed; `None` where it did not. Of several pages, one of those that failed.
    pub error: Option<String>,
    /// What origins lack, by their upstreams' names and theirs.
    pub missing: HashMap<(String, Arc<str>), Vec<MissingValue>>,
}

/// What is remembered of a source.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) last: Option<Instant>,
    pub(crate) error: Option<String>,
    pub(crate) missing: HashMap<(String, Arc<str>), Vec<MissingValue>>,
}

/// What is worth a line of the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Fails(String),
    IsBack,
}

impl Record {
    /// A round of reads has ended.
    pub(crate) fn end(
        &mut self,
        (succeeded, failed): (u64, u64),
        error: Option<String>,
        now: Instant,
    ) -> Option<News> {
        self.succeeded += succeeded;
        self.failed += failed;
        if succeeded > 0 {
            self.last = Some(now);
        }
        let before = std::mem::replace(&mut self.error, error.clone());
        match (before, error) {
            (None, Some(error)) => Some(News::Fails(error)),
            (Some(_), None) => Some(News::IsBack),
            _ => None,
        }
    }
}
