//! The map of all files on [`PAGE`]: the first sentence of each file's card, printed by crate. What a file is
//! stands in its card alone; the page shows it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::source::{Offence, Source};

/// The page that ends with the map.
const PAGE: &str = "docs/files.md";
/// The line behind which the page is printed.
const PRINTED: &str = "<!-- printed from the files' cards: cargo run -p xtask -- files -->";

/// Whether the page shows the cards as they are.
pub(super) fn judge(sources: &[Source]) -> Vec<Offence> {
    let Some(page) = sources.iter().find(|source| source.path == PAGE) else {
        return vec![Offence { path: PAGE.to_owned(), line: 1, what: "no such page".to_owned() }];
    };
    let Some((before, printed)) = page.text.split_once(PRINTED) else {
        return vec![page.offence(1, format!("no line `{PRINTED}`"))];
    };
    let wanted = map(sources);
    let (is, should): (Vec<&str>, Vec<&str>) = (printed.lines().collect(), wanted.lines().collect());
    if is == should {
        return Vec::new();
    }
    let same = is.iter().zip(&should).take_while(|(is, should)| is == should).count();
    let line = before.lines().count() + 1 + same;
    vec![page.offence(line, "not what the cards say: run `cargo run -p xtask -- files`")]
}

/// Writes the map.
///
/// # Errors
/// The page cannot be read or written, or has no place for the map.
pub(super) fn write(root: &Path, sources: &[Source]) -> Result<()> {
    let path = root.join(PAGE);
    let text = std::fs::read_to_string(&path).context(PAGE)?;
    let (before, _) = text.split_once(PRINTED).with_context(|| format!("{PAGE} has no line `{PRINTED}`"))?;
    std::fs::write(&path, format!("{before}{PRINTED}{}", map(sources))).context(PAGE)
}

/// A table for each crate.
pub(super) fn map(sources: &[Source]) -> String {
    let mut crates: BTreeMap<&str, BTreeMap<&str, File<'_>>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust() && !is_for_tests(source)) {
        let Some((name, path)) =
            source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let path = path.trim_end_matches(".rs");
        let files = crates.entry(name).or_default();
        match path.split_once('/') {
            None if matches!(path, "lib" | "main") => {}
            None | Some(("bin", _)) => files.entry(path).or_default().card = Some(&source.text),
            Some((folder, "mod")) => files.entry(folder).or_default().card = Some(&source.text),
            Some((folder, inside)) => files.entry(folder).or_default().inside.push(inside),
        }
    }
    let mut text = "\n".to_owned();
    for (name, files) in crates {
        let _ = writeln!(text, "\n### `{name}`\n\n| file | what it is |\n|---|---|");
        for (path, file) in files {
            let _ = writeln!(text, "| `{path}` | {} |", file.sentence());
        }
    }
    text
}

/// Tests have no row, but the kit that they are made with has.
fn is_for_tests(source: &Source) -> bool {
    match source.path.starts_with("crates/weir-testkit/src/") {
        true => source.path.contains("/tests"),
        false => source.is_test(),
    }
}

/// A file, with those in the folder of its name.
#[derive(Default)]
struct File<'s> {
    card: Option<&'s str>,
    inside: Vec<&'s str>,
}

impl File<'_> {
    fn sentence(&self) -> String {
        let mut text = self.card.map(first_sentence).unwrap_or_default();
        if !self.inside.is_empty() {
            let names: Vec<String> = self.inside.iter().map(|name| format!("`{name}`")).collect();
            let _ = write!(text, " Inside: {}", names.join(", "));
        }
        text.trim().to_owned()
    }
}

/// The first sentence of a card, as a cell of a table.
pub(super) fn first_sentence(text: &str) -> String {
    let card = text.lines().map_while(|line| line.strip_prefix("//!"));
    let card: Vec<&str> = card.map(str::trim).take_while(|line| !line.is_empty()).collect();
    let card = card.join(" ");
    let end = card.find(". ").map_or(card.len(), |at| at + 1);
    unlinked(&card[..end]).replace('|', "\\|")
}

/// A text without the links of comments: `[name](place)` and `[name]` become the name.
fn unlinked(text: &str) -> String {
    let mut found = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("[`") {
        let Some((name, behind)) = after.split_once("`]") else { break };
        let _ = write!(found, "{before}`{}`", name.trim_start_matches("mod@"));
        let place = behind.strip_prefix('(').and_then(|place| place.split_once(')'));
        rest = place.map_or(behind, |(_, behind)| behind);
    }
    found + rest
}
