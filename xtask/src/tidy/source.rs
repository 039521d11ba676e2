//! The tracked files as the rules read them: as lines of text.

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offence {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) what: String,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A tracked text file.
pub(crate) struct Source {
    /// Relative to the workspace.
    pub(super) path: String,
    pub(super) text: String,
}

impl Source {
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether it is a test or a table, which the ratchets on length exempt.
    pub(super) fn is_exempt(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.is_test() || name.starts_with("table")
    }

    pub(super) fn is_test(&self) -> bool {
        let in_folder = |part: &str| matches!(part, "tests" | "testing" | "benches" | "fuzz" | "examples");
        let is_file = ["/tests.rs", "_tests.rs", "/samples.rs"].iter().any(|end| self.path.ends_with(end));
        is_file || self.path.split('/').any(in_folder) || self.path.starts_with("crates/weir-testkit/")
    }

    /// The lines before an inline `mod tests`, numbered from 1, without comments.
    pub(super) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.text.lines().enumerate().map(|(at, line)| (at + 1, line));
        numbered
            .take_while(|(_, line)| !line.starts_with("mod tests {"))
            .map(|(at, line)| (at, without_comment(line)))
    }

    pub(super) fn offence(&self, line: usize, what: impl Into<String>) -> Offence {
        Offence { path: self.path.clone(), line, what: what.into() }
    }
}

/// A line up to its `//`, unless that is in a string or a URL.
pub(super) fn without_comment(line: &str) -> &str {
    let outside = |at: usize| !line[..at].ends_with(':') && line[..at].matches('"').count().is_multiple_of(2);
    match line.match_indices("//").find(|(at, _)| outside(*at)) {
        Some((at, _)) => &line[..at],
        None => line,
    }
}

/// The tracked text files; all text files if the tree is not a git repository.
///
/// # Errors
/// Git's list or a folder cannot be read.
pub(super) fn sources(root: &Path) -> Result<Vec<Source>> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let paths: Vec<String> = match listed {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8(output.stdout).context("paths that are not UTF-8")?;
            text.split('\0').filter(|path| !path.is_empty()).map(ToOwned::to_owned).collect()
        }
        _ => walk(root, root)?,
    };
    ensure!(!paths.is_empty(), "no files under {}", root.display());
    let read = |path: String| {
        let text = String::from_utf8(std::fs::read(root.join(&path)).ok()?).ok()?;
        Some(Source { path, text })
    };
    Ok(paths.into_iter().filter_map(read).collect())
}

fn walk(root: &Path, folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !matches!(name.as_str(), "target" | "node_modules" | ".git") {
            found.extend(walk(root, &path)?);
        } else if path.is_file() {
            found.push(path.strip_prefix(root)?.display().to_string());
        }
    }
    Ok(found)
}
