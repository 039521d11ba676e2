//! Which route serves files: the nearest layer that says what happens to a request counts. Must not look at
//! the file system.

use super::{Layer, Layers};
use crate::model::{FilesRules, Route, Rules, SymlinkRule};
use crate::value::Fallback;
use std::path::PathBuf;

/// The files that a route serves.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedFiles {
    /// The folder.
    pub root: PathBuf,
    /// What answers for what is not there; none: 404.
    pub fallback: Option<Fallback>,
    /// The files that answer for their folder.
    pub index: Vec<String>,
    /// Whether folders are listed.
    pub lists: bool,
    /// Whether names that begin with a dot are served.
    pub serves_hidden: bool,
    /// Whether precompressed siblings are sent.
    pub is_precompressed: bool,
    /// What symbolic links do.
    pub symlinks: SymlinkRule,
}

impl ResolvedFiles {
    /// Whether Weir alone answers.
    pub fn asks_no_upstream(&self) -> bool {
        self.fallback != Some(Fallback::Upstream)
    }
}

/// The files of a route, if it serves some. One that answers itself does not, nor does one for which a nearer
/// layer than that of the root names an upstream.
pub(super) fn of(route: &Route, rules: &Rules, layers: Layers<'_>) -> Option<ResolvedFiles> {
    if route.answer.is_some() || route.redirect.is_some() {
        return None;
    }
    let root = rules.root.as_ref()?;
    let layer_of =
        |key: &str| layers.all().find(|(_, table)| table.get(key).is_some()).map(|(layer, _)| layer);
    let distance = |layer: Option<Layer>| match layer {
        Some(Layer::Route) => 0,
        Some(Layer::Site) => 1,
        Some(Layer::Defaults) => 2,
        None => 3,
    };
    if distance(layer_of("upstream")) < distance(layer_of("root")) {
        return None;
    }
    let FilesRules { index, listing, hidden, precompressed, symlinks } =
        rules.files.clone().unwrap_or_default();
    Some(ResolvedFiles {
        root: root.0.clone(),
        fallback: rules.fallback.clone(),
        index: index.map_or_else(
            || vec!["index.html".to_owned()],
            |names| names.into_iter().map(|name| name.0).collect(),
        ),
        lists: listing.unwrap_or(false),
        serves_hidden: hidden.unwrap_or(false),
        is_precompressed: precompressed.unwrap_or(true),
        symlinks: symlinks.unwrap_or(SymlinkRule::Beneath),
    })
}

#[cfg(test)]
mod tests;
