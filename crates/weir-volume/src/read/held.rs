//! Which bytes of a body the volume has, for all or for its present readers, and whether they are sound.

use weir_policy::{Interval, Intervals};

use crate::PIECE_BYTES_MAX;
use crate::read::reader::{Part, Position, ReadError, Record, Wait};
use crate::shared::Shared;
use crate::state::VolumeState;

impl Shared {
    /// The intervals of a body whose segments exist.
    pub(crate) fn held(&self, record: &Record) -> Intervals {
        let mut held = Intervals::new();
        for extent in record.extents.iter().filter(|extent| self.segments.has(extent.place.segment)) {
            held.insert(Interval { start: extent.offset, end: extent.end() });
        }
        held
    }

    /// The intervals of a body that its readers can read: also what was removed and is kept for them.
    pub(crate) fn readable(&self, record: &Record) -> Intervals {
        let mut readable = Intervals::new();
        for extent in record.extents.iter().filter(|extent| self.segments.is_readable(extent.place.segment)) {
            readable.insert(Interval { start: extent.offset, end: extent.end() });
        }
        readable
    }

    /// Whether every byte of an object's body is what was stored. Bytes that went with their segment do not
    /// count.
    pub(crate) fn is_sound(&self, record: &Record) -> Result<bool, ReadError> {
        let mut position = Position::default();
        for extent in &record.extents {
            let mut at = extent.offset;
            while at < extent.end() {
                match self.read(record, &mut position, at, PIECE_BYTES_MAX, Wait::Device) {
                    Ok(Part::Bytes(bytes)) => at += bytes.bytes().len() as u64,
                    Ok(Part::Gap) => break,
                    Ok(Part::End) => return Ok(false),
                    Err(ReadError::Gone) => {
                        let is_there = self.segments.has(extent.place.segment);
                        if is_there && self.counters.state() != VolumeState::Ejected {
                            return Ok(false);
                        }
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(true)
    }
}
