//! Static files: what is served below `root`, and the memory for it.

use crate::value::{FileName, Size};
use serde::Deserialize;

/// The memory for static files, beside `[cache] memory`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct FilesMemory {
    /// The most bytes of static files that are held in memory. `0`: none. Default: a quarter of `[cache]
    /// memory`, at most 64 MiB; it is used only where there is a `root`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// The longest file that is held in memory. Default: 4 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_max: Option<Size>,
}

/// What is served below `root`, and how.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct FilesRules {
    /// The files that answer for their folder: the first that is there. Default: `["index.html"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<Vec<FileName>>,
    /// Whether a folder without an index file is listed: as HTML, or as JSON for clients that accept only
    /// that. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listing: Option<bool>,
    /// Whether names that begin with a dot are served. Default: false; they are 404, but for the folder
    /// `/.well-known/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Whether a client that accepts it gets the file that stands beside the one asked for with `.br`, `.zst`
    /// or `.gz` behind its name, where that is not older. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precompressed: Option<bool>,
    /// What symbolic links below the root do. None leads out of it. Default: `beneath`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symlinks: Option<SymlinkRule>,
}

/// What symbolic links below the root do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SymlinkRule {
    /// Relative ones are followed as long as they stay below the root.
    Beneath,
    /// What is behind one is 404.
    Refuse,
}
