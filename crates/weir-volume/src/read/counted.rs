//! What a record counts for.

use crate::format::record::{Described, ExtentRef, Kind, Place};
use crate::index::Location;
use crate::index::stocks::Counted;
use crate::read::reader::{ReadError, Wait};
use crate::shared::Shared;

impl Shared {
    /// What the record at a location counts for. Its body is not read.
    ///
    /// # Errors
    /// [`ReadError`]: its description cannot be read.
    pub(crate) fn counted_at(&self, location: Location) -> Result<Counted, ReadError> {
        let (segment, place) = self.segments.at(location).ok_or(ReadError::Gone)?;
        self.described(&segment, place, Wait::Device, |described, _| self.counted(described, place))?
            .ok_or(ReadError::Gone)
    }

    /// What a record at a place counts for; `None` if it belongs to no object.
    pub(crate) fn counted(&self, described: &Described<'_>, place: Place) -> Option<Counted> {
        let extents = match described.header.kind {
            Kind::Head => described.extents(),
            Kind::Object => vec![ExtentRef { offset: 0, length: described.header.count, place }],
            Kind::Extent | Kind::Gone => return None,
        };
        Some(Counted::new(&self.segments, (self.owner_of)(described.key), place.segment, &extents))
    }
}
