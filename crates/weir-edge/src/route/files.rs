//! The files that a route serves: where they are, and what answers for what is not there.

use std::sync::Arc;

use weir_config::ResolvedFiles;
use weir_config::model::SymlinkRule;
use weir_config::value::Fallback;
use weir_files::{Hidden, Root, RootRules, Siblings, Symlinks};

/// The files of a route.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) root: Arc<Root>,
    fallback: Option<Fallback>,
}

impl Served {
    /// The files of a route, where it has some.
    pub(crate) fn compile(resolved: Option<&ResolvedFiles>) -> Option<Box<Served>> {
        let resolved = resolved?;
        let rules = RootRules {
            index: resolved.index.clone(),
            hidden: if resolved.serves_hidden { Hidden::Served } else { Hidden::NotServed },
            symlinks: match resolved.symlinks {
                SymlinkRule::Beneath => Symlinks::Beneath,
                SymlinkRule::Refuse => Symlinks::Refused,
            },
            siblings: if resolved.is_precompressed { Siblings::Used } else { Siblings::NotUsed },
            lists: resolved.lists,
        };
        let root = Arc::new(Root::new(resolved.root.clone(), rules));
        Some(Box::new(Served { root, fallback: resolved.fallback.clone() }))
    }

    /// Whether an upstream answers for what is not there.
    pub(crate) fn asks_upstream(&self) -> bool {
        self.fallback == Some(Fallback::Upstream)
    }

    /// The path of the file that answers for what is not there.
    pub(crate) fn file_instead(&self) -> Option<&str> {
        match &self.fallback {
            Some(Fallback::File(path)) => Some(path),
            Some(Fallback::Upstream) | None => None,
        }
    }
}
