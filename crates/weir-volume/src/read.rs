//! What reads: records and their bodies, segments from record to record. Any thread.

pub(crate) mod counted;
pub(crate) mod first;
pub(crate) mod held;
pub(crate) mod known;
pub(crate) mod locate;
pub(crate) mod reader;
pub(crate) mod scan;
pub(crate) mod verify;
pub(crate) mod waits;
