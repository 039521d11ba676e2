//! What has happened since somebody last looked: the second that is under way. A module records, and the
//! scenario's watch takes one second after the other.

use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;

use crate::tally::histogram;

/// The second under way of one module.
#[derive(Debug)]
pub(crate) struct Recorder(Mutex<Second>);

/// What happened in a second.
#[derive(Debug, Clone)]
pub(crate) struct Second {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) faults: u64,
    pub(crate) first_byte_ns: Histogram<u64>,
    pub(crate) whole_ns: Histogram<u64>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Second::new()))
    }

    pub(crate) fn response(&self, bytes: u64, first_byte_ns: u64, whole_ns: u64) {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        second.requests += 1;
        second.bytes += bytes;
        second.first_byte_ns.saturating_record(first_byte_ns.max(1));
        second.whole_ns.saturating_record(whole_ns.max(1));
    }

    pub(crate) fn fault(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).faults += 1;
    }

    /// What has happened since the last call.
    pub(crate) fn take(&self) -> Second {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *second, Second::new())
    }
}

impl Second {
    fn new() -> Self {
        Self { requests: 0, bytes: 0, faults: 0, first_byte_ns: histogram(), whole_ns: histogram() }
    }
}
