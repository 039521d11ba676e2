//! What the stars of a glob, or the groups of an expression, have matched: captures, numbered from 1. A
//! match takes time linear in the length of the path. Must not decode a path.

use super::PathRegex;
use regex::bytes::{Captures, Regex, RegexBuilder};

/// The most bytes that a compiled pattern may take.
const BYTES_MAX: usize = 1 << 20;

/// A pattern that says what its parts have matched.
#[derive(Debug, Clone)]
pub struct Capturing {
    regex: Regex,
    /// Where it is a glob: as it is written.
    glob: Option<Box<str>>,
}

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
        Some(Capturing { glob: Some(glob.into()), ..Capturing::compile(&pattern)? })
    }

    /// A prefix: what follows it. None where it is too large.
    pub fn of_prefix(prefix: &str) -> Option<Capturing> {
        Capturing::compile(&format!("^{}((?s:.)*)$", regex::escape(prefix)))
    }

    /// An expression: its groups.
    pub fn of_regex(regex: &PathRegex) -> Capturing {
        Capturing { regex: regex.regex().clone(), glob: None }
    }

    fn compile(pattern: &str) -> Option<Capturing> {
        let regex = RegexBuilder::new(pattern).unicode(false).size_limit(BYTES_MAX).build().ok()?;
        Some(Capturing { regex, glob: None })
    }

    /// How many captures there are.
    pub fn count(&self) -> usize {
        self.regex.captures_len() - 1
    }

    /// What was matched in `path`; none where it does not match.
    pub fn find<'p>(&self, path: &'p str) -> Option<Captured<'p>> {
        self.regex.captures(path.as_bytes()).map(Captured)
    }

    /// Which of the paths that begin with `begin` it takes, and what is known of their captures.
    pub fn find_below<'p>(&self, begin: &'p str) -> Below<'p> {
        match &self.glob {
            Some(glob) => of_glob_below(glob, begin),
            None if may_begin(&literal(self.regex.as_str()), begin) => Below::some(),
            None => Below::none(),
        }
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

/// Which of the paths that begin with a text a pattern takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// None of them.
    None,
    /// Some of them, as far as is known.
    Some,
    /// All of them.
    All,
}

/// What is known of the matches with all paths that begin with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Below<'p> {
    /// Which of them it takes.
    pub takes: Takes,
    /// The first captures, where they are the same for all.
    whole: Vec<&'p str>,
    /// How the next capture begins.
    next: Option<Next<'p>>,
}

/// How a capture begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next<'p> {
    /// With this text, and it goes on for as long as the path, whatever that is.
    Rest(&'p str),
    /// With this text.
    Begins(&'p str),
}

/// What is known of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture<'p> {
    /// All of it.
    Whole(&'p str),
    /// How it begins; it is the rest of the path, whatever that is.
    Rest(&'p str),
    /// How it begins.
    Begins(&'p str),
    /// Nothing.
    Unknown,
}

impl<'p> Below<'p> {
    fn none() -> Below<'p> {
        Below { takes: Takes::None, whole: Vec::new(), next: None }
    }

    /// Nothing is known but that it may take some.
    pub fn some() -> Below<'p> {
        Below { takes: Takes::Some, whole: Vec::new(), next: None }
    }

    /// A capture, from 1.
    pub fn capture(&self, number: u8) -> Capture<'p> {
        let at = usize::from(number).wrapping_sub(1);
        match (self.whole.get(at), self.next) {
            (Some(whole), _) => Capture::Whole(whole),
            (None, Some(Next::Rest(begin))) if at == self.whole.len() => Capture::Rest(begin),
            (None, Some(Next::Begins(begin))) if at == self.whole.len() => Capture::Begins(begin),
            _ => Capture::Unknown,
        }
    }
}

/// Whether a text that begins with one may begin with the other.
fn may_begin(one: &str, other: &str) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn of_glob_below<'p>(glob: &str, begin: &'p str) -> Below<'p> {
    let (first, mut stars) = glob.split_at(glob.find('*').unwrap_or(glob.len()));
    if !may_begin(first, begin) || (stars.is_empty() && begin.len() > first.len()) {
        return Below::none();
    }
    let mut below = Below::some();
    let Some(mut rest) = begin.strip_prefix(first) else {
        below.next = (!stars.is_empty()).then_some(next(stars, ""));
        return below;
    };
    while !stars.is_empty() {
        let is_wide = stars.starts_with("**");
        let after = &stars[1 + usize::from(is_wide)..];
        let (text, others) = after.split_at(after.find('*').unwrap_or(after.len()));
        if after.is_empty() {
            // The last star, and nothing behind it.
            below.takes = match is_wide {
                true => Takes::All,
                false if rest.contains('/') => return Below::none(),
                false => Takes::Some,
            };
            below.next = Some(next(stars, rest));
            return below;
        }
        if is_wide || !text.starts_with('/') {
            return below;
        }
        // A `*` cannot go beyond the next slash, and the text behind it begins with one.
        let Some(slash) = rest.find('/') else {
            below.next = Some(Next::Begins(rest));
            return below;
        };
        let (matched, behind) = rest.split_at(slash);
        if !may_begin(text, behind) || (others.is_empty() && behind.len() > text.len()) {
            return Below::none();
        }
        below.whole.push(matched);
        let Some(left) = behind.strip_prefix(text) else {
            below.next = (!others.is_empty()).then_some(next(others, ""));
            return below;
        };
        (rest, stars) = (left, others);
    }
    below
}

/// What the first of these stars takes, where the paths go on with `begin`.
fn next<'p>(stars: &str, begin: &'p str) -> Next<'p> {
    if stars == "**" { Next::Rest(begin) } else { Next::Begins(begin) }
}

/// The text with which each match begins, as far as an expression says it plainly.
fn literal(pattern: &str) -> String {
    let Some(pattern) = pattern.strip_prefix('^') else { return String::new() };
    let mut text = String::new();
    let mut rest = pattern.chars();
    if pattern.contains('|') {
        return text;
    }
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some(c) if !c.is_ascii_alphanumeric() => text.push(c),
                _ => break,
            },
            '*' | '?' | '{' => {
                text.pop();
                break;
            }
            '.' | '+' | '(' | ')' | '[' | ']' | '$' | '^' | '}' => break,
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(glob: &str, begin: &str, takes: Takes, captures: &[Capture<'_>]) {
        let capturing = Capturing::of_glob(glob).unwrap();
        let below = capturing.find_below(begin);
        assert_eq!(below.takes, takes, "{glob} {begin}");
        let found: Vec<_> =
            (1..=captures.len()).map(|number| below.capture(u8::try_from(number).unwrap())).collect();
        assert_eq!(found, captures, "{glob} {begin}");
    }

    #[test]
    fn what_is_known_of_paths_that_begin_so() {
        use Capture::{Begins, Rest, Unknown, Whole};
        check("/docs/**", "/docs/a/b", Takes::All, &[Rest("a/b")]);
        check("/docs/**", "/docs/", Takes::All, &[Rest("")]);
        check("/docs/**", "/do", Takes::Some, &[Rest("")]);
        check("/docs/**", "/img", Takes::None, &[Unknown]);
        check("/docs/*", "/docs/a", Takes::Some, &[Begins("a")]);
        check("/docs/*", "/docs/a/", Takes::None, &[Unknown]);
        check("/*/docs/**", "/en/docs/a", Takes::All, &[Whole("en"), Rest("a")]);
        check("/*/docs/**", "/en/do", Takes::Some, &[Whole("en"), Rest("")]);
        check("/*/docs/**", "/e", Takes::Some, &[Begins("e"), Unknown]);
        check("/*/docs/**", "/en/img", Takes::None, &[Unknown, Unknown]);
        check("/*/docs", "/en/docs/a", Takes::None, &[Unknown]);
        check("/**/x/*", "/a/x/b", Takes::Some, &[Unknown, Unknown]);
        check("/a*b/**", "/axb/c", Takes::Some, &[Unknown, Unknown]);
        check("/docs", "/docs", Takes::Some, &[]);
        check("/docs", "/docs/", Takes::None, &[]);
    }

    #[test]
    fn how_expressions_begin() {
        for (pattern, expect) in [
            (r"^/shop/item/([0-9]+)$", "/shop/item/"),
            (r"^/a\.b/", "/a.b/"),
            (r"^/a\d", "/a"),
            (r"^/ab?c", "/a"),
            (r"^/ab+c", "/ab"),
            (r"^/a|^/b", ""),
            (r"\.(css|js)$", ""),
            (r"(?i)^/a", ""),
        ] {
            assert_eq!(literal(pattern), expect, "{pattern}");
        }
    }

    /// All texts of up to so many of these characters.
    fn texts(length: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut last = all.clone();
        for _ in 0..length {
            last = last.iter().flat_map(|text| ["a", "b", "/"].map(|more| format!("{text}{more}"))).collect();
            all.extend(last.iter().cloned());
        }
        all
    }

    /// What is said of all paths that begin so holds for each of them.
    #[test]
    fn it_holds_for_each() {
        let globs = [
            "/**",
            "/*",
            "/a/**",
            "/a*",
            "/a**b",
            "/*/**",
            "/*/a/**",
            "/*/a*",
            "/**/a",
            "/**/*",
            "/*/*",
            "/*b/**",
            "/*/b",
            "/a/*/b/**",
            "/ab",
            "/*/a/*",
        ];
        for glob in globs {
            let capturing = Capturing::of_glob(glob).unwrap();
            for (begin, rest) in
                texts(3).iter().flat_map(|begin| texts(3).into_iter().map(move |rest| (begin, rest)))
            {
                let begin = format!("/{begin}");
                let (path, below) = (format!("{begin}{rest}"), capturing.find_below(&begin));
                let Some(captured) = capturing.find(&path) else {
                    assert!(below.takes != Takes::All, "{glob} {path}");
                    continue;
                };
                assert!(below.takes != Takes::None, "{glob} {path}");
                for number in 1..=u8::try_from(capturing.count()).unwrap() {
                    let text = std::str::from_utf8(captured.get(number).unwrap()).unwrap();
                    let holds = match below.capture(number) {
                        Capture::Whole(whole) => text == whole,
                        Capture::Rest(begin) => text.starts_with(begin) && path.ends_with(text),
                        Capture::Begins(begin) => text.starts_with(begin),
                        Capture::Unknown => true,
                    };
                    assert!(holds, "{glob} {begin} {rest}: {number} is {text:?}, {below:?}");
                }
            }
        }
    }
}
