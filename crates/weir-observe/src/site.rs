//! Which site something is counted for, and what it is called.

use std::ops::Deref;
use std::sync::Arc;

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

/// A site's name. All of a snapshot share one list: a reference counted at each of ten thousand places of the
/// memory would take longer than all else that a snapshot does.
#[derive(Clone, Debug, Default)]
pub struct SiteName {
    all: Arc<Vec<Arc<str>>>,
    at: usize,
}

impl SiteName {
    /// Those of a list, in its order.
    pub(crate) fn each(all: &Arc<Vec<Arc<str>>>) -> impl Iterator<Item = SiteName> {
        (0..all.len()).map(|at| SiteName { all: all.clone(), at })
    }

    /// The name by itself.
    pub fn alone(&self) -> Arc<str> {
        self.all.get(self.at).cloned().unwrap_or_default()
    }
}

impl From<&str> for SiteName {
    fn from(name: &str) -> SiteName {
        SiteName { all: Arc::new(vec![name.into()]), at: 0 }
    }
}

impl Deref for SiteName {
    type Target = str;

    fn deref(&self) -> &str {
        self.all.get(self.at).map_or("", |name| name)
    }
}

impl PartialEq for SiteName {
    fn eq(&self, other: &SiteName) -> bool {
        **self == **other
    }
}

impl Eq for SiteName {}
