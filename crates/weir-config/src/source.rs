//! The files that a configuration was read from, and places in them. Must not read a file.

use std::{
    fmt,
    ops::Range,
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

    /// The place of a part of the text whose value stands at `span`: all of the value where it is written in
    /// another way, with escapes or from the environment, and the part cannot be found.
    pub fn part(&self, span: Span, text: &str, part: Range<usize>) -> Span {
        let source = &self.get(span.file).text;
        let Some(written) = source.get(span.start as usize..span.end as usize) else { return span };
        let wrong = text.get(part.clone()).unwrap_or_default();
        let only = || {
            let mut found = written.match_indices(wrong).filter(|_| !wrong.is_empty());
            let first = found.next().map(|(at, _)| at);
            first.filter(|_| found.next().is_none())
        };
        match written.find(text).map(|at| at + part.start).or_else(only) {
            Some(at) => {
                let start = span.start + at as u32;
                Span { file: span.file, start, end: start + part.len() as u32 }
            }
            None => span,
        }
    }

    pub fn place(&self, span: Span) -> Place {
        let source = self.get(span.file);
        let line = source.line_starts.partition_point(|start| *start <= span.start);
        let line_start = source.line_starts[line - 1] as usize;
        let before = source.text.get(line_start..span.start as usize).unwrap_or_default();
        Place { file: source.name.clone(), line: line as u32, column: before.chars().count() as u32 + 1 }
    }
}
