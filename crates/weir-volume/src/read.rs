//! What reads: records and their bodies, segments from record to record, the log in the order of its writing. Any thread.

pub(crate) mod log;
pub(crate) mod reader;
pub(crate) mod scan;
pub(crate) mod verify;
pub(crate) mod waits;
