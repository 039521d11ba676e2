//! The files that a configuration was read from, and places in them. Must not read a file.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A piece of a source: its number and byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Span {
    pub file: u32,
    pub start: u32,
    pub end: u32,
}

/// A place for people: `weir.toml:12`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file as it was named, or `command line`.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.file, self.line)
    }
}

/// One source: a file, or the command line.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Its name for people.
    pub name: Arc<str>,
    /// Its path, unless it is the command line.
    pub path: Option<PathBuf>,
    pub text: String,
    /// The offset of each line's first byte.
    line_starts: Vec<u32>,
}

impl Source {
    pub fn new(name: &str, path: Option<PathBuf>, text: String) -> Source {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at as u32 + 1)).collect();
        Source { name: name.into(), path, text, line_starts: starts }
    }

    /// The folder that relative paths in this source start from.
    pub fn folder(&self) -> &Path {
        self.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""))
    }
}

/// All sources of one configuration, in the order read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources(pub Vec<Source>);

impl Sources {
    pub fn get(&self, file: u32) -> &Source {
        &self.0[file as usize]
    }

    pub fn place(&self, span: Span) -> Place {
        let source = self.get(span.file);
        let line = source.line_starts.partition_point(|start| *start <= span.start);
        let line_start = source.line_starts[line - 1] as usize;
        let before = source.text.get(line_start..span.start as usize).unwrap_or_default();
        Place { file: source.name.clone(), line: line as u32, column: before.chars().count() as u32 + 1 }
    }
}
