//! Patterns for the path of a request: glob, prefix, regular expression. Globs and prefixes are matched by
//! the edge's plan.

use super::{nginx, text_value};
use std::{fmt, str::FromStr};
use weir_policy::{has_dot_segment, read_escapes};

/// A glob over a path: `*` is any text without `/`, `**` any text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathGlob(pub String);

text_value!(
    PathGlob,
    "weir-path-glob",
    "a path glob: `*` is any text up to the next `/`, `**` any text: `/img/*.png`, `/shop/**`"
);

impl FromStr for PathGlob {
    type Err = String;

    fn from_str(text: &str) -> Result<PathGlob, String> {
        nginx::check_path(text)?;
        if !text.starts_with(['/', '*']) {
            return Err(format!("a path begins with `/`: did you mean `/{text}`?"));
        }
        if text.contains("***") {
            return Err("more than two `*` in a row".into());
        }
        if let Some(bad) = text.chars().find(|c| matches!(c, '[' | ']' | '{' | '}')) {
            return Err(format!("`{bad}` has no meaning in a glob: use `regex` for alternatives"));
        }
        check_path_text(text)?;
        Ok(PathGlob(read_escapes(text).into_owned()))
    }
}

impl fmt::Display for PathGlob {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The beginning of a path, compared byte by byte.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathPrefix(pub String);

text_value!(PathPrefix, "weir-path-prefix", "the beginning of a path, taken literally: `/api/`");

impl FromStr for PathPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<PathPrefix, String> {
        nginx::check_path(text)?;
        if !text.starts_with('/') {
            return Err(format!("a path begins with `/`: did you mean `/{text}`?"));
        }
        if text.contains('*') {
            return Err("`*` has no meaning here: use `path` for a glob".into());
        }
        check_path_text(text)?;
        Ok(PathPrefix(read_escapes(text).into_owned()))
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Refuses characters that are never part of a request's path, so that the pattern could not match.
fn check_path_text(text: &str) -> Result<(), String> {
    if text.contains("//") || text.contains(';') || has_dot_segment(text) {
        return Err("a path is read with single slashes, and without `.`, `..` and parameters (`;x`): this \
                    matches none"
            .into());
    }
    if let Some(bad) = text.chars().find(|c| matches!(c, '#' | '?')) {
        return Err(format!("`{bad}` is never part of a path"));
    }
    match text.chars().find(|c| !c.is_ascii_graphic()) {
        Some(bad) => Err(format!("{bad:?} is never part of a path: write it percent-encoded")),
        None => Ok(()),
    }
}

/// A regular expression over a path, in the syntax of the `regex` crate over bytes; it is not anchored.
#[derive(Debug, Clone)]
pub struct PathRegex(regex::bytes::Regex);

text_value!(
    PathRegex,
    "weir-path-regex",
    "a regular expression that is looked for anywhere in the path: `^/product/[0-9]+$`"
);

/// The most bytes a compiled expression may take.
const REGEX_BYTES_MAX: usize = 1 << 20;

impl PathRegex {
    /// Whether it is found in `path`.
    pub fn is_found(&self, path: &str) -> bool {
        self.0.is_match(path.as_bytes())
    }

    /// The expression, compiled.
    pub(super) fn regex(&self) -> &regex::bytes::Regex {
        &self.0
    }

    /// The expression as written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl PartialEq for PathRegex {
    fn eq(&self, other: &PathRegex) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for PathRegex {}

impl FromStr for PathRegex {
    type Err = String;

    fn from_str(text: &str) -> Result<PathRegex, String> {
        nginx::check_regex(text)?;
        // A path is ASCII, so that the tables of Unicode would only cost time.
        match regex::bytes::RegexBuilder::new(text).unicode(false).size_limit(REGEX_BYTES_MAX).build() {
            Ok(regex) => Ok(PathRegex(regex)),
            Err(error) => Err(nginx::regex_error(&error)),
        }
    }
}

impl fmt::Display for PathRegex {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
