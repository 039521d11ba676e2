//! What the pages for newcomers promise: the bird's eye is short prose with a paragraph and an invariant for
//! each room, and what these pages name is there.

use std::collections::HashSet;

use super::source::{Offence, Source};

/// STYLE.md 29: the page that is read first.
const BIRDS_EYE: &str = "ARCHITECTURE.md";
const BIRDS_EYE_LINES_MAX: usize = 120;

/// The pages whose names are looked for.
const NAMING: &[&str] = &[BIRDS_EYE, "docs/files.md", "docs/store.md", "docs/walk.md"];

pub(super) fn judge(sources: &[Source]) -> Vec<Offence> {
    let mut offences = match sources.iter().find(|source| source.path == BIRDS_EYE) {
        Some(page) => birds_eye(page, &rooms(sources)),
        None => vec![Offence { path: BIRDS_EYE.to_owned(), line: 1, what: "no such page".to_owned() }],
    };
    let code = words(sources);
    let pages = sources.iter().filter(|source| NAMING.contains(&source.path.as_str()));
    offences.extend(pages.flat_map(|page| names(page, sources, &code)));
    offences
}

/// The crates of the workspace.
fn rooms(sources: &[Source]) -> Vec<&str> {
    let manifests = sources.iter().filter_map(|source| source.path.strip_suffix("/Cargo.toml"));
    manifests.filter_map(|folder| folder.strip_prefix("crates/")).filter(|name| !name.contains('/')).collect()
}

/// Length, form, and a paragraph for each room.
pub(super) fn birds_eye(page: &Source, rooms: &[&str]) -> Vec<Offence> {
    let lines = page.text.lines().count();
    let mut offences = Vec::new();
    if lines > BIRDS_EYE_LINES_MAX {
        let what = format!("{lines} lines; at most {BIRDS_EYE_LINES_MAX} (STYLE.md 29)");
        offences.push(page.offence(BIRDS_EYE_LINES_MAX + 1, what));
    }
    let rows = page.text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with('|'));
    offences.extend(rows.map(|(at, _)| page.offence(at + 1, "prose has no table: docs/files.md has them")));
    for room in rooms {
        let begin = format!("**`{room}`**");
        let paragraph = page.text.split_once(&begin).map(|(_, after)| after);
        let paragraph = paragraph.map(|after| after.split("**`").next().unwrap_or_default());
        match paragraph.map(|text| text.matches("*Invariant:*").count()) {
            Some(1) => {}
            Some(n) => offences.push(page.offence(1, format!("{room} has {n} invariants, not one"))),
            None => offences.push(page.offence(1, format!("no paragraph begins with {begin}"))),
        }
    }
    offences
}

/// Names in backticks that are nowhere.
pub(super) fn names(page: &Source, all: &[Source], code: &[Words<'_>]) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (at, line) in page.text.lines().enumerate() {
        if line.starts_with("### `") {
            // The printed map begins: `map` judges it.
            break;
        }
        for span in line.split('`').skip(1).step_by(2) {
            let is_there = match span {
                _ if is_path(span) => all.iter().any(|source| leads_to(span, &source.path)),
                _ if is_name(span) => is_known(span, code),
                _ => true,
            };
            if !is_there {
                offences.push(page.offence(at + 1, format!("`{span}` is nowhere")));
            }
        }
    }
    offences
}

/// Whether a text in backticks is a file or a folder of ours.
fn is_path(span: &str) -> bool {
    let is_plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    is_plain && span.contains('/') && !span.starts_with('/')
}

/// Whether a path leads to this file, from the workspace, from `crates` or from `docs`, or into a crate.
fn leads_to(span: &str, path: &str) -> bool {
    let span = span.trim_end_matches('/');
    let ends = |rest: &str| rest.is_empty() || rest.starts_with('/') || rest == ".rs";
    let begins =
        |from: &str| path.strip_prefix(from).and_then(|path| path.strip_prefix(span)).is_some_and(ends);
    let in_crate =
        path.split_once("/src/").and_then(|(_, inside)| inside.strip_prefix(span)).is_some_and(ends);
    ["", "crates/", "docs/"].iter().any(|from| begins(from)) || in_crate
}

/// Whether a text in backticks is a name of the code, or a path of names.
fn is_name(span: &str) -> bool {
    let is_word = |part: &str| {
        let mut chars = part.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    span.split("::").all(is_word)
}

/// Whether a name stands in a file that also has what stands before it: as a word, in its path, or as its
/// crate.
fn is_known(span: &str, code: &[Words<'_>]) -> bool {
    let mut parts = span.rsplit("::");
    let last = parts.next().unwrap_or_default();
    let owner = parts.next();
    code.iter().any(|words| words.contains(last) && owner.is_none_or(|owner| words.contains(owner)))
}

/// The words of a file of code, and of its path.
pub(super) type Words<'s> = HashSet<&'s str>;

pub(super) fn words(sources: &[Source]) -> Vec<Words<'_>> {
    let code = sources.iter().filter(|source| source.is_rust());
    code.map(|source| in_text(&source.path).chain(in_text(&source.text)).collect()).collect()
}

fn in_text(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |byte: &u8| !byte.is_ascii_alphanumeric() && *byte != b'_';
    text.as_bytes().split(is_between).filter_map(|word| str::from_utf8(word).ok())
}
