//! What a volume does for the readers of its bodies.

use std::sync::Arc;

use weir_policy::{Interval, Intervals};

use crate::read::known::KnownReader;
use crate::read::reader::Record;
use crate::volume::Volume;

impl Volume {
    /// Notes that a client begins to read bytes `of` an object. What it has yet to read is kept for it where
    /// it leaves the volume, for ten minutes at most, and as far as a tenth of the volume goes.
    pub fn begin_reading(&self, object: u64, client: u64, of: Interval) -> KnownReader {
        self.shared.readers.begin(object, client, of)
    }

    /// The newest record of an object that is read, as far as its readers know, without key and head: also
    /// where it was removed.
    pub fn record_of_readers(&self, object: u64) -> Option<Arc<Record>> {
        self.shared.readers.newest(object)
    }

    /// The intervals of a record's body that its readers can read: also what has left the volume and is kept
    /// for them.
    pub fn readable(&self, record: &Record) -> Intervals {
        self.shared.readable(record)
    }
}
