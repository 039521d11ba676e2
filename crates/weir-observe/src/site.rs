//! Which site something is counted for.

/// A site's number in the counters; stable over reloads while the site keeps its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SiteId(u32);

impl SiteId {
    /// No site: the request was refused before its site was known.
    pub const NONE: SiteId = SiteId(u32::MAX);

    pub(super) fn new(index: usize) -> SiteId {
        u32::try_from(index).map_or(SiteId::NONE, SiteId)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}
