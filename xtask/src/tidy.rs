//! Tidy: ratchets and absences, judged on the text of the tracked files and on cargo's own view of the crates.
//!
//! A rule is a function from one file to its offences ([`rules`]); the direction of imports is one of the whole
//! workspace ([`rooms`]). It reads text, not syntax: rustfmt's layout is what makes that enough.

mod rooms;
mod rules;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offence {
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A tracked text file.
pub(crate) struct Source {
    /// Relative to the workspace.
    path: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Tests and tables: exempt from the ratchets on length.
    fn is_exempt(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.is_test() || name.starts_with("table")
    }

    fn is_test(&self) -> bool {
        let in_folder = |part: &str| matches!(part, "tests" | "benches" | "fuzz" | "examples");
        let is_file = ["/tests.rs", "_tests.rs", "/samples.rs"].iter().any(|end| self.path.ends_with(end));
        is_file || self.path.split('/').any(in_folder) || self.path.starts_with("crates/weir-testkit/")
    }

    /// The lines before an inline `mod tests`, numbered from 1, each without its comment.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.text.lines().enumerate().map(|(at, line)| (at + 1, line));
        numbered
            .take_while(|(_, line)| !line.starts_with("mod tests {"))
            .map(|(at, line)| (at, without_comment(line)))
    }

    fn offence(&self, line: usize, what: impl Into<String>) -> Offence {
        Offence { path: self.path.clone(), line, what: what.into() }
    }
}

/// A line up to its `//`, unless that stands in a string or a URL.
fn without_comment(line: &str) -> &str {
    let outside = |at: usize| !line[..at].ends_with(':') && line[..at].matches('"').count().is_multiple_of(2);
    match line.match_indices("//").find(|(at, _)| outside(*at)) {
        Some((at, _)) => &line[..at],
        None => line,
    }
}

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// Every offence of the tree at `root`.
///
/// # Errors
/// Where the tree or cargo's metadata cannot be read.
pub(crate) fn judge(root: &Path) -> Result<Vec<Offence>> {
    let mut offences = rooms::judge(root)?;
    for source in sources(root)? {
        offences.extend(rules::ALL.iter().flat_map(|rule| rule(&source)));
    }
    Ok(offences)
}

/// The tracked files that are text; all files where the tree is no git repository.
fn sources(root: &Path) -> Result<Vec<Source>> {
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
