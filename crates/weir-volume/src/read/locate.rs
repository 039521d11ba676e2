//! Where the records of an object lie, by their headers alone.

use crate::format::record::{HEADER_BYTES, Header};
use crate::index::{KeyHash, Location, Locations};
use crate::read::reader::{ReadError, Wait};
use crate::shared::Shared;

impl Shared {
    /// The header at a location, if there is one.
    fn header_at(&self, location: Location) -> Result<Option<Header>, ReadError> {
        let (segment, place) = self.segments.at(location).ok_or(ReadError::Gone)?;
        let mut bytes = [0; HEADER_BYTES];
        self.fill(&segment, &mut bytes, place.offset(), Wait::Device)?;
        Ok(Header::read(&bytes))
    }

    /// Whether the record at a location is that object's. Also true if the drive fails, so that an error
    /// keeps nothing that was replaced or removed.
    pub(crate) fn may_be(&self, location: Location, digest: u128, object: u64) -> bool {
        match self.header_at(location) {
            Ok(header) => header.is_some_and(|header| header.number == object && header.digest == digest),
            Err(ReadError::Device(_)) => true,
            Err(ReadError::Gone | ReadError::NotResident) => false,
        }
    }

    /// The index's entries of an object: one, the older one in the moment in which it is replaced, and those
    /// that cannot be read.
    pub(crate) fn locate(&self, digest: u128, object: u64) -> Locations {
        let mut locations = self.index.find(KeyHash::of(digest));
        locations.retain(|location| self.may_be(*location, digest, object));
        locations
    }
}
