//! Product lines: what is left of a crate without blank lines, comments and tests.
//!
//! Text is read, not syntax, as rustfmt lays it out: an item that is for tests begins below its `cfg` and
//! ends where its brackets are closed again. The files of modules that are for tests are left out with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::source::Source;

/// The product lines of each crate of the program, by its name.
pub(super) fn count(sources: &[Source]) -> BTreeMap<String, usize> {
    let files: Vec<(&str, &Source)> =
        sources.iter().filter_map(|source| Some((owner(source)?, source))).collect();
    let of_files: Vec<Product> = files.iter().map(|(_, source)| product(&source.text)).collect();
    let for_tests: BTreeSet<String> = files
        .iter()
        .zip(&of_files)
        .flat_map(|((_, source), found)| {
            found.tests.iter().map(move |name| format!("{}/{name}", inside(&source.path)))
        })
        .collect();
    let is_for_tests = |path: &str| {
        let stem = path.trim_end_matches(".rs");
        for_tests.iter().any(|module| {
            stem.strip_prefix(&**module).is_some_and(|rest| matches!(rest.chars().next(), None | Some('/')))
        })
    };
    let mut counts = BTreeMap::new();
    for ((name, source), found) in files.iter().zip(&of_files) {
        let lines = if is_for_tests(&source.path) { 0 } else { found.lines };
        *counts.entry((*name).to_owned()).or_default() += lines;
    }
    counts
}

/// The output of `cargo run -p xtask -- product`: a line for each crate, and their sum.
pub(super) fn table(counts: &BTreeMap<String, usize>) -> String {
    let mut text = String::new();
    for (name, lines) in counts {
        let _ = writeln!(text, "{lines:>8} {name}");
    }
    let _ = writeln!(text, "{:>8} in all", counts.values().sum::<usize>());
    text
}

/// The crate that a file of the product belongs to.
fn owner(source: &Source) -> Option<&str> {
    let (name, _) = source.path.strip_prefix("crates/")?.split_once("/src/")?;
    (source.is_rust() && !source.is_test()).then_some(name)
}

/// The folder with the modules that a file declares.
fn inside(path: &str) -> &str {
    let stem = path.trim_end_matches(".rs");
    match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => stem,
    }
}

/// What one file has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Product {
    pub(super) lines: usize,
    /// The modules in files of their own that are for tests.
    pub(super) tests: Vec<String>,
}

pub(super) fn product(text: &str) -> Product {
    let mut found = Product::default();
    let lines = stripped(text);
    let mut lines = lines.iter().map(String::as_str).filter(|line| !line.trim().is_empty());
    while let Some(line) = lines.next() {
        match is_for_tests(line) {
            true => found.tests.extend(skip_item(&mut lines, indent(line))),
            false => found.lines += 1,
        }
    }
    found
}

/// Whether a line is an attribute by which what follows is there for tests alone.
fn is_for_tests(line: &str) -> bool {
    let Some(condition) = line.trim_start().strip_prefix("#[cfg(") else { return line.trim() == "#[test]" };
    let words: Vec<&str> = condition.split(|c: char| !c.is_alphanumeric()).collect();
    words.contains(&"test") && !words.contains(&"not")
}

/// Passes over an item, with the attributes that it has besides. Its name, if it is a module in another file.
fn skip_item<'t>(lines: &mut impl Iterator<Item = &'t str>, margin: usize) -> Option<String> {
    let mut depth = 0;
    let mut head = None;
    for line in lines {
        let is_attribute = head.is_none() && line.trim_start().starts_with("#[");
        if !is_attribute && head.is_none() && depth == 0 {
            head = Some(line);
        }
        depth += opened(line);
        let end = line.trim_end().chars().next_back().unwrap_or_default();
        let is_end = matches!(end, ';' | '}') || end == ',' && indent(line) == margin;
        if head.is_some() && depth <= 0 && is_end {
            break;
        }
    }
    let (_, name) = head?.trim().strip_suffix(';')?.split_once("mod ")?;
    Some(name.to_owned())
}

/// How many brackets more a line opens than it closes.
fn opened(line: &str) -> i32 {
    line.chars().map(|c| i32::from("([{".contains(c)) - i32::from(")]}".contains(c))).sum()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// What a line begins within.
#[derive(Clone, Copy)]
enum Within {
    Code,
    /// Comments in comments, so many.
    Comment(usize),
    Text,
    /// A raw text, with so many `#`.
    Raw(usize),
}

/// The lines without comments, and without what stands in texts.
fn stripped(text: &str) -> Vec<String> {
    let mut within = Within::Code;
    let strip = |mut rest: &str| {
        let mut code = String::new();
        while let Some(next) = rest.chars().next() {
            let taken = match within {
                Within::Code => in_code(rest, &mut within, &mut code),
                Within::Comment(depth) => in_comment(rest, depth, &mut within),
                Within::Text if next == '\\' => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
                Within::Text => until("\"", rest, &mut within, &mut code),
                Within::Raw(marks) => {
                    until(&format!("\"{}", "#".repeat(marks)), rest, &mut within, &mut code)
                }
            };
            rest = &rest[taken..];
        }
        code
    };
    text.lines().map(strip).collect()
}

/// One step in code: how many bytes it takes.
fn in_code(rest: &str, within: &mut Within, code: &mut String) -> usize {
    if rest.starts_with("//") {
        return rest.len();
    }
    if rest.starts_with("/*") {
        *within = Within::Comment(1);
        return 2;
    }
    let first = rest.chars().next().unwrap_or_default();
    let is_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    if let Some(marks) = raw(rest).filter(|_| !is_word) {
        *within = Within::Raw(marks);
        code.push('"');
        return rest.find('"').unwrap_or_default() + 1;
    }
    if first == '\'' {
        code.push(first);
        return character(rest);
    }
    if first == '"' {
        *within = Within::Text;
    }
    code.push(first);
    first.len_utf8()
}

/// The number of `#` of a raw text that begins here.
fn raw(rest: &str) -> Option<usize> {
    let rest = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('r')?;
    let marks = rest.len() - rest.trim_start_matches('#').len();
    rest[marks..].starts_with('"').then_some(marks)
}

/// The bytes of a character in quotes, or of the quote of a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((escaped, c))) => {
            let behind = escaped + c.len_utf8();
            rest[behind..].find('\'').map_or(rest.len(), |end| behind + end + 1)
        }
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 1,
    }
}

fn in_comment(rest: &str, depth: usize, within: &mut Within) -> usize {
    if rest.starts_with("*/") {
        *within = if depth == 1 { Within::Code } else { Within::Comment(depth - 1) };
        return 2;
    }
    if rest.starts_with("/*") {
        *within = Within::Comment(depth + 1);
        return 2;
    }
    rest.chars().next().map_or(0, char::len_utf8)
}

/// One step in a text that ends with `end`. Whatever stands in it becomes `_`.
fn until(end: &str, rest: &str, within: &mut Within, code: &mut String) -> usize {
    if rest.starts_with(end) {
        *within = Within::Code;
        code.push('"');
        return end.len();
    }
    let next = rest.chars().next().unwrap_or_default();
    code.push(if next.is_whitespace() { ' ' } else { '_' });
    next.len_utf8()
}
