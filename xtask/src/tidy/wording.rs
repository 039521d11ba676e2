//! Words that may not come back, and lines that are too wide. Both are counted by folder, since text moves
//! between files.

use std::path::Path;

use anyhow::{Context, Result};

use super::ratchet::Counts;
use super::source::{Offence, Source};

/// The list of words, relative to the workspace.
const LIST: &str = "xtask/avoided-words.txt";
/// Files that must name the words.
const NAMING: &[&str] = &[LIST, "STYLE.md", "xtask/src/tidy/tests.rs"];
/// The most characters of a line of code or of a comment.
const CODE_WIDTH_MAX: usize = 110;
/// The most characters of a line of a page. Rows of tables may be wider.
const PAGE_WIDTH_MAX: usize = 120;

/// The page where an entry is one line, however wide, so that changes merge.
const ONE_LINE_AN_ENTRY: &str = "CHANGELOG.md";

/// Counts the offences in a line of a file.
type Judge = Box<dyn Fn(&Source, &str) -> usize>;

/// Counts the words of the list.
///
/// # Errors
/// The list cannot be read.
pub(super) fn avoided(root: &Path) -> Result<Judge> {
    let words = words(&std::fs::read_to_string(root.join(LIST)).context(LIST)?);
    Ok(Box::new(move |source, line| match NAMING.contains(&source.path.as_str()) {
        true => 0,
        false => words.iter().map(|word| occurrences(line, word)).sum(),
    }))
}

/// Counts lines that are too wide.
pub(super) fn wide() -> Judge {
    Box::new(|source, line| {
        let is_page = source.path.ends_with(".md");
        let most = match is_page {
            true => PAGE_WIDTH_MAX,
            false if source.is_rust() => CODE_WIDTH_MAX,
            false => return 0,
        };
        let is_row = is_page && line.trim_start().starts_with('|') || source.path == ONE_LINE_AN_ENTRY;
        usize::from(line.chars().count() > most && !is_row)
    })
}

/// The lines with offences in a folder.
pub(super) fn places(sources: &[Source], judge: &Judge, folder: &str) -> Vec<Offence> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with(folder)) {
        let lines = source.text.lines().enumerate().filter(|(_, line)| judge(source, line) > 0);
        found.extend(lines.map(|(at, line)| source.offence(at + 1, line.trim())));
    }
    found
}

/// The offences of each folder: the first two parts of a path, `crates/weir-edge` or `docs/adr`. A file above
/// that counts by itself.
pub(super) fn by_folder(sources: &[Source], judge: &Judge) -> Counts {
    let mut counts = Counts::new();
    for source in sources {
        let slashes: Vec<usize> = source.path.match_indices('/').map(|(at, _)| at).take(2).collect();
        let folder = slashes.last().map_or(source.path.as_str(), |end| &source.path[..*end]);
        let offences: usize = source.text.lines().map(|line| judge(source, line)).sum();
        *counts.entry(folder.to_owned()).or_default() += offences;
    }
    counts
}

/// The words of the list, in lower case.
pub(super) fn words(list: &str) -> Vec<String> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(" -> ")).map(|(word, _)| word.trim().to_lowercase()).collect()
}

/// How often a line has a word that stands alone.
pub(super) fn occurrences(line: &str, word: &str) -> usize {
    let line = line.to_lowercase();
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    let stands_alone = |at: usize| {
        let (before, after) = (line[..at].chars().next_back(), line[at + word.len()..].chars().next());
        !before.is_some_and(inside) && !after.is_some_and(inside)
    };
    line.match_indices(word).filter(|(at, _)| stands_alone(*at)).count()
}
