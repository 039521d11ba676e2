//! The store's call that lists what is cached; `inside::listing` does it.

use weir_policy::Now;

use super::Store;
use crate::inside::{Listed, Listing, Page, Unlisted, list};
use crate::volume::EachDone;

impl Store {
    /// Lists what is cached. Walks over memory's index, and over the rows of volumes, or where there are none
    /// over the volumes. Blocks for as long as that takes, with pauses once it takes longer. Calls `each` for
    /// each object looked at; a break ends it.
    ///
    /// `besides` is what the caller has of its own: of the site, the prefix, the tag and the URLs that are
    /// wanted, in the order of keys. The other conditions, orders, sums and pages hold for it too.
    ///
    /// # Errors
    /// [`Unlisted`].
    pub fn list(
        &self,
        listing: &Listing,
        besides: &mut dyn Iterator<Item = Listed>,
        now: Now,
        each: EachDone<'_>,
    ) -> Result<Page, Unlisted> {
        list(&self.inside, listing, besides, now, each)
    }
}
