//! The table of reasons against the rooms that say them, and the page that is printed from it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::*;

/// The rooms that say reasons. A room that is split off is to be added here.
const ROOMS: [&str; 9] = ["policy", "wire", "client", "upstream", "body", "files", "edge", "fill", "front"];

/// What stands before a word that is a reason, on its line.
const BEFORE: [&str; 16] = [
    "NotStored::",
    "PassReason::",
    "RevalidateReason::",
    "MissReason::",
    "Cut {",
    "Cut(",
    "Failed(",
    "Malformed {",
    "Reply::error(",
    "Reply::line(",
    "CacheStatus::new(",
    "internal(",
    "facts.detail =",
    "counters().error(",
    "word: ",
    "detail: ",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !matches!(&*name, "tests" | "testing") {
            sources(&path, found);
        } else if name.ends_with(".rs")
            && !matches!(&*name, "tests.rs" | "simulated.rs" | "fuzzing.rs" | "samples.rs")
        {
            found.push(path);
        }
    }
}

fn is_word(text: &str) -> bool {
    let is_of_word =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b':');
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.bytes().all(is_of_word)
}

/// The texts of a line that look like a word.
fn words_of(line: &str) -> Vec<&str> {
    line.split('"').skip(1).step_by(2).filter(|text| is_word(text)).collect()
}

/// What the sources say as a reason, with the place where they do.
fn said() -> Vec<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    ROOMS.iter().for_each(|room| sources(&crates.join(format!("weir-{room}/src")), &mut files));
    let mut said = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let name = file.to_string_lossy();
        // Tables of words alone: each arm of theirs is one.
        let is_table = ["wire/src/fault.rs", "client/src/error.rs", "upstream/src/error.rs"]
            .iter()
            .any(|end| name.ends_with(end));
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let is_arm = is_table && line.contains("Self::") && line.contains("=>");
            let is_const =
                line.contains("const ") && line.contains(": &str = ") && name.contains("/fetch/stale.rs");
            let is_said = is_arm || is_const || BEFORE.iter().any(|before| line.contains(before));
            if is_said {
                said.extend(
                    words_of(line).into_iter().map(|word| (word.to_owned(), format!("{name}: {line}"))),
                );
            }
        }
    }
    said
}

#[test]
fn every_reason_that_is_said_has_a_row() {
    let said = said();
    assert!(said.len() > 100, "the words are not found any more: {}", said.len());
    let missing: Vec<_> = said.iter().filter(|(word, _)| !is_known(word)).collect();
    assert!(missing.is_empty(), "no row in reasons.rs for: {missing:#?}");
}

#[test]
fn every_row_is_said_somewhere_and_stands_once() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    ROOMS.iter().for_each(|room| sources(&crates.join(format!("weir-{room}/src")), &mut files));
    let all: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let mut seen = BTreeSet::new();
    for reason in REASONS {
        assert!(all.contains(&format!("\"{}\"", reason.word)), "nobody says {}", reason.word);
        assert!(seen.insert((format!("{:?}", reason.of), reason.word)), "{} stands twice", reason.word);
        assert!(reason.meaning.ends_with('.') && !reason.meaning.contains('|'), "{}", reason.word);
    }
}

/// `WEIR_REWRITE=1` rewrites the page.
#[test]
fn the_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/reasons.md");
    if std::env::var_os("WEIR_REWRITE").is_some() {
        std::fs::write(&path, markdown()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == markdown(), "reasons.md is not current: run WEIR_REWRITE=1 cargo test -p weir-observe");
}
