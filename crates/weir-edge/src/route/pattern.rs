//! Paths against patterns. Globs are split at their `*` once, so that most are decided by comparing the
//! beginning and the end. A match takes at most the product of the two lengths, whatever the pattern. It must
//! not decode a path or fold its case.

use weir_config::PathRule;
use weir_config::value::PathRegex;

/// What a path must be, compiled.
#[derive(Debug)]
pub(super) enum PathPattern {
    Any,
    Exact(Box<str>),
    Prefix(Box<str>),
    Glob(Glob),
    Regex(PathRegex),
}

impl PathPattern {
    pub fn compile(rule: &PathRule) -> PathPattern {
        match rule {
            PathRule::Any => PathPattern::Any,
            PathRule::Prefix(prefix) => PathPattern::Prefix(prefix.as_str().into()),
            PathRule::Regex(regex) => PathPattern::Regex(regex.clone()),
            PathRule::Glob(glob) => match glob.strip_suffix("**") {
                Some("" | "/") => PathPattern::Any,
                Some(rest) if !rest.contains('*') => PathPattern::Prefix(rest.into()),
                None if !glob.contains('*') => PathPattern::Exact(glob.as_str().into()),
                _ => PathPattern::Glob(Glob::compile(glob)),
            },
        }
    }

    pub fn fits(&self, path: &str) -> bool {
        match self {
            PathPattern::Any => true,
            PathPattern::Exact(exact) => **exact == *path,
            PathPattern::Prefix(prefix) => path.starts_with(&**prefix),
            PathPattern::Glob(glob) => glob.fits(path.as_bytes()),
            PathPattern::Regex(regex) => regex.is_found(path),
        }
    }
}

/// A glob: the text before the first star, then each star with the text that follows it.
#[derive(Debug)]
pub(super) struct Glob {
    first: Box<[u8]>,
    rest: Vec<(Star, Box<[u8]>)>,
}

/// What a star matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Star {
    /// `*`: any text without `/`.
    Narrow,
    /// `**`: any text.
    Wide,
}

impl Glob {
    fn compile(pattern: &str) -> Glob {
        let first = pattern.find('*').unwrap_or(pattern.len());
        let (first, mut left) = pattern.split_at(first);
        let mut rest = Vec::new();
        while !left.is_empty() {
            let stars = left.bytes().take_while(|byte| *byte == b'*').count();
            let star = if stars > 1 { Star::Wide } else { Star::Narrow };
            left = &left[stars..];
            let end = left.find('*').unwrap_or(left.len());
            rest.push((star, left.as_bytes()[..end].into()));
            left = &left[end..];
        }
        Glob { first: first.as_bytes().into(), rest }
    }

    /// The text before the first star.
    pub(super) fn first(&self) -> &[u8] {
        &self.first
    }

    fn fits(&self, path: &[u8]) -> bool {
        let Some(path) = path.strip_prefix(&*self.first) else { return false };
        let ends = self.rest.last().is_none_or(|(_, text)| path.ends_with(text));
        ends && self.rest_fits(path)
    }

    /// Each star matches as little as it can. Where the text after a `*` is not found before the next `/`, a
    /// longer match helps only at the nearest `**` before it: a `*` cannot match the `/`. The `*`s between
    /// are then matched again.
    fn rest_fits(&self, path: &[u8]) -> bool {
        let (mut at, mut index) = (0, 0);
        let mut wide: Option<(usize, usize)> = None;
        while let Some((star, text)) = self.rest.get(index) {
            let is_last = index + 1 == self.rest.len();
            let found = match is_last {
                true => last(*star, text, &path[at..]),
                false => next(*star, text, &path[at..]),
            };
            match (found, star) {
                (Some(_), _) if is_last => return true,
                (Some(end), Star::Wide) => {
                    let begin = at + end - text.len();
                    wide = Some((index, begin + 1));
                    (at, index) = (at + end, index + 1);
                }
                (Some(end), Star::Narrow) => (at, index) = (at + end, index + 1),
                (None, _) => match wide.take() {
                    Some((star, from)) if star < index && from <= path.len() => (at, index) = (from, star),
                    _ => return false,
                },
            }
        }
        at == path.len()
    }
}

/// The end of the first occurrence of `text` that a star may reach.
fn next(star: Star, text: &[u8], path: &[u8]) -> Option<usize> {
    let begin = memchr::memmem::find(path, text)?;
    let is_passed = star == Star::Wide || !path[..begin].contains(&b'/');
    is_passed.then_some(begin + text.len())
}

/// Whether `text` ends the path and the star may reach it.
fn last(star: Star, text: &[u8], path: &[u8]) -> Option<usize> {
    let taken = path.strip_suffix(text)?;
    (star == Star::Wide || !taken.contains(&b'/')).then_some(path.len())
}

#[cfg(test)]
mod tests;
