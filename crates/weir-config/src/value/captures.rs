//! What the stars of a glob, or the groups of an expression, have matched: captures, numbered from 1. A
//! match takes time linear in the length of the path. Must not decode a path.

use super::PathRegex;
use regex::bytes::{Captures, Regex, RegexBuilder};

/// The most bytes that a compiled pattern may take.
const BYTES_MAX: usize = 1 << 20;

/// A pattern that says what its parts have matched.
#[derive(Debug, Clone)]
pub struct Capturing(Regex);

impl Capturing {
    /// A glob: the text of each star, each as short as it can be from the left. None where it is too large.
    pub fn of_glob(glob: &str) -> Option<Capturing> {
        let mut pattern = String::from("^");
        let mut rest = glob;
        while let Some(at) = rest.find('*') {
            pattern.push_str(&regex::escape(&rest[..at]));
            let is_wide = rest[at..].starts_with("**");
            pattern.push_str(if is_wide { "((?s:.)*?)" } else { "([^/]*?)" });
            rest = &rest[at + 1 + usize::from(is_wide)..];
        }
        pattern.push_str(&regex::escape(rest));
        pattern.push('$');
        Capturing::compile(&pattern)
    }

    /// A prefix: what follows it. None where it is too large.
    pub fn of_prefix(prefix: &str) -> Option<Capturing> {
        Capturing::compile(&format!("^{}((?s:.)*)$", regex::escape(prefix)))
    }

    /// An expression: its groups.
    pub fn of_regex(regex: &PathRegex) -> Capturing {
        Capturing(regex.regex().clone())
    }

    fn compile(pattern: &str) -> Option<Capturing> {
        RegexBuilder::new(pattern).unicode(false).size_limit(BYTES_MAX).build().ok().map(Capturing)
    }

    /// How many captures there are.
    pub fn count(&self) -> usize {
        self.0.captures_len() - 1
    }

    /// What was matched in `path`; none where it does not match.
    pub fn find<'p>(&self, path: &'p str) -> Option<Captured<'p>> {
        self.0.captures(path.as_bytes()).map(Captured)
    }
}

/// What a match has captured.
#[derive(Debug)]
pub struct Captured<'p>(Captures<'p>);

impl<'p> Captured<'p> {
    /// A capture, from 1; none where its group took no part in the match.
    pub fn get(&self, number: u8) -> Option<&'p [u8]> {
        self.0.get(usize::from(number)).map(|found| found.as_bytes())
    }
}
